//! NCCL's choice, rule by rule.

use super::*;

fn host(names: &[(&str, &str, bool)]) -> (Vec<Interface>, Vec<Address>) {
    let interfaces = names.iter().map(|(name, address, running)| Interface {
        name: (*name).to_owned(),
        kind: Kind::Network,
        state: None,
        running: Some(*running),
        mtu: None,
        speed: None,
        addresses: vec![address.parse().expect("an address")],
        master: None,
    });
    let addresses = names.iter().map(|(name, address, _)| Address {
        interface: (*name).to_owned(),
        address: address.parse().expect("an address"),
        prefix: 24,
    });
    (interfaces.collect(), addresses.collect())
}

fn chosen(names: &[(&str, &str, bool)], settings: Settings<'_>) -> Vec<String> {
    let (interfaces, addresses) = host(names);
    let found = nccl_choice(&interfaces, &addresses, settings);
    found.into_iter().map(|(name, _)| name).collect()
}

const LO: (&str, &str, bool) = ("lo", "127.0.0.1", true);

#[test]
fn infiniband_then_others_then_docker_then_loopback() {
    let none = Settings::default();
    let eth = ("eth0", "10.0.0.1", true);
    let docker = ("docker0", "172.17.0.1", true);
    let ib = ("ib0", "10.1.0.1", true);
    let virbr = ("virbr0", "192.168.122.1", true);
    assert_eq!(chosen(&[LO, eth, docker, ib], none), ["ib0"]);
    assert_eq!(chosen(&[LO, docker, eth], none), ["eth0"]);
    assert_eq!(chosen(&[LO, docker], none), ["docker0"]);
    assert_eq!(chosen(&[LO], none), ["lo"]);
    assert_eq!(
        chosen(&[("br-1a2b", "172.18.0.1", true), eth], none),
        ["br-1a2b", "eth0"]
    );
    let old = Settings {
        version: Some((2, 27, 3)),
        ..none
    };
    assert_eq!(chosen(&[LO, virbr], old), ["virbr0"]);
    let new = Settings {
        version: Some((2, 28, 9)),
        ..none
    };
    assert_eq!(chosen(&[LO, virbr], new), ["lo"]);
}

#[test]
fn an_interface_without_a_link_counts_up_to_2_28_2() {
    let names = [("eth0", "10.0.0.1", false), ("eth1", "10.0.1.1", true)];
    let of = |version| Settings {
        version: Some(version),
        ..Settings::default()
    };
    assert_eq!(chosen(&names, of((2, 27, 3))), ["eth0", "eth1"]);
    assert_eq!(chosen(&names, of((2, 28, 3))), ["eth1"]);
}

#[test]
fn what_is_set_is_found_or_nothing_is() {
    let names = [LO, ("eth0", "10.0.0.1", true), ("eth01", "10.0.1.1", true)];
    let of = |ifname| Settings {
        ifname: Some(ifname),
        ..Settings::default()
    };
    assert_eq!(chosen(&names, of("eth0")), ["eth0", "eth01"]);
    assert_eq!(chosen(&names, of("=eth0")), ["eth0"]);
    assert_eq!(chosen(&names, of("^eth")), ["lo"]);
    assert_eq!(chosen(&names, of("^=eth0")), ["lo", "eth01"]);
    assert_eq!(chosen(&names, of("ens,eth01:9")), ["eth01"]);
    assert!(chosen(&names, of("ens3")).is_empty());
    // One character is as if it were not set.
    assert_eq!(chosen(&names, of("x")), ["eth0", "eth01"]);
}

#[test]
fn families_and_the_comm_id() {
    let names = [
        ("eth0", "10.0.0.1", true),
        ("eth1", "10.0.1.1", true),
        ("eth0", "fd00::1", true),
        ("lo", "::1", true),
    ];
    let six = Settings {
        family: Some("AF_INET6"),
        ..Settings::default()
    };
    assert_eq!(chosen(&names, six), ["eth0"]);
    let id = Settings {
        comm_id: "10.0.1.9".parse().ok(),
        ..Settings::default()
    };
    assert_eq!(chosen(&names, id), ["eth1"]);
}

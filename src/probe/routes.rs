//! Routes: through which interface a packet to an address leaves this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::host::Host;
use super::interfaces::contains;

/// Routes that are kept.
const MOST: usize = 4096;
/// `RTF_UP` and `RTF_REJECT` of linux/route.h.
const UP: u32 = 0x1;
const REJECT: u32 = 0x200;

/// One route of the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it leads to.
    pub network: IpAddr,
    /// Bits of the network.
    pub prefix: u8,
    /// The smaller, the better.
    pub metric: u32,
    /// The interface.
    pub interface: String,
}

/// Routes of both families.
#[must_use]
pub fn routes(host: &Host) -> Vec<Route> {
    // Of the process that is asked about, whose network may be another one.
    let v4 = host.text(&host.process("net/route")).unwrap_or_default();
    let v6 = host
        .text(&host.process("net/ipv6_route"))
        .unwrap_or_default();
    let v4 = v4.lines().skip(1).filter_map(route4);
    v4.chain(v6.lines().filter_map(route6)).take(MOST).collect()
}

/// The interface that a packet to this address leaves through.
#[must_use]
pub fn towards(routes: &[Route], address: IpAddr) -> Option<&Route> {
    routes
        .iter()
        .filter(|route| contains(route.network, route.prefix, address))
        .min_by_key(|route| (std::cmp::Reverse(route.prefix), route.metric))
}

/// The default route, IPv4 before IPv6.
#[must_use]
pub fn default_route(routes: &[Route]) -> Option<&Route> {
    let default = routes
        .iter()
        .filter(|route| route.prefix == 0 && route.interface != "lo");
    default.min_by_key(|route| (route.network.is_ipv6(), route.metric))
}

/// A line of /proc/net/route: addresses as the number that their bytes make in this machine's memory.
fn route4(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let hex = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
    let flags = hex(3)?;
    if flags & UP == 0 || flags & REJECT != 0 {
        return None;
    }
    Some(Route {
        network: IpAddr::V4(Ipv4Addr::from(u32::from_be(hex(1)?))),
        prefix: u8::try_from(hex(7)?.count_ones()).ok()?,
        metric: fields.get(6)?.parse().ok()?,
        interface: (*fields.first()?).to_owned(),
    })
}

/// A line of /proc/net/ipv6_route.
fn route6(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let flags = u32::from_str_radix(fields.get(8)?, 16).ok()?;
    if flags & UP == 0 || flags & REJECT != 0 {
        return None;
    }
    Some(Route {
        network: IpAddr::V6(Ipv6Addr::from(
            u128::from_str_radix(fields.first()?, 16).ok()?,
        )),
        prefix: u8::from_str_radix(fields.get(1)?, 16).ok()?,
        metric: u32::from_str_radix(fields.get(5)?, 16).ok()?,
        interface: (*fields.get(9)?).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0";
        let route = route4(line).expect("a route");
        assert_eq!((route.prefix, route.metric), (0, 100));
        let line = "data0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0";
        let route = route4(line).expect("a route");
        assert_eq!(route.network, IpAddr::from([10, 0, 0, 0]));
        assert_eq!(route.prefix, 8);
        let line = "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 \
                    00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0";
        let route = route6(line).expect("a route");
        assert_eq!(route.prefix, 64);
        assert_eq!(route4("Iface\tDestination"), None);
        assert_eq!(route6(""), None);
    }

    #[test]
    fn the_longest_prefix_wins_and_then_the_least_metric() {
        let route = |network: [u8; 4], prefix, metric, interface: &str| Route {
            network: IpAddr::from(network),
            prefix,
            metric,
            interface: interface.to_owned(),
        };
        let routes = [
            route([0, 0, 0, 0], 0, 200, "slow"),
            route([0, 0, 0, 0], 0, 100, "eth0"),
            route([10, 0, 0, 0], 8, 0, "data0"),
        ];
        let via = |address: [u8; 4]| {
            towards(&routes, IpAddr::from(address)).map(|r| r.interface.as_str())
        };
        assert_eq!(via([10, 1, 2, 3]), Some("data0"));
        assert_eq!(via([192, 0, 2, 1]), Some("eth0"));
        assert_eq!(
            default_route(&routes).map(|r| r.interface.as_str()),
            Some("eth0")
        );
    }
}

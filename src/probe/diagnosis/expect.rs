//! What a job expects of a host, and whether it is so: `gpus=2,p2p,rdma,nccl>=2.24`.

use serde::Serialize;

use crate::engine::gpu::{P2p, Pair};
use crate::probe::facts::Facts;
use crate::probe::libraries::version_of;
use crate::probe::limits::Limit;

/// What can be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Gpus,
    P2p,
    Rdma,
    Gdr,
    Nccl,
    Driver,
    Torch,
    Shm,
    Memlock,
    Interface,
}

const NAMES: [(&str, What); 10] = [
    ("gpus", What::Gpus),
    ("p2p", What::P2p),
    ("rdma", What::Rdma),
    ("gdr", What::Gdr),
    ("nccl", What::Nccl),
    ("driver", What::Driver),
    ("torch", What::Torch),
    ("shm", What::Shm),
    ("memlock", What::Memlock),
    ("interface", What::Interface),
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    None,
    Number(u64),
    Version(String),
    Name(String),
}

/// One expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// As it was typed.
    pub text: String,
    what: What,
    /// True for `>=`.
    at_least: bool,
    value: Value,
}

/// Whether it is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is.
    Met,
    /// It is not.
    NotMet,
    /// It cannot be known here.
    CannotTell,
}

/// An expectation with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// As it was typed.
    pub expected: String,
    /// Whether it is so.
    pub answer: Answer,
    /// What there is, or why it cannot be told.
    pub found: String,
}

/// Understands one expectation.
///
/// # Errors
/// A fragment that says what is wrong.
pub fn parse(text: &str) -> Result<Expectation, String> {
    let text = text.trim();
    let (name, at_least, value) = match (text.split_once(">="), text.split_once('=')) {
        (Some((name, value)), _) => (name, true, Some(value)),
        (None, Some((name, value))) => (name, false, Some(value)),
        (None, None) => (text, false, None),
    };
    let known = || NAMES.map(|(name, _)| name).join(", ");
    let Some((_, what)) = NAMES.iter().find(|(known, _)| *known == name) else {
        return Err(format!(
            "`{name}` cannot be expected; what can: {}",
            known()
        ));
    };
    let wrong = |wanted: &str| format!("`{text}`: expected {wanted}");
    let value = match (what, value) {
        (What::P2p | What::Gdr | What::Rdma, None) => Value::None,
        (What::P2p | What::Gdr, Some(_)) => return Err(wrong(&format!("{name} alone"))),
        (What::Gpus | What::Rdma, Some(value)) => Value::Number(
            value
                .parse()
                .map_err(|_| wrong(&format!("a number, {name}=8 or {name}>=1")))?,
        ),
        (What::Nccl | What::Driver | What::Torch, Some(value)) if version_of(value).is_some() => {
            Value::Version(value.to_owned())
        }
        (What::Shm | What::Memlock, Some(value)) => {
            let example = format!("a size at least, {name}>=16GiB");
            if !at_least {
                return Err(wrong(&example));
            }
            Value::Number(size(value).ok_or_else(|| wrong(&example))?)
        }
        (What::Interface, Some(value)) if !value.is_empty() && !at_least => {
            Value::Name(value.to_owned())
        }
        (What::Interface, _) => return Err(wrong("a name, interface=eth0")),
        (What::Gpus, None) => return Err(wrong("a number, gpus=8 or gpus>=1")),
        (What::Shm | What::Memlock, None) => {
            return Err(wrong(&format!("a size at least, {name}>=16GiB")));
        }
        _ => return Err(wrong(&format!("a version, {name}>=2.24"))),
    };
    Ok(Expectation {
        text: text.to_owned(),
        what: *what,
        at_least,
        value,
    })
}

/// `16GiB`, `512MiB`, `unlimited`, or bytes.
fn size(text: &str) -> Option<u64> {
    if text == "unlimited" {
        return Some(u64::MAX);
    }
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Answers it.
#[must_use]
pub fn check(expectation: &Expectation, facts: &Facts) -> Checked {
    let (answer, found) = answer(expectation, facts);
    Checked {
        expected: expectation.text.clone(),
        answer,
        found,
    }
}

fn yes(met: bool) -> Answer {
    if met { Answer::Met } else { Answer::NotMet }
}

fn answer(expectation: &Expectation, facts: &Facts) -> (Answer, String) {
    let part = match expectation.what {
        What::Gpus | What::P2p | What::Driver => "gpus",
        What::Rdma | What::Gdr => "rdma",
        What::Nccl | What::Torch => "libraries",
        What::Shm | What::Memlock => "limits",
        What::Interface => "network",
    };
    if facts.late.contains(&part) {
        return (Answer::CannotTell, format!("{part} did not answer in time"));
    }
    let number = |n: u64| match expectation.value {
        Value::Number(wanted) if expectation.at_least => n >= wanted,
        Value::Number(wanted) => n == wanted,
        _ => n > 0,
    };
    let version = |found: Option<String>, unknown: &str| match (&expectation.value, found) {
        (Value::Version(wanted), Some(found)) => {
            (yes(compare(wanted, &found, expectation.at_least)), found)
        }
        (_, _) => (Answer::CannotTell, unknown.to_owned()),
    };
    match expectation.what {
        What::Gpus => {
            let usable = facts.usable_gpus();
            (yes(number(usable as u64)), format!("{usable} usable"))
        }
        What::P2p => p2p(facts),
        What::Rdma => {
            let active = facts.rdma.active_ports();
            (
                yes(number(active as u64)),
                format!("{active} active ports on devices that can be opened"),
            )
        }
        What::Gdr => match (&facts.rdma.peer_memory, facts.gpus.open_module) {
            _ if facts.rdma.active_ports() == 0 => {
                (Answer::NotMet, "no active RDMA port".to_owned())
            }
            (Some(module), _) => (Answer::Met, module.clone()),
            (None, Some(true)) => (Answer::Met, "DMA-BUF of the open kernel module".to_owned()),
            (None, Some(false)) => (Answer::NotMet, "nvidia_peermem is not loaded".to_owned()),
            (None, None) => (Answer::NotMet, "no NVIDIA driver".to_owned()),
        },
        What::Nccl => match facts.libraries.nccl.first() {
            None => (Answer::NotMet, "no libnccl".to_owned()),
            Some(found) => version(found.version.clone(), "libnccl does not tell its version"),
        },
        What::Driver => match &facts.gpus.driver {
            None => (Answer::NotMet, "no NVIDIA driver".to_owned()),
            found => version(found.clone(), ""),
        },
        What::Torch => match facts.libraries.package("torch") {
            None => (Answer::NotMet, "no torch".to_owned()),
            Some(found) => version(Some(found.version.clone()), ""),
        },
        What::Shm => match facts.limits.shm {
            None => (
                Answer::CannotTell,
                "/dev/shm cannot be looked at".to_owned(),
            ),
            Some(space) => (
                yes(number(space.free)),
                format!("{} MiB free of {}", space.free >> 20, space.total >> 20),
            ),
        },
        What::Memlock => match facts.limits.memlock {
            None => (Answer::CannotTell, "the limit cannot be read".to_owned()),
            Some((Limit::Unlimited, _)) => (Answer::Met, "unlimited".to_owned()),
            Some((Limit::At(n), _)) => (yes(number(n)), format!("{} KiB", n >> 10)),
        },
        What::Interface => interface(&expectation.value, facts),
    }
}

/// That all GPUs reach each other's memory, by NVML's word.
fn p2p(facts: &Facts) -> (Answer, String) {
    match facts.usable_gpus() {
        0 => return (Answer::NotMet, "no GPU".to_owned()),
        1 => return (Answer::NotMet, "one GPU: there is no pair".to_owned()),
        _ => {}
    }
    let off = [("NCCL_P2P_DISABLE", "1"), ("NCCL_P2P_LEVEL", "LOC")];
    for (name, value) in off {
        if facts
            .variable(name)
            .is_some_and(|v| v.eq_ignore_ascii_case(value))
        {
            return (Answer::NotMet, format!("{name}={value} is set"));
        }
    }
    let pairs = facts.nvml.as_ref().map_or(&[][..], |sample| &sample.pairs);
    let barred = |pair: &&Pair| {
        let either = [pair.read, pair.write].into_iter().flatten();
        either.into_iter().any(|can| can != P2p::Ok)
    };
    let barred: Vec<String> = pairs
        .iter()
        .filter(barred)
        .map(|pair| format!("{}-{}", pair.a, pair.b))
        .collect();
    let unknown = pairs.is_empty() || pairs.iter().any(|pair| pair.read.or(pair.write).is_none());
    match (barred.first(), unknown) {
        (Some(_), _) => {
            let names: Vec<&str> = barred.iter().map(String::as_str).collect();
            (
                Answer::NotMet,
                format!("not between GPUs {}, by NVML", super::listed(&names)),
            )
        }
        (None, true) => (
            Answer::CannotTell,
            "NVML does not tell; `unhang selftest --transports` does".to_owned(),
        ),
        (None, false) => {
            let over = |pair: &&Pair| pair.nvlink == Some(P2p::Ok);
            let by_nvlink = pairs.iter().filter(over).count();
            (
                Answer::Met,
                format!(
                    "{} of {} pairs over NVLink, the others over PCIe, by NVML",
                    by_nvlink,
                    pairs.len()
                ),
            )
        }
    }
}

/// That NCCL takes it for its bootstrap.
fn interface(value: &Value, facts: &Facts) -> (Answer, String) {
    if facts.network.other_namespace {
        return (
            Answer::CannotTell,
            "the process lives in another network".to_owned(),
        );
    }
    match (value, facts.network.nccl_takes.first()) {
        (Value::Name(wanted), Some((name, address))) => {
            (yes(name == wanted), format!("NCCL takes {name} {address}"))
        }
        _ => (Answer::NotMet, "NCCL finds no interface".to_owned()),
    }
}

/// `2.24` is met by 2.24.3 where no more was said.
fn compare(wanted: &str, found: &str, at_least: bool) -> bool {
    let (Some(want), Some(have)) = (version_of(wanted), version_of(found)) else {
        return false;
    };
    if at_least {
        return have >= want;
    }
    match wanted.matches('.').count() {
        0 => have.0 == want.0,
        1 => (have.0, have.1) == (want.0, want.1),
        _ => have == want,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed() {
        for good in [
            "gpus=2",
            "gpus>=1",
            "p2p",
            "rdma",
            "rdma>=8",
            "gdr",
            "nccl>=2.24",
            "nccl=2.28.9",
            "shm>=16GiB",
            "memlock>=unlimited",
            "interface=eth0",
            "driver>=570",
            "torch=2.9",
        ] {
            assert!(parse(good).is_ok(), "{good}: {:?}", parse(good));
        }
        for bad in [
            "",
            "gpu=2",
            "gpus",
            "gpus=two",
            "p2p=1",
            "nccl",
            "nccl>=new",
            "shm=1GiB",
            "shm>=much",
            "interface",
            "interface>=eth0",
            "gpus=-1",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn versions() {
        assert!(compare("2.24", "2.28.9+cuda12.9", true));
        assert!(!compare("2.29", "2.28.9", true));
        assert!(compare("2.28", "2.28.9", false));
        assert!(!compare("2.28.3", "2.28.9", false));
    }

    #[test]
    fn what_a_bare_host_has() {
        let facts = Facts::default();
        let of = |text: &str| check(&parse(text).expect("understood"), &facts).answer;
        assert_eq!(of("gpus=0"), Answer::Met);
        assert_eq!(of("gpus=2"), Answer::NotMet);
        assert_eq!(of("p2p"), Answer::NotMet);
        assert_eq!(of("nccl>=2.24"), Answer::NotMet);
        assert_eq!(of("shm>=1MiB"), Answer::CannotTell);
        let late = Facts {
            late: vec!["rdma"],
            ..Facts::default()
        };
        assert_eq!(
            check(&parse("rdma").expect("understood"), &late).answer,
            Answer::CannotTell
        );
    }
}

//! Variables of NCCL, Gloo, PyTorch and vLLM that are set, and what is to be said of each.

use serde::Serialize;

use super::host::Host;
use crate::engine::catalog::misspelt;
use crate::engine::catalog::variables::{self, Kind};

/// Only variables with these prefixes are shown.
const PREFIXES: [&str; 5] = ["NCCL_", "GLOO_", "VLLM_", "TORCH_", "TP_"];
/// Parts of names whose values are not shown.
const SECRET: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];
/// Shown of a value.
const VALUE: usize = 256;

/// One variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// Its value; `None` if it is not shown.
    pub value: Option<String>,
    /// What it is.
    pub what: What,
}

/// What a variable is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Known, and nothing to be said.
    Known,
    /// A workaround that is in effect: what it does.
    Workaround(String),
    /// NCCL no longer reads it: the last version that did.
    Removed(String),
    /// No version of NCCL that is known reads it; one that is spelled much alike does.
    Misspelled(String),
    /// Not in the table.
    Unknown,
}

/// Those that are set, by name.
#[must_use]
pub fn set(host: &Host) -> Vec<Set> {
    let all = host.variables().into_iter();
    all.filter(|(name, _)| PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(name, value)| {
            let what = what(&name, &value);
            let shown = (!is_secret(&name, &value)).then(|| value.chars().take(VALUE).collect());
            Set {
                name,
                value: shown,
                what,
            }
        })
        .collect()
}

fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let login = value.split_once("://").is_some_and(|(_, rest)| {
        rest.split('/')
            .next()
            .is_some_and(|host| host.contains('@'))
    });
    login || SECRET.iter().any(|part| name.contains(part))
}

fn what(name: &str, value: &str) -> What {
    match variables::find(name) {
        Some(known) => match known.kind {
            Kind::Removed => What::Removed(known.last.to_owned()),
            // Not to switch something off is no workaround.
            Kind::Workaround if name.ends_with("_DISABLE") && value == "0" => What::Known,
            Kind::Workaround if known.default != value => {
                What::Workaround(known.meaning.to_owned())
            }
            _ => What::Known,
        },
        None => {
            misspelt::meant(name).map_or(What::Unknown, |near| What::Misspelled(near.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workarounds_and_defaults() {
        assert!(matches!(what("NCCL_P2P_DISABLE", "1"), What::Workaround(_)));
        assert_eq!(what("NCCL_P2P_DISABLE", "0"), What::Known);
        assert_eq!(what("NCCL_DEBUG", "INFO"), What::Known);
        assert_eq!(what("NCCL_VERSION", "2.28.9"), What::Unknown);
        assert_eq!(
            what("NCCL_SOKCET_IFNAME", "eth0"),
            What::Misspelled("NCCL_SOCKET_IFNAME".to_owned())
        );
        assert_eq!(
            what("NCCL_TREE_THRESHOLD", "0"),
            what("NCCL_TREE_THRESHOLD", "1")
        );
    }

    #[test]
    fn secrets() {
        assert!(is_secret("VLLM_API_KEY", "abc"));
        assert!(is_secret("VLLM_PROXY", "http://user:word@proxy:80/"));
        assert!(!is_secret("NCCL_SOCKET_IFNAME", "eth0"));
    }
}

//! Variables of NCCL, Gloo, PyTorch and vLLM that are set, and what is to be said of each.

use serde::Serialize;

use super::host::Host;
use crate::engine::catalog::variables::{self, Kind};

/// Only variables with these prefixes are shown.
const PREFIXES: [&str; 5] = ["NCCL_", "GLOO_", "VLLM_", "TORCH_", "TP_"];
/// Parts of names whose values are not shown.
const SECRET: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];
/// Shown of a value.
const VALUE: usize = 256;

/// Names with NCCL's prefix that others read: images and build files, PyTorch up to 2.1, plugins.
const OF_OTHERS: [&str; 14] = [
    "NCCL_VERSION",
    "NCCL_HOME",
    "NCCL_ROOT",
    "NCCL_ROOT_DIR",
    "NCCL_DIR",
    "NCCL_PATH",
    "NCCL_INCLUDE_DIR",
    "NCCL_LIB_DIR",
    "NCCL_LIBRARY",
    "NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING",
    "NCCL_TESTS_DEVICE",
];

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
        None if !name.starts_with("NCCL_") || OF_OTHERS.contains(&name) => What::Unknown,
        None => nearest(name).map_or(What::Unknown, |near| What::Misspelled(near.to_owned())),
    }
}

/// The known name that differs by a letter or two; plugins have names of their own that are unlike any.
fn nearest(name: &str) -> Option<&'static str> {
    let near = variables::all()
        .filter(|known| known.name.starts_with("NCCL_") && known.kind != Kind::Removed)
        .map(|known| (distance(name, known.name), known.name))
        .min()?;
    let room = if name.len() >= 14 { 2 } else { 1 };
    (near.0 <= room).then_some(near.1)
}

/// How many letters have to be put in, left out, changed or swapped with the next.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().abs_diff(b.len()) > 2 || a.len() > 128 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_nearly_right() {
        for (name, near) in [
            ("NCCL_SOCKET_IFNAMES", Some("NCCL_SOCKET_IFNAME")),
            ("NCCL_SOCKET_IFNAM", Some("NCCL_SOCKET_IFNAME")),
            ("NCCL_SOKCET_IFNAME", Some("NCCL_SOCKET_IFNAME")),
            ("NCCL_P2P_DISABLED", Some("NCCL_P2P_DISABLE")),
            ("NCCL_DEBGU", Some("NCCL_DEBUG")),
            // Of plugins and of nobody.
            ("NCCL_FASTRAK_CTRL_DEV", None),
            ("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", None),
            ("NCCL_X", None),
        ] {
            assert_eq!(nearest(name), near, "{name}");
        }
        assert_eq!(what("NCCL_VERSION", "2.28.9"), What::Unknown);
    }

    #[test]
    fn workarounds_and_defaults() {
        assert!(matches!(what("NCCL_P2P_DISABLE", "1"), What::Workaround(_)));
        assert_eq!(what("NCCL_P2P_DISABLE", "0"), What::Known);
        assert_eq!(what("NCCL_DEBUG", "INFO"), What::Known);
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

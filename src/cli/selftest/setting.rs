//! Settings and deadlines, as typed.

use std::fmt;
use std::time::Duration;

use super::super::common::duration;

/// A variable, for all ranks or for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The rank that it is for; all if none.
    pub(crate) rank: Option<u32>,
    /// Its name.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rank) = self.rank {
            write!(f, "{rank}:")?;
        }
        write!(f, "{}={}", self.name, self.value)
    }
}

/// `NAME=VALUE` or `RANK:NAME=VALUE`.
///
/// # Errors
/// A fragment that says what is wrong.
pub(crate) fn parse(text: &str) -> Result<Setting, String> {
    let wrong = || format!("`{text}` is no NAME=VALUE or RANK:NAME=VALUE");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let (rank, name) = match name.split_once(':') {
        Some((rank, name)) => (Some(rank.parse().map_err(|_| wrong())?), name),
        None => (None, name),
    };
    let good = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !good || value.contains('\0') {
        return Err(wrong());
    }
    Ok(Setting {
        rank,
        name: name.to_owned(),
        value: value.to_owned(),
    })
}

/// A deadline: some time, and no more than a day.
///
/// # Errors
/// A fragment that says what is wrong.
pub(crate) fn patience(text: &str) -> Result<Duration, String> {
    let found = duration(text)?;
    if found.is_zero() {
        return Err("a step needs some time".to_owned());
    }
    if found > Duration::from_secs(86_400) {
        return Err("a day is the most".to_owned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings() {
        let one = parse("1:NCCL_NET=IB").expect("understood");
        assert_eq!(
            (one.rank, one.name.as_str(), one.value.as_str()),
            (Some(1), "NCCL_NET", "IB")
        );
        assert_eq!(one.to_string(), "1:NCCL_NET=IB");
        assert_eq!(parse("A=").map(|s| s.value), Ok(String::new()));
        for bad in ["", "A", "=1", "1A=2", "x:A=1", "A B=1", ":A=1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn deadlines() {
        assert_eq!(patience("90"), Ok(Duration::from_secs(90)));
        for bad in ["0s", "0", "2d", "soon"] {
            assert!(patience(bad).is_err(), "{bad}");
        }
    }
}

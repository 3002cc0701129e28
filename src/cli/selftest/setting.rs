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

/// Settings that are changed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change(pub(crate) Vec<Setting>);

/// `NAME=VALUE,NAME=VALUE`. What stands behind a comma and is no setting belongs to the value before it:
/// `NCCL_IB_HCA=mlx5_0,mlx5_1`.
///
/// # Errors
/// A fragment that says what is wrong.
pub(crate) fn change(text: &str) -> Result<Change, String> {
    let mut settings: Vec<Setting> = Vec::new();
    for part in text.split(',') {
        match (parse(part), settings.last_mut()) {
            (Ok(setting), _) => settings.push(setting),
            (Err(_), Some(last)) if !part.is_empty() && !part.contains('=') => {
                last.value.push(',');
                last.value.push_str(part);
            }
            (Err(why), _) => return Err(why),
        }
    }
    Ok(Change(settings))
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
    fn a_comma_ends_a_setting_only_where_another_begins() {
        let words = |text: &str| {
            let change = change(text).expect("understood");
            change.0.iter().map(Setting::to_string).collect::<Vec<_>>()
        };
        assert_eq!(words("A=1,B=2"), ["A=1", "B=2"]);
        assert_eq!(words("A=x,y,B=,0:C=z"), ["A=x,y", "B=", "0:C=z"]);
        for bad in ["", "A", "A=1,", "A=1,,B=2", "A=1,=2", "A=1,2B=3"] {
            assert!(change(bad).is_err(), "{bad}");
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

//! The variables that NCCL 2.3 to 2.32 read, and those of others that choose addresses: `variables.tsv`.

use std::sync::LazyLock;

/// The table, sorted by name.
const TABLE: &str = include_str!("variables.tsv");
/// Its rows.
static ROWS: LazyLock<Vec<Variable>> = LazyLock::new(|| TABLE.lines().filter_map(row).collect());

/// What a variable is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Describes the site: interfaces, cards, files.
    Site,
    /// Switches something off or forces a choice.
    Workaround,
    /// Shows more, changes nothing.
    Debug,
    /// Tuning that no guide tells anybody to set.
    Internal,
    /// Later versions do not read it.
    Removed,
}

/// One variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// First version that was seen to read it.
    pub first: &'static str,
    /// Last one.
    pub last: &'static str,
    /// Value where it is not set.
    pub default: &'static str,
    /// What it is for.
    pub kind: Kind,
    /// What it does.
    pub meaning: &'static str,
}

/// Every variable, sorted by name.
pub fn all() -> impl Iterator<Item = Variable> {
    ROWS.iter().copied()
}

/// The variable with this name.
#[must_use]
pub fn find(name: &str) -> Option<Variable> {
    let at = ROWS.binary_search_by_key(&name, |variable| variable.name);
    Some(ROWS[at.ok()?])
}

fn row(line: &'static str) -> Option<Variable> {
    let mut fields = line.split('\t');
    let (name, first, last) = (fields.next()?, fields.next()?, fields.next()?);
    let default = fields.next()?;
    let kind = match fields.next()? {
        "site" => Kind::Site,
        "workaround" => Kind::Workaround,
        "debug" => Kind::Debug,
        "internal" => Kind::Internal,
        "removed" => Kind::Removed,
        // The heading.
        _ => return None,
    };
    Some(Variable {
        name,
        first,
        last,
        default,
        kind,
        meaning: fields.next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_variable_and_they_are_sorted() {
        let names: Vec<&str> = all().map(|v| v.name).collect();
        assert_eq!(names.len(), TABLE.lines().count() - 1);
        assert!(names.len() > 300, "{} variables", names.len());
        assert!(names.is_sorted_by(|a, b| a < b), "sorted, each once");
        for variable in all() {
            assert!(
                !variable.meaning.is_empty(),
                "{} has no meaning",
                variable.name
            );
        }
    }

    #[test]
    fn knows_what_people_set() {
        for (name, kind) in [
            ("NCCL_P2P_DISABLE", Kind::Workaround),
            ("NCCL_SOCKET_IFNAME", Kind::Site),
            ("NCCL_DEBUG", Kind::Debug),
            ("GLOO_SOCKET_IFNAME", Kind::Site),
            ("TP_SOCKET_IFNAME", Kind::Site),
            ("VLLM_HOST_IP", Kind::Site),
            ("MASTER_ADDR", Kind::Site),
        ] {
            assert_eq!(find(name).map(|v| v.kind), Some(kind), "{name}");
        }
        assert_eq!(find("NCCL_SOCKET_IFNAMES"), None);
    }
}

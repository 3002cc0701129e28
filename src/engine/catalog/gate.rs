//! The literal that must be in a line before a regex looks at it.

use regex_syntax::hir::{Hir, HirKind};

/// Fewer bytes than this let too many lines through.
pub(super) const MIN_BYTES: usize = 4;

/// More alternatives than this are no gate.
const MAX_LITERALS: usize = 16;

/// Literals of which every match of `hir` contains at least one; the set whose shortest member is
/// longest. `None` where there is no such set.
pub(super) fn required(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    match hir.kind() {
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => None,
        HirKind::Literal(literal) => Some(vec![literal.0.to_vec()]),
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        HirKind::Repetition(_) => None,
        HirKind::Concat(parts) => parts
            .iter()
            .filter_map(required)
            .max_by_key(|set| (shortest(set), std::cmp::Reverse(set.len()))),
        HirKind::Alternation(branches) => {
            let mut union: Vec<Vec<u8>> = Vec::new();
            for branch in branches {
                union.extend(required(branch)?);
            }
            union.sort();
            union.dedup();
            (union.len() <= MAX_LITERALS).then_some(union)
        }
    }
}

/// Length of the shortest literal, which decides how good a set is.
pub(super) fn shortest(set: &[Vec<u8>]) -> usize {
    set.iter().map(Vec::len).min().unwrap_or(0)
}

/// The named groups: index and name.
pub(super) fn names(hir: &Hir) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    collect(hir, &mut names);
    names.sort();
    names
}

fn collect(hir: &Hir, names: &mut Vec<(usize, String)>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => {}
        HirKind::Repetition(repetition) => collect(&repetition.sub, names),
        HirKind::Capture(capture) => {
            if let Some(name) = &capture.name {
                names.push((capture.index as usize, name.to_string()));
            }
            collect(&capture.sub, names);
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().for_each(|part| collect(part, names));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(regex: &str) -> Option<Vec<String>> {
        let hir = regex_syntax::ParserBuilder::new()
            .utf8(false)
            .unicode(false)
            .build()
            .parse(regex)
            .expect("test regex parses");
        let set = required(&hir)?;
        Some(
            set.into_iter()
                .map(|l| String::from_utf8(l).expect("ASCII"))
                .collect(),
        )
    }

    #[test]
    fn takes_the_longest_piece_that_must_be_there() {
        assert_eq!(
            gate(r"rank (\d+) has already checked in"),
            Some(vec![" has already checked in".into()])
        );
        assert_eq!(
            gate(r"(?:optional )?needed \d+"),
            Some(vec!["needed ".into()])
        );
    }

    #[test]
    fn takes_all_branches_of_an_alternation_or_none() {
        assert_eq!(
            gate("(?:first form|second form)"),
            Some(vec!["first form".into(), "second form".into()])
        );
        assert_eq!(gate(r"(?:first form|\d+)"), None);
    }

    #[test]
    fn has_none_where_everything_is_variable() {
        assert_eq!(gate(r"\w+ \d+"), Some(vec![" ".into()]));
        assert_eq!(gate(r"\w*\d*"), None);
    }
}

//! Texts with holes: `{fact}`, `{fact|what stands for an empty one}`, `{ranks#rank}` (`rank 3` or
//! `ranks 3, 5`), and `[[, near {fact}]]`, which vanishes with an empty fact. `{{` is a brace.

use std::ops::Range;

/// Known in every rule: the ranks and hosts that a finding is about, and how often it was seen.
pub const ALWAYS: &[&str] = &["ranks", "hosts", "count"];

/// What is wrong with a template: message and place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub message: String,
    /// Where.
    pub span: Range<usize>,
}

/// A piece of a template.
enum Piece<'a> {
    Text(&'a str),
    Hole {
        name: &'a str,
        noun: &'a str,
        default: &'a str,
    },
    Open,
    Close,
}

/// Fills the holes. A fact that `lookup` does not know is empty.
#[must_use]
pub fn fill(template: &str, lookup: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(template.len() + 32);
    // Where the open section began, and whether a hole in it was empty.
    let mut section: Option<(usize, bool)> = None;
    let mut at = 0;
    while let Some((piece, end)) = next(template, at) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Open => section = Some((out.len(), false)),
            Piece::Close => {
                if let Some((start, true)) = section.take() {
                    out.truncate(start);
                }
            }
            Piece::Hole {
                name,
                noun,
                default,
            } => match lookup(name).filter(|v| !v.is_empty()) {
                Some(value) => push(&mut out, noun, &value),
                None if default.is_empty() => section = section.map(|(start, _)| (start, true)),
                None => out.push_str(default),
            },
        }
        at = end;
    }
    out
}

/// The template as it reads without a case: every hole shows what stands for an empty one, or its
/// name (`rank <ranks>`).
#[must_use]
pub fn example(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut at = 0;
    while let Some((piece, end)) = next(template, at) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Open | Piece::Close => {}
            Piece::Hole {
                name,
                noun,
                default: "",
            } => push(&mut out, noun, &format!("<{name}>")),
            Piece::Hole { default, .. } => out.push_str(default),
        }
        at = end;
    }
    out
}

/// Checks that every hole is one of `known` or of [`ALWAYS`] and that sections are closed.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(template: &str, known: &dyn Fn(&str) -> bool) -> Result<(), Problem> {
    let mut open: Option<usize> = None;
    let mut at = 0;
    while let Some((piece, end)) = next(template, at) {
        match piece {
            Piece::Hole { name, .. } if !is_name(name) => {
                return problem("not a placeholder; write {{ for a brace", at..end);
            }
            Piece::Hole { name, .. } if !known(name) && !ALWAYS.contains(&name) => {
                return problem(format!("unknown placeholder {{{name}}}"), at..end);
            }
            Piece::Open if open.is_some() => return problem("[[ inside [[", at..end),
            Piece::Open => open = Some(at),
            Piece::Close if open.is_none() => return problem("]] without [[", at..end),
            Piece::Close => open = None,
            Piece::Hole { .. } | Piece::Text(_) => {}
        }
        at = end;
    }
    match open {
        Some(start) => problem("[[ without ]]", start..start + 2),
        None => Ok(()),
    }
}

/// Adds a value behind its noun, in the plural for a list or a range; a value that brings the noun
/// with it gets no second one.
fn push(out: &mut String, noun: &str, value: &str) {
    if !noun.is_empty() && !value.starts_with(noun) {
        out.push_str(noun);
        out.push_str(if value.contains(", ") || is_range(value) {
            "s "
        } else {
            " "
        });
    }
    out.push_str(value);
}

/// `0-7`, but not `node-7`.
fn is_range(value: &str) -> bool {
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    value
        .split_once('-')
        .is_some_and(|(from, to)| digits(from) && digits(to))
}

fn problem(message: impl Into<String>, span: Range<usize>) -> Result<(), Problem> {
    Err(Problem {
        message: message.into(),
        span,
    })
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// The piece that starts at `at`, and where it ends.
fn next(template: &str, at: usize) -> Option<(Piece<'_>, usize)> {
    let rest = &template[at..];
    if rest.is_empty() {
        return None;
    }
    if rest.starts_with("{{") || rest.starts_with("}}") {
        return Some((Piece::Text(&rest[..1]), at + 2));
    }
    if rest.starts_with("[[") {
        return Some((Piece::Open, at + 2));
    }
    if rest.starts_with("]]") {
        return Some((Piece::Close, at + 2));
    }
    if let Some(inner) = rest.strip_prefix('{') {
        let (inner, end) = match inner.find('}') {
            Some(len) => (&inner[..len], at + len + 2),
            None => (inner, template.len()),
        };
        let (name, default) = inner.split_once('|').unwrap_or((inner, ""));
        let (name, noun) = name.split_once('#').unwrap_or((name, ""));
        return Some((
            Piece::Hole {
                name,
                noun,
                default,
            },
            end,
        ));
    }
    let first = rest.chars().next().map_or(1, char::len_utf8);
    let len = rest[first..]
        .find(['{', '}', '[', ']'])
        .map_or(rest.len(), |n| n + first);
    Some((Piece::Text(&rest[..len]), at + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str) -> String {
        fill(template, &|name| match name {
            "ifname" => Some("eth9".to_owned()),
            "empty" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn fills_what_is_known() {
        assert_eq!(filled("uses {ifname} [1] {{x}}"), "uses eth9 [1] {x}");
    }

    #[test]
    fn an_empty_fact_takes_its_section_along() {
        assert_eq!(filled("a[[, not {ifname}]]b"), "a, not eth9b");
        assert_eq!(filled("a[[, not {empty}]]b"), "ab");
        assert_eq!(filled("a[[, not {unknown}]]b"), "ab");
        assert_eq!(filled("use {empty|<another>}"), "use <another>");
    }

    #[test]
    fn a_noun_follows_its_number() {
        let with = |value: &str| fill("{ranks#rank}", &|_| Some(value.to_owned()));
        assert_eq!(with("3"), "rank 3");
        assert_eq!(with("3, 5"), "ranks 3, 5");
        assert_eq!(with("0-7"), "ranks 0-7");
        assert_eq!(with("node-7"), "rank node-7");
        assert_eq!(with("ranks 1, 2"), "ranks 1, 2");
        assert_eq!(with(""), "");
    }

    #[test]
    fn an_example_names_its_holes() {
        assert_eq!(
            example("{a|one} on {ranks#rank}[[ ({b})]]"),
            "one on rank <ranks> (<b>)"
        );
    }

    #[test]
    fn finds_what_is_wrong() {
        let known = |name: &str| name == "ifname";
        assert_eq!(check("{ifname} on {hosts}", &known), Ok(()));
        let bad = |t: &str| check(t, &known).expect_err("is wrong");
        assert_eq!(bad("a {ifnme}").span, 2..9);
        assert_eq!(bad("a {Not this}").span, 2..12);
        assert_eq!(bad("{open").span, 0..5);
        assert_eq!(bad("x [[ {ifname}").span, 2..4);
        assert_eq!(bad("x ]]").span, 2..4);
    }
}

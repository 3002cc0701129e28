//! Texts with holes.
//!
//! | written | reads |
//! | --- | --- |
//! | `{fact}`, `{fact|default}` | the fact; what stands for an empty one |
//! | `{ranks#rank}` | `rank 3`, `ranks 3, 5` |
//! | `{n%GPU}`, `{n%GPU is/GPUs are}` | `1 GPU`, `2 GPUs`; `1 GPU is`, `2 GPUs are` |
//! | `{ranks~uses/use}` | `uses` for one rank, `use` for several |
//! | `[[, near {fact}]]` | vanishes with an empty fact |
//! | `[[?torch …]]`, `[[!torch …]]` | is there only with the fact, only without it |
//! | `[[?torch: …]]` | the same, and the blank belongs to it |
//! | `{{` | a brace |

use std::ops::Range;

/// Known in every rule: the ranks and hosts that a finding is about, how often it was seen, the pid
/// of the rank (where it is one) and the place of its process (`on node-3`, else `on its host`), where a
/// setting belongs (`on node-3`, `on every host`), whether the job spans several hosts, and the
/// frameworks that the logs show.
pub const ALWAYS: &[&str] = &[
    "ranks", "hosts", "count", "pid", "there", "where", "spread", "nccl", "gloo", "torch", "vllm",
];

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
        form: Form<'a>,
        default: &'a str,
    },
    Open,
    /// A section that is there only with the fact, or only without it.
    OpenIf {
        name: &'a str,
        wanted: bool,
    },
    Close,
}

/// How a value is put into words.
#[derive(Clone, Copy)]
enum Form<'a> {
    /// As it is.
    Plain,
    /// Behind its noun.
    Named(&'a str),
    /// A number in front of one of two words.
    Counted(&'a str),
    /// One of two words instead of the value.
    Agreeing(&'a str),
}

/// Fills the holes. A fact that `lookup` does not know is empty.
#[must_use]
pub fn fill(template: &str, lookup: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(template.len() + 32);
    // Where the open section began, and whether it vanishes.
    let mut section: Option<(usize, bool)> = None;
    let mut at = 0;
    let known = |name: &str| lookup(name).filter(|v| !v.is_empty());
    while let Some((piece, end)) = next(template, at) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Open => section = Some((out.len(), false)),
            Piece::OpenIf { name, wanted } => {
                section = Some((out.len(), known(name).is_some() != wanted));
            }
            Piece::Close => {
                if let Some((start, true)) = section.take() {
                    out.truncate(start);
                }
            }
            Piece::Hole {
                name,
                form,
                default,
            } => match known(name) {
                Some(value) => push(&mut out, form, &value),
                None if default.is_empty() => section = section.map(|(start, _)| (start, true)),
                None => out.push_str(default),
            },
        }
        at = end;
    }
    out
}

/// True if a condition (`torch`, `!torch`) holds.
#[must_use]
pub fn holds(condition: &str, lookup: &dyn Fn(&str) -> Option<String>) -> bool {
    let known = |name: &str| lookup(name).is_some_and(|v| !v.is_empty());
    match condition.strip_prefix('!') {
        Some(name) => !known(name),
        None => known(condition),
    }
}

/// The template as it reads without a case: every hole shows what stands for an empty one, or its
/// name (`rank <ranks>`); sections that are there only without a fact are left out.
#[must_use]
pub fn example(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut hidden: Option<usize> = None;
    let mut at = 0;
    while let Some((piece, end)) = next(template, at) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::OpenIf { wanted: false, .. } => hidden = Some(out.len()),
            Piece::Open | Piece::OpenIf { .. } => {}
            Piece::Close => {
                if let Some(start) = hidden.take() {
                    out.truncate(start);
                }
            }
            Piece::Hole {
                form: Form::Agreeing(words),
                ..
            } => out.push_str(one_of(words, false)),
            Piece::Hole {
                name,
                form,
                default: "",
            } => push(&mut out, form, &format!("<{name}>")),
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
            Piece::OpenIf { name, .. } if !known(name) && !ALWAYS.contains(&name) => {
                return problem(format!("unknown condition {name}"), at..end);
            }
            Piece::Open | Piece::OpenIf { .. } if open.is_some() => {
                return problem("[[ inside [[", at..end);
            }
            Piece::Open | Piece::OpenIf { .. } => open = Some(at),
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

/// Checks a condition like the holes of a text.
///
/// # Errors
/// That nothing of this name is known.
pub fn check_condition(condition: &str, known: &dyn Fn(&str) -> bool) -> Result<(), Problem> {
    let name = condition.strip_prefix('!').unwrap_or(condition);
    if known(name) || ALWAYS.contains(&name) {
        Ok(())
    } else {
        problem(format!("unknown condition {name}"), 0..condition.len())
    }
}

/// Adds a value in its form. A value that brings its noun with it gets no second one.
fn push(out: &mut String, form: Form<'_>, value: &str) {
    match form {
        Form::Plain => out.push_str(value),
        Form::Named(noun) => {
            if !value.starts_with(noun) {
                out.push_str(noun);
                out.push_str(if is_several(value) { "s " } else { " " });
            }
            out.push_str(value);
        }
        Form::Counted(words) => {
            out.push_str(value);
            out.push(' ');
            if words.contains('/') {
                out.push_str(one_of(words, value != "1"));
            } else {
                out.push_str(words);
                out.push_str(if value == "1" { "" } else { "s" });
            }
        }
        Form::Agreeing(words) => out.push_str(one_of(words, is_several(value))),
    }
}

/// `is/are`
fn one_of(words: &str, several: bool) -> &str {
    let (one, many) = words.split_once('/').unwrap_or((words, words));
    if several { many } else { one }
}

/// A list, a range, or hosts in words.
fn is_several(value: &str) -> bool {
    value.contains(", ") || value.starts_with("all ") || is_range(value)
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
    if let Some(inner) = rest.strip_prefix("[[") {
        return Some(opening(inner, at));
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
        let (name, form) = match name.find(['#', '%', '~']) {
            None => (name, Form::Plain),
            Some(at) => {
                let words = &name[at + 1..];
                let form = match name.as_bytes()[at] {
                    b'#' => Form::Named(words),
                    b'%' => Form::Counted(words),
                    _ => Form::Agreeing(words),
                };
                (&name[..at], form)
            }
        };
        return Some((
            Piece::Hole {
                name,
                form,
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

/// A section's start at `at`, with its condition if it has one.
fn opening(inner: &str, at: usize) -> (Piece<'_>, usize) {
    let wanted = inner.starts_with('?');
    if !wanted && !inner.starts_with('!') {
        return (Piece::Open, at + 2);
    }
    let len = inner[1..]
        .find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
        .unwrap_or(inner.len() - 1);
    let name = &inner[1..=len];
    let blank = usize::from(inner[1 + len..].starts_with([' ', ':']));
    (Piece::OpenIf { name, wanted }, at + 3 + len + blank)
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
    fn a_word_agrees_with_its_number() {
        let with = |value: &str| {
            fill("{ranks#rank} {ranks~uses/use} {ranks%GPU}", &|_| {
                Some(value.to_owned())
            })
        };
        assert_eq!(with("1"), "rank 1 uses 1 GPU");
        assert_eq!(with("0, 2"), "ranks 0, 2 use 0, 2 GPUs");
        let sees = |n: &str| fill("{n%GPU is/GPUs are} seen", &|_| Some(n.to_owned()));
        assert_eq!(sees("1"), "1 GPU is seen");
        assert_eq!(sees("0"), "0 GPUs are seen");
    }

    #[test]
    fn a_section_has_a_condition() {
        let text = "Use [[?ifname A]][[!ifname B]] or [[?empty C]][[!empty D {ifname}]].";
        assert_eq!(filled(text), "Use A or D eth9.");
        assert_eq!(example(text), "Use A or C.");
        assert_eq!(filled("[[!empty not {empty}]]"), "");
        assert_eq!(filled("a[[?ifname b]][[?ifname: c]]"), "ab c");
        let lookup = |name: &str| (name == "torch").then(|| "yes".to_owned());
        assert!(holds("torch", &lookup) && !holds("!torch", &lookup));
        assert!(holds("!vllm", &lookup) && !holds("vllm", &lookup));
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
        assert_eq!(bad("x [[?ifnme y]]").span, 2..11);
        assert_eq!(check("[[?torch y]][[!ifname z]]", &known), Ok(()));
        assert!(check_condition("!torch", &known).is_ok());
        assert!(check_condition("!trch", &known).is_err());
    }
}

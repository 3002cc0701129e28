//! A rule against its own hits and misses.

use super::matcher::Pattern;
use super::{CaptureKind, Hit, HitCase, Rule, misspelt};

/// One hit or miss of a rule file, by its place in the file's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// The nth `[[hit]]`, from 0.
    Hit(usize),
    /// The nth `[[miss]]`, from 0.
    Miss(usize),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A miss did not match, as it should.
    Validated,
    /// A hit matched, and the captures are right.
    Reported,
    /// A hit did not match.
    Missing,
    /// A miss matched.
    Noisy,
    /// A hit matched and captured something else.
    Wrong {
        /// Which capture.
        capture: String,
        /// What the file says.
        expected: String,
        /// What was captured; `None` if the group took no part.
        actual: Option<String>,
    },
}

impl Outcome {
    /// Whether it is as it should be.
    #[must_use]
    pub fn is_right(&self) -> bool {
        matches!(self, Self::Validated | Self::Reported)
    }
}

/// Runs every case of the rule.
pub(super) fn rule(rule: &Rule, patterns: &[&Pattern]) -> Vec<(Case, Outcome)> {
    let hits = rule
        .hits
        .iter()
        .enumerate()
        .map(|(n, case)| (Case::Hit(n), hit(rule, patterns, case)));
    let misses = rule.misses.iter().enumerate().map(|(n, message)| {
        let outcome = match find(patterns, message.as_bytes()) {
            Some(_) => Outcome::Noisy,
            None => Outcome::Validated,
        };
        (Case::Miss(n), outcome)
    });
    hits.chain(misses).collect()
}

fn hit(rule: &Rule, patterns: &[&Pattern], case: &HitCase) -> Outcome {
    let message = case.message.as_bytes();
    let Some(hit) = find(patterns, message) else {
        return Outcome::Missing;
    };
    let captured = hit.texts(message);
    for (capture, expected) in &case.captures {
        let actual = captured.get(capture.as_str());
        if actual != Some(expected) {
            return Outcome::Wrong {
                capture: capture.clone(),
                expected: expected.clone(),
                actual: actual.cloned(),
            };
        }
    }
    for (capture, actual) in &captured {
        let kind = rule
            .captures
            .get(*capture)
            .copied()
            .unwrap_or(CaptureKind::Text);
        if !kind.fits(actual) {
            return Outcome::Wrong {
                capture: (*capture).to_owned(),
                expected: format!("{kind:?}").to_lowercase(),
                actual: Some(actual.clone()),
            };
        }
    }
    Outcome::Reported
}

fn find(patterns: &[&Pattern], message: &[u8]) -> Option<Hit> {
    patterns
        .iter()
        .filter(|p| p.passes_gate(message))
        .find_map(|p| p.hit(message, true))
}

impl CaptureKind {
    /// Whether a captured text is of this kind.
    #[must_use]
    pub fn fits(self, text: &str) -> bool {
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        match self {
            Self::Text => true,
            Self::Int => digits(text.strip_prefix('-').unwrap_or(text)),
            Self::Bytes | Self::Process => digits(text),
            Self::Gpu => text
                .bytes()
                .all(|b| b.is_ascii_hexdigit() || b":.".contains(&b)),
            Self::Rank => text.split(',').all(|r| digits(r.trim())),
            Self::Address => {
                let bare = text.trim_matches(['[', ']']);
                bare.contains(['.', ':'])
                    && bare
                        .bytes()
                        .all(|b| b.is_ascii_hexdigit() || b".:%[]<>".contains(&b))
            }
            Self::Misspelt => text.split(", ").all(|name| misspelt::meant(name).is_some()),
            Self::Host => !text.is_empty() && !text.contains([' ', '\t']),
        }
    }
}

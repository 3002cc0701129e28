//! Which rules match a message: literals first, then the regexes behind those that were found.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use bstr::ByteSlice;
use regex::bytes::Regex;

use super::grams::Grams;
use super::{Hit, Seen};
use crate::engine::ids::RuleIx;
use crate::engine::parse;
use crate::engine::vocab::LineClass;

/// Words of the set of patterns seen in a line that fit on the stack.
const STACK_WORDS: usize = 8;

/// One `[match]` of a rule.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) rule: RuleIx,
    pub(super) classes: Vec<LineClass>,
    pub(super) regex: Regex,
    /// One of these is in every message that may match.
    pub(super) gate: Vec<Vec<u8>>,
    /// The named groups: index and name.
    pub(super) names: Vec<(usize, &'static str)>,
}

impl Pattern {
    /// The hit, if the message matches.
    pub(super) fn hit(&self, message: &[u8]) -> Option<Hit> {
        if !self.regex.is_match(message) {
            return None;
        }
        let captures = self.regex.captures(message)?;
        let named =
            |&(group, name): &(usize, &'static str)| captures.get(group).map(|m| (name, m.range()));
        Some(Hit {
            rule: self.rule,
            captures: self.names.iter().filter_map(named).collect(),
        })
    }

    /// Whether the gate lets the message through.
    pub(super) fn passes_gate(&self, message: &[u8]) -> bool {
        self.gate
            .iter()
            .any(|literal| message.contains_str(literal))
    }
}

/// The literals of all patterns of one class of line, and those that the parser looks for there.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassMatcher {
    /// Says quickly that no literal is in a message. `None` where the class has no literal.
    quick: Option<Grams>,
    /// Finds every literal, overlapping ones too.
    all: Option<AhoCorasick>,
    /// By literal in `all`: position in `patterns`; the parser's own come behind.
    owner: Vec<usize>,
    /// The patterns of the class, in the order of their rules.
    patterns: Vec<usize>,
}

impl ClassMatcher {
    /// For the patterns of one class.
    pub(super) fn new(all: &[Pattern], class: LineClass) -> Self {
        let patterns: Vec<usize> = (0..all.len())
            .filter(|&i| all[i].classes.contains(&class))
            .collect();
        let mut literals: Vec<&[u8]> = Vec::new();
        let mut owner = Vec::new();
        for (at, &pattern) in patterns.iter().enumerate() {
            for literal in &all[pattern].gate {
                literals.push(literal);
                owner.push(at);
            }
        }
        for literal in parse::literals(class) {
            literals.push(literal);
        }
        if literals.is_empty() {
            return Self::default();
        }
        Self {
            quick: Some(Grams::new(&literals)),
            all: Some(automaton(&literals)),
            owner,
            patterns,
        }
    }

    /// Which kinds of literal are in a message.
    pub(super) fn look(&self, message: &[u8]) -> Seen {
        let mut seen = Seen::default();
        let (Some(quick), Some(automaton)) = (&self.quick, &self.all) else {
            return seen;
        };
        if !quick.may_be_in(message) {
            return seen;
        }
        for found in automaton.find_overlapping_iter(message) {
            if found.pattern().as_usize() < self.owner.len() {
                seen.rules = true;
            } else {
                seen.parser = true;
            }
        }
        seen
    }

    /// Adds a hit for each rule that matches.
    pub(super) fn matches(&self, all: &[Pattern], message: &[u8], out: &mut Vec<Hit>) {
        let Some(automaton) = &self.all else {
            return;
        };
        let words = self.patterns.len().div_ceil(64);
        let mut stack = [0u64; STACK_WORDS];
        let mut heap = vec![0; if words > STACK_WORDS { words } else { 0 }];
        let seen = if words > STACK_WORDS {
            &mut heap[..]
        } else {
            &mut stack[..words]
        };
        for found in automaton.find_overlapping_iter(message) {
            if let Some(at) = self.owner.get(found.pattern().as_usize()) {
                seen[at / 64] |= 1 << (at % 64);
            }
        }
        let mut last = None;
        for (at, &pattern) in self.patterns.iter().enumerate() {
            let pattern = &all[pattern];
            // A rule with several patterns hits a line once.
            if seen[at / 64] & (1 << (at % 64)) == 0 || last == Some(pattern.rule) {
                continue;
            }
            if let Some(hit) = pattern.hit(message) {
                last = Some(hit.rule);
                out.push(hit);
            }
        }
    }
}

fn automaton(literals: &[&[u8]]) -> AhoCorasick {
    AhoCorasick::builder()
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .build(literals)
        .expect("a few thousand literals of a few bytes fit an automaton")
}

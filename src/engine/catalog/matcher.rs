//! Which rules match a message: literals first, then the regexes behind those that were found.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind, packed};
use bstr::ByteSlice;
use regex::bytes::Regex;

use super::Hit;
use crate::engine::ids::RuleIx;
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

/// The literals of all patterns of one class of line.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassMatcher {
    /// Says quickly that no literal is in a message. `None` where the class has no pattern.
    quick: Option<Quick>,
    /// Finds every literal, overlapping ones too.
    all: Option<AhoCorasick>,
    /// By literal in `all`: position in `patterns`.
    owner: Vec<usize>,
    /// The patterns of the class, in the order of their rules.
    patterns: Vec<usize>,
}

/// The first look at a message.
#[derive(Clone, Debug)]
enum Quick {
    /// SIMD, for up to 64 literals.
    Packed(packed::Searcher),
    Automaton(AhoCorasick),
}

impl ClassMatcher {
    /// For the patterns of one class.
    pub(super) fn new(all: &[Pattern], class: LineClass) -> Self {
        let patterns: Vec<usize> = (0..all.len())
            .filter(|&i| all[i].classes.contains(&class))
            .collect();
        if patterns.is_empty() {
            return Self::default();
        }
        let mut literals: Vec<&[u8]> = Vec::new();
        let mut owner = Vec::new();
        for (at, &pattern) in patterns.iter().enumerate() {
            for literal in &all[pattern].gate {
                literals.push(literal);
                owner.push(at);
            }
        }
        Self {
            quick: Some(Quick::new(&literals)),
            all: Some(automaton(&literals)),
            owner,
            patterns,
        }
    }

    /// Adds a hit for each rule that matches.
    pub(super) fn matches(&self, all: &[Pattern], message: &[u8], out: &mut Vec<Hit>) {
        let (Some(quick), Some(automaton)) = (&self.quick, &self.all) else {
            return;
        };
        if !quick.may_match(message) {
            return;
        }
        let words = self.patterns.len().div_ceil(64);
        let mut stack = [0u64; STACK_WORDS];
        let mut heap = vec![0; if words > STACK_WORDS { words } else { 0 }];
        let seen = if words > STACK_WORDS {
            &mut heap[..]
        } else {
            &mut stack[..words]
        };
        for found in automaton.find_overlapping_iter(message) {
            let at = self.owner[found.pattern().as_usize()];
            seen[at / 64] |= 1 << (at % 64);
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

impl Quick {
    fn new(literals: &[&[u8]]) -> Self {
        // A literal that contains another one is found with it.
        let mut needed: Vec<&[u8]> = literals.to_vec();
        needed.sort_unstable();
        needed.dedup();
        let shorter = |a: &[u8]| {
            literals
                .iter()
                .any(|b| b.len() < a.len() && a.contains_str(b))
        };
        needed.retain(|literal| !shorter(literal));
        let searcher = packed::Config::new().builder().extend(&needed).build();
        searcher.map_or_else(|| Self::Automaton(automaton(&needed)), Self::Packed)
    }

    fn may_match(&self, message: &[u8]) -> bool {
        match self {
            Self::Packed(searcher) => searcher.find(message).is_some(),
            Self::Automaton(automaton) => automaton.is_match(message),
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

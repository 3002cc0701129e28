//! Which rules match a message: literals first, then the regexes behind those that were found.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use bstr::ByteSlice;
use regex::bytes::Regex;

use super::grams::Grams;
use super::{Hit, Seen};
use crate::engine::ids::RuleIx;
use crate::engine::parse::{LITERALS, Literals};
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
    /// The hit, if the message matches; without captures, which cost more, if nobody wants them.
    pub(super) fn hit(&self, message: &[u8], captures: bool) -> Option<Hit> {
        if !self.regex.is_match(message) {
            return None;
        }
        if !captures {
            return Some(Hit {
                rule: self.rule,
                captures: Vec::new(),
            });
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

/// The literals of all patterns, and those that the parser looks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Matcher {
    /// By class of line: says quickly that none of its literals is in a message.
    quick: Vec<Option<Grams>>,
    /// Finds every literal, overlapping ones too.
    all: Option<AhoCorasick>,
    /// By literal in `all`: the position of its pattern; the parser's own come behind.
    owner: Vec<usize>,
}

impl Matcher {
    pub(super) fn new(patterns: &[Pattern]) -> Self {
        let mut literals: Vec<&[u8]> = Vec::new();
        let mut owner = Vec::new();
        for (at, pattern) in patterns.iter().enumerate() {
            for literal in &pattern.gate {
                literals.push(literal);
                owner.push(at);
            }
        }
        for literal in LITERALS {
            literals.push(literal);
        }
        let of_class = |class: LineClass| {
            let of_rules = owner.iter().zip(&literals);
            let mut own: Vec<&[u8]> = of_rules
                .filter(|(at, _)| patterns[**at].classes.contains(&class))
                .map(|(_, literal)| *literal)
                .collect();
            if !class.is_nccl() {
                own.extend_from_slice(&literals[owner.len()..]);
            }
            (!own.is_empty()).then(|| Grams::new(&own))
        };
        Self {
            quick: LineClass::ALL.iter().map(|c| of_class(*c)).collect(),
            all: Some(automaton(&literals)),
            owner,
        }
    }

    /// Which literals are in a message of this class.
    pub(super) fn look(&self, patterns: &[Pattern], class: LineClass, message: &[u8]) -> Seen {
        let mut seen = Seen::default();
        let Some(automaton) = &self.all else {
            // Nothing was loaded, so nobody can search.
            seen.parser = Literals::ANY;
            return seen;
        };
        match self.quick.get(class as usize) {
            Some(Some(quick)) if quick.may_be_in(message) => {}
            _ => return seen,
        }
        for found in automaton.find_overlapping_iter(message) {
            let literal = found.pattern().as_usize();
            match self.owner.get(literal) {
                Some(at) => seen.rules |= patterns[*at].classes.contains(&class),
                None => seen.parser.insert(literal - self.owner.len()),
            }
        }
        seen
    }

    /// Adds a hit for each rule that matches.
    pub(super) fn matches(
        &self,
        patterns: &[Pattern],
        class: LineClass,
        message: &[u8],
        wants_captures: &dyn Fn(RuleIx) -> bool,
        out: &mut Vec<Hit>,
    ) {
        let Some(automaton) = &self.all else {
            return;
        };
        let words = patterns.len().div_ceil(64);
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
        for (word, bits) in seen.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let pattern = &patterns[word * 64 + bits.trailing_zeros() as usize];
                bits &= bits - 1;
                // A rule with several patterns hits a line once.
                if last == Some(pattern.rule) || !pattern.classes.contains(&class) {
                    continue;
                }
                if let Some(hit) = pattern.hit(message, wants_captures(pattern.rule)) {
                    last = Some(hit.rule);
                    out.push(hit);
                }
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

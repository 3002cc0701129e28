//! Which rules match a message: literals first, then the regexes behind those that were found.

use std::sync::OnceLock;

use bstr::ByteSlice;
use regex::bytes::{Regex, RegexBuilder};

use super::grams::Grams;
use super::{Hit, Seen, misspelt};
use crate::engine::ids::RuleIx;
use crate::engine::parse::{self, LITERALS};
use crate::engine::vocab::LineClass;

/// Words of the set of patterns seen in a line that fit on the stack.
const STACK_WORDS: usize = 8;

/// A regex of a rule may grow to this many bytes when compiled.
const REGEX_BYTES: usize = 1 << 20;

/// A regex that is compiled when a line first asks for it: few rules are ever asked.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    text: String,
    compiled: OnceLock<Regex>,
}

impl Expression {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            compiled: OnceLock::new(),
        }
    }

    /// Compiles it now.
    ///
    /// # Errors
    /// If it is no regex, or too large.
    pub(super) fn check(&self) -> Result<(), regex::Error> {
        if self.compiled.get().is_none() {
            let regex = compile(&self.text)?;
            self.compiled.get_or_init(|| regex);
        }
        Ok(())
    }

    fn get(&self) -> &Regex {
        let compiled =
            || compile(&self.text).expect("checked when the rule was loaded, or built in");
        self.compiled.get_or_init(compiled)
    }
}

fn compile(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text)
        .unicode(false)
        .size_limit(REGEX_BYTES)
        .build()
}

/// One `[match]` of a rule.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) rule: RuleIx,
    pub(super) classes: Vec<LineClass>,
    pub(super) regex: Expression,
    /// One of these is in every message that may match.
    pub(super) gate: Vec<Vec<u8>>,
    /// The named groups: index and name.
    pub(super) names: Vec<(usize, &'static str)>,
    /// The group that has to be a misspelt name.
    pub(super) misspelt: Option<usize>,
}

impl Pattern {
    /// The hit, if the message matches; without captures, which cost more, if nobody wants them.
    pub(super) fn hit(&self, message: &[u8], captures: bool) -> Option<Hit> {
        let regex = self.regex.get();
        if let Some(group) = self.misspelt {
            return self.misspelt(regex, group, message);
        }
        if !regex.is_match(message) {
            return None;
        }
        if !captures {
            return Some(Hit {
                rule: self.rule,
                captures: Vec::new(),
            });
        }
        let captures = regex.captures(message)?;
        let named =
            |&(group, name): &(usize, &'static str)| captures.get(group).map(|m| (name, m.range()));
        Some(Hit {
            rule: self.rule,
            captures: self.names.iter().filter_map(named).collect(),
        })
    }

    /// The names in the message that are misspelt, if any is.
    fn misspelt(&self, regex: &Regex, group: usize, message: &[u8]) -> Option<Hit> {
        let wrong = |name: &[u8]| name.to_str().is_ok_and(|n| misspelt::meant(n).is_some());
        let mut captures = Vec::new();
        for found in regex.captures_iter(message) {
            if found.get(group).is_some_and(|m| wrong(m.as_bytes())) {
                let named = |(group, name): &(usize, &'static str)| {
                    found.get(*group).map(|m| (*name, m.range()))
                };
                captures.extend(self.names.iter().filter_map(named));
            }
        }
        (!captures.is_empty()).then_some(Hit {
            rule: self.rule,
            captures,
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
    /// By class of line.
    of_class: Vec<Option<Literals>>,
}

/// What a message of one class is searched for.
#[derive(Clone, Debug)]
struct Literals {
    grams: Grams,
    /// By literal: the position of its pattern; the parser's own come behind.
    owner: Vec<usize>,
}

impl Literals {
    fn new(patterns: &[Pattern], class: LineClass) -> Option<Self> {
        let mut literals: Vec<&[u8]> = Vec::new();
        let mut owner = Vec::new();
        let of_class = |pattern: &Pattern| pattern.classes.contains(&class);
        for (at, pattern) in patterns.iter().enumerate().filter(|(_, p)| of_class(p)) {
            literals.extend(pattern.gate.iter().map(Vec::as_slice));
            owner.resize(literals.len(), at);
        }
        if !class.is_nccl() {
            literals.extend_from_slice(LITERALS);
        }
        (!literals.is_empty()).then(|| Self {
            grams: Grams::new(&literals),
            owner,
        })
    }
}

impl Matcher {
    pub(super) fn new(patterns: &[Pattern]) -> Self {
        let classes = LineClass::ALL.iter();
        Self {
            of_class: classes.map(|c| Literals::new(patterns, *c)).collect(),
        }
    }

    fn literals(&self, class: LineClass) -> Option<&Literals> {
        self.of_class.get(class as usize)?.as_ref()
    }

    /// Which literals are in a message of this class.
    #[inline]
    pub(super) fn look(&self, class: LineClass, message: &[u8]) -> Seen {
        let mut seen = Seen::default();
        if self.of_class.is_empty() {
            // Nothing was loaded, so nobody can search.
            seen.parser = parse::Literals::ANY;
        }
        if let Some(Literals { grams, owner }) = self.literals(class) {
            grams.find(
                message,
                &mut |literal| match literal.checked_sub(owner.len()) {
                    None => seen.rules = true,
                    Some(own) => seen.parser.insert(own),
                },
            );
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
        let Some(Literals { grams, owner }) = self.literals(class) else {
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
        grams.find(message, &mut |literal| {
            if let Some(at) = owner.get(literal) {
                seen[at / 64] |= 1 << (at % 64);
            }
        });
        let mut last = None;
        for (word, bits) in seen.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let pattern = &patterns[word * 64 + bits.trailing_zeros() as usize];
                bits &= bits - 1;
                // A rule with several patterns hits a line once.
                if last == Some(pattern.rule) {
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

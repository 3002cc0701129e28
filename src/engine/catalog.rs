//! The rule catalog: what rule files declare, loaded by the same code in the binary and the tests.
//!
//! A *line rule* has a `[match]`; a *detector rule* names a detector and its thresholds. Either way
//! the file holds all words that people read: title, meaning, why, fixes.

mod builtin;
mod error;
mod gate;
mod grams;
mod load;
mod matcher;
pub mod misspelt;
mod schema;
pub mod template;
pub mod variables;
mod verify;

use std::collections::BTreeMap;
use std::ops::Range;

use super::ids::RuleIx;
use super::parse::Literals;
use super::vocab::{Class, Confidence, Effect, FixKind, LineClass, Phase, Role, Severity};
use matcher::{Matcher, Pattern};

pub use builtin::FILES as BUILTIN_FILES;
pub use error::RuleError;
pub use verify::{Case, Outcome};

/// One rule, as its file declares it.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Stable id, never reused: family letters and three digits (`NET003`).
    pub id: String,
    /// Name in kebab case, says the fault (`interface-differs`).
    pub name: String,
    /// Class of cause.
    pub class: Class,
    /// Severity where it fires as declared.
    pub severity: Severity,
    /// Role by default; the cause order may turn a cause into a symptom.
    pub role: Role,
    /// What it says about the job.
    pub effect: Effect,
    /// How sure it is by itself.
    pub confidence: Confidence,
    /// Phase it strikes in.
    pub phase: Phase,
    /// True if hits of all ranks make one finding (the usual case); else one finding per rank.
    pub merge: bool,
    /// True if the rank that prints the line is the victim: the line itself accuses nobody.
    pub printer_is_victim: bool,
    /// Title template: `{capture}` and `{fact}` are filled in, `{ranks}` and `{hosts}` always exist.
    pub title: String,
    /// What it means.
    pub meaning: String,
    /// Why it happens.
    pub why: String,
    /// Fixes, best first; texts and values are templates.
    pub fixes: Vec<FixTemplate>,
    /// What evidence would decide it, where it is not certain.
    pub missing: Vec<String>,
    /// Source files and versions that print it (`src/bootstrap.cc, NCCL 2.4.8 and later`).
    pub sources: Vec<String>,
    /// Links and issue references.
    pub references: Vec<String>,
    /// The detector that decides it, for a detector rule. Where such a rule has patterns too, a hit is
    /// a finding that the detector may take back or turn into a symptom.
    pub detector: Option<String>,
    /// Numbers the detector uses (`patience_s = 30`).
    pub thresholds: BTreeMap<String, f64>,
    /// Classes of line it matches, for a line rule.
    pub classes: Vec<LineClass>,
    /// Where the rule comes from: path of its file.
    pub path: String,
    /// How far it is trusted.
    pub status: Status,
    /// Versions it holds for, in words (`NCCL 2.4.8 and later`).
    pub versions: Vec<String>,
    /// What its detector may fill into its texts.
    pub facts: Vec<String>,
    /// What its patterns capture.
    pub captures: BTreeMap<String, CaptureKind>,
    /// Its lines name processes or GPUs: each that is named counts, not only the first ones.
    pub names_things: bool,
    /// Messages that it must match, and what must be captured.
    pub hits: Vec<HitCase>,
    /// Messages that it must not match.
    pub misses: Vec<String>,
}

impl Rule {
    /// A number that the rule's detector uses.
    #[must_use]
    pub fn threshold(&self, name: &str) -> Option<f64> {
        self.thresholds.get(name).copied()
    }
}

/// A message that a rule must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HitCase {
    /// The message, as [`super::line::Line::message`] has it.
    pub message: String,
    /// What must be captured; captures that are not named here may be anything.
    pub captures: BTreeMap<String, String>,
}

/// How far a rule is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Written from a format string; no real log has shown it yet.
    Preview,
    /// Seen in real logs.
    Stable,
    /// Kept so that its id stays known.
    Deprecated,
}

/// What a capture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaptureKind {
    /// Any text.
    Text,
    /// A whole number.
    Int,
    /// An IP address, with or without a port.
    Address,
    /// The world rank or ranks that the line itself names as the ones at fault (`2`, `1, 2`). The
    /// number of the rank that merely prints the line is an [`CaptureKind::Int`].
    Rank,
    /// The name of a host that the line is about.
    Host,
    /// A number of bytes.
    Bytes,
    /// The name of a variable that nobody reads and that is like one that is read ([`misspelt`]); a line
    /// without such a name is no hit.
    Misspelt,
    /// The id of a process that the line is about, as the kernel counts it.
    Process,
    /// The bus id of a GPU that the line is about (`0000:18:00`).
    Gpu,
}

/// A fix before its templates are filled in.
#[derive(Clone, Debug)]
pub struct FixTemplate {
    /// What has to be changed.
    pub kind: FixKind,
    /// What to do.
    pub text: String,
    /// Variables to set.
    pub env: BTreeMap<String, String>,
    /// Variables to unset.
    pub unset: Vec<String>,
    /// Cures, or only works around.
    pub cures: bool,
    /// The fact that it is for (`torch`), or against (`!torch`); `None` for always.
    pub when: Option<String>,
    /// What it costs or risks.
    pub caution: Option<String>,
    /// How to take it back.
    pub undo: Option<String>,
}

/// A line rule that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The rule.
    pub rule: RuleIx,
    /// Named captures in the order of the pattern: name and range in the message. Only a misspelt name may
    /// stand there several times.
    pub captures: Vec<(&'static str, Range<usize>)>,
}

impl Hit {
    /// What was captured, by name; several of one name as a list.
    #[must_use]
    pub fn texts(&self, message: &[u8]) -> BTreeMap<&'static str, String> {
        let mut texts: BTreeMap<&'static str, String> = BTreeMap::new();
        for (name, range) in &self.captures {
            let text = String::from_utf8_lossy(message.get(range.clone()).unwrap_or_default());
            texts
                .entry(name)
                .and_modify(|known| {
                    known.push_str(", ");
                    known.push_str(&text);
                })
                .or_insert_with(|| text.clone().into_owned());
        }
        texts
    }
}

/// Whose literals are in a message; see [`Catalog::look`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// One of a rule's: [`Catalog::matches`] may find a hit.
    pub rules: bool,
    /// Those of [`super::parse::LITERALS`].
    pub parser: Literals,
}

/// Every rule. A clone shares the compiled patterns.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    rules: Vec<Rule>,
    patterns: Vec<Pattern>,
    matcher: Matcher,
}

impl Catalog {
    /// Loads rule files, given as path and text. A broken file is left out and reported; of two
    /// files with one id the earlier one stays.
    #[must_use]
    pub fn load<P: AsRef<str>, T: AsRef<str>>(files: &[(P, T)]) -> (Self, Vec<RuleError>) {
        load::catalog(files)
    }

    /// The rules that are built into the binary.
    ///
    /// # Panics
    /// If one of them is broken, which a test excludes.
    #[must_use]
    pub fn builtin() -> Self {
        let (catalog, errors) = Self::load(BUILTIN_FILES);
        assert!(
            errors.is_empty(),
            "broken rule in the binary: {}",
            errors[0]
        );
        catalog
    }

    /// Every rule, by index; sorted by id.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule.
    #[must_use]
    pub fn rule(&self, ix: RuleIx) -> &Rule {
        &self.rules[ix.ix()]
    }

    /// The rule with this id (`NET003`).
    #[must_use]
    pub fn by_id(&self, id: &str) -> Option<RuleIx> {
        self.rules
            .binary_search_by(|r| r.id.as_str().cmp(id))
            .ok()
            .map(RuleIx::from_ix)
    }

    /// The rule with this name (`interface-differs`).
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<RuleIx> {
        self.rules
            .iter()
            .position(|r| r.name == name)
            .map(RuleIx::from_ix)
    }

    /// The rules that a detector decides, by index.
    pub fn detector_rules<'a>(&'a self, detector: &'a str) -> impl Iterator<Item = RuleIx> + 'a {
        let decides = move |r: &Rule| r.detector.as_deref() == Some(detector);
        self.rules
            .iter()
            .enumerate()
            .filter(move |(_, r)| decides(r))
            .map(|(ix, _)| RuleIx::from_ix(ix))
    }

    /// Searches a message once for every literal that a rule or the parser wants to see in it.
    #[must_use]
    pub fn look(&self, class: LineClass, message: &[u8]) -> Seen {
        self.matcher.look(class, message)
    }

    /// Adds a hit for every rule that matches a message of this class, in the order of their
    /// indices. Worth calling only where [`Catalog::look`] saw a rule's literal.
    pub fn matches(&self, class: LineClass, message: &[u8], out: &mut Vec<Hit>) {
        self.matches_of(class, message, &|_| true, out);
    }

    /// The same, but captures are looked for only where they are wanted.
    pub fn matches_of(
        &self,
        class: LineClass,
        message: &[u8],
        wants_captures: &dyn Fn(RuleIx) -> bool,
        out: &mut Vec<Hit>,
    ) {
        let patterns = &self.patterns;
        self.matcher
            .matches(patterns, class, message, wants_captures, out);
    }

    /// Runs a rule's own hits and misses.
    #[must_use]
    pub fn verify(&self, ix: RuleIx) -> Vec<(Case, Outcome)> {
        verify::rule(self.rule(ix), &self.patterns_of(ix))
    }

    fn patterns_of(&self, ix: RuleIx) -> Vec<&Pattern> {
        self.patterns.iter().filter(|p| p.rule == ix).collect()
    }
}

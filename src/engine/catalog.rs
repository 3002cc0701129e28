//! The rule catalog: what rule files declare, loaded by the same code in the binary and the tests.
//!
//! A *line rule* has a `[match]`; a *detector rule* names a detector and its thresholds. Either way
//! the file holds all words that people read: title, meaning, why, fixes.

use std::collections::BTreeMap;
use std::ops::Range;

use super::ids::RuleIx;
use super::vocab::{Class, Confidence, Effect, FixKind, LineClass, Phase, Role, Severity};

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
    /// The detector that decides it, for a detector rule.
    pub detector: Option<String>,
    /// Numbers the detector uses (`patience_s = 30`).
    pub thresholds: BTreeMap<String, f64>,
    /// Classes of line it matches, for a line rule.
    pub classes: Vec<LineClass>,
    /// Where the rule comes from: path of its file.
    pub path: String,
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
    /// Cures, or only works around.
    pub cures: bool,
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
    /// Named captures in the order of the pattern: name and range in the message.
    pub captures: Vec<(&'static str, Range<usize>)>,
}

/// Every rule.
#[derive(Debug, Default)]
pub struct Catalog {
    rules: Vec<Rule>,
}

/// Stand-in until the catalog is merged.
pub const BUILTIN_FILES: &[(&str, &str)] = &[];

/// Stand-in until the catalog is merged.
#[derive(Clone, Debug)]
pub struct RuleError {
    /// The file.
    pub path: String,
}

impl RuleError {
    /// The message.
    #[must_use]
    pub fn render(&self, _renderer: &annotate_snippets::Renderer) -> String {
        self.path.clone()
    }
}

impl Catalog {
    /// Loads rule files.
    #[must_use]
    pub fn load<P: AsRef<str>, T: AsRef<str>>(_files: &[(P, T)]) -> (Self, Vec<RuleError>) {
        (Self::default(), Vec::new())
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
}

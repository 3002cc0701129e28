//! Findings: what a rule or detector says, with its evidence and its fixes.

use std::collections::{BTreeMap, BTreeSet};

use super::ids::{RuleIx, SourceId};
use super::vocab::{Class, Confidence, Effect, FixKind, Phase, Role, Severity};
use super::witness::Witness;

/// One line that supports a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evidence {
    /// The source; its name is in the snapshot.
    pub source: SourceId,
    /// Line number in it, from 1.
    pub line: u64,
    /// Offset of the line in it.
    pub offset: u64,
    /// Bytes of the line.
    pub len: u32,
    /// For an entry of a dump: its number there; the dump has no lines, so `line` is 0.
    pub entry: Option<u64>,
    /// The world rank that wrote it, if known.
    pub rank: Option<u32>,
    /// The line (cut at [`super::limits::EVIDENCE_BYTES`]), lossy, with control characters as they are:
    /// a view must escape them.
    pub text: String,
}

/// One way to cure it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Fix {
    /// What has to be changed.
    pub kind: FixKind,
    /// What to do, one or two sentences.
    pub text: String,
    /// Environment variables to set, ready to paste; empty if none.
    pub env: BTreeMap<String, String>,
    /// Environment variables to unset, where they are set.
    pub unset: Vec<String>,
    /// The ranks it is for; empty for all.
    pub ranks: Vec<u32>,
    /// Whether it cures the cause or only works around it.
    pub cures: bool,
    /// What it costs or risks.
    pub caution: Option<String>,
    /// How to take it back.
    pub undo: Option<String>,
}

/// Ranks that called different things as one call of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Which call of the communicator, from 1.
    pub ordinal: u64,
    /// The ranks by what they called, the most first; bounded by [`super::limits::SIDES`].
    pub sides: Vec<CallSide>,
    /// Further sides that are not kept.
    pub more: usize,
    /// More ranks are on the first side than on all others together: the others are the odd ones.
    pub majority: bool,
}

/// Ranks that made the same call. A part that the call does not have, or that nobody recorded, is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSide {
    /// World ranks, or ranks in the communicator where those are not known.
    pub ranks: Vec<u32>,
    /// The function.
    pub function: String,
    /// Elements.
    pub count: Option<String>,
    /// Their type.
    pub datatype: Option<String>,
    /// How they are reduced.
    pub reduction: Option<String>,
    /// The root.
    pub root: Option<u32>,
    /// Where in the program the first of the ranks is, innermost first.
    pub frames: Vec<String>,
}

impl CallSide {
    /// The parts that can differ, in the order of [`CallSide::PARTS`].
    #[must_use]
    pub fn parts(&self) -> [Option<String>; 5] {
        [
            Some(self.function.clone()),
            self.count.clone(),
            self.datatype.clone(),
            self.reduction.clone(),
            self.root.map(|root| root.to_string()),
        ]
    }

    /// What the parts are called.
    pub const PARTS: [&'static str; 5] = ["function", "count", "type", "reduction", "root"];
}

/// A rule or detector that fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule in the catalog.
    pub rule: RuleIx,
    /// Its stable id (`NET003`).
    pub id: String,
    /// Its name (`interface-differs`).
    pub name: String,
    /// The class of cause.
    pub class: Class,
    /// What it is to the other findings.
    pub role: Role,
    /// How bad it is.
    pub severity: Severity,
    /// What it says about the job.
    pub effect: Effect,
    /// How sure it is by itself.
    pub confidence: Confidence,
    /// One line about *this* case, with its numbers and names.
    pub title: String,
    /// A few sentences: what it means here and why it happens.
    pub explanation: String,
    /// The ranks that show it or that it is about.
    pub ranks: BTreeSet<u32>,
    /// The hosts likewise, as printed.
    pub hosts: BTreeSet<String>,
    /// The ranks it accuses, before the guilt table is applied: the ones unlike the others.
    pub accused: BTreeSet<u32>,
    /// The hosts it accuses likewise.
    pub accused_hosts: BTreeSet<String>,
    /// The communicator, as printed (`0x3cd91741efa7caee`).
    pub comm: Option<String>,
    /// The phase it strikes in: earlier ones are likelier causes.
    pub phase: Phase,
    /// The lines that support it, the weightiest first, bounded.
    pub evidence: Vec<Evidence>,
    /// Further lines that support it and were not kept.
    pub more_evidence: u64,
    /// Ways to cure it, best first.
    pub fixes: Vec<Fix>,
    /// What was not seen and would decide it, each with the variable or log that shows it.
    pub missing: Vec<String>,
    /// Ids of findings that this one explains.
    pub explains: Vec<String>,
    /// Who supports it.
    pub witnesses: BTreeSet<Witness>,
    /// Those of them that point at the accused, where not all do; empty if all do.
    pub pointing: BTreeSet<Witness>,
    /// Where in the program the ranks are, by the dumps' stacks: a sentence without its end.
    pub sites: Option<String>,
    /// For ranks that called different things: who called what.
    pub calls: Option<Divergence>,
}

impl Finding {
    /// The witnesses that point at the accused; none if nobody is accused.
    #[must_use]
    pub fn accusers(&self) -> BTreeSet<Witness> {
        match (self.accused.is_empty(), self.pointing.is_empty()) {
            (true, _) => BTreeSet::new(),
            (false, true) => self.witnesses.clone(),
            (false, false) => self.pointing.clone(),
        }
    }

    /// Those of this finding and of another one that says the same.
    #[must_use]
    pub fn accusers_with(&self, other: &Self) -> BTreeSet<Witness> {
        let mut all = self.accusers();
        all.append(&mut other.accusers());
        all
    }
}

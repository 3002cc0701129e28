//! A finding in the making: facts fill the templates of its rule.

use std::collections::{BTreeMap, BTreeSet};

use super::{Scene, undo};
use crate::engine::catalog::template;
use crate::engine::finding::{Evidence, Finding, Fix};
use crate::engine::ids::{RuleIx, SourceId};
use crate::engine::job::Kept;
use crate::engine::limits;
use crate::engine::vocab::{Confidence, Role, Severity};
use crate::engine::witness::Witness;

/// A finding before its texts are filled in.
pub struct Draft<'a> {
    scene: &'a Scene<'a>,
    rule: RuleIx,
    facts: BTreeMap<String, String>,
    count: u64,
    named: Option<String>,
    finding: Finding,
}

impl<'a> Draft<'a> {
    /// Begins a finding of a rule; `None` if the catalog does not have it.
    #[must_use]
    pub fn new(scene: &'a Scene<'a>, id: &str) -> Option<Self> {
        Some(Self::of(scene, scene.catalog.by_id(id)?))
    }

    /// Begins a finding of a rule.
    #[must_use]
    pub fn of(scene: &'a Scene<'a>, rule: RuleIx) -> Self {
        let declared = scene.catalog.rule(rule);
        Self {
            scene,
            rule,
            facts: BTreeMap::new(),
            count: 0,
            named: None,
            finding: Finding {
                rule,
                id: declared.id.clone(),
                name: declared.name.clone(),
                class: declared.class,
                role: declared.role,
                severity: declared.severity,
                effect: declared.effect,
                confidence: declared.confidence,
                title: String::new(),
                explanation: String::new(),
                ranks: BTreeSet::new(),
                hosts: BTreeSet::new(),
                accused: BTreeSet::new(),
                accused_hosts: BTreeSet::new(),
                comm: None,
                phase: declared.phase,
                evidence: Vec::new(),
                more_evidence: 0,
                fixes: Vec::new(),
                missing: Vec::new(),
                explains: Vec::new(),
                witnesses: BTreeSet::from([Witness::Log]),
                pointing: BTreeSet::new(),
                sites: None,
                calls: None,
            },
        }
    }

    /// The finding's own fields.
    pub fn finding(&mut self) -> &mut Finding {
        &mut self.finding
    }

    /// A fact for the templates.
    pub fn fact(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    /// Ranks it is about.
    pub fn ranks(&mut self, ranks: impl IntoIterator<Item = u32>) -> &mut Self {
        self.finding.ranks.extend(ranks);
        self
    }

    /// Ranks it points at.
    pub fn accuse(&mut self, ranks: impl IntoIterator<Item = u32>) -> &mut Self {
        self.finding.accused.extend(ranks);
        self
    }

    /// Ranks that `{ranks}` of its texts means, where they are not the accused ones.
    pub fn named(&mut self, ranks: impl IntoIterator<Item = u32>) -> &mut Self {
        self.named = Some(ranges(ranks));
        self
    }

    /// Words for `{ranks}` of its texts, where nobody knows which ranks of the world they are.
    pub fn named_as(&mut self, words: String) -> &mut Self {
        self.named = Some(words);
        self
    }

    /// Hosts it points at.
    pub fn accuse_hosts(&mut self, hosts: impl IntoIterator<Item = String>) -> &mut Self {
        self.finding.accused_hosts.extend(hosts);
        self
    }

    /// How sure it is.
    pub fn sure(&mut self, confidence: Confidence) -> &mut Self {
        self.finding.confidence = confidence;
        self
    }

    /// Makes it a note: worth knowing, nothing is wrong with it yet.
    pub fn note(&mut self) -> &mut Self {
        self.finding.role = Role::Note;
        self.finding.severity = Severity::Info;
        self
    }

    /// It is the effect of something else.
    pub fn symptom(&mut self) -> &mut Self {
        self.finding.role = Role::Symptom;
        self
    }

    /// What was not seen.
    pub fn missing(&mut self, what: impl Into<String>) -> &mut Self {
        self.finding.missing.push(what.into());
        self
    }

    /// How often it was seen, evidence kept or not.
    pub fn count(&mut self, count: u64) -> &mut Self {
        self.count += count;
        self
    }

    /// A line that supports it.
    pub fn evidence(&mut self, line: &Kept, rank: Option<u32>) -> &mut Self {
        self.finding.evidence.push(cited(line, rank));
        self
    }

    /// The same, with a remark behind its text.
    pub fn evidence_with(&mut self, line: &Kept, remark: &str) -> &mut Self {
        let mut evidence = cited(line, None);
        evidence.text = format!("{} ({remark})", evidence.text.trim_end());
        self.finding.evidence.push(evidence);
        self
    }

    /// An entry of a dump that supports it.
    pub fn entry(&mut self, source: SourceId, record: u32, rank: u32, text: String) -> &mut Self {
        self.finding.evidence.push(Evidence {
            source,
            line: 0,
            offset: 0,
            len: 0,
            entry: Some(u64::from(record)),
            rank: Some(rank),
            text,
        });
        self
    }

    /// Where in the program the ranks are, in a sentence without its end.
    pub fn sites(&mut self, sites: Option<String>) -> &mut Self {
        self.finding.sites = sites;
        self
    }

    /// Builds a finding that rests on dumps.
    #[must_use]
    pub fn finish(mut self) -> Finding {
        self.finding.witnesses = BTreeSet::from([Witness::Dump]);
        // The dumps that the rule asks for are here.
        let mut finding = self.build();
        finding
            .missing
            .retain(|text| !text.contains("TORCH_FR_BUFFER_SIZE"));
        finding
    }

    /// Fills the templates and bounds the evidence.
    #[must_use]
    pub fn build(mut self) -> Finding {
        let finding = &mut self.finding;
        let hosts = finding
            .ranks
            .iter()
            .filter_map(|rank| self.scene.host_of(*rank));
        finding.hosts.extend(hosts.map(str::to_owned));
        // The order in which it was given is the order of its weight; one line may have been given
        // for two ranks.
        let mut seen = BTreeSet::new();
        finding
            .evidence
            .retain(|e| seen.insert((e.source, e.line, e.offset, e.entry)));
        let kept = finding.evidence.len() as u64;
        finding.evidence.truncate(limits::EVIDENCE_PER_FINDING);
        finding.more_evidence = self.count.max(kept) - finding.evidence.len() as u64;
        let about = if finding.accused.is_empty() {
            &finding.ranks
        } else {
            &finding.accused
        };
        let ranks = self
            .named
            .clone()
            .unwrap_or_else(|| ranges(about.iter().copied()));
        let hosts = host_names(&finding.hosts, self.scene.hosts().len());
        let facts = &self.facts;
        let count = self.count.max(kept).to_string();
        let first = about.first().copied();
        let scene = self.scene;
        let one = first
            .filter(|_| about.len() == 1)
            .and_then(|rank| scene.ranks.ranks.get(rank as usize));
        let pid = one.and_then(|rec| rec.pid);
        let there = match one.and_then(|rec| rec.host.as_deref()) {
            Some(host) => format!("on {host}"),
            None if about.len() > 1 => "on their hosts".to_owned(),
            None => "on its host".to_owned(),
        };
        let place = if scene.frameworks.spread() {
            "on every host"
        } else {
            ""
        };
        let lookup = move |name: &str| match name {
            "ranks" => Some(ranks.clone()),
            "hosts" => Some(hosts.clone()),
            "count" => Some(count.clone()),
            _ => facts
                .get(name)
                .cloned()
                .or_else(|| scene.frameworks.fact(name))
                .or_else(|| pid.filter(|_| name == "pid").map(|pid| pid.to_string()))
                .or_else(|| (name == "there").then(|| there.clone()))
                .or_else(|| (name == "where").then(|| place.to_owned()))
                .or_else(|| scene.env_of(first?, name).map(str::to_owned)),
        };
        let rule = scene.catalog.rule(self.rule);
        let fill = |text: &str| template::fill(text.trim(), &lookup);
        finding.title = one_line(&fill(&rule.title));
        finding.explanation = format!(
            "{} {}",
            sentences(&fill(&rule.meaning)),
            sentences(&fill(&rule.why))
        );
        let declared = rule.missing.iter().map(|text| one_line(&fill(text)));
        if finding.confidence < Confidence::Certain {
            finding
                .missing
                .extend(declared.filter(|text| !text.is_empty()));
        }
        let of_it = rule.fixes.iter().filter(|fix| {
            fix.when
                .as_deref()
                .is_none_or(|c| template::holds(c, &lookup))
        });
        finding.fixes = of_it
            .map(|fix| Fix {
                kind: fix.kind,
                text: sentences(&fill(&fix.text)),
                env: fix
                    .env
                    .iter()
                    .map(|(name, value)| (name.clone(), fill(value)))
                    .collect(),
                unset: fix.unset.clone(),
                ranks: Vec::new(),
                cures: fix.cures,
                caution: fix.caution.as_deref().map(|text| sentences(&fill(text))),
                undo: undo::of(scene, &finding.accused, fix)
                    .or_else(|| fix.undo.as_deref().map(|text| one_line(&fill(text)))),
            })
            .collect();
        self.finding
    }
}

/// A line as evidence.
pub(super) fn cited(line: &Kept, rank: Option<u32>) -> Evidence {
    let place = line.place;
    Evidence {
        source: place.source,
        line: place.number,
        offset: place.offset,
        len: place.len,
        entry: None,
        rank,
        text: line.text(),
    }
}

/// Hosts in words: at most three by name.
#[must_use]
pub(super) fn host_names(hosts: &BTreeSet<String>, all: usize) -> String {
    const NAMED: usize = 3;
    let named: Vec<&str> = hosts.iter().take(NAMED).map(String::as_str).collect();
    match hosts.len() {
        n if n > NAMED && n == all => format!("all {n} hosts"),
        n if n > NAMED + 1 => format!("{} and {} more", named.join(", "), n - NAMED),
        _ => hosts
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Joins wrapped lines, and starts sentences with a capital where they begin with a rank.
fn sentences(text: &str) -> String {
    let mut text = one_line(text);
    let starts: Vec<usize> = ["rank ", "ranks ", "host ", "hosts "]
        .iter()
        .flat_map(|noun| {
            text.match_indices(noun)
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        })
        .filter(|at| *at == 0 || text[..*at].ends_with(". "))
        .collect();
    for at in starts {
        let capital = text[at..=at].to_ascii_uppercase();
        text.replace_range(at..=at, &capital);
    }
    text
}

/// `rank 3`, `ranks 0-5, 7`
#[must_use]
pub(super) fn rank_names(ranks: &BTreeSet<u32>) -> String {
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", ranges(ranks.iter().copied()))
}

/// Joins wrapped lines of a rule file.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `0-5, 7, 9-15`
#[must_use]
pub fn ranges(ranks: impl IntoIterator<Item = u32>) -> String {
    let mut out: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match out.last_mut() {
            Some((_, end)) if *end + 1 == rank => *end = rank,
            _ => out.push((rank, rank)),
        }
    }
    let text = |(start, end): &(u32, u32)| match end - start {
        0 => start.to_string(),
        1 => format!("{start}, {end}"),
        _ => format!("{start}-{end}"),
    };
    out.iter().map(text).collect::<Vec<_>>().join(", ")
}

//! A rule file as serde sees it, before anything in it is checked.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use super::{CaptureKind, Status};
use crate::engine::vocab::{Class, Confidence, Effect, FixKind, LineClass, Phase, Role, Severity};

/// One rule file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleFile {
    pub(super) id: Spanned<String>,
    pub(super) name: Spanned<String>,
    pub(super) class: Class,
    pub(super) severity: Severity,
    pub(super) role: Role,
    #[serde(default = "no_effect")]
    pub(super) effect: Effect,
    #[serde(default = "likely")]
    pub(super) confidence: Confidence,
    pub(super) phase: Phase,
    #[serde(default = "yes")]
    pub(super) merge: bool,
    #[serde(default)]
    pub(super) printer_is_victim: bool,
    #[serde(default = "preview")]
    pub(super) status: Status,
    pub(super) title: Spanned<String>,
    pub(super) meaning: Spanned<String>,
    pub(super) why: Spanned<String>,
    #[serde(default)]
    pub(super) fix: Vec<FixFile>,
    #[serde(default)]
    pub(super) missing: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) versions: Vec<String>,
    #[serde(default)]
    pub(super) source: Vec<String>,
    #[serde(default)]
    pub(super) references: Vec<String>,
    #[serde(default, rename = "match")]
    pub(super) matches: OneOrMany<MatchFile>,
    pub(super) detector: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) facts: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) thresholds: BTreeMap<String, f64>,
    #[serde(default)]
    pub(super) hit: Vec<HitFile>,
    #[serde(default)]
    pub(super) miss: Vec<MissFile>,
}

/// `[[fix]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FixFile {
    pub(super) kind: FixKind,
    pub(super) text: Spanned<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub(super) unset: Vec<Spanned<String>>,
    pub(super) cures: bool,
    pub(super) when: Option<Spanned<String>>,
    pub(super) caution: Option<Spanned<String>>,
    pub(super) undo: Option<Spanned<String>>,
}

/// `[match]`, or one of several `[[match]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MatchFile {
    pub(super) class: Spanned<Vec<LineClass>>,
    pub(super) regex: Spanned<String>,
    pub(super) gate: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) captures: BTreeMap<Spanned<String>, CaptureKind>,
}

/// `[[hit]]`: a message that must match, and what must be captured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HitFile {
    pub(super) message: Spanned<String>,
    #[serde(default)]
    pub(super) captures: BTreeMap<String, String>,
}

/// `[[miss]]`: a message that must not match.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MissFile {
    pub(super) message: Spanned<String>,
}

/// A table, or an array of tables.
pub(super) struct OneOrMany<T>(pub(super) Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(TableOrArray(PhantomData)).map(Self)
    }
}

struct TableOrArray<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TableOrArray<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table or an array of tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|one| vec![one])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = seq.next_element()? {
            all.push(one);
        }
        Ok(all)
    }
}

fn no_effect() -> Effect {
    Effect::None
}

fn likely() -> Confidence {
    Confidence::Likely
}

fn preview() -> Status {
    Status::Preview
}

fn yes() -> bool {
    true
}

//! What is wrong with a host, from its facts alone, each with its fix.
//!
//! Called wrong is only what will fail or make a job wait whatever the job does; what depends on the job is
//! a note. A false alarm is worse than silence.

pub mod expect;
mod gpus;
mod libraries;
mod limits;
mod live;
mod network;
mod rdma;
mod settings;

use std::borrow::Cow;

use serde::Serialize;

use super::facts::Facts;
use crate::engine::catalog::Catalog;
use crate::engine::vocab::FixKind;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// It will fail, or make a job wait.
    Wrong,
    /// Worth knowing: it depends on the job.
    Note,
    /// It could not be looked at.
    CannotTell,
}

/// Something about the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// How bad.
    pub level: Level,
    /// Its name, which never changes.
    pub name: Cow<'static, str>,
    /// What it is, one line.
    pub title: String,
    /// Why it matters.
    pub why: String,
    /// What to do.
    pub fixes: Vec<Cure>,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cure {
    /// What has to be changed.
    pub kind: FixKind,
    /// What to do.
    pub text: String,
}

impl Trouble {
    fn new(level: Level, name: impl Into<Cow<'static, str>>, title: impl Into<String>) -> Self {
        Self {
            level,
            name: name.into(),
            title: title.into(),
            why: String::new(),
            fixes: Vec::new(),
        }
    }

    fn wrong(name: &'static str, title: impl Into<String>) -> Self {
        Self::new(Level::Wrong, name, title)
    }

    fn note(name: &'static str, title: impl Into<String>) -> Self {
        Self::new(Level::Note, name, title)
    }

    fn cannot_tell(name: &'static str, title: impl Into<String>) -> Self {
        Self::new(Level::CannotTell, name, title)
    }

    fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    fn fix(mut self, kind: FixKind, text: impl Into<String>) -> Self {
        self.fixes.push(Cure {
            kind,
            text: text.into(),
        });
        self
    }
}

/// Everything that is to be said, the worst first. `catalog` has the rules that judge what NVML says beside
/// a job.
#[must_use]
pub fn diagnose(facts: &Facts, catalog: &Catalog) -> Vec<Trouble> {
    let mut found = Vec::new();
    gpus::check(facts, &mut found);
    live::check(facts, catalog, &mut found);
    libraries::check(facts, &mut found);
    network::check(facts, &mut found);
    rdma::check(facts, &mut found);
    limits::check(facts, &mut found);
    settings::check(facts, &mut found);
    for part in &facts.late {
        found.push(
            Trouble::cannot_tell("late", format!("{part}: no answer within its deadline"))
                .why("a file system or a driver does not answer; the rest is told all the same"),
        );
    }
    // Stable: within a level the order above holds.
    found.sort_by_key(|trouble| trouble.level);
    found
}

/// `mlx5_0, mlx5_1 and 6 more`
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 4;
    if names.len() <= SHOWN + 1 {
        return names.join(", ");
    }
    format!(
        "{} and {} more",
        names[..SHOWN].join(", "),
        names.len() - SHOWN
    )
}

/// `is` or `are`.
fn is(n: usize) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

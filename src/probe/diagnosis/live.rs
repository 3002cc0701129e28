//! GPUs and links as the driver's library shows them now, judged by the catalog's rules.

use super::{Cure, Level, Trouble};
use crate::engine::catalog::Catalog;
use crate::engine::input::Input;
use crate::engine::vocab::Severity;
use crate::engine::{Engine, Options};
use crate::probe::facts::Facts;

pub(super) fn check(facts: &Facts, catalog: &Catalog, found: &mut Vec<Trouble>) {
    let Some(sample) = &facts.nvml else {
        return;
    };
    let mut engine = Engine::new(catalog.clone(), Options::default());
    let host = facts.hostname.clone();
    engine.handle(
        None,
        Input::Gpu {
            host: host.unwrap_or_else(|| "this host".to_owned()),
            sample: Box::new(sample.clone()),
        },
    );
    for finding in &engine.snapshot().findings {
        // The rule's own word: without a job that stands still a finding is a note.
        let level = match catalog.rule(finding.rule).severity {
            Severity::Error => Level::Wrong,
            Severity::Warning | Severity::Info => Level::Note,
        };
        let mut trouble = Trouble::new(level, finding.name.clone(), finding.title.clone())
            .why(finding.explanation.clone());
        trouble.fixes.extend(finding.fixes.iter().map(|fix| Cure {
            kind: fix.kind,
            text: fix.text.clone(),
        }));
        found.push(trouble);
    }
}

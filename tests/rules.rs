//! The rule catalog against itself: hits, misses, prose, and every healthy recorded job.

use std::fmt::Write as _;

use unhang::engine::catalog::{Case, Catalog};
use unhang::engine::ids::RuleIx;

#[test]
fn every_rule_finds_its_hits_and_leaves_its_misses() {
    let (catalog, errors) = Catalog::load(unhang::engine::catalog::BUILTIN_FILES);
    let mut report = String::new();
    for error in &errors {
        writeln!(report, "{error}\n").expect("a string");
    }
    for (n, rule) in catalog.rules().iter().enumerate() {
        for (case, outcome) in catalog.verify(RuleIx::from_ix(n)) {
            if !outcome.is_right() {
                let text = match case {
                    Case::Hit(n) => &rule.hits[n].message,
                    Case::Miss(n) => &rule.misses[n],
                };
                writeln!(report, "{}: {outcome:?}: {text}", rule.id).expect("a string");
            }
        }
    }
    assert!(report.is_empty(), "{report}");
}

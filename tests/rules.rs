//! The rule catalog against itself: hits, misses, prose, and every healthy recorded job.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use regex::bytes::Regex;
use unhang::engine::catalog::template::example;
use unhang::engine::catalog::{BUILTIN_FILES, Case, Catalog, Hit};
use unhang::engine::ids::RuleIx;
use unhang::engine::vocab::{Class, FixKind, LineClass, Role};

#[test]
fn every_rule_finds_its_hits_and_leaves_its_misses() {
    let (catalog, errors) = Catalog::load(BUILTIN_FILES);
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

#[test]
fn the_matcher_of_each_class_finds_every_hit_and_no_miss() {
    let catalog = Catalog::builtin();
    let mut found = Vec::new();
    for (n, rule) in catalog.rules().iter().enumerate() {
        let ix = RuleIx::from_ix(n);
        for case in &rule.hits {
            found.clear();
            for &class in &rule.classes {
                catalog.matches(class, case.message.as_bytes(), &mut found);
            }
            let hit = found.iter().find(|h| h.rule == ix);
            assert!(hit.is_some(), "{} misses {}", rule.id, case.message);
        }
        for message in &rule.misses {
            found.clear();
            for &class in LineClass::ALL {
                catalog.matches(class, message.as_bytes(), &mut found);
            }
            assert!(
                found.iter().all(|h| h.rule != ix),
                "{} matches {message}",
                rule.id
            );
        }
    }
}

#[test]
fn every_rule_says_what_a_person_needs() {
    let catalog = Catalog::builtin();
    let mut faults = String::new();
    for rule in catalog.rules() {
        let mut fault = |text: &str| writeln!(faults, "{}: {text}", rule.id).expect("a string");
        if !rule
            .path
            .ends_with(&format!("/{}-{}.toml", rule.id, rule.name))
        {
            fault("the file is not named after id and name");
        }
        if !rule.classes.is_empty() && (rule.hits.len() < 2 || rule.misses.len() < 2) {
            fault("fewer than two hits or two near-misses");
        }
        if rule.role == Role::Cause && rule.fixes.is_empty() {
            fault("a cause without a fix");
        }
        if rule.versions.is_empty() {
            fault("no versions");
        }
        if !rule.classes.is_empty() && rule.sources.is_empty() {
            fault("no source of its lines");
        }
        if rule.title.contains('\n') || rule.title.ends_with('.') {
            fault("the title is not one line without a full stop");
        }
        for text in [&rule.meaning, &rule.why]
            .into_iter()
            .chain(rule.fixes.iter().map(|f| &f.text))
        {
            if !example(text).trim_end().ends_with(['.', '?']) {
                fault(&format!("not a sentence: {text}"));
            }
        }
        for fix in &rule.fixes {
            let hides = ["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"];
            if fix.cures && hides.iter().any(|v| fix.env.contains_key(*v)) {
                fault("what switches a transport off is never a cure");
            }
            if fix.kind != FixKind::Env && !fix.env.is_empty() {
                fault("a fix with variables is of kind env");
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn an_id_is_never_given_away_twice() {
    let catalog = Catalog::builtin();
    let ids: BTreeSet<&str> = catalog.rules().iter().map(|r| r.id.as_str()).collect();
    let names: BTreeSet<&str> = catalog.rules().iter().map(|r| r.name.as_str()).collect();
    assert_eq!(ids.len(), catalog.rules().len());
    assert_eq!(names.len(), catalog.rules().len());
    assert_eq!(ids.len(), BUILTIN_FILES.len());
}

#[test]
fn the_documentation_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rules.md");
    let page = unhang::cli::rules::markdown::page(&Catalog::builtin());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).expect("docs/ can be written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/rules.md is stale: UPDATE_DOCS=1 cargo test --test rules"
    );
}

/// Every line of every healthy job, seen as every class of line: only a symptom may match, since a
/// symptom alone is no verdict.
#[test]
fn every_rule_is_silent_on_healthy_jobs() {
    let catalog = Catalog::builtin();
    let mut noise = BTreeSet::new();
    let mut lines = 0usize;
    for log in logs(&fixtures().join("healthy")) {
        for_each_hit(&catalog, &log, &mut lines, &mut |hit, line| {
            let rule = catalog.rule(hit.rule);
            noise.insert(format!("{} in {}: {line}", rule.id, log.display()));
        });
    }
    assert!(lines > 1_000, "no healthy jobs below fixtures/healthy");
    assert!(noise.is_empty(), "{noise:#?}");
}

/// The causes that lines alone decide: each recorded job whose truth a line rule tells has a hit of
/// its class, and what a line rule calls certain is never of another class.
#[test]
fn a_certain_line_never_contradicts_a_recorded_job() {
    let catalog = Catalog::builtin();
    let mut wrong = BTreeSet::new();
    let mut jobs = 0;
    for case in folders(&fixtures().join("cases")) {
        let truth = fs::read_to_string(case.join("truth.json")).expect("a truth beside the logs");
        let truth: serde_json::Value = serde_json::from_str(&truth).expect("truth is JSON");
        let class = |v: &serde_json::Value| Class::from_name(v.as_str().expect("a class"));
        let mut right: BTreeSet<Option<Class>> = BTreeSet::from([class(&truth["class"])]);
        right.extend(
            truth["also_right"]
                .as_array()
                .into_iter()
                .flatten()
                .map(class),
        );
        jobs += 1;
        for log in logs(&case) {
            for_each_hit(&catalog, &log, &mut 0, &mut |hit, line| {
                let rule = catalog.rule(hit.rule);
                let decides = rule.role == Role::Cause
                    && rule.confidence == unhang::engine::vocab::Confidence::Certain;
                if decides && !right.contains(&Some(rule.class)) {
                    wrong.insert(format!("{} in {}: {line}", rule.id, log.display()));
                }
            });
        }
    }
    assert!(jobs > 50, "no recorded jobs below fixtures/cases");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Calls `each` for every hit of every line of a log, whatever class the line would be.
fn for_each_hit(
    catalog: &Catalog,
    log: &Path,
    lines: &mut usize,
    each: &mut dyn FnMut(&Hit, String),
) {
    // What stands in front of a message; the demultiplexer's job, in short.
    let head = Regex::new(r"^.*?(?:NCCL (?:INFO|WARN) |[A-Za-z]+\.(?:cpp|hpp|py):\d+\] )")
        .expect("a regex");
    let bytes = fs::read(log).expect("a readable log");
    let mut hits = Vec::new();
    for line in bytes.split(|b| *b == b'\n') {
        *lines += 1;
        let message = head.find(line).map_or(line, |m| &line[m.end()..]);
        hits.clear();
        for &class in LineClass::ALL {
            catalog.matches(class, message, &mut hits);
            catalog.matches(class, line, &mut hits);
        }
        for hit in &hits {
            each(hit, String::from_utf8_lossy(line).into_owned());
        }
    }
}

fn fixtures() -> PathBuf {
    std::env::var_os("UNHANG_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"),
        PathBuf::from,
    )
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten();
    let mut all: Vec<PathBuf> = entries
        .map(|e| e.expect("a readable entry").path())
        .filter(|p| p.is_dir())
        .collect();
    all.sort();
    all
}

/// Every log below a folder.
fn logs(root: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten() {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            all.extend(logs(&path));
        } else if path.extension().is_some_and(|e| e == "log") {
            all.push(path);
        }
    }
    all.sort();
    all
}

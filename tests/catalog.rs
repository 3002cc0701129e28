//! The breadth of the catalog: every WARN of NCCL's sources is explained by a rule of a fitting class, or known by
//! name with the reason why there is nothing to advise.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use regex::Regex;
use unhang::engine::catalog::Catalog;
use unhang::engine::vocab::{Class, LineClass};

/// What stands in a format's holes in real logs, by the words in front of the hole.
const IN_CONTEXT: &[(&str, &str)] = &[
    ("%s:%d async", "mlx5_0:1 async"),
    ("%s:%d Got", "mlx5_0:1 Got"),
    ("Call to %s %s", "Call to recv from 10.20.0.3<41231>"),
    ("to recv from %s", "to recv from 10.20.0.3<41231>"),
    ("extend %s", "extend /dev/shm/nccl-abcdef"),
    ("segment %s", "segment /dev/shm/nccl-abcdef"),
    ("memory %s failed", "memory /dev/shm/nccl-abcdef failed"),
    ("file %s, error", "file /dev/shm/nccl-abcdef, error"),
    ("map %s", "map /dev/shm/nccl-abcdef"),
    ("peer %s", "peer 10.20.0.3<41231>"),
    ("onnect to %s", "onnect to 10.20.0.3<41231>"),
    ("hca %s", "hca mlx5_0"),
    ("(%s)%s%s%s%s", "(Recv)"),
    ("%s%s%s%s", ""),
];

/// What the other holes for text may hold.
const TEXTS: &[&str] = &[
    "Connection refused",
    "Connection reset by peer",
    "Too many open files",
    "Resource temporarily unavailable",
    "Cannot allocate memory",
    "No space left on device",
    "Bad address",
    "Invalid argument",
    "system not yet initialized",
    "port error",
    "local catastrophic error",
    "attaching to",
    "recv",
    "2.30.4",
    "mlx5_0",
    "Permission denied",
    "Driver/library version mismatch",
];

/// Functions whose failure NCCL reports by name.
const CALLS: &[&str] = &[
    "ibv_reg_mr",
    "ibv_create_qp",
    "pthread_create",
    "pipe",
    "recv",
];

/// What the holes for numbers may hold.
const NUMBERS: &[&str] = &["3", "12"];

/// A row of `causes.tsv`.
struct Row<'a> {
    cause: &'a str,
    contains: &'a str,
    verdict: &'a str,
}

#[test]
fn every_warning_of_nccl_is_explained_or_known() {
    let catalog = Catalog::builtin();
    let table = read("causes.tsv");
    let formats = read("nccl-warns.tsv");
    let rows: Vec<Row<'_>> = rows(&table);
    let hole = Regex::new(r"%(?:%|-?\d*(?:\.\d+)?(?:ll|l|z|h)?[sdupxXcmi])").expect("a regex");
    let mut used = BTreeSet::new();
    let mut faults = String::new();
    let (mut explained, mut known) = (0, 0);
    for line in formats.lines().filter(|l| !l.starts_with('#')) {
        let mut fields = line.splitn(3, '\t');
        let (Some(cause), Some(_), Some(format)) = (fields.next(), fields.next(), fields.next())
        else {
            panic!("three fields: {line}");
        };
        let fits = |r: &Row<'_>| r.cause == cause && format.contains(r.contains);
        let Some(at) = rows.iter().position(fits) else {
            writeln!(faults, "unknown: {cause}: {format}").expect("a string");
            continue;
        };
        used.insert(at);
        if rows[at].verdict == "known" {
            known += 1;
            continue;
        }
        explained += 1;
        let wanted: BTreeSet<Class> = rows[at].verdict.split(',').map(class).collect();
        let mut hits = Vec::new();
        for message in messages(&hole, format) {
            catalog.matches(LineClass::NcclWarn, message.as_bytes(), &mut hits);
        }
        let found: BTreeSet<Class> = hits.iter().map(|h| catalog.rule(h.rule).class).collect();
        if wanted.is_disjoint(&found) {
            writeln!(faults, "no {wanted:?} rule: {cause}: {format}").expect("a string");
        }
    }
    for (at, row) in rows.iter().enumerate().filter(|(at, _)| !used.contains(at)) {
        writeln!(
            faults,
            "row {at} fits nothing: {} {}",
            row.cause, row.contains
        )
        .expect("a string");
    }
    assert!(faults.is_empty(), "{faults}");
    assert!(
        explained > 300 && known > 300,
        "{explained} explained, {known} known"
    );
}

/// The table of causes, each row checked.
fn rows(table: &str) -> Vec<Row<'_>> {
    let mut all = Vec::new();
    for line in table.lines().filter(|l| !l.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let row = Row {
            cause: fields[0],
            contains: fields[1],
            verdict: fields[2],
        };
        let reason = fields.get(3).is_some_and(|reason| !reason.is_empty());
        assert_eq!(
            row.verdict == "known",
            reason,
            "a reason, where there is no advice: {line}"
        );
        all.push(row);
    }
    all
}

fn class(name: &str) -> Class {
    Class::from_name(name).unwrap_or_else(|| panic!("no class {name}"))
}

/// The format with plausible values in its holes, in every combination.
fn messages(hole: &Regex, format: &str) -> Vec<String> {
    let mut format = format.replace("\\n", "\n").replace("\\\"", "\"");
    for (context, value) in IN_CONTEXT {
        format = format.replace(context, value);
    }
    let calls = if format.contains("{name}") {
        CALLS
    } else {
        &[""]
    };
    let mut all = Vec::new();
    for call in calls {
        let named = format.replace("{name}", call);
        for text in TEXTS {
            for number in NUMBERS {
                let fill = |hole: &regex::Captures<'_>| match hole[0].chars().last() {
                    Some('%') => "%",
                    Some('s' | 'm') => text,
                    Some('p') => "0x7f2c00001000",
                    Some('x' | 'X') => "1f",
                    Some('c') => "c",
                    _ => number,
                };
                all.push(hole.replace_all(named.trim_end(), fill).into_owned());
            }
        }
    }
    all
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/warns")
        .join(name);
    fs::read_to_string(path).expect("a readable table")
}

#[test]
fn the_coverage_page_names_rules_that_exist() {
    let catalog = Catalog::builtin();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/coverage.md");
    let page = fs::read_to_string(path).expect("a readable page");
    let id = Regex::new(r"\b[A-Z][A-Z0-9]*[A-Z]\d{3}\b|\bP2P\d{3}\b").expect("a regex");
    let rows: Vec<&str> = page
        .lines()
        .filter(|l| l.starts_with("| "))
        .skip(2)
        .collect();
    assert!(rows.len() > 20, "{} rows", rows.len());
    for row in rows {
        let mut named = 0;
        for found in id.find_iter(row) {
            assert!(
                catalog.by_id(found.as_str()).is_some(),
                "{} in {row}",
                found.as_str()
            );
            named += 1;
        }
        let reason = [
            "logs do not hold",
            "logs hold no",
            "not a rule",
            "inconclusive",
        ];
        let explained = reason.iter().any(|words| row.contains(words));
        assert!(named > 0 || explained, "neither a rule nor a reason: {row}");
    }
}

#[test]
fn every_class_of_cause_has_a_rule() {
    let catalog = Catalog::builtin();
    let mut classes: BTreeSet<Class> = catalog.rules().iter().map(|r| r.class).collect();
    // Not a cause.
    classes.insert(Class::Healthy);
    let missing: Vec<&Class> = Class::ALL.iter().filter(|c| !classes.contains(c)).collect();
    assert!(missing.is_empty(), "no rule of {missing:?}");
}

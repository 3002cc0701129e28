//! The rules of the house: what `ARCHITECTURE.md` calls invariants and no compiler checks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex::Regex;
use unhang::engine::catalog::Catalog;

/// Layers from the bottom: a file may name its own layer and lower ones.
const LAYERS: [&[&str]; 5] = [
    &["engine"],
    &["sources", "probe", "selftest", "error", "exit"],
    &["app"],
    &["views"],
    &["cli"],
];

/// What would make the engine depend on more than its inputs.
const IMPURE: [&str; 13] = [
    "std::fs",
    "std::env",
    "std::net",
    "std::io::std",
    "std::process",
    "std::thread",
    "std::sync::mpsc",
    "time::Instant",
    "time::SystemTime",
    "tokio::",
    "nix::",
    "notify::",
    "crossterm::",
];

/// Lines of a source file: 100 to 250 are normal, more than this is refused.
const MAX_LINES: usize = 800;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Files below the given folders of the project, with their path relative to it, sorted.
fn files(folders: &[&str]) -> Vec<(String, PathBuf)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(folder) else {
            return;
        };
        for entry in entries {
            let path = entry.expect("a listed entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    for folder in folders {
        walk(&root().join(folder), &mut found);
    }
    found.sort();
    let name = |path: &Path| {
        path.strip_prefix(root())
            .expect("below the root")
            .to_string_lossy()
            .into_owned()
    };
    found.into_iter().map(|path| (name(&path), path)).collect()
}

fn rust_files(folders: &[&str]) -> Vec<(String, String)> {
    let all = files(folders)
        .into_iter()
        .filter(|(name, _)| name.ends_with(".rs"));
    all.map(|(name, path)| (name, read(&path))).collect()
}

fn refuse(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// The layer of a top-level module, from 0.
fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

#[test]
fn lower_layers_do_not_import_upper_ones() {
    let path = Regex::new(r"\b(?:crate|unhang|((?:super::)*super))::(\{[^}]*\}|\w+)")
        .expect("a valid pattern");
    let word = Regex::new(r"(?:^\{|,)\s*(\w+)").expect("a valid pattern");
    let (mut problems, mut checked) = (Vec::new(), 0);
    for (name, text) in rust_files(&["src"]) {
        let modules: Vec<&str> = name
            .trim_start_matches("src/")
            .trim_end_matches(".rs")
            .split('/')
            .collect();
        let Some(own) = layer_of(modules[0]) else {
            continue;
        };
        for found in path.captures_iter(&without_comments(&text)) {
            // `super` reaches the crate's root only from as deep as the file lies.
            if found
                .get(1)
                .is_some_and(|supers| supers.as_str().matches("super").count() != modules.len())
            {
                continue;
            }
            let target = &found[2];
            let targets: Vec<&str> = if target.starts_with('{') {
                word.captures_iter(target)
                    .map(|found| found.get(1).expect("group 1").as_str())
                    .collect()
            } else {
                vec![target]
            };
            for target in targets {
                checked += 1;
                if layer_of(target).is_some_and(|layer| layer > own) {
                    problems.push(format!(
                        "{name} is of layer {} and names {target}",
                        modules[0]
                    ));
                }
            }
        }
    }
    assert!(checked > 20, "only {checked} paths were looked at");
    refuse(&problems);
}

#[test]
fn the_engine_touches_nothing_outside_itself() {
    let mut problems = Vec::new();
    for (name, text) in rust_files(&["src"])
        .into_iter()
        .filter(|(name, _)| name.starts_with("src/engine"))
    {
        let text = without_comments(&text);
        for word in IMPURE.iter().filter(|word| text.contains(**word)) {
            problems.push(format!("{name} names {word}"));
        }
    }
    refuse(&problems);
    let lib = read(&root().join("src/lib.rs"));
    let denied = lib
        .split("pub mod engine;")
        .next()
        .expect("text in front of it");
    for lint in ["clippy::disallowed_methods", "clippy::disallowed_types"] {
        assert!(
            denied.contains(lint),
            "src/lib.rs no longer denies {lint} on the engine"
        );
    }
}

/// The code without `//` comments, in which a word may stand.
fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let mut problems = Vec::new();
    for (name, text) in rust_files(&["src", "tests", "benches", "examples"]) {
        let lines = text.lines().count();
        if lines > MAX_LINES {
            problems.push(format!(
                "{name} has {lines} lines, {MAX_LINES} are allowed: split it"
            ));
        }
        if !text.starts_with("//!") {
            problems.push(format!("{name} does not start with its purpose (//!)"));
        }
        if name.ends_with("/mod.rs") {
            problems.push(format!("{name}: a module's file is named after it"));
        }
    }
    refuse(&problems);
}

#[test]
fn every_rule_is_proven_by_hits_and_misses() {
    let catalog = Catalog::builtin();
    let mut problems = Vec::new();
    for rule in catalog.rules() {
        if rule.detector.is_none() && rule.hits.is_empty() {
            problems.push(format!("{} has no hit", rule.path));
        }
        if rule.detector.is_none() && rule.misses.is_empty() {
            problems.push(format!("{} has no near miss", rule.path));
        }
        let place = format!("{}-{}.toml", rule.id, rule.name);
        if !rule.path.ends_with(&place) {
            problems.push(format!("{} should be named {place}", rule.path));
        }
    }
    let declared = files(&["rules"])
        .iter()
        .filter(|(name, _)| name.ends_with(".toml"))
        .count();
    assert_eq!(
        catalog.rules().len(),
        declared,
        "rules loaded, files below rules/"
    );
    refuse(&problems);
}

#[test]
fn the_project_speaks_of_itself_alone() {
    // Written in two parts so that this file does not contain them.
    let foreign: Vec<String> = [
        ("/wo", "rk/"),
        ("/ro", "ot/"),
        ("shared/", "captures"),
        ("DESIGN", ".md"),
        ("STYLE", ".md"),
        ("log-refer", "ence.md"),
        ("issues ", "show"),
        ("work", "tree"),
    ]
    .iter()
    .map(|(a, b)| format!("{a}{b}"))
    .collect();
    let mut problems = Vec::new();
    let folders = [
        "src",
        "tests",
        "benches",
        "examples",
        "rules",
        "docs",
        ".ci",
        "fixtures/lines",
    ];
    let mut texts = files(&folders);
    for entry in fs::read_dir(root()).expect("the project's folder") {
        let path = entry.expect("a listed entry").path();
        if path.is_file()
            && path
                .extension()
                .is_some_and(|e| e == "md" || e == "toml" || e == "rs")
        {
            texts.push((
                path.file_name()
                    .expect("a file")
                    .to_string_lossy()
                    .into_owned(),
                path,
            ));
        }
    }
    for (name, path) in texts {
        let text = String::from_utf8_lossy(&fs::read(&path).expect("a readable file")).into_owned();
        for word in foreign.iter().filter(|word| text.contains(word.as_str())) {
            problems.push(format!("{name} contains {word:?}"));
        }
    }
    refuse(&problems);
}

/// Commands in the fenced blocks of a page.
fn commands(page: &str) -> Vec<String> {
    let (mut inside, mut found) = (false, Vec::new());
    for line in read(&root().join(page)).lines() {
        if line.starts_with("```") {
            inside = !inside && (line == "```" || line == "```sh" || line == "```console");
        } else if inside {
            found.push(line.trim_start_matches("$ ").to_owned());
        }
    }
    found
}

#[test]
fn the_commands_of_the_readme_exist() {
    let found = commands("README.md");
    let set_up: Vec<&String> = found
        .iter()
        .filter(|line| line.starts_with("cargo "))
        .collect();
    assert_eq!(
        set_up[0], "cargo run --release -- demo",
        "the README's first command"
    );
    assert_eq!(set_up[1], "cargo test", "the README's second command");
    let subcommands: BTreeSet<&str> = found
        .iter()
        .filter_map(|line| {
            line.split("unhang ")
                .nth(1)
                .filter(|_| line.contains("unhang "))
        })
        .filter_map(|rest| rest.split_whitespace().next())
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()))
        .collect();
    assert!(subcommands.len() >= 4, "only {subcommands:?} in the README");
    for subcommand in subcommands {
        let status = Command::new(env!("CARGO_BIN_EXE_unhang"))
            .args([subcommand, "--help"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .expect("the binary starts");
        assert!(status.success(), "unhang {subcommand} --help: {status}");
    }
}

#[test]
fn every_invariant_of_the_architecture_is_held_by_a_test() {
    let page = read(&root().join("ARCHITECTURE.md"));
    let invariants = page.matches("**Architecture Invariant:**").count();
    assert!(invariants >= 8, "only {invariants} invariants");
    let held = Regex::new(r"Held by `(tests/\w+\.rs)`: `(\w+)`").expect("a valid pattern");
    let mut problems = Vec::new();
    for paragraph in page
        .split("\n\n")
        .filter(|text| text.contains("**Architecture Invariant:**"))
    {
        let Some(found) = held
            .captures(&paragraph.replace('\n', " "))
            .map(|found| (found[1].to_owned(), found[2].to_owned()))
        else {
            problems.push(format!("no test is named: {paragraph}"));
            continue;
        };
        let test = fs::read_to_string(root().join(&found.0)).unwrap_or_default();
        if !test.contains(&format!("fn {}()", found.1)) {
            problems.push(format!("{} has no test {}", found.0, found.1));
        }
    }
    refuse(&problems);
}

#[test]
fn pictures_and_pages_that_are_linked_exist() {
    let link = Regex::new(r"\]\(([^)#]+)").expect("a valid pattern");
    let mut problems = Vec::new();
    for page in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/performance.md",
    ] {
        let folder = root().join(page);
        let folder = folder.parent().expect("a page lies in a folder");
        for found in link.captures_iter(&read(&root().join(page))) {
            if !found[1].contains("://") && !folder.join(&found[1]).exists() {
                problems.push(format!("{page} links to {}, which is not there", &found[1]));
            }
        }
    }
    refuse(&problems);
}

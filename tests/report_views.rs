//! Reports and JSON: what people read is snapshot-tested, what programs read is checked against its
//! description, and neither passes on what a log wants a terminal to do.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use serde_json::Value;
use unhang::engine::snapshot::Snapshot;
use unhang::views::report::{ReportOptions, markdown, markdown_with, reminder, text};
use unhang::views::{escape, json};

#[path = "support/gpus.rs"]
mod gpus;
#[path = "support/samples.rs"]
mod samples;

fn sample(name: &str) -> Snapshot {
    samples::all()
        .into_iter()
        .find(|(n, _)| *n == name)
        .unwrap()
        .1
}

const SHOWN: &[&str] = &[
    "wrong_interface",
    "skipped_collective",
    "healthy",
    "waiting",
    "degraded",
    "thousand",
    "hostile",
    "empty",
];

#[test]
fn text_reports_look_like_this() {
    for name in SHOWN {
        insta::assert_snapshot!(
            format!("text_{name}"),
            text(&sample(name), &ReportOptions::default())
        );
    }
}

#[test]
fn verbose_ascii_and_coloured_reports_look_like_this() {
    let snapshot = sample("wrong_interface");
    let with = |change: fn(&mut ReportOptions)| {
        let mut options = ReportOptions::default();
        change(&mut options);
        text(&snapshot, &options)
    };
    insta::assert_snapshot!("text_verbose", with(|o| o.verbose = true));
    insta::assert_snapshot!("text_ascii", with(|o| o.ascii = true));
    insta::assert_snapshot!("text_color", with(|o| o.color = true).replace('\x1b', "␛"));
    insta::assert_snapshot!("text_wide", with(|o| o.width = 120));
}

#[test]
fn reminders_look_like_this() {
    let mut lines = String::new();
    for name in SHOWN {
        let line = reminder(&sample(name), &ReportOptions::default());
        assert!(
            line.ends_with('\n') && escape::width(line.trim_end()) <= 80,
            "{line}"
        );
        lines.push_str(&line);
    }
    insta::assert_snapshot!(lines);
}

#[test]
fn markdown_reports_look_like_this() {
    for name in [
        "wrong_interface",
        "skipped_collective",
        "healthy",
        "hostile",
    ] {
        insta::assert_snapshot!(format!("markdown_{name}"), markdown(&sample(name)));
    }
}

#[test]
fn json_looks_like_this() {
    insta::assert_snapshot!(
        "json_skipped_collective",
        json::to_string(&sample("skipped_collective"), false)
    );
}

#[test]
fn a_report_fits_a_screen() {
    for (name, snapshot) in samples::all() {
        for width in [40, 80, 120] {
            let shown = text(
                &snapshot,
                &ReportOptions {
                    width,
                    ..ReportOptions::default()
                },
            );
            for line in shown
                .lines()
                .filter(|l| !l.trim_start().starts_with("export "))
            {
                assert!(escape::width(line) <= width, "{name}: {line}");
            }
            assert!(
                width < 80 || shown.lines().count() <= 50,
                "{name} has {} lines",
                shown.lines().count()
            );
        }
    }
    assert_eq!(
        text(&sample("healthy"), &ReportOptions::default())
            .lines()
            .count(),
        2
    );
}

#[test]
fn nothing_a_log_says_reaches_the_terminal() {
    for (name, snapshot) in samples::all() {
        let mut pages = vec![markdown(&snapshot), json::to_string(&snapshot, false)];
        for (color, ascii, verbose) in (0..8).map(|n| (n & 1 > 0, n & 2 > 0, n & 4 > 0)) {
            let options = ReportOptions {
                width: 80,
                color,
                ascii,
                verbose,
            };
            let page = text(&snapshot, &options);
            assert!(!ascii || page.is_ascii(), "{name}");
            let marked = markdown_with(&snapshot, &options);
            assert!(!ascii || marked.is_ascii(), "{name}");
            pages.push(marked);
            pages.push(if color {
                without_own_colours(&page)
            } else {
                page
            });
        }
        for page in pages {
            for line in page.lines() {
                assert_eq!(
                    line,
                    escape::harmless(line, escape::Glyphs::Unicode),
                    "{name}"
                );
            }
        }
    }
}

/// Takes off the sequences that the report itself uses, and no others.
fn without_own_colours(page: &str) -> String {
    let mut out = page.to_owned();
    for sgr in [
        "0", "1", "2", "36", "1;31", "1;7", "1;7;31", "1;7;32", "1;7;33",
    ] {
        out = out.replace(&format!("\x1b[{sgr}m"), "");
    }
    out
}

#[test]
fn markdown_has_no_markup_from_a_log() {
    let page = markdown(&sample("hostile"));
    let mut fence: Option<String> = None;
    for line in page.lines() {
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if *open == line => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => {
                for markup in ["<script", "[x](", "@someone"] {
                    assert!(!line.contains(markup), "{line}");
                }
                let own_heading = ["## HUNG", "### "].iter().any(|h| line.starts_with(h));
                assert!(!line.starts_with('#') || own_heading, "{line}");
            }
        }
    }
    assert_eq!(fence, None, "every code block is closed by its own fence");
}

#[test]
fn json_is_as_documented() {
    let documented: Vec<(String, String)> = include_str!("../docs/json.md")
        .lines()
        .filter(|l| l.starts_with("| `"))
        .map(|l| {
            let cells: Vec<&str> = l.split(" | ").collect();
            (
                cells[0].trim_matches(['|', ' ', '`']).to_owned(),
                cells[1].to_owned(),
            )
        })
        .collect();
    let mut seen = BTreeSet::new();
    let watched = gpus::beside_ranks(sample("healthy"));
    for (name, snapshot) in samples::all().into_iter().chain([("gpus", watched)]) {
        for full in [false, true] {
            let shown = json::to_string(&snapshot, full);
            assert!(shown.ends_with("}\n"));
            let value: Value = serde_json::from_str(&shown).unwrap();
            check(name, "", &value, &documented, &mut seen);
        }
    }
    for (field, _) in &documented {
        assert!(
            seen.contains(field),
            "{field} is documented and never printed"
        );
    }
}

fn check(
    name: &str,
    path: &str,
    value: &Value,
    documented: &[(String, String)],
    seen: &mut BTreeSet<String>,
) {
    if !path.is_empty() {
        seen.insert(path.to_owned());
        let Some((_, kinds)) = documented.iter().find(|(field, _)| field == path) else {
            panic!("{name}: {path} is not documented");
        };
        assert!(
            kinds.split(" or ").any(|kind| is(value, kind)),
            "{name}: {path} is {value}, not {kinds}"
        );
        if kinds == "object" && path.ends_with(".env") && path != "job.env" {
            return;
        }
    }
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let below = if path.is_empty() {
                    field.clone()
                } else {
                    format!("{path}.{field}")
                };
                check(name, &below, value, documented, seen);
            }
        }
        Value::Array(items) => {
            for item in items.iter().filter(|i| i.is_object()) {
                for (field, value) in item.as_object().unwrap() {
                    check(name, &format!("{path}.{field}"), value, documented, seen);
                }
            }
        }
        _ => {}
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "object" => value.is_object(),
        _ => {
            let item = kind.strip_prefix("array of ").expect("a known type");
            value
                .as_array()
                .is_some_and(|items| items.iter().all(|i| is(i, item)))
        }
    }
}

#[test]
fn json_lists_groups_above_1024_ranks() {
    let snapshot = sample("sixteen_thousand");
    let grouped: Value = serde_json::from_str(&json::to_string(&snapshot, false)).unwrap();
    let full: Value = serde_json::from_str(&json::to_string(&snapshot, true)).unwrap();
    assert_eq!(grouped["job"]["ranks"].as_array().unwrap().len(), 2);
    assert_eq!(grouped["job"]["ranks"][0]["ranks"], "0-8191,8193-16383");
    assert_eq!(grouped["job"]["ranks"][1]["phase"], "died");
    assert_eq!(grouped["job"]["comms"][0]["reached"][1]["ordinal"], 127);
    assert_eq!(full["job"]["ranks"].as_array().unwrap().len(), 16_384);
    assert_eq!(full["job"]["comms"][0]["reached"][8192]["ordinal"], 127);
    assert_eq!(grouped["verdict"], full["verdict"]);
    assert_eq!(grouped["findings"], full["findings"]);
}

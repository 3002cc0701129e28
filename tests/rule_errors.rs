//! What a broken rule file says: it points into the file, and the other files still work.

use unhang::engine::catalog::Catalog;
use unhang::engine::vocab::LineClass;

/// A sound rule, to be broken in one place.
const GOOD: &str = r#"id = "USER001"
name = "fan-failed"
class = "gpu-hardware"
severity = "error"
role = "cause"
phase = "collective"
title = "fan {fan} of {hosts#host|a host} failed"
meaning = "The fan stopped."
why = "Dust."

[[fix]]
kind = "env"
text = "Run slower."
env = { CLOCK = "{fan}" }
cures = false
undo = "unset CLOCK"

[match]
class = ["app"]
regex = '''(?x)
  fan\ (?P<fan>\d+)\ failed'''
[match.captures]
fan = "int"

[[hit]]
message = "fan 3 failed"
captures = { fan = "3" }
[[miss]]
message = "fan 3 never failed"
"#;

/// The errors of `GOOD` with `old` replaced.
fn errors(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "{old} is in the sound rule");
    let text = GOOD.replace(old, new);
    let (catalog, errors) = Catalog::load(&[
        ("user/fan.toml", text.as_str()),
        ("user/other.toml", &other()),
    ]);
    assert_eq!(catalog.rules().len(), 1, "the other file still works");
    assert!(!errors.is_empty(), "it is broken");
    errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n\n")
}

fn other() -> String {
    GOOD.replace("USER001", "USER002")
        .replace("fan-failed", "other-fan-failed")
}

#[test]
fn the_sound_rule_is_sound() {
    let (catalog, errors) = Catalog::load(&[("user/fan.toml", GOOD)]);
    assert!(errors.is_empty(), "{}", errors[0]);
    let mut hits = Vec::new();
    catalog.matches(LineClass::App, b"today fan 12 failed", &mut hits);
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].captures, vec![("fan", 10..12)]);
    hits.clear();
    catalog.matches(LineClass::C10d, b"today fan 12 failed", &mut hits);
    assert!(hits.is_empty(), "a rule matches lines of its classes only");
}

macro_rules! broken {
    ($($name:ident: $old:expr => $new:expr;)+) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(errors($old, $new));
        }
    )+};
}

broken! {
    not_toml: "why = \"Dust.\"" => "why = Dust.";
    unknown_key: "phase = " => "fase = \"collective\"\nphase = ";
    wrong_type: "cures = false" => "cures = \"no\"";
    unknown_class_of_cause: "gpu-hardware" => "gpu-broken";
    unknown_class_of_line: "[\"app\"]" => "[\"application\"]";
    missing_key: "severity = \"error\"\n" => "";
    bad_id: "USER001" => "user-1";
    bad_regex: r"(?P<fan>\d+)" => r"(?P<fan>\d+";
    bad_class_in_regex: r"(?P<fan>\d+)" => r"(?P<fan>[z-a])";
    capture_without_type: "fan = \"int\"\n\n" => "\n";
    capture_not_in_regex: "fan = \"int\"" => "fan = \"int\"\nspeed = \"int\"";
    template_with_unknown_fact: "fan {fan} of" => "fan {fann} of";
    template_with_open_section: "fan {fan} of" => "fan [[{fan} of";
    no_literal: r"fan\ (?P<fan>\d+)\ failed" => r"\w+\ (?P<fan>\d+)\ \w+";
    short_gate: "[match.captures]" => "gate = \"fan\"\n[match.captures]";
    hit_does_not_match: "\"fan 3 failed\"" => "\"fan three failed\"";
    hit_captures_something_else: "{ fan = \"3\" }" => "{ fan = \"4\" }";
    hit_of_another_type: "fan = \"int\"\n\n" => "fan = \"address\"\n\n";
    miss_matches: "fan 3 never failed" => "on node 1, fan 3 failed";
    env_without_undo: "undo = \"unset CLOCK\"\n" => "";
    nothing_fires: "[match]\nclass = [\"app\"]\nregex = '''(?x)\n  fan\\ (?P<fan>\\d+)\\ failed'''\n[match.captures]\nfan = \"int\"\n" => "";
    empty_text: "\"Dust.\"" => "\" \"";
}

#[test]
fn the_later_of_two_files_with_one_id_is_refused() {
    let second = GOOD.replace("fan-failed", "fan-failed-again");
    let (catalog, errors) = Catalog::load(&[("a.toml", GOOD), ("b.toml", &second)]);
    assert_eq!(catalog.rules().len(), 1);
    assert_eq!(catalog.rules()[0].path, "a.toml");
    insta::assert_snapshot!(errors[0].to_string());
}

#[test]
fn a_rule_with_several_patterns_hits_a_line_once() {
    let two = GOOD.replace(
        "[match]\nclass",
        "[[match]]\nclass = [\"app\"]\nregex = \"fan .* failed\"\n[[match]]\nclass",
    );
    let two = two.replace(
        "[match.captures]\nfan = \"int\"",
        "captures = { fan = \"int\" }",
    );
    let two = two
        .replace("captures = { fan = \"3\" }\n", "")
        .replace("never failed", "works");
    let (catalog, errors) = Catalog::load(&[("two.toml", two.as_str())]);
    assert!(errors.is_empty(), "{}", errors[0]);
    let mut hits = Vec::new();
    catalog.matches(LineClass::App, b"fan 1 failed", &mut hits);
    assert_eq!(hits.len(), 1);
}

/// Overlapping and repeated literals, many patterns, bytes that are no text.
#[test]
fn no_line_hides_a_hit() {
    let files: Vec<(String, String)> = (0..700)
        .map(|n| {
            let text = GOOD
                .replace("USER001", &format!("U{n:03}{n:03}"))
                .replace("fan-failed", &format!("fan-failed-{n}"))
                .replace("failed", &format!("failed{n:04}"));
            (
                format!("{n}.toml"),
                text.replace(&format!("fan-failed{n:04}"), "fan-failed"),
            )
        })
        .collect();
    let (catalog, errors) = Catalog::load(&files);
    assert!(errors.is_empty(), "{}", errors[0]);
    let mut line = b"\xff\x00\x1b]0;".to_vec();
    for n in (0..700).rev() {
        line.extend(format!("fan {n} failed{n:04}").bytes());
        line.push(0xff);
    }
    let mut hits = Vec::new();
    catalog.matches(LineClass::App, &line, &mut hits);
    assert_eq!(hits.len(), 700);
    assert!(hits.is_sorted_by_key(|h| h.rule));
}

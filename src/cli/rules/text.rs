//! Rules as text for a terminal.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use crate::engine::catalog::template::example;
use crate::engine::catalog::{Catalog, FixTemplate, Rule, Status};
use crate::engine::vocab::Class;

/// Columns of running text.
const WIDTH: usize = 80;

/// One line for each rule.
pub(super) fn list(catalog: &Catalog, class: Option<Class>) -> String {
    let mut out = String::new();
    for rule in catalog
        .rules()
        .iter()
        .filter(|r| class.is_none_or(|c| r.class == c))
    {
        line(
            &mut out,
            &format!(
                "{:<10} {:<21} {:<8} {}",
                rule.id, rule.class, rule.severity, rule.name
            ),
        );
    }
    out
}

/// All that a rule says.
pub(super) fn explain(rule: &Rule) -> String {
    let mut out = String::new();
    line(&mut out, &format!("{} {}", rule.id, rule.name));
    line(
        &mut out,
        &format!(
            "{} · {} · {} · {}",
            rule.class,
            rule.severity,
            rule.role,
            status(rule.status)
        ),
    );
    paragraph(&mut out, "", &example(&rule.title));

    heading(&mut out, "What it means");
    paragraphs(&mut out, &example(&rule.meaning));
    heading(&mut out, "Why it happens");
    paragraphs(&mut out, &example(&rule.why));
    if !rule.fixes.is_empty() {
        heading(&mut out, "What to do");
        for (n, fix) in rule.fixes.iter().enumerate() {
            write_fix(&mut out, n + 1, fix);
        }
    }
    let missing: Vec<String> = rule.missing.iter().map(|m| example(m)).collect();
    items(&mut out, "Evidence it needs", &missing);
    if let Some(detector) = &rule.detector {
        heading(&mut out, "How it is found");
        paragraph(
            &mut out,
            "  ",
            &format!("The detector `{detector}` compares the ranks."),
        );
        for (name, value) in &rule.thresholds {
            line(&mut out, &format!("  {name} = {value}"));
        }
    } else {
        heading(&mut out, "A line that shows it");
        if let Some(hit) = rule.hits.first() {
            paragraph(&mut out, "  ", hit.message.trim());
        }
    }
    items(&mut out, "Versions", &rule.versions);
    items(&mut out, "Printed by", &rule.sources);
    items(&mut out, "References", &rule.references);
    out
}

/// What a sound rule file says after a check.
pub(super) fn checked(rule: &Rule, hits: usize, misses: usize) -> String {
    let what = match &rule.detector {
        Some(detector) if hits + misses == 0 => format!("decided by the detector `{detector}`"),
        _ => format!("{hits} hits Reported, {misses} misses Validated"),
    };
    format!("{} {}: {what}\n", rule.id, rule.name)
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Preview => "preview: no real log has shown it yet",
        Status::Stable => "stable: seen in real logs",
        Status::Deprecated => "deprecated",
    }
}

fn write_fix(out: &mut String, number: usize, fix: &FixTemplate) {
    let cures = if fix.cures { "cures" } else { "works around" };
    let with = condition(fix)
        .map(|with| format!(", {with}"))
        .unwrap_or_default();
    line(out, &format!("  {number}. {} ({cures}{with})", fix.kind));
    paragraph(out, "     ", &example(&fix.text));
    for (name, value) in &fix.env {
        line(out, &format!("     export {name}={}", example(value)));
    }
    if let Some(caution) = &fix.caution {
        paragraph(out, "     ", &format!("Caution: {}", example(caution)));
    }
    if let Some(undo) = &fix.undo {
        paragraph(out, "     ", &format!("Undo: {}", example(undo)));
    }
}

/// What a fix is for, in words: facts of a single rule say it in their text.
pub(super) fn condition(fix: &FixTemplate) -> Option<String> {
    let when = fix.when.as_deref()?;
    let (with, name) = match when.strip_prefix('!') {
        Some(name) => ("without", name),
        None => ("with", when),
    };
    let name = match name {
        "torch" => "PyTorch",
        "vllm" => "vLLM",
        "gloo" => "Gloo",
        "nccl" => "NCCL",
        _ => return None,
    };
    Some(format!("{with} {name}"))
}

fn heading(out: &mut String, text: &str) {
    line(out, "");
    line(out, text);
}

fn items(out: &mut String, name: &str, items: &[String]) {
    if !items.is_empty() {
        heading(out, name);
        for item in items {
            paragraph(out, "  ", item);
        }
    }
}

fn paragraphs(out: &mut String, text: &str) {
    for (n, text) in text.split("\n\n").enumerate() {
        if n > 0 {
            line(out, "");
        }
        paragraph(out, "  ", text);
    }
}

/// Breaks a paragraph between words.
fn paragraph(out: &mut String, indent: &str, text: &str) {
    let mut current = String::new();
    for word in text.split_whitespace() {
        if !current.is_empty() && indent.width() + current.width() + 1 + word.width() > WIDTH {
            line(out, &format!("{indent}{current}"));
            current.clear();
        }
        if !current.is_empty() {
            current.push(' ');
        }
        current.push_str(word);
    }
    line(out, &format!("{indent}{current}"));
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{}", text.trim_end()).expect("a string takes all");
}

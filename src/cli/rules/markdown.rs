//! The catalog as a page of documentation (`docs/rules.md`).

use std::fmt::Write as _;

use super::text::condition;
use crate::engine::catalog::template::example;
use crate::engine::catalog::{Catalog, FixTemplate, Rule};

/// The whole page. A test compares `docs/rules.md` with it.
#[must_use]
pub fn page(catalog: &Catalog) -> String {
    let mut out = String::from(HEAD);
    for rule in catalog.rules() {
        let row = format!(
            "| [{id}](#{anchor}) | {name} | {class} | {severity} | {role} |",
            id = rule.id,
            anchor = anchor(rule),
            name = rule.name,
            class = rule.class,
            severity = rule.severity,
            role = rule.role,
        );
        line(&mut out, &row);
    }
    for rule in catalog.rules() {
        write_rule(&mut out, rule);
    }
    out
}

const HEAD: &str = "\
# Rules

Made from `rules/` by `UPDATE_DOCS=1 cargo test --test rules`; do not edit.
`unhang rules explain ID` shows one of them. `<…>` stands for what the case at hand has there.

| id | name | class | severity | role |
| --- | --- | --- | --- | --- |
";

fn write_rule(out: &mut String, rule: &Rule) {
    line(out, &format!("\n## {} {}\n", rule.id, rule.name));
    line(out, &format!("> {}\n", code(&rule.title)));
    line(
        out,
        &format!("**What it means.** {}\n", code(&rule.meaning)),
    );
    line(out, &format!("**Why it happens.** {}", code(&rule.why)));
    if !rule.fixes.is_empty() {
        line(out, "\n**What to do.**\n");
        for (n, fix) in rule.fixes.iter().enumerate() {
            write_fix(out, n + 1, fix);
        }
    }
    if !rule.missing.is_empty() {
        line(out, "\n**Evidence it needs.**\n");
        for missing in &rule.missing {
            line(out, &format!("- {}", code(missing)));
        }
    }
    if let Some(detector) = &rule.detector {
        let thresholds: Vec<String> = rule
            .thresholds
            .iter()
            .map(|(n, v)| format!("`{n} = {v}`"))
            .collect();
        let with = if thresholds.is_empty() {
            String::new()
        } else {
            format!(" with {}", thresholds.join(", "))
        };
        line(
            out,
            &format!("\n**How it is found.** The detector `{detector}` compares the ranks{with}."),
        );
    } else if let Some(hit) = rule.hits.first() {
        line(
            out,
            &format!(
                "\n**A line that shows it.**\n\n```text\n{}\n```",
                hit.message.trim()
            ),
        );
    }
    line(
        out,
        &format!("\n**Versions.** {}.", rule.versions.join("; ")),
    );
    if !rule.sources.is_empty() {
        line(
            out,
            &format!("\n**Printed by.** {}.", rule.sources.join("; ")),
        );
    }
    for reference in &rule.references {
        line(out, &format!("\n<{reference}>"));
    }
}

fn write_fix(out: &mut String, number: usize, fix: &FixTemplate) {
    let cures = if fix.cures { "cures" } else { "works around" };
    let with = condition(fix)
        .map(|with| format!(", {with}"))
        .unwrap_or_default();
    let mut text = format!(
        "{number}. *{}, {cures}{with}.* {}",
        fix.kind,
        code(&fix.text)
    );
    for (name, value) in &fix.env {
        write!(text, " `{name}={}`", example(value)).expect("a string takes all");
    }
    if let Some(caution) = &fix.caution {
        write!(text, " Caution: {}", code(caution)).expect("a string takes all");
    }
    if let Some(undo) = &fix.undo {
        write!(text, " Undo: `{}`.", example(undo)).expect("a string takes all");
    }
    line(out, &text);
}

/// The text without a case. Angle brackets outside of backticks would be taken for HTML.
fn code(text: &str) -> String {
    let text = example(text);
    let mut out = String::with_capacity(text.len());
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '`' => quoted = !quoted,
            '<' if !quoted => out.push('\\'),
            _ => {}
        }
        out.push(c);
    }
    out
}

fn anchor(rule: &Rule) -> String {
    format!("{}-{}", rule.id.to_ascii_lowercase(), rule.name)
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a string takes all");
}

//! Writes JSON for programs that people read too: lists of numbers stay on one line, and characters
//! that a terminal would obey are escaped.

use std::fmt::Write as _;

use serde_json::Value;

/// The value with an indentation of two blanks and a line feed at the end.
pub(super) fn pretty(value: &Value) -> String {
    let mut out = String::new();
    any(&mut out, value, 0);
    out.push('\n');
    out
}

fn any(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::String(text) => string(out, text),
        Value::Array(items) if items.iter().all(Value::is_number) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                plain(out, item);
            }
            out.push(']');
        }
        Value::Array(items) => block(out, ['[', ']'], depth, items.iter(), |out, item| {
            any(out, item, depth + 1);
        }),
        Value::Object(fields) if fields.is_empty() => out.push_str("{}"),
        Value::Object(fields) => block(
            out,
            ['{', '}'],
            depth,
            fields.iter(),
            |out, (name, value)| {
                string(out, name);
                out.push_str(": ");
                any(out, value, depth + 1);
            },
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => plain(out, value),
    }
}

fn plain(out: &mut String, value: &Value) {
    write!(out, "{value}").expect("a string takes whatever is written");
}

fn block<T>(
    out: &mut String,
    [open, close]: [char; 2],
    depth: usize,
    items: impl Iterator<Item = T>,
    mut each: impl FnMut(&mut String, T),
) {
    out.push(open);
    for (at, item) in items.enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.extend(std::iter::repeat_n("  ", depth + 1));
        each(out, item);
    }
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
    out.push(close);
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    if text
        .bytes()
        .all(|b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\')
    {
        out.push_str(text);
        out.push('"');
        return;
    }
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c.is_control() || crate::views::escape::is_deceptive(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

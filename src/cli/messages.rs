//! Messages for people, on standard error.

use std::io::{Write, stderr};
use std::path::PathBuf;

use crate::error::InputError;
use crate::views::escape::{Glyphs, harmless};

/// Passed-over files that are listed; more are counted.
const LISTED: usize = 200;

/// An input that could not be used.
pub(crate) fn problem(problem: &InputError) {
    line(&format!("error: {problem}"));
    if let Some(hint) = problem.hint {
        line(&format!("hint: {hint}"));
    }
}

/// A fault in words.
pub(crate) fn error_text(text: &str) {
    line(&format!("error: {text}"));
}

/// What it is doing now.
pub(crate) fn note(text: &str) {
    line(text);
}

/// Something the user should know.
pub(crate) fn warning(text: &str) {
    line(&format!("warning: {text}"));
}

/// Anything that is the end of the command.
pub(crate) fn error(error: &anyhow::Error) {
    line(&format!("error: {error:#}"));
    let hint = error
        .downcast_ref::<InputError>()
        .and_then(|error| error.hint);
    if let Some(hint) = hint {
        line(&format!("hint: {hint}"));
    }
}

/// Text that is ready to be shown, colours included.
pub(crate) fn raw(text: &str) {
    // There is nobody left to tell if this fails.
    let _unwritten = writeln!(stderr().lock(), "{text}");
}

/// What was read and what was not, for `-v`.
pub(crate) fn inputs(taken: &[String], passed_over: &[(PathBuf, String)]) {
    for name in taken {
        line(&format!("read {name}"));
    }
    for (path, why) in passed_over.iter().take(LISTED) {
        line(&format!("passed over {}: {why}", path.display()));
    }
    if passed_over.len() > LISTED {
        line(&format!("passed over {} more", passed_over.len() - LISTED));
    }
}

/// Names of files may hold anything, so they are made harmless.
fn line(text: &str) {
    raw(&harmless(text, Glyphs::Unicode));
}

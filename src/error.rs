//! Errors that name the operation and the path.

use std::io;
use std::path::{Path, PathBuf};

/// An input that could not be used. Printed as `failed to <operation> <path>: <why>`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to {operation} {}: {why}", path.display())]
pub struct InputError {
    /// What was tried: `open`, `read`, `list`.
    pub operation: &'static str,
    /// On what.
    pub path: PathBuf,
    /// Why it failed, as a fragment.
    pub why: String,
    /// What the user can do about it.
    pub hint: Option<&'static str>,
}

impl InputError {
    /// The system refused.
    #[must_use]
    pub fn io(operation: &'static str, path: &Path, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => Some("run as a user who may read it, or copy it"),
            _ => None,
        };
        let why = in_words(error);
        Self {
            operation,
            path: path.to_owned(),
            why,
            hint,
        }
    }

    /// Something else is wrong with it.
    #[must_use]
    pub fn because(operation: &'static str, path: &Path, why: impl Into<String>) -> Self {
        Self {
            operation,
            path: path.to_owned(),
            why: why.into(),
            hint: None,
        }
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }
}

/// The system's text without its number, as a fragment of a sentence.
#[must_use]
pub fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => "unknown error".to_owned(),
    }
}

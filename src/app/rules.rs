//! Loads the catalog: the built-in rules and the user's own.

use std::fs;
use std::path::{Path, PathBuf};

use annotate_snippets::Renderer;

use crate::engine::catalog::{BUILTIN_FILES, Catalog};
use crate::error::InputError;

/// Rule files read of one folder at most.
const FILES: usize = 10_000;
/// A rule file is a few kilobytes.
const LARGEST: u64 = 1 << 20;

/// Path and text of every rule file: the built-in ones, then the user's in the order of their names.
#[derive(Clone, Debug)]
pub struct RuleFiles {
    files: Vec<(String, String)>,
}

impl RuleFiles {
    /// Reads every `.toml` below the folders.
    #[must_use]
    pub fn read(folders: &[PathBuf]) -> (Self, Vec<InputError>) {
        let builtin = BUILTIN_FILES.iter();
        let mut files: Vec<(String, String)> = builtin
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        let mut problems = Vec::new();
        for folder in folders {
            let mut paths = Vec::new();
            collect(folder, 0, &mut paths, &mut problems);
            paths.sort();
            for path in paths {
                match read(&path) {
                    Ok(text) => files.push((path.display().to_string(), text)),
                    Err(error) => problems.push(InputError::io("read", &path, &error)),
                }
            }
        }
        (Self { files }, problems)
    }

    /// Makes the catalog; messages about broken files are coloured if `color`.
    #[must_use]
    pub fn load(&self, color: bool) -> (Catalog, Vec<String>) {
        let (catalog, errors) = Catalog::load(&self.files);
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        (
            catalog,
            errors.iter().map(|error| error.render(&renderer)).collect(),
        )
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    if fs::metadata(path)?.len() > LARGEST {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "too large for a rule",
        ));
    }
    fs::read_to_string(path)
}

fn collect(folder: &Path, depth: usize, paths: &mut Vec<PathBuf>, problems: &mut Vec<InputError>) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            problems.push(InputError::io("list", folder, &error));
            return;
        }
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if depth < 8 {
                collect(&path, depth + 1, paths, problems);
            }
        } else if path.extension().is_some_and(|end| end == "toml") && paths.len() < FILES {
            paths.push(path);
        }
    }
}

//! Loads the catalog: the built-in rules and the user's own.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use annotate_snippets::Renderer;

use crate::engine::catalog::{BUILTIN_FILES, Catalog, RuleError};
use crate::error::InputError;

/// Rule files read of one folder at most.
const FILES: usize = 10_000;
/// A rule file is a few kilobytes.
const LARGEST: u64 = 1 << 20;

/// Path and text of every rule file: the built-in ones, then the user's in the order of their names.
#[derive(Clone, Debug)]
pub struct RuleFiles {
    files: Vec<(String, String)>,
    loaded: OnceLock<(Catalog, Vec<RuleError>)>,
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
            for path in files_below(folder, &mut problems) {
                match read(&path) {
                    Ok(text) => files.push((path.display().to_string(), text)),
                    Err(error) => problems.push(InputError::io("read", &path, &error)),
                }
            }
        }
        let loaded = OnceLock::new();
        (Self { files, loaded }, problems)
    }

    /// The catalog, which is made once; messages about broken files are coloured if `color`.
    #[must_use]
    pub fn load(&self, color: bool) -> (Catalog, Vec<String>) {
        let (catalog, errors) = self.loaded.get_or_init(|| Catalog::load(&self.files));
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        (
            catalog.clone(),
            errors.iter().map(|error| error.render(&renderer)).collect(),
        )
    }
}

/// The text of one rule file.
///
/// # Errors
/// If it is a device or the like, too large, no text, or cannot be read.
pub fn read(path: &Path) -> io::Result<String> {
    let wrong = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    if !fs::metadata(path)?.is_file() {
        return wrong("it is no file");
    }
    let mut text = Vec::new();
    // The size of a file that is being written is not to be relied on.
    let read = fs::File::open(path)?
        .take(LARGEST + 1)
        .read_to_end(&mut text)?;
    if read as u64 > LARGEST {
        return wrong("it is too large for a rule");
    }
    String::from_utf8(text).or_else(|_| wrong("it is no text"))
}

/// Every rule file below a folder, sorted; or the file itself.
///
/// # Errors
/// In `problems`: folders that cannot be listed.
#[must_use]
pub fn files_below(path: &Path, problems: &mut Vec<InputError>) -> Vec<PathBuf> {
    if fs::metadata(path).is_ok_and(|meta| !meta.is_dir()) {
        return vec![path.to_owned()];
    }
    let mut paths = Vec::new();
    collect(path, 0, &mut paths, problems);
    paths.sort();
    paths
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
        // A link to a folder may lead in a circle.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth < 8 {
                collect(&path, depth + 1, paths, problems);
            }
        } else if path.extension().is_some_and(|end| end == "toml") && paths.len() < FILES {
            paths.push(path);
        }
    }
}

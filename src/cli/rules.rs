//! `unhang rules`: what the catalog knows, and whether a rule file is sound.

pub mod markdown;
mod text;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use annotate_snippets::Renderer;
use anyhow::Context;

use crate::engine::catalog::{BUILTIN_FILES, Case, Catalog, RuleError};
use crate::engine::ids::RuleIx;
use crate::engine::vocab::Class;
use crate::exit;

/// Arguments of `unhang rules`.
#[derive(Clone, Debug, clap::Args)]
pub struct RulesArgs {
    #[command(subcommand)]
    command: Command,
    /// Folders of further rules, as the option that all commands share gives them.
    #[arg(skip)]
    pub folders: Vec<PathBuf>,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// List every rule
    List {
        /// Only rules of this class of cause (`wrong-interface`, `shm`, …)
        #[arg(long)]
        class: Option<String>,
    },
    /// Say what a rule means, why it fires and what to do
    Explain {
        /// The rule's id or name (`NET003`, `interface-differs`)
        id: String,
    },
    /// Check rule files: schema, patterns, texts, and their own hits and misses
    Check {
        /// Rule files, or folders of them
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// Runs `unhang rules`.
///
/// # Errors
/// If a folder of rules or standard output cannot be used.
pub fn run(args: &RulesArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::List { class } => {
            let catalog = loaded(&args.folders)?;
            let class = match class.as_deref().map(|name| (name, Class::from_name(name))) {
                Some((name, None)) => return unknown_class(name),
                Some((_, class)) => class,
                None => None,
            };
            print(&text::list(&catalog, class))?;
            Ok(ExitCode::from(exit::OK))
        }
        Command::Explain { id } => {
            let catalog = loaded(&args.folders)?;
            match find(&catalog, id) {
                Some(rule) => print(&text::explain(catalog.rule(rule)))?,
                None => return unknown_rule(&catalog, id),
            }
            Ok(ExitCode::from(exit::OK))
        }
        Command::Check { files } => check(files),
    }
}

/// The built-in rules and those below `folders`, with what is wrong with the latter.
///
/// # Errors
/// If a folder or a file in it cannot be read.
pub fn catalog(folders: &[PathBuf]) -> anyhow::Result<(Catalog, Vec<RuleError>)> {
    let builtin = BUILTIN_FILES
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    let mut files: Vec<(String, String)> = builtin.collect();
    for folder in folders {
        for path in rule_files(folder)? {
            files.push(read(&path)?);
        }
    }
    Ok(Catalog::load(&files))
}

/// The same, with the errors printed.
fn loaded(folders: &[PathBuf]) -> anyhow::Result<Catalog> {
    let (catalog, errors) = catalog(folders)?;
    report(&errors)?;
    Ok(catalog)
}

/// Checks the files by themselves, so that a copy of a built-in rule can be worked on.
fn check(paths: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut files = Vec::new();
    let mut unreadable = Vec::new();
    for path in paths {
        match rule_files(path).and_then(|found| {
            found
                .iter()
                .map(|p| read(p))
                .collect::<anyhow::Result<Vec<_>>>()
        }) {
            Ok(read) => files.extend(read),
            Err(error) => unreadable.push(error),
        }
    }
    let (catalog, errors) = Catalog::load(&files);
    for (n, rule) in catalog.rules().iter().enumerate() {
        let cases = catalog.verify(RuleIx::from_ix(n));
        let hits = cases
            .iter()
            .filter(|(case, _)| matches!(case, Case::Hit(_)))
            .count();
        print(&text::checked(rule, hits, cases.len() - hits))?;
    }
    report(&errors)?;
    let mut stderr = io::stderr().lock();
    for error in &unreadable {
        writeln!(stderr, "error: {error:#}")?;
    }
    Ok(ExitCode::from(
        match (unreadable.is_empty(), errors.is_empty()) {
            (false, _) => exit::INPUT,
            (true, false) => exit::ERROR,
            (true, true) => exit::OK,
        },
    ))
}

/// The rule with this id in any case, or this name.
fn find(catalog: &Catalog, id: &str) -> Option<RuleIx> {
    catalog
        .by_id(&id.to_ascii_uppercase())
        .or_else(|| catalog.by_name(id))
}

fn unknown_rule(catalog: &Catalog, id: &str) -> anyhow::Result<ExitCode> {
    let mut stderr = io::stderr().lock();
    writeln!(stderr, "error: no rule has the id or name \"{id}\"")?;
    let wanted = id.to_ascii_lowercase();
    let family = wanted.trim_end_matches(|c: char| c.is_ascii_digit());
    let near = |rule: &str, name: &str| {
        family.len() > 1 && (rule.to_ascii_lowercase().starts_with(family) || name.contains(family))
    };
    let similar: Vec<&str> = catalog
        .rules()
        .iter()
        .filter(|r| near(&r.id, &r.name))
        .map(|r| r.id.as_str())
        .collect();
    match similar.is_empty() {
        true => writeln!(stderr, "hint: `unhang rules list` shows all")?,
        false => writeln!(stderr, "hint: there are {}", similar.join(", "))?,
    }
    Ok(ExitCode::from(exit::USAGE))
}

fn unknown_class(name: &str) -> anyhow::Result<ExitCode> {
    let known: Vec<&str> = Class::ALL.iter().map(|c| c.name()).collect();
    let mut stderr = io::stderr().lock();
    writeln!(stderr, "error: there is no class \"{name}\"")?;
    writeln!(stderr, "hint: the classes are {}", known.join(", "))?;
    Ok(ExitCode::from(exit::USAGE))
}

/// Every rule file below a folder, sorted; or the file itself.
fn rule_files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path)
        .with_context(|| format!("failed to read the folder {}", path.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let entry =
            entry.with_context(|| format!("failed to read the folder {}", path.display()))?;
        // A link to a folder may lead in a circle.
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            files.extend(rule_files(&entry.path())?);
        } else if entry.path().extension().is_some_and(|e| e == "toml") {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> anyhow::Result<(String, String)> {
    let text =
        fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok((path.display().to_string(), text))
}

/// Prints what is wrong with rule files.
fn report(errors: &[RuleError]) -> anyhow::Result<()> {
    let colour = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let renderer = if colour {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut stderr = io::stderr().lock();
    for error in errors {
        writeln!(stderr, "{}\n", error.render(&renderer))?;
    }
    Ok(())
}

/// Writes to standard output; a reader that went away is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("failed to write to standard output"),
    }
}

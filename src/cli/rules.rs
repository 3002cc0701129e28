//! `unhang rules`: what the catalog knows, and whether a rule file is sound.

pub mod markdown;
mod text;

use std::env;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use annotate_snippets::Renderer;
use anyhow::Context;

use super::messages;
use crate::app::rules::{self, RuleFiles};
use crate::engine::catalog::{BUILTIN_FILES, Case, Catalog, Rule, RuleError};
use crate::engine::ids::RuleIx;
use crate::engine::vocab::Class;
use crate::error::InputError;
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
    /// List every rule.
    ///
    /// Exit code 3 if a folder given with --rules, or a rule in it, cannot be used; the others are listed.
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
    /// Check rule files: schema, patterns, texts, and their own hits and misses.
    ///
    /// Exit code 0: all are sound; 1: something is wrong with a rule; 3: a file could not be read.
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
            let (catalog, code) = loaded(&args.folders)?;
            let class = match class.as_deref().map(|name| (name, Class::from_name(name))) {
                Some((name, None)) => return unknown_class(name),
                Some((_, class)) => class,
                None => None,
            };
            print(&text::list(&catalog, class))?;
            Ok(ExitCode::from(code))
        }
        Command::Explain { id } => {
            let (catalog, code) = loaded(&args.folders)?;
            match find(&catalog, id) {
                Some(rule) => print(&text::explain(catalog.rule(rule)))?,
                None => return unknown_rule(&catalog, id),
            }
            Ok(ExitCode::from(code))
        }
        Command::Check { files } => check(files),
    }
}

/// The built-in rules and those below `folders`; what is wrong with the latter is printed and makes
/// the exit code.
fn loaded(folders: &[PathBuf]) -> anyhow::Result<(Catalog, u8)> {
    let (files, problems) = RuleFiles::read(folders);
    let (catalog, broken) = files.load(coloured());
    let mut stderr = io::stderr().lock();
    for text in &broken {
        writeln!(stderr, "{text}\n")?;
    }
    problems.iter().for_each(messages::problem);
    let sound = broken.is_empty() && problems.is_empty();
    Ok((catalog, if sound { exit::OK } else { exit::INPUT }))
}

/// Checks the files by themselves, so that a copy of a built-in rule can be worked on.
fn check(paths: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut files = Vec::new();
    let mut unreadable = Vec::new();
    for path in paths {
        for path in rules::files_below(path, &mut unreadable) {
            match rules::read(&path) {
                Ok(text) => files.push((path.display().to_string(), text)),
                Err(error) => unreadable.push(InputError::io("read", &path, &error)),
            }
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
    let taken: Vec<String> = catalog.rules().iter().filter_map(taken_id).collect();
    taken.iter().for_each(|text| messages::error_text(text));
    unreadable.iter().for_each(messages::problem);
    let sound = errors.is_empty() && taken.is_empty();
    Ok(ExitCode::from(match (unreadable.is_empty(), sound) {
        (false, _) => exit::INPUT,
        (true, false) => exit::ERROR,
        (true, true) => exit::OK,
    }))
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

/// What is wrong with the id of a rule if a built-in one has it already. A file of the same name is
/// that rule itself, or a copy that is worked on.
fn taken_id(rule: &Rule) -> Option<String> {
    let name = |path: &str| Path::new(path).file_name().map(ToOwned::to_owned);
    let starts = format!("{}-", rule.id);
    let (builtin, _) = BUILTIN_FILES.iter().find(|(path, _)| {
        name(path).is_some_and(|name| name.to_string_lossy().starts_with(&starts))
    })?;
    (name(builtin) != name(&rule.path)).then(|| {
        format!(
            "the id {} of {} is taken by the built-in {builtin}",
            rule.id, rule.path
        )
    })
}

fn coloured() -> bool {
    io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Prints what is wrong with rule files.
fn report(errors: &[RuleError]) -> anyhow::Result<()> {
    let renderer = if coloured() {
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

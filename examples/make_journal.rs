//! Writes the saved logs of one job as a journal, as `unhang demo` plays them.
//!
//! ```text
//! cargo run --example make_journal -- fixtures/cases/p2p-off -o fixtures/journals/p2p-off.journal [--stuck]
//! ```
//!
//! The logs have no arrival times, so the journal has none either: all files progress together.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Parser;
use unhang::app::replay::script::{FilesScript, save};
use unhang::sources::discover::Discoverer;

/// Writes the saved logs of one job as a journal.
#[derive(Parser)]
struct Args {
    /// The job's folder.
    folder: PathBuf,
    /// The journal to write.
    #[arg(short)]
    output: PathBuf,
    /// The job was seen to stand still: the journal ends with that claim.
    #[arg(long)]
    stuck: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let found = Discoverer::new(&[args.folder]).search();
    if let Some(problem) = found.problems.into_iter().next() {
        return Err(problem.into());
    }
    if found.logs.is_empty() {
        bail!("there is no log in the folder");
    }
    let file = File::create(&args.output)
        .with_context(|| format!("failed to create {}", args.output.display()))?;
    let mut script = FilesScript::new(found.logs, found.dumps, args.stuck.then_some(None));
    save(&mut script, BufWriter::new(file))?;
    Ok(())
}

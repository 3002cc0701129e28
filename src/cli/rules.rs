//! Stand-in until the rules are merged.
use std::path::PathBuf;
use std::process::ExitCode;
/// Arguments of `unhang rules`.
#[derive(Clone, Debug, clap::Args)]
pub struct RulesArgs {
    /// Folders of further rules, as the option that all commands share gives them.
    #[arg(skip)]
    pub folders: Vec<PathBuf>,
}
/// Runs `unhang rules`.
///
/// # Errors
/// Never.
pub fn run(_args: &RulesArgs) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::from(crate::exit::ERROR))
}

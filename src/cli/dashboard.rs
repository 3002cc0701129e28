//! Shows the dashboard over whatever a handle shows.

use std::fs::File;
use std::io::{Write, stdout};
use std::sync::Arc;

use super::common::{Common, Format};
use super::messages;
use crate::app::handle::Handle;
use crate::engine::snapshot::Snapshot;
use crate::views::tui::{self, theme::Theme};
use crate::views::words;

/// Names tried for a saved report.
const NAMES: u32 = 1_000;

/// Until the user leaves or the handle asks for the end.
pub(crate) fn show(handle: &Handle, common: &Common) -> anyhow::Result<()> {
    let theme = Theme {
        colors: common.colors(&stdout()),
        glyphs: common.glyphs(),
    };
    let save = |snapshot: &Snapshot| save(snapshot, common);
    let narrow = |snapshot: Arc<Snapshot>| match &common.ranks {
        Some(ranks) => Arc::new(ranks.narrow(&snapshot)),
        None => snapshot,
    };
    let options = tui::Options {
        theme,
        keys: common.config.keys.clone(),
        save: &save,
        narrow: &narrow,
    };
    if let Some(fault) = &common.config_fault {
        handle.tell(fault.clone());
    }
    tui::run(handle, &options)?;
    // The screen is gone; its answer stays.
    handle.now();
    let snapshot = narrow(handle.snapshot());
    let verdict = &snapshot.verdict;
    let line = format!("{}: {}", words::headline(verdict.state), verdict.summary);
    messages::note(&line);
    Ok(())
}

/// Where a file of the present folder is, to be found again from elsewhere.
fn whole_path(name: &str) -> String {
    std::path::absolute(name).map_or_else(|_| name.to_owned(), |path| path.display().to_string())
}

/// Writes a Markdown report beside the user's other files; an existing file is never replaced.
fn save(snapshot: &Snapshot, common: &Common) -> Result<String, String> {
    let text = common.render(snapshot, Format::Markdown, false);
    for n in 1..=NAMES {
        let name = format!("unhang-report-{n}.md");
        match File::create_new(&name).and_then(|mut file| file.write_all(text.as_bytes())) {
            Ok(()) => return Ok(whole_path(&name)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(format!(
                    "failed to save {name}: {}",
                    crate::error::in_words(&error)
                ));
            }
        }
    }
    Err(format!("{NAMES} reports are in this folder already"))
}

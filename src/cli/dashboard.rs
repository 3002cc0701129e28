//! Shows the dashboard over whatever a handle shows.

use std::fs::File;
use std::io::{Write, stdout};
use std::sync::Arc;

use super::common::{Common, Format};
use crate::app::handle::Handle;
use crate::engine::snapshot::Snapshot;
use crate::views::tui::{self, theme::Theme};

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
        save: &save,
        narrow: &narrow,
    };
    tui::run(handle, &options)?;
    Ok(())
}

/// Writes a Markdown report beside the user's other files; an existing file is never replaced.
fn save(snapshot: &Snapshot, common: &Common) -> Result<String, String> {
    let text = common.render(snapshot, Format::Markdown, false);
    for n in 1..=NAMES {
        let name = format!("unhang-report-{n}.md");
        match File::create_new(&name).and_then(|mut file| file.write_all(text.as_bytes())) {
            Ok(()) => return Ok(name),
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

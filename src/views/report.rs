//! Stand-in until the views are merged.
use crate::engine::snapshot::Snapshot;
/// How a text report looks.
#[derive(Clone, Copy, Debug)]
pub struct ReportOptions {
    /// Columns.
    pub width: usize,
    /// Colours.
    pub color: bool,
    /// ASCII only.
    pub ascii: bool,
    /// Everything.
    pub verbose: bool,
}
/// Text.
#[must_use]
pub fn text(snapshot: &Snapshot, options: &ReportOptions) -> String {
    let (on, off) = if options.color {
        ("\x1b[1m", "\x1b[0m")
    } else {
        ("", "")
    };
    format!(
        "{on}{}{off} {}\n",
        snapshot.verdict.state, snapshot.verdict.summary
    )
}
/// Markdown.
#[must_use]
pub fn markdown(snapshot: &Snapshot) -> String {
    format!("{}\n", snapshot.verdict.summary)
}

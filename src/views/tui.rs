//! Stand-in until the dashboard is merged.
use crate::app::handle::Handle;
use crate::engine::snapshot::Snapshot;
pub mod theme {
    //! Stand-in until the dashboard is merged.
    /// Colours and characters that may be used.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Theme {
        /// Use colours.
        pub color: bool,
        /// Use characters outside ASCII.
        pub glyphs: crate::views::escape::Glyphs,
    }
}
/// What the dashboard cannot do itself.
pub struct Options<'a> {
    /// Colours and characters.
    pub theme: theme::Theme,
    /// Saves a report of the snapshot; says where, or why not.
    pub save: &'a dyn Fn(&Snapshot) -> Result<String, String>,
}
/// Shows the dashboard until the user leaves.
///
/// # Errors
/// If the terminal fails.
pub fn run(handle: &Handle, _options: &Options<'_>) -> std::io::Result<()> {
    let mut seen = 0;
    while !handle.status().shutdown {
        seen = handle.wait_for_change(seen, std::time::Duration::from_secs(1));
    }
    Ok(())
}

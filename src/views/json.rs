//! The diagnosis for other programs: schema 1, described field by field in `docs/json.md`.
//!
//! Its types are its own: the engine may change, a schema only gains fields. Lists are sorted, what
//! is not known is null.

mod schema;
mod write;

use crate::engine::snapshot::Snapshot;

/// Ranks above which `job` lists groups of ranks instead of each one.
pub const GROUPED_ABOVE: usize = 1_024;

/// The snapshot as JSON, indented by two blanks, with a line feed at the end.
///
/// `job` lists every rank if there are [`GROUPED_ABOVE`] at most, or if `full`.
///
/// # Panics
/// Never: every map of the schema has strings as keys.
#[must_use]
pub fn to_string(snapshot: &Snapshot, full: bool) -> String {
    let grouped = !full && snapshot.job.ranks.len() > GROUPED_ABOVE;
    let report = schema::Report::of(snapshot, grouped);
    let value = serde_json::to_value(report).expect("every map of the schema has strings as keys");
    write::pretty(&value)
}

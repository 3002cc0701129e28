//! Stand-in until the views are merged.
use crate::engine::snapshot::Snapshot;
/// The snapshot as JSON.
#[must_use]
pub fn to_string(snapshot: &Snapshot, _full: bool) -> String {
    serde_json::json!({ "schema": 1, "verdict": { "state": snapshot.verdict.state }, "debug": format!("{snapshot:?}") }).to_string() + "\n"
}

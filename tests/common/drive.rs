//! Drives the engine as a saved job does: sources first, then their bytes, then the claim.

use std::sync::LazyLock;

use unhang::engine::catalog::Catalog;
use unhang::engine::ids::SourceId;
use unhang::engine::input::{EndReason, Input, SourceInfo, SourceKind};
use unhang::engine::snapshot::Snapshot;
use unhang::engine::{Engine, Options};

/// The built-in rules, compiled once: tests start thousands of engines.
static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::builtin);

/// One piece of a source: its index, where the piece starts, and the bytes.
pub(crate) type Piece<'a> = (usize, u64, &'a [u8]);

/// Gives the pieces to a fresh engine, in this order, and asks it.
pub(crate) fn diagnose_pieces<'a>(
    names: &[&str],
    pieces: impl IntoIterator<Item = Piece<'a>>,
    stuck: bool,
) -> Snapshot {
    diagnose_all(names, pieces, &[], stuck)
}

/// The same, and dumps behind the pieces.
pub(crate) fn diagnose_all<'a>(
    names: &[&str],
    pieces: impl IntoIterator<Item = Piece<'a>>,
    dumps: &[(&str, &[u8])],
    stuck: bool,
) -> Snapshot {
    let mut engine = Engine::new(CATALOG.clone(), Options::default());
    let logs = names.iter().map(|name| (*name, SourceKind::File));
    let all = logs.chain(dumps.iter().map(|(name, _)| (*name, SourceKind::Dump)));
    for (n, (name, kind)) in all.enumerate() {
        engine.handle(
            None,
            Input::Source(SourceInfo {
                id: SourceId::from_ix(n),
                name: name.to_owned(),
                kind,
                host: None,
                pid: None,
                rank: None,
            }),
        );
    }
    for (source, offset, chunk) in pieces {
        engine.handle(
            None,
            Input::Bytes {
                source: SourceId::from_ix(source),
                offset,
                chunk,
            },
        );
    }
    for (n, (_, bytes)) in dumps.iter().enumerate() {
        let source = SourceId::from_ix(names.len() + n);
        engine.handle(None, Input::Dump { source, bytes });
    }
    for n in 0..names.len() + dumps.len() {
        let source = SourceId::from_ix(n);
        engine.handle(
            None,
            Input::Ended {
                source,
                why: EndReason::Eof,
                detail: None,
            },
        );
    }
    if stuck {
        engine.handle(None, Input::Claim { stuck_for: None });
    }
    engine.snapshot()
}

/// Whole logs, one after another.
pub(crate) fn diagnose(logs: &[(&str, &[u8])], stuck: bool) -> Snapshot {
    let names: Vec<&str> = logs.iter().map(|(name, _)| *name).collect();
    let pieces = logs
        .iter()
        .enumerate()
        .map(|(n, (_, bytes))| (n, 0, *bytes));
    diagnose_pieces(&names, pieces, stuck)
}

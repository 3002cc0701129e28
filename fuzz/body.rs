//! What the fuzz targets run; `tests/fuzz_corpus.rs` runs the same over the seeds and changed copies of them.

use std::sync::LazyLock;

use unhang::engine::catalog::Catalog;
use unhang::engine::ids::SourceId;
use unhang::engine::input::{Input, SourceInfo, SourceKind};
use unhang::engine::{Engine, Options};

static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::builtin);

/// Takes the bytes as the dump of rank 0 beside a good one of rank 1, and asks for the diagnosis.
pub(crate) fn dump(bytes: &[u8]) {
    const GOOD: &[u8] = include_bytes!("corpus/dump_pickle/skipped-collective-1");
    let mut engine = Engine::new(CATALOG.clone(), Options::default());
    for (n, bytes) in [(0, bytes), (1, GOOD)] {
        let source = SourceId(n);
        engine.handle(
            None,
            Input::Source(SourceInfo {
                id: source,
                name: format!("fr_rank_{n}"),
                kind: SourceKind::Dump,
                host: None,
                pid: None,
                rank: None,
            }),
        );
        engine.handle(None, Input::Dump { source, bytes });
    }
    engine.handle(None, Input::Claim { stuck_for: None });
    std::hint::black_box(engine.snapshot());
}

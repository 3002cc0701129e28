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
    diagnose(
        SourceKind::Dump,
        "fr_rank_",
        [bytes, GOOD],
        |source, bytes| Input::Dump { source, bytes },
    );
}

/// Takes the bytes as an answer of RAS behind a good one, and asks for the diagnosis.
pub(crate) fn ras(bytes: &[u8]) {
    const GOOD: &[u8] = include_bytes!("corpus/ras_text/skipped-collective");
    diagnose(SourceKind::Ras, "ras", [GOOD, bytes], |source, reply| {
        Input::Ras { source, reply }
    });
}

fn diagnose<'a>(
    kind: SourceKind,
    name: &str,
    both: [&'a [u8]; 2],
    input: fn(SourceId, &'a [u8]) -> Input<'a>,
) {
    let mut engine = Engine::new(CATALOG.clone(), Options::default());
    for (n, bytes) in (0..).zip(both) {
        let source = SourceId(n);
        engine.handle(
            None,
            Input::Source(SourceInfo {
                id: source,
                name: format!("{name}{n}"),
                kind,
                host: None,
                pid: None,
                rank: None,
            }),
        );
        engine.handle(None, input(source, bytes));
    }
    engine.handle(None, Input::Claim { stuck_for: None });
    std::hint::black_box(engine.snapshot());
}

//! The engine: bytes, samples and time in; findings and a snapshot out.
//!
//! ```text
//! frame ─► demux ─► classify ─► parse ─► Event ─► job model ─► rules + detectors ─► cause ─► Snapshot
//! ```
//!
//! **Architecture invariant:** nothing in here reads a clock, a file, a socket, the environment or a
//! global, and nothing starts a thread (`clippy.toml`). The same inputs in the same order give the
//! same snapshot; how the bytes are cut into chunks does not matter.

pub mod catalog;
pub mod cause;
pub mod demux;
pub mod detect;
pub mod event;
pub mod finding;
pub mod frame;
pub mod ids;
pub mod input;
pub mod job;
pub mod limits;
pub mod line;
pub mod parse;
pub mod snapshot;
pub mod vocab;

use ids::SourceId;
use input::{Input, Time};
use line::Place;
use snapshot::{InputsView, JobView, Snapshot, SourceView, Verdict};
use vocab::{Class, Confidence, State};

/// How the engine works.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Remember places of recent lines per rank for the log screen.
    pub keep_recent: bool,
}

/// Stand-in until the engine is merged: counts bytes and lines.
pub struct Engine {
    sources: Vec<SourceView>,
    bytes: u64,
    now: Option<Time>,
    generation: u64,
    recent: Vec<Place>,
    claimed: bool,
    boom: Vec<u8>,
}

impl Engine {
    /// An engine with these rules.
    #[must_use]
    pub fn new(_catalog: catalog::Catalog, _options: Options) -> Self {
        Self {
            sources: Vec::new(),
            bytes: 0,
            now: None,
            generation: 0,
            recent: Vec::new(),
            claimed: false,
            boom: Vec::new(),
        }
    }

    /// Takes an input.
    pub fn handle(&mut self, seen: Option<Time>, input: Input<'_>) {
        self.now = seen.or(self.now);
        match input {
            Input::Source(info) => {
                let view = SourceView {
                    name: info.name,
                    kind: info.kind,
                    bytes: 0,
                    lines: 0,
                    ended: None,
                    problem: None,
                };
                self.sources.push(view);
            }
            Input::Bytes {
                source: SourceId(at),
                offset,
                chunk,
            } => {
                let view = &mut self.sources[at as usize];
                assert_eq!(view.bytes % (1 << 60), offset, "offsets follow each other");
                view.bytes += chunk.len() as u64;
                for end in memchr::memchr_iter(b'\n', chunk) {
                    view.lines += 1;
                    self.recent.push(Place {
                        source: SourceId(at),
                        number: view.lines,
                        offset: offset + end as u64,
                        len: 1,
                    });
                }
                self.bytes += chunk.len() as u64;
                self.boom.clear();
            }
            Input::Rotated(source) | Input::Truncated(source) => {
                self.sources[source.ix()].bytes = 0
            }
            Input::Ended {
                source,
                why,
                detail,
            } => {
                self.sources[source.ix()].ended = Some(why);
                self.sources[source.ix()].problem = detail;
            }
            Input::Claim { .. } => self.claimed = true,
            Input::Process { .. } | Input::Tick => return,
        }
        self.generation += 1;
    }

    /// Plain data.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            verdict: Verdict {
                state: State::Inconclusive,
                class: Class::Inconclusive,
                summary: format!("{} bytes", self.bytes),
                confidence: Confidence::ALL[0],
                ranks: Vec::new(),
                hosts: Vec::new(),
                other_causes: Vec::new(),
                missing_evidence: Vec::new(),
                finding: None,
            },
            findings: Vec::new(),
            job: JobView::default(),
            inputs: InputsView {
                lines: self.sources.iter().map(|s| s.lines).sum(),
                sources: self.sources.clone(),
                bytes: self.bytes,
                unparsed_lines: 0,
                dropped: 0,
            },
            now: self.now,
        }
    }

    /// Grows when something a snapshot shows changed.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Places of the last lines of a rank, oldest first.
    #[must_use]
    pub fn recent_lines(&self, _rank: u32) -> Vec<Place> {
        self.recent.clone()
    }
}

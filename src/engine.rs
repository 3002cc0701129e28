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
pub mod dump;
pub mod event;
pub mod finding;
pub mod frame;
pub mod gpu;
pub mod hits;
pub mod ids;
pub mod input;
pub mod job;
pub mod limits;
pub mod line;
pub mod memo;
pub mod parse;
pub mod ras;
pub mod recent;
pub mod snapshot;
pub mod vocab;
pub mod witness;
pub mod xid;

use std::time::Duration;

use catalog::{Catalog, Seen};
use demux::{Demux, Writer};
use event::Event;
use hits::{Hits, Matched};
use ids::{SourceId, WriterIx};
use input::{EndReason, Input, SourceInfo, SourceKind, Time};
use job::{Job, Ranks};
use line::{Line, Place};
use memo::ByText;
use parse::{Literals, Parser};
use recent::{Kept, Recent, Whose};
use snapshot::Snapshot;
use witness::recorder::Recorded;

/// How an engine works.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Remember where each rank's recent lines stand, for [`Engine::recent_lines`].
    pub keep_recent: bool,
}

/// What a message says, as far as it follows from its text.
#[derive(Clone, Copy, Debug)]
struct Said {
    event: Option<Event<'static>>,
    /// The event holds a part of the text, so that it has to be read again: these may be in it.
    again: Option<Literals>,
    rules: Matched,
}

/// What is known of a source.
#[derive(Clone, Debug)]
struct Source {
    info: SourceInfo,
    ended: Option<EndReason>,
    problem: Option<String>,
    /// Bytes of what came whole: a dump, answers of RAS.
    whole: u64,
}

/// The engine.
#[derive(Clone)]
pub struct Engine {
    catalog: Catalog,
    parser: Parser,
    /// What the messages that came before say.
    said: ByText<Said>,
    demux: Demux,
    job: Job,
    hits: Hits,
    /// By [`SourceId`]; ids may come in any order.
    sources: Vec<Option<Source>>,
    /// The user says that the job stands still, for this long if told.
    claim: Option<Option<Duration>>,
    first: Option<Time>,
    now: Option<Time>,
    /// The first tick: see [`Input::Tick`].
    watched_since: Option<Time>,
    unparsed: u64,
    generation: u64,
    recent: Option<Recent>,
}

impl Engine {
    /// An engine that knows these rules.
    #[must_use]
    pub fn new(catalog: Catalog, options: Options) -> Self {
        Self {
            catalog,
            parser: Parser::default(),
            said: ByText::default(),
            demux: Demux::default(),
            job: Job::default(),
            hits: Hits::default(),
            sources: Vec::new(),
            claim: None,
            first: None,
            now: None,
            watched_since: None,
            unparsed: 0,
            generation: 0,
            recent: options.keep_recent.then(Recent::default),
        }
    }

    /// The same engine without [`Options::keep_recent`]: for whoever only wants its snapshots.
    #[must_use]
    pub fn without_recent_lines(mut self) -> Self {
        self.recent = None;
        self
    }

    /// True if it has [`Options::keep_recent`].
    #[must_use]
    pub fn keeps_recent(&self) -> bool {
        self.recent.is_some()
    }

    /// Takes one input. `seen` is when it was seen, `None` for saved data without times.
    pub fn handle(&mut self, seen: Option<Time>, input: Input<'_>) {
        self.first = self.first.or(seen);
        self.now = seen.or(self.now);
        if !matches!(input, Input::Tick) {
            self.generation += 1;
        }
        match input {
            Input::Source(info) => self.open(info),
            Input::Bytes {
                source,
                offset,
                chunk,
            } => self.bytes(seen, source, offset, chunk),
            Input::Dump { source, bytes } => self.dump(seen, source, bytes),
            Input::Rotated(source) | Input::Truncated(source) => {
                self.flush(seen, source);
                self.demux.restart(source);
                self.job.gap(source);
                if let Some(recent) = &mut self.recent {
                    recent.forget(source);
                }
            }
            Input::Ended {
                source,
                why,
                detail,
            } => {
                self.flush(seen, source);
                if let Some(Some(known)) = self.sources.get_mut(source.ix()) {
                    if (known.info.kind, why) == (SourceKind::Dump, EndReason::Unreadable) {
                        let name = known.info.name.clone();
                        let why = detail.clone().unwrap_or_default();
                        self.job.recorder.unreadable(source, name, why);
                    }
                    known.ended = Some(why);
                    known.problem = detail.or(known.problem.take());
                }
            }
            Input::Ras { source, reply } => self.ras(seen, source, reply),
            Input::Process {
                host,
                pid,
                state,
                load,
            } => self.job.processes.take(host, pid, seen, state, load),
            Input::Gpu { host, sample } => self.job.gpus.take(host, seen, *sample),
            Input::Claim { stuck_for } => self.claim = Some(stuck_for),
            Input::Tick => {
                self.watched_since = self.watched_since.or(seen);
                self.generation += u64::from(self.waits_for_time());
            }
        }
    }

    /// Everything there is to show now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let logs = job::world_size(&self.job, self.demux.writers());
        let recorded = Recorded::of(&self.job.recorder, logs);
        let recorded = match logs {
            Some(logs) if !recorded.fits(logs) => recorded.set_aside(logs),
            _ => recorded,
        };
        let ranks = Ranks::resolve(&self.job, self.demux.writers(), &recorded);
        let scene = detect::Scene {
            job: &self.job,
            ranks: &ranks,
            recorded: &recorded,
            writers: self.demux.writers(),
            sources: self
                .sources
                .iter()
                .map(|s| Some(&s.as_ref()?.info))
                .collect(),
            catalog: &self.catalog,
            hits: &self.hits,
            claimed: self.claim.is_some(),
            now: self.now,
            watched_since: self.watched_since,
            more_may_come: self.sources.iter().flatten().any(|s| s.ended.is_none()),
            reports: detect::Reports::default(),
            frameworks: detect::Frameworks::default(),
        }
        .indexed();
        let findings = detect::run(&scene);
        let (verdict, findings) = cause::judge(&scene, findings);
        self.view(&ranks, &recorded, verdict, findings)
    }

    /// Grows whenever something that a snapshot shows may have changed.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Where the last lines of some ranks stand, in the order in which they came
    /// ([`Options::keep_recent`]); none before `since`, if that is among them.
    #[must_use]
    pub fn recent_lines(&self, whose: &Whose, since: Option<Place>) -> Vec<Kept> {
        let Some(recent) = &self.recent else {
            return Vec::new();
        };
        let resolved = Ranks::resolve(&self.job, self.demux.writers(), &Recorded::default());
        let limit = whose.limit();
        match whose {
            Whose::Ranks(ranks) => {
                let known = ranks.iter().filter_map(|rank| {
                    let known = resolved.ranks.get(*rank as usize)?;
                    Some(known.writers.iter().map(|writer| (*writer, Some(*rank))))
                });
                recent.newest(known.flatten(), limit, since)
            }
            Whose::All => {
                let all = resolved.of_writer.iter().enumerate();
                recent.newest(
                    all.map(|(ix, rank)| (WriterIx::from_ix(ix), *rank)),
                    limit,
                    since,
                )
            }
        }
    }

    /// Time matters only while the job is not known to have ended.
    fn waits_for_time(&self) -> bool {
        self.now.is_some()
    }

    fn open(&mut self, info: SourceInfo) {
        let ix = info.id.ix();
        if self.sources.len() <= ix {
            self.sources.resize(ix + 1, None);
        }
        // Dumps and answers have no lines, so nobody writes any there.
        if !matches!(info.kind, SourceKind::Dump | SourceKind::Ras) {
            self.demux.open(&info);
            self.job.know(self.demux.writers());
        }
        self.sources[ix] = Some(Source {
            info,
            ended: None,
            problem: None,
            whole: 0,
        });
    }

    fn dump(&mut self, seen: Option<Time>, source: SourceId, bytes: &[u8]) {
        let known = self.sources.get_mut(source.ix()).and_then(Option::as_mut);
        let name = known.as_ref().map(|known| known.info.name.clone());
        let recorder = &mut self.job.recorder;
        recorder.take(source, name.unwrap_or_default(), bytes, seen);
        if let Some(known) = known {
            known.whole = bytes.len() as u64;
            known.problem = recorder.problem(source);
        }
    }

    fn bytes(&mut self, seen: Option<Time>, source: SourceId, offset: u64, chunk: &[u8]) {
        let Self {
            catalog,
            parser,
            said,
            demux,
            job,
            hits,
            unparsed,
            recent,
            ..
        } = self;
        job.begin_chunk();
        demux.feed(source, offset, chunk, &mut |line, writers| {
            let within = line.place.offset >= offset;
            *unparsed += u64::from(!take(
                catalog,
                parser,
                said,
                job,
                hits,
                recent.as_mut(),
                line,
                writers,
                seen,
                within,
            ));
        });
        // A writer may be known before its first whole line.
        job.know(demux.writers());
        job.end_chunk(offset, chunk);
    }

    fn ras(&mut self, seen: Option<Time>, source: SourceId, reply: &[u8]) {
        let known = self.sources.get(source.ix()).and_then(Option::as_ref);
        let before = known.map_or(0, |known| known.whole);
        let lines = self.job.ras.lines_of(source);
        let told = ras::events::read(source, before, lines, reply);
        let known = self.sources.get_mut(source.ix()).and_then(Option::as_mut);
        if let Some(told) = told {
            if let Some(known) = known {
                known.whole += reply.len() as u64;
            }
            self.job.ras.hear(source, told);
            return;
        }
        let answer = ras::parse(source, reply);
        if let Some(known) = known {
            known.problem = answer.as_ref().err().map(ToString::to_string);
            known.whole += reply.len() as u64;
        }
        if let Ok(reply) = answer {
            self.job.ras.take(source, seen, reply);
        }
    }

    /// Takes a source's unfinished last line.
    fn flush(&mut self, seen: Option<Time>, source: SourceId) {
        let Self {
            catalog,
            parser,
            said,
            demux,
            job,
            hits,
            unparsed,
            recent,
            ..
        } = self;
        job.begin_chunk();
        demux.end(source, &mut |line, writers| {
            *unparsed += u64::from(!take(
                catalog,
                parser,
                said,
                job,
                hits,
                recent.as_mut(),
                line,
                writers,
                seen,
                false,
            ));
        });
        job.know(demux.writers());
    }
}

/// One line through parser, model and rules. Returns false if nothing said anything about it.
#[expect(
    clippy::too_many_arguments,
    reason = "the engine's parts, borrowed apart"
)]
#[inline]
fn take(
    catalog: &Catalog,
    parser: &mut Parser,
    said: &mut ByText<Said>,
    job: &mut Job,
    hits: &mut Hits,
    recent: Option<&mut Recent>,
    line: &Line<'_>,
    writers: &[Writer],
    seen: Option<Time>,
    borrowed: bool,
) -> bool {
    if line.writer.ix() >= job.records.len() {
        job.know(writers);
    }
    if let Some(recent) = recent {
        recent.push(line);
    }
    // Calls and channels are most of a log, seldom the same twice, and no rule looks at them.
    if let Some(event) = parser.frequent(line) {
        job.take(line, Some(&event), seen, borrowed);
        return true;
    }
    if let Some(said) = line.known.and_then(|text| said.get(text, line.class)) {
        let again;
        let event = match said.again {
            Some(literals) => {
                again = parser.parse(line, literals);
                again.as_ref()
            }
            None => said.event.as_ref(),
        };
        job.take(line, event, seen, borrowed);
        let matched = !said.rules.is_empty();
        if matched && !hits.take_again(said.rules, line.writer) {
            hits.take(catalog, line);
        }
        return matched || event.is_some();
    }
    // What NCCL prints tells by its beginning whether the rules have to look at it.
    let literals = if line.class.is_nccl() {
        Seen::default()
    } else {
        catalog.look(line.class, line.message)
    };
    let event = parser.parse(line, literals.parser);
    job.take(line, event.as_ref(), seen, borrowed);
    let wanted = Job::wants_rules(line.class, event.as_ref());
    let matched = wanted
        && (literals.rules || line.class.is_nccl() && catalog.look(line.class, line.message).rules)
        && hits.take(catalog, line);
    if let Some(text) = line.known {
        let rules = if matched {
            hits.matched()
        } else {
            Some(Matched::default())
        };
        if let Some(rules) = rules {
            let kept = event.map(Event::without_text);
            let news = Said {
                event: kept.flatten(),
                again: (kept == Some(None)).then_some(literals.parser),
                rules,
            };
            said.set(text, line.class, news);
        }
    }
    matched || event.is_some()
}

impl Engine {
    fn view(
        &self,
        ranks: &Ranks,
        recorded: &Recorded<'_>,
        verdict: snapshot::Verdict,
        findings: Vec<finding::Finding>,
    ) -> Snapshot {
        let mut job = self.job.view(ranks, self.demux.writers(), recorded);
        for row in &mut job.ranks {
            let Some(rank) = row.rank else { continue };
            row.guilty = verdict.ranks.binary_search(&rank).is_ok();
            row.finding = findings
                .iter()
                .position(|f| f.accused.contains(&rank))
                .or_else(|| findings.iter().position(|f| f.ranks.contains(&rank)));
        }
        for host in &mut job.hosts {
            host.odd = verdict.hosts.binary_search(&host.name).is_ok();
        }
        let mut inputs = snapshot::InputsView {
            unparsed_lines: self.unparsed,
            ..Default::default()
        };
        for source in self.sources.iter().flatten() {
            let counts = self.demux.counts(source.info.id);
            inputs.bytes += counts.bytes + source.whole;
            inputs.lines += counts.lines;
            inputs.dropped += counts.dropped;
            inputs.sources.push(snapshot::SourceView {
                id: source.info.id,
                name: source.info.name.clone(),
                kind: source.info.kind,
                bytes: counts.bytes + source.whole,
                lines: counts.lines,
                ended: source.ended,
                problem: source.problem.clone(),
            });
        }
        Snapshot {
            verdict,
            findings,
            job,
            inputs,
            now: self.now,
        }
    }
}

#[cfg(test)]
impl Engine {
    /// Reads the log of a rank, for tests of what uses an engine.
    pub(crate) fn read_log(&mut self, rank: u32, log: &str) {
        let source = SourceId(rank);
        self.handle(
            None,
            Input::Source(SourceInfo {
                id: source,
                name: format!("rank{rank}.log"),
                kind: SourceKind::File,
                host: None,
                pid: None,
                rank: Some(rank),
            }),
        );
        let chunk = log.as_bytes();
        self.handle(
            None,
            Input::Bytes {
                source,
                offset: 0,
                chunk,
            },
        );
    }
}

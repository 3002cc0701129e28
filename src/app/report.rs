//! Reads everything there is, once, and gives one diagnosis.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::host;
use super::ras::{self as ras_app, Asking};
use crate::engine::Engine;
use crate::engine::ids::SourceId;
use crate::engine::input::{EndReason, Input, SourceInfo, SourceKind};
use crate::engine::limits;
use crate::engine::ras;
use crate::engine::snapshot::Snapshot;
use crate::error::{InputError, in_words};
use crate::sources::decompress::Packing;
use crate::sources::discover::{Discoverer, Found, Log};
use crate::sources::fifo;
use crate::sources::journal::read::{Journal, Losses};
use crate::sources::progress::{Meter, Progress};
use crate::sources::ras::{Endpoint, Patience};
use crate::sources::read::Reader;
use crate::sources::record::What;
use crate::sources::tail::source_info;

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// `PATH|GLOB|DIR|JOURNAL|-`; none means the present folder.
    pub paths: Vec<PathBuf>,
    /// The user says that the job stands still, for this long if given.
    pub claim: Option<Option<Duration>>,
    /// Whether RAS is asked, beside what was read; never unasked.
    pub ras: Asking,
    /// How long named pipes are waited for that nobody writes to, all together.
    pub pipe_patience: Duration,
    /// Whether this host's GPUs are asked once.
    pub gpu: bool,
    /// Called where a named pipe waits for its writer.
    pub on_pipe: Option<fn(&Path)>,
}

/// The diagnosis and how it came about.
#[derive(Debug)]
pub struct Report {
    /// What was found out; if nothing could be read, that and no more.
    pub snapshot: Arc<Snapshot>,
    /// Names of what was read; none if there was nothing to read.
    pub taken: Vec<String>,
    /// What was passed over, and why.
    pub passed_over: Vec<(PathBuf, String)>,
    /// What was asked for and could not be used.
    pub problems: Vec<InputError>,
}

/// Reads and diagnoses. Saved logs carry no arrival times, so none are given to the engine: a
/// file's own times prove nothing. Journals carry theirs.
#[must_use]
pub fn run(plan: &Plan, engine: Engine) -> Report {
    run_told(plan, engine, &mut |_| ())
}

/// The same; `tell` hears now and then how far it has got.
pub fn run_told(plan: &Plan, engine: Engine, tell: &mut dyn FnMut(Progress)) -> Report {
    let found = Discoverer::new(&plan.paths).search();
    let files = || found.logs.iter().chain(&found.dumps);
    let meter = Meter::new(files().count(), files().map(|log| log.len).sum(), tell);
    let mut reading = Reading {
        engine,
        meter,
        reader: Reader::default(),
        next: 0,
        problems: Vec::new(),
        waited: false,
    };
    let Found {
        logs,
        answers,
        dumps,
        journals,
        stdin,
        passed_over,
        problems,
    } = found;
    let files = logs.iter().chain(&answers).chain(&dumps);
    let mut taken: Vec<String> = files.map(|log| log.name.clone()).collect();
    taken.extend(stdin.then(|| "stdin".to_owned()));
    taken.extend(journals.iter().map(|path| path.display().to_string()));
    reading.problems = problems;
    if taken.is_empty() && plan.ras.endpoints.is_empty() && !plan.gpu {
        if reading.problems.is_empty() {
            reading.problems.push(no_logs(&plan.paths));
        }
        // What was asked for stands among the inputs, with why it could not be used.
        for (path, why) in reading.failures() {
            let source = reading.announce(path.display().to_string(), SourceKind::File);
            reading.ended(source, EndReason::Unreadable, Some(why));
        }
        return Report {
            snapshot: Arc::new(reading.engine.snapshot()),
            taken,
            passed_over,
            problems: reading.problems,
        };
    }

    // All names come first: which number in a file's name is a rank shows beside the other names.
    let sources: Vec<SourceId> = logs.iter().map(|log| reading.announce_log(log)).collect();
    let dump_sources: Vec<SourceId> = dumps.iter().map(|d| reading.announce_dump(d)).collect();
    let stdin = stdin.then(|| reading.announce_stdin());
    for (log, source) in logs.iter().zip(sources) {
        if log.pipe {
            reading.pipe(log, source, plan);
        } else {
            reading.log(log, source);
        }
    }
    for (dump, source) in dumps.iter().zip(dump_sources) {
        reading.dump(dump, source);
    }
    if let Some(source) = stdin {
        reading.stdin(source);
    }
    for answer in &answers {
        reading.answer(answer);
    }
    for path in &journals {
        reading.journal(path);
    }
    for endpoint in &plan.ras.endpoints {
        reading.ask(endpoint, plan.ras.force);
        taken.push(format!("RAS at {endpoint}"));
    }
    if plan.gpu {
        match host::gpus_once(&reading.engine.snapshot()) {
            Ok((host, sample)) => {
                taken.push(format!("GPUs of {host}"));
                let sample = Box::new(sample);
                reading.engine.handle(None, Input::Gpu { host, sample });
            }
            Err(error) => reading.problems.push(InputError::because(
                "look at the GPUs of",
                Path::new("this host"),
                error.to_string(),
            )),
        }
    }
    if let Some(stuck_for) = plan.claim {
        reading.engine.handle(None, Input::Claim { stuck_for });
    }
    let snapshot = Arc::new(reading.engine.snapshot());
    let unread: Vec<InputError> = broken_dumps(&snapshot).collect();
    reading.problems.extend(unread);
    Report {
        snapshot,
        taken,
        passed_over,
        problems: reading.problems,
    }
}

/// What to do where nothing was found; no help to those who did so already.
pub const VERBOSE_HINT: &str = "`-v` lists what was passed over, and why";

/// The problem of a search that found nothing.
#[must_use]
pub fn no_logs(paths: &[PathBuf]) -> InputError {
    let here = PathBuf::from(".");
    let path = paths.first().unwrap_or(&here);
    InputError::because("find logs below", path, "there is none").hint(VERBOSE_HINT)
}

struct Reading<'a> {
    engine: Engine,
    meter: Meter<'a>,
    reader: Reader,
    next: u32,
    problems: Vec<InputError>,
    /// A pipe was waited for in vain.
    waited: bool,
}

impl Reading<'_> {
    fn announce_log(&mut self, log: &Log) -> SourceId {
        let source = self.new_source();
        self.engine.handle(
            None,
            Input::Source(source_info(source, log, SourceKind::File)),
        );
        source
    }

    fn announce_dump(&mut self, dump: &Log) -> SourceId {
        let source = self.new_source();
        let info = source_info(source, dump, SourceKind::Dump);
        self.engine.handle(None, Input::Source(info));
        source
    }

    fn dump(&mut self, dump: &Log, source: SourceId) {
        let result = Reader::whole(dump, limits::DUMP_BYTES, "dump").map(|bytes| {
            let bytes = &bytes;
            self.engine.handle(None, Input::Dump { source, bytes });
        });
        self.meter.file(dump.len);
        self.end(source, result);
    }

    fn announce_stdin(&mut self) -> SourceId {
        self.announce("stdin".to_owned(), SourceKind::Stdin)
    }

    /// Paths that could not be used, and why.
    fn failures(&self) -> Vec<(PathBuf, String)> {
        let problems = self.problems.iter();
        problems
            .map(|problem| (problem.path.clone(), problem.why.clone()))
            .collect()
    }

    fn announce(&mut self, name: String, kind: SourceKind) -> SourceId {
        let source = self.new_source();
        let info = SourceInfo {
            id: source,
            name,
            kind,
            host: None,
            pid: None,
            rank: None,
        };
        self.engine.handle(None, Input::Source(info));
        source
    }

    fn new_source(&mut self) -> SourceId {
        let source = SourceId(self.next);
        self.next += 1;
        source
    }

    fn log(&mut self, log: &Log, source: SourceId) {
        let (engine, meter) = (&mut self.engine, &mut self.meter);
        let plain = log.packing == Packing::Plain;
        let mut sink = |offset, chunk: &[u8]| {
            let input = Input::Bytes {
                source,
                offset,
                chunk,
            };
            engine.handle(None, input);
            meter.read(if plain { chunk.len() } else { 0 });
        };
        let result = self.reader.read(log, &mut sink);
        self.meter.file(log.len);
        self.end(source, result.map(drop));
    }

    fn pipe(&mut self, log: &Log, source: SourceId, plan: &Plan) {
        let tell = || plan.on_pipe.into_iter().for_each(|tell| tell(&log.path));
        // While one was waited for, the others could have got their writers as well.
        let patience = if self.waited {
            Duration::ZERO
        } else {
            plan.pipe_patience
        };
        match fifo::open(&log.path, patience, tell) {
            Ok(pipe) => self.stream(source, pipe, &log.path),
            Err(problem) => {
                self.waited = true;
                self.end(source, Err(problem));
            }
        }
    }

    /// A saved answer of RAS. What is wrong with one is told and does not stop the rest.
    fn answer(&mut self, answer: &Log) {
        let source = self.new_source();
        let info = source_info(source, answer, SourceKind::Ras);
        self.engine.handle(None, Input::Source(info));
        let result = Reader::whole(answer, ras::REPLY_BYTES, "answer of RAS").and_then(|reply| {
            let reply = &reply[..];
            self.engine.handle(None, Input::Ras { source, reply });
            if ras::events::begin(reply) {
                return Ok(());
            }
            ras::parse(source, reply)
                .map(drop)
                .map_err(|error| InputError::because("use", &answer.path, error.to_string()))
        });
        self.end(source, result);
    }

    fn ask(&mut self, endpoint: &Endpoint, force: bool) {
        let refusal = ras_app::refusal(&self.engine.snapshot(), endpoint).filter(|_| !force);
        match refusal.map_or_else(|| endpoint.ask(Patience::default()), Err) {
            Ok(reply) => {
                let source = self.new_source();
                let info = ras_app::source(source, endpoint);
                self.engine.handle(None, Input::Source(info));
                let reply = &reply[..];
                self.engine.handle(None, Input::Ras { source, reply });
                if let Err(error) = ras::parse(source, reply) {
                    let name = endpoint.to_string();
                    let path = Path::new(&name);
                    let problem = InputError::because("ask RAS at", path, error.to_string());
                    self.problems.push(problem);
                }
            }
            Err(problem) => self.problems.push(problem),
        }
    }

    fn stdin(&mut self, source: SourceId) {
        self.stream(source, io::stdin().lock(), Path::new("stdin"));
    }

    fn stream(&mut self, source: SourceId, mut body: impl Read, name: &Path) {
        let engine = &mut self.engine;
        let mut sink = |offset, chunk: &[u8]| {
            let input = Input::Bytes {
                source,
                offset,
                chunk,
            };
            engine.handle(None, input);
        };
        let result = self.reader.drain(&mut body, &mut sink);
        let result = result.map_err(|error| InputError::io("read", name, &error));
        self.end(source, result.map(drop));
    }

    /// What was piped in here came from a file or `cat`: its end says nothing about the job.
    fn end(&mut self, source: SourceId, result: Result<(), InputError>) {
        let (why, detail) = match result {
            Ok(()) => (EndReason::Eof, None),
            Err(problem) => {
                let detail = problem.why.clone();
                self.problems.push(problem);
                (EndReason::Unreadable, Some(detail))
            }
        };
        self.ended(source, why, detail);
    }

    fn ended(&mut self, source: SourceId, why: EndReason, detail: Option<String>) {
        self.engine.handle(
            None,
            Input::Ended {
                source,
                why,
                detail,
            },
        );
    }

    fn journal(&mut self, path: &Path) {
        let base = self.next;
        let engine = &mut self.engine;
        let next = &mut self.next;
        let result = open_journal(path).and_then(|mut journal| {
            while let Some(mut record) = journal.next_record()? {
                record.what.shift_source(base);
                if let What::Other(Input::Source(info)) = &record.what {
                    *next = (*next).max(info.id.0.saturating_add(1));
                }
                engine.handle(record.seen, record.what.as_input());
            }
            Ok(journal.losses())
        });
        match result {
            Ok(losses) => self.problems.extend(losses_in_words(path, losses)),
            Err(error) => self.problems.push(unusable_journal(path, &error)),
        }
    }
}

/// What the engine could not read of the dumps.
fn broken_dumps(snapshot: &Snapshot) -> impl Iterator<Item = InputError> + '_ {
    let dumps = snapshot.inputs.sources.iter();
    let dumps = dumps.filter(|s| s.kind == SourceKind::Dump && s.ended == Some(EndReason::Eof));
    dumps.filter_map(|s| {
        let why = s.problem.clone()?;
        Some(InputError::because("read", Path::new(&s.name), why))
    })
}

/// Opens a journal in a file.
pub(crate) fn open_journal(path: &Path) -> io::Result<Journal<BufReader<File>>> {
    let journal = Journal::open(BufReader::new(File::open(path)?))?;
    if journal.holds_nothing() {
        let why = "it is cut off before its first record";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(journal)
}

/// A journal that cannot be opened or read, with what to do about it.
#[must_use]
pub fn unusable_journal(path: &Path, error: &io::Error) -> InputError {
    let problem = InputError::because("read", path, in_words(error));
    match error.kind() {
        io::ErrorKind::InvalidData => problem
            .hint("copy the journal again; the logs it was made from can be replayed as well"),
        _ => InputError::io("read", path, error),
    }
}

/// What a journal lost, as a problem; a torn end alone is what a crash leaves and is only told.
pub(crate) fn losses_in_words(path: &Path, losses: Losses) -> Option<InputError> {
    let Losses {
        unknown,
        damaged,
        torn_bytes,
    } = losses;
    if (unknown, damaged, torn_bytes) == (0, 0, 0) {
        return None;
    }
    let why = format!(
        "{damaged} records are damaged, {unknown} are of a later version, {torn_bytes} bytes at the end are unfinished; the rest was used"
    );
    Some(InputError::because("read all of", path, why))
}

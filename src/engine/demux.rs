//! Whose line is it: launcher prefixes, NCCL headers, and the writers they tell apart.
//!
//! A *writer* is what one source shows of one process: keyed by (source, host as printed, pid)
//! where a line has an NCCL header, else by the launcher's prefix, else the source's own. Several
//! writers can be one process or one rank; the job model joins them by their hints.

mod bytes;
mod classify;
mod glue;
mod header;
mod hot;
mod layers;
mod learn;
mod names;
mod path;
mod plain;
mod prefix;
mod stream;
mod torch;
mod wrap;
mod writers;

use rustc_hash::FxHashMap;

use self::stream::{Context, Scratch, Stream};
use self::writers::Writers;
use super::frame::Framer;
use super::ids::SourceId;
use super::input::SourceInfo;
use super::line::Line;

/// Something that says which rank or host a writer is. Strongest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hint {
    /// The world rank: `[rankN]:` of PyTorch, a launcher's global rank (`[1,N]<stdout>:`, `srun -l`,
    /// `rank.N/` of Open MPI), or the source's opener knows it.
    WorldRank(u32),
    /// The local rank on its node: torchrun's tee number or folder.
    LocalRank(u32),
    /// A rank in the engine of vLLM, SGLang or the like (`Worker_TP1`, `VllmWorker rank=1`): the
    /// world rank only if the engine is the world.
    EngineRank(u32),
    /// The node's index (`--node-rank`, a pod's ordinal, `node1.log`).
    Node(u32),
    /// The host, short form.
    Host(String),
    /// The host's address, where a prefix gives that instead of a name (`ip=` of Ray).
    Address(String),
    /// The process id.
    Pid(u32),
    /// The single number in a file's name that differs between the files beside it.
    FileNumber(u32),
    /// torchrun's attempt (restart count), from the folder.
    Attempt(u32),
    /// What the launcher calls it (`Worker_TP1`, `RayWorkerWrapper`, `EngineCore`, a role, a pod).
    Name(String),
}

/// What one source shows of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The source.
    pub source: SourceId,
    /// What is known of it. Sorted, without duplicates; may grow, and a world rank that turns out to
    /// be the number of a launcher's task on a node is taken back.
    pub hints: Vec<Hint>,
    /// True for the source's own writer: lines that carry no sign of who wrote them. It exists from
    /// [`Demux::open`] on and holds what the source's name and opener tell.
    pub is_default: bool,
}

impl Writer {
    /// What its launcher calls it: the longest of its names, for a process that learns its place calls
    /// itself `Worker` first and `Worker_TP1` then.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let names = self.hints.iter().filter_map(|h| match h {
            Hint::Name(name) => Some(name.as_str()),
            _ => None,
        });
        names.max_by_key(|name| name.len())
    }
}

/// Splits the bytes of every source into lines with a known writer and class.
#[derive(Clone, Debug, Default)]
pub struct Demux {
    sources: FxHashMap<SourceId, Source>,
    writers: Writers,
    scratch: Scratch,
}

#[derive(Clone, Debug)]
struct Source {
    framer: Framer,
    bytes: u64,
    stream: Box<Stream>,
}

impl Demux {
    /// Announces a source. Ids are given by the caller and may come in any order.
    pub fn open(&mut self, info: &SourceInfo) {
        let own = match self.sources.get(&info.id) {
            Some(known) => known.stream.own_writer(),
            None => self.add(info.id).stream.own_writer(),
        };
        let known = info
            .rank
            .map(Hint::WorldRank)
            .into_iter()
            .chain(info.pid.map(Hint::Pid));
        let host = info
            .host
            .as_deref()
            .map(|h| Hint::Host(String::from_utf8_lossy(bytes::short(h.as_bytes())).into_owned()));
        for hint in known.chain(host).chain(path::hints(&info.name)) {
            self.writers.own_hint(own, hint);
        }
    }

    /// Takes the next bytes of a source and hands every finished line to `sink`, in order.
    ///
    /// `offset` is where the chunk stands in the source; a gap ends the line before it. A source
    /// that was not announced is taken as one without a name.
    pub fn feed(
        &mut self,
        source: SourceId,
        offset: u64,
        chunk: &[u8],
        sink: &mut dyn FnMut(&Line<'_>, &[Writer]),
    ) {
        if !self.sources.contains_key(&source) {
            self.add(source);
        }
        let Self {
            sources,
            writers,
            scratch,
        } = self;
        let Some(Source {
            framer,
            bytes,
            stream,
        }) = sources.get_mut(&source)
        else {
            return;
        };
        *bytes += chunk.len() as u64;
        let mut context = Context {
            writers,
            scratch,
            sink,
        };
        framer.feed(offset, chunk, &mut |line| stream.take(line, &mut context));
    }

    /// Ends a source: hands out its unfinished last line, if any.
    pub fn end(&mut self, source: SourceId, sink: &mut dyn FnMut(&Line<'_>, &[Writer])) {
        let Self {
            sources,
            writers,
            scratch,
        } = self;
        if let Some(Source { framer, stream, .. }) = sources.get_mut(&source) {
            let mut context = Context {
                writers,
                scratch,
                sink,
            };
            framer.finish(&mut |line| stream.take(line, &mut context));
            stream.finish(&mut context);
        }
    }

    /// Starts a source again from offset 0 (rotation, truncation); its writers stay.
    pub fn restart(&mut self, source: SourceId) {
        if let Some(source) = self.sources.get_mut(&source) {
            source.framer.restart();
            source.stream.restart();
        }
    }

    /// Every writer, by index.
    #[must_use]
    pub fn writers(&self) -> &[Writer] {
        self.writers.as_slice()
    }

    /// Counters of a source.
    #[must_use]
    pub fn counts(&self, source: SourceId) -> Counts {
        self.sources
            .get(&source)
            .map_or_else(Counts::default, |s| Counts {
                bytes: s.bytes,
                lines: s.framer.lines(),
                dropped: s.framer.dropped() + s.stream.dropped(),
            })
    }

    fn add(&mut self, id: SourceId) -> &mut Source {
        let own = self.writers.add_own(id);
        self.sources.entry(id).or_insert_with(|| Source {
            framer: Framer::default(),
            bytes: 0,
            stream: Box::new(Stream::new(id, own)),
        })
    }
}

/// What a source held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes taken.
    pub bytes: u64,
    /// Lines finished (empty ones too).
    pub lines: u64,
    /// Bytes cut off lines that were too long.
    pub dropped: u64,
}

//! Runs bytes through the demultiplexer and keeps what it says.

use unhang::engine::demux::{Counts, Demux, Hint, Writer};
use unhang::engine::ids::SourceId;
use unhang::engine::input::{SourceInfo, SourceKind};
use unhang::engine::line::{Head, Line};
use unhang::engine::vocab::LineClass;

/// A line that owns what it says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Got {
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) writer: u32,
    pub(crate) class: LineClass,
    pub(crate) raw: String,
    pub(crate) text: String,
    pub(crate) message: String,
    pub(crate) head: String,
    pub(crate) is_default: bool,
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn got(line: &Line<'_>, is_default: bool) -> Got {
    Got {
        number: line.place.number,
        offset: line.place.offset,
        writer: line.writer.0,
        class: line.class,
        raw: text(line.raw),
        text: text(line.text),
        message: text(line.message),
        head: match line.head {
            Head::Nccl(h) => format!(
                "nccl {}:{}:{} {:?} {:?} {:?}",
                text(h.host),
                h.pid,
                h.tid,
                h.dev,
                h.location.map(|(f, l)| (text(f), l)),
                h.stamp.map(text)
            ),
            Head::C10d(h) => format!(
                "c10d {:?} {} {}:{} {:?}",
                h.rank,
                h.level as char,
                text(h.location.0),
                h.location.1,
                h.stamp.map(text)
            ),
            Head::Plain => String::new(),
        },
        is_default,
    }
}

pub(crate) struct Run {
    pub(crate) lines: Vec<Got>,
    pub(crate) demux: Demux,
}

impl Run {
    pub(crate) fn hints(&self, line: usize) -> &[Hint] {
        &self.demux.writers()[self.lines[line].writer as usize].hints
    }

    pub(crate) fn counts(&self) -> Counts {
        self.demux.counts(SourceId(0))
    }

    pub(crate) fn find(&self, message: &str) -> usize {
        self.lines
            .iter()
            .position(|l| l.message == message)
            .unwrap_or_else(|| panic!("no line {message:?} in {:#?}", self.lines))
    }
}

pub(crate) fn info(name: &str) -> SourceInfo {
    SourceInfo {
        id: SourceId(0),
        name: name.to_owned(),
        kind: SourceKind::File,
        host: None,
        pid: None,
        rank: None,
    }
}

pub(crate) fn run_chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Run {
    let mut demux = Demux::default();
    let mut lines = Vec::new();
    demux.open(&info("job.log"));
    let mut offset = 0;
    let mut sink = |line: &Line<'_>, writers: &[Writer]| {
        lines.push(got(line, writers[line.writer.ix()].is_default));
    };
    for chunk in chunks {
        demux.feed(SourceId(0), offset, chunk, &mut sink);
        offset += chunk.len() as u64;
    }
    demux.end(SourceId(0), &mut sink);
    Run { lines, demux }
}

pub(crate) fn run(bytes: impl AsRef<[u8]>) -> Run {
    run_chunks([bytes.as_ref()])
}

/// Class, what is known of the writer, and the text of every line.
pub(crate) fn told(run: &Run) -> String {
    (0..run.lines.len())
        .map(|at| {
            format!(
                "{:<11} {:?} | {}\n",
                run.lines[at].class.name(),
                run.hints(at),
                run.lines[at].text
            )
        })
        .collect()
}

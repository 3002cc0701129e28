//! One source's lines: unwrapped, parted, named, classified, handed out.
//!
//! ```text
//! line ─► same header as before? ─────────────────────────────────► hand out
//!    └──► unwrap container ─► colours off ─► part glued lines ─► prefixes ─► header ─► class ─► hand out
//! ```

use super::Writer;
use super::bytes::is_blank;
use super::classify::{Front, classify, continues_cpp};
use super::glue;
use super::header::{self, Nccl, Tail};
use super::hot::{Hot, Known};
use super::layers::Layers;
use super::names::Names;
use super::plain::{self, Plain};
use super::prefix::Layer;
use super::torch;
use super::wrap::{self, Partial, Wrapped};
use super::writers::Writers;
use crate::engine::frame::Framed;
use crate::engine::ids::{SourceId, WriterIx};
use crate::engine::line::{Head, Line, NcclHead, Place};
use crate::engine::memo::{TextId, Texts, Vacant};
use crate::engine::parse::is_frequent;
use crate::engine::vocab::LineClass;

/// Lines that one physical line is parted into at most.
const PIECES: usize = 64;

/// Buffers that live on between lines.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    pub(super) key: Vec<u8>,
    plain: Vec<u8>,
    nccl: header::Finder,
    rank: glue::RankFinder,
    texts: Texts<Fact>,
    /// The line that is being taken, if it is among those, or where it may be kept.
    whole: Result<TextId, Vacant>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            key: Vec::new(),
            plain: Vec::new(),
            nccl: header::Finder::default(),
            rank: glue::RankFinder::default(),
            texts: Texts::default(),
            whole: Err(Vacant::NONE),
        }
    }
}

impl Scratch {
    /// A message among those that came before.
    fn message(&mut self, class: LineClass, head: Head<'_>, message: &[u8]) -> Option<TextId> {
        if is_frequent(class, message) {
            return None;
        }
        let kind = match head {
            Head::Plain => MESSAGE,
            Head::Nccl(_) => MESSAGE + 1,
            Head::C10d(_) => MESSAGE + 2,
        };
        match self.texts.get(kind, message) {
            Ok((text, _)) => Some(text),
            Err(vacant) => self.texts.keep(vacant, message, Fact::None),
        }
    }
}

/// What is known of a text that came before.
#[derive(Clone, Copy, Debug)]
enum Fact {
    /// Nothing here; the engine may know what it says.
    None,
    /// No other NCCL header is in it.
    Single,
    /// It is a line without prefixes and headers.
    Plain(Plain),
}

/// Kinds of text: behind the header of [`Hot`], a whole line, and the messages of all other lines.
const BEHIND: u8 = 0;
const WHOLE: u8 = 1;
const MESSAGE: u8 = 2;

/// What all sources share while one line is taken.
pub(super) struct Context<'c> {
    pub(super) writers: &'c mut Writers,
    pub(super) scratch: &'c mut Scratch,
    pub(super) sink: &'c mut dyn FnMut(&Line<'_>, &[Writer]),
}

/// Where a text came from.
#[derive(Clone, Copy)]
struct Origin<'a> {
    place: Place,
    raw: &'a [u8],
    /// The text is the raw line itself, so that parts of it have places of their own.
    exact: bool,
}

impl<'a> Origin<'a> {
    fn part(self, from: usize, to: usize) -> Self {
        if !self.exact {
            return self;
        }
        let raw = &self.raw[from..to];
        Self {
            place: Place {
                offset: self.place.offset + from as u64,
                len: length(raw),
                ..self.place
            },
            raw,
            exact: true,
        }
    }
}

/// Whether a line may hold another writer's line behind unfinished output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Glue {
    /// It may, and it is a whole line.
    Whole,
    Look,
    Ignore,
}

/// A source's state between lines.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    names: Names,
    hot: Hot,
    partial: Option<Box<(Partial, Place)>>,
    /// The writer of the line before.
    last: WriterIx,
    /// The line before began or went on with a message of several lines.
    open: bool,
    /// A prefix came alone, ended by `\r`: the text behind is that writer's.
    pending: Option<WriterIx>,
    /// What is handed out is the front of a line that other output cut off.
    torn: bool,
    dropped: u64,
}

impl Stream {
    pub(super) fn new(id: SourceId, own: WriterIx) -> Self {
        Self {
            names: Names::new(id, own),
            hot: Hot::default(),
            partial: None,
            last: own,
            open: false,
            pending: None,
            torn: false,
            dropped: 0,
        }
    }

    pub(super) fn own_writer(&self) -> WriterIx {
        self.names.own()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn restart(&mut self) {
        self.partial = None;
        self.open = false;
        self.pending = None;
    }

    /// Takes one physical line.
    pub(super) fn take(&mut self, framed: Framed<'_>, context: &mut Context<'_>) {
        let raw = framed.bytes;
        let place = Place {
            source: self.names.source(),
            number: framed.number,
            offset: framed.offset,
            len: length(raw),
        };
        if !framed.escapes && self.known(raw, place, context) {
            return;
        }
        let origin = Origin {
            place,
            raw,
            exact: true,
        };
        let wrapped = match raw.first() {
            None => return,
            Some(b'{') => wrap::docker(raw),
            Some(b'0'..=b'9') => wrap::cri(raw),
            Some(b'<') if raw.starts_with(b"<std") => {
                if let Some(lines) = wrap::xml(raw) {
                    self.lines_in(
                        &lines,
                        Origin {
                            exact: false,
                            ..origin
                        },
                        context,
                    );
                    return;
                }
                None
            }
            Some(_) => None,
        };
        match wrapped {
            Some(wrapped) => self.wrapped(wrapped, origin, context),
            None => self.text(raw, framed.escapes, origin, framed.by_return, context),
        }
    }

    /// Hands out what a container's partial lines have left.
    pub(super) fn finish(&mut self, context: &mut Context<'_>) {
        let Some(mut rest) = self.partial.take() else {
            return;
        };
        for stderr in [false, true] {
            let text = rest.0.take(stderr);
            self.lines_in(
                &text,
                Origin {
                    place: rest.1,
                    raw: &text,
                    exact: false,
                },
                context,
            );
        }
    }

    /// The quick ways: a line that begins as an NCCL line before it, or is one that came before.
    #[inline]
    fn known(&mut self, raw: &[u8], place: Place, context: &mut Context<'_>) -> bool {
        if let Some((known, tail)) = self.hot.last(raw) {
            return self.same_header(raw, place, known, tail, context);
        }
        context.scratch.whole = Err(Vacant::NONE);
        // Where tags can begin in mid-line, it is the source that decides.
        if !self.names.tagged() {
            context.scratch.whole = match context.scratch.texts.get(WHOLE, raw) {
                Ok((text, Fact::Plain(plain))) => {
                    self.plain_again(raw, place, text, plain, context);
                    return true;
                }
                Ok((text, _)) => Ok(text),
                Err(vacant) => Err(vacant),
            };
        }
        match self.hot.any(raw, &context.scratch.nccl) {
            Some((known, tail)) => self.same_header(raw, place, known, tail, context),
            None => false,
        }
    }

    fn plain_again(
        &mut self,
        raw: &[u8],
        place: Place,
        known: TextId,
        plain: Plain,
        context: &mut Context<'_>,
    ) {
        self.names.no_prefix();
        let writer = if self.open && plain.continues {
            self.last
        } else {
            self.pending.unwrap_or(self.names.own())
        };
        let class = plain.class(raw, context.writers.block(writer));
        self.hand(
            Line {
                place,
                writer,
                class,
                raw,
                text: raw,
                message: raw,
                head: Head::Plain,
                known: Some(known),
                torn: self.torn,
            },
            context,
        );
    }

    fn same_header(
        &mut self,
        raw: &[u8],
        place: Place,
        known: Known,
        tail: Tail<'_>,
        context: &mut Context<'_>,
    ) -> bool {
        let Tail {
            tid,
            dev,
            location,
            class,
            behind,
        } = tail;
        let Scratch { nccl, texts, .. } = &mut *context.scratch;
        let looked = if is_frequent(class, behind) {
            Err(Vacant::NONE)
        } else {
            texts.get(BEHIND, behind)
        };
        let message = header::whole(behind);
        let text = match looked {
            Ok((text, _)) => Some(text),
            Err(_) if nccl.find(behind, 0).is_some() => return false,
            Err(vacant) if message.len() == behind.len() => {
                texts.keep(vacant, behind, Fact::Single)
            }
            Err(_) => None,
        };
        let Known {
            body,
            host,
            host_len,
            pid,
            writer,
            label,
        } = known;
        if let Some(label) = label.filter(|_| writer != self.last) {
            self.names.note_task(label, pid, context.writers);
        }
        let head = NcclHead {
            host: &raw[host..host + host_len],
            pid,
            tid,
            dev,
            location,
            stamp: None,
        };
        self.hand(
            Line {
                place,
                writer,
                class,
                raw,
                text: &raw[body..],
                message,
                head: Head::Nccl(head),
                known: text,
                torn: self.torn,
            },
            context,
        );
        true
    }

    fn wrapped(&mut self, wrapped: Wrapped<'_>, origin: Origin<'_>, context: &mut Context<'_>) {
        let Wrapped {
            text,
            stderr,
            partial,
        } = wrapped;
        let origin = Origin {
            exact: false,
            ..origin
        };
        let waiting = self.partial.as_ref().is_some_and(|p| !p.0.is_empty(stderr));
        if !partial && !waiting {
            self.lines_in(&text, origin, context);
            return;
        }
        let parts = self
            .partial
            .get_or_insert_with(|| Box::new((Partial::default(), origin.place)));
        parts.1 = origin.place;
        self.dropped += parts.0.add(stderr, &text);
        if !partial {
            let joined = parts.0.take(stderr);
            self.lines_in(&joined, origin, context);
        }
    }

    /// Takes a text that was unwrapped and may hold line ends of its own.
    fn lines_in(&mut self, text: &[u8], origin: Origin<'_>, context: &mut Context<'_>) {
        for line in text.split(|b| matches!(b, b'\n' | b'\r')) {
            let escapes = memchr::memchr(0x1b, line).is_some();
            self.text(line, escapes, origin, false, context);
        }
    }

    fn text(
        &mut self,
        text: &[u8],
        escapes: bool,
        origin: Origin<'_>,
        by_return: bool,
        context: &mut Context<'_>,
    ) {
        if !escapes {
            self.pieces(text, origin, by_return, context);
            return;
        }
        let mut plain = std::mem::take(&mut context.scratch.plain);
        plain.clear();
        wrap::without_escapes(text, &mut plain);
        self.pieces(
            &plain,
            Origin {
                exact: false,
                ..origin
            },
            by_return,
            context,
        );
        context.scratch.plain = plain;
    }

    fn pieces(
        &mut self,
        text: &[u8],
        origin: Origin<'_>,
        by_return: bool,
        context: &mut Context<'_>,
    ) {
        let mut from = 0;
        for _ in 0..PIECES {
            let rest = &text[from..];
            let glue = if from == 0 { Glue::Whole } else { Glue::Look };
            match self.piece(rest, origin.part(from, text.len()), glue, context) {
                Piece::Done => return,
                Piece::Alone(writer) => {
                    self.pending = by_return.then_some(writer);
                    return;
                }
                Piece::PartedAt(at) => {
                    let begun = |text| context.scratch.nccl.find(text, 0).is_some();
                    self.torn = begun(&rest[..at]) || self.names.begins_header(&rest[..at]);
                    self.piece(
                        &rest[..at],
                        origin.part(from, from + at),
                        Glue::Ignore,
                        context,
                    );
                    self.torn = false;
                    from += at;
                }
            }
        }
        self.piece(
            &text[from..],
            origin.part(from, text.len()),
            Glue::Ignore,
            context,
        );
    }

    fn piece(
        &mut self,
        text: &[u8],
        origin: Origin<'_>,
        glue: Glue,
        context: &mut Context<'_>,
    ) -> Piece {
        let start = context.scratch.nccl.find(text, 0);
        let start = start.map(|start| self.names.unglued(text, start, &mut context.scratch.key));
        let (layers, body) = self.names.layers(text, start);
        let text = if layers.is_empty() {
            text
        } else {
            glue::without_repeat_mark(text, body.max(start.unwrap_or(0)), &layers)
        };
        if let Some(start) = start.filter(|s| *s >= body)
            && let Some(mut nccl) = header::parse(&text[start..])
        {
            let gap = &text[body..start];
            if header::is_stamp(gap) {
                nccl.head.stamp = Some(header::bare_stamp(gap));
            } else if !gap.is_empty() {
                let stamp = header::stamp_at_end(gap);
                let before = gap.len() - stamp;
                // Behind a blank or a mark it is a prefix nobody knows, else another writer's unfinished line.
                if glue != Glue::Ignore
                    && before > 0
                    && !matches!(
                        gap[before - 1],
                        b' ' | b'\t' | b'|' | b':' | b']' | b'>' | b')'
                    )
                {
                    return Piece::PartedAt(start - stamp);
                }
                if stamp > 0 {
                    nccl.head.stamp = Some(header::bare_stamp(&gap[before..]));
                }
            }
            // Torn output, or the stack bytes of an old NCCL with the next line right behind them.
            let message_at = text.len() - nccl.behind.len();
            if glue != Glue::Ignore
                && let Some(next) = context.scratch.nccl.find(text, message_at)
            {
                return Piece::PartedAt(next - header::stamp_at_end(&text[message_at..next]));
            }
            self.nccl_line(text, body, start, &layers, nccl, origin, context);
            return Piece::Done;
        }
        if glue != Glue::Ignore
            && let Some(at) = glue::find(text, body, &self.names, &context.scratch.rank)
        {
            return Piece::PartedAt(at);
        }
        let is_plain = glue == Glue::Whole
            && origin.exact
            && start.is_none()
            && layers.is_empty()
            && !self.names.tagged();
        self.plain_line(text, body, &layers, origin, is_plain, context)
    }

    #[expect(clippy::too_many_arguments, reason = "one line's parts, used once")]
    fn nccl_line(
        &mut self,
        text: &[u8],
        body: usize,
        start: usize,
        layers: &Layers<'_>,
        nccl: Nccl<'_>,
        origin: Origin<'_>,
        context: &mut Context<'_>,
    ) {
        let Nccl {
            head,
            class,
            message,
            ..
        } = nccl;
        let writer = self.names.process(
            &head,
            layers,
            &text[..body],
            context.writers,
            &mut context.scratch.key,
        );
        // Only a header right behind its prefixes can come again byte for byte.
        if origin.exact
            && start == body
            && head.stamp.is_none()
            && class != LineClass::NcclOther
            && !layers.is_stamped()
        {
            let colons = memchr::memchr_iter(b':', &text[start..]);
            if let Some(colon) = colons.take(2).nth(1) {
                let known = Known {
                    body,
                    host: start,
                    host_len: head.host.len(),
                    pid: head.pid,
                    writer,
                    label: layers.label(),
                };
                self.hot.put(&text[..=start + colon], known);
            }
        }
        let head = Head::Nccl(head);
        self.hand(
            Line {
                place: origin.place,
                writer,
                class,
                raw: origin.raw,
                text: &text[body..],
                message,
                head,
                known: context.scratch.message(class, head, message),
                torn: self.torn,
            },
            context,
        );
    }

    fn plain_line(
        &mut self,
        text: &[u8],
        body: usize,
        layers: &Layers<'_>,
        origin: Origin<'_>,
        is_plain: bool,
        context: &mut Context<'_>,
    ) -> Piece {
        let prefixes = &text[..body];
        let text = &text[body..];
        let named =
            self.names
                .prefixed(layers, prefixes, context.writers, &mut context.scratch.key);
        if is_blank(text) {
            return named.map_or(Piece::Done, Piece::Alone);
        }
        let logged = torch::parse(text, layers.rank());
        let writer = match named {
            Some(writer) => writer,
            None if self.open && logged.is_none() && continues_cpp(text) => self.last,
            None => self.pending.unwrap_or(self.names.own()),
        };
        let is_whole = is_plain && logged.is_none();
        let (head, message) = match logged {
            Some((head, message)) => (Head::C10d(head), message),
            None => (Head::Plain, text),
        };
        let inner = layers.as_slice().last();
        let front = match (head, inner) {
            (Head::C10d(_), _) => Front::Logged,
            (_, Some(Layer::Rank(_))) => Front::Hooked,
            _ => Front::Bare,
        };
        let mut class = classify(message, front, context.writers.block(writer));
        if class == LineClass::App
            && matches!(
                inner,
                Some(Layer::Named {
                    name: b"raylet" | b"autoscaler" | b"gcs_server",
                    ..
                })
            )
        {
            class = LineClass::Launcher;
        }
        let known = if is_whole {
            self.whole(text, context.scratch)
        } else {
            context.scratch.message(class, head, message)
        };
        self.hand(
            Line {
                place: origin.place,
                writer,
                class,
                raw: origin.raw,
                text,
                message,
                head,
                known,
                torn: self.torn,
            },
            context,
        );
        Piece::Done
    }

    /// Keeps a whole line that has no prefix and no header, if it came before.
    fn whole(&self, line: &[u8], scratch: &mut Scratch) -> Option<TextId> {
        match scratch.whole {
            Ok(text) => Some(text),
            Err(vacant) if vacant.is_open() => {
                let plain = plain::of(line, &self.names, &scratch.rank);
                let fact = plain.map_or(Fact::None, Fact::Plain);
                scratch.texts.keep(vacant, line, fact)
            }
            Err(_) => None,
        }
    }

    fn hand(&mut self, line: Line<'_>, context: &mut Context<'_>) {
        self.last = line.writer;
        self.open = line.class == LineClass::Traceback || matches!(line.head, Head::C10d(_));
        self.pending = None;
        (context.sink)(&line, context.writers.as_slice());
    }
}

/// What became of a piece of text.
enum Piece {
    /// It was handed out, or was blank.
    Done,
    /// It was only a prefix.
    Alone(WriterIx),
    /// Nothing yet: another writer's line begins here.
    PartedAt(usize),
}

fn length(raw: &[u8]) -> u32 {
    u32::try_from(raw.len()).unwrap_or(u32::MAX)
}

//! Paper with a width: the one place where a text report gets its colours and loses what is harmful.

use crate::engine::vocab::State;
use crate::views::escape::{self, Glyphs};

use super::ReportOptions;

/// How a piece of text is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// Ordinary.
    Plain,
    /// A heading.
    Strong,
    /// Beside the point.
    Quiet,
    /// The state word.
    State(State),
    /// The odd or guilty one.
    Bad,
    /// To be pasted.
    Command,
}

impl Tone {
    fn sgr(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Quiet => "2",
            Self::Bad => "1;31",
            Self::Command => "36",
            Self::State(state) => match state {
                State::Healthy | State::Completed => "1;7;32",
                State::Degraded | State::Waiting => "1;7;33",
                State::Inconclusive => "1;7",
                State::Hung | State::Failed | State::WrongResults => "1;7;31",
            },
        }
    }
}

/// Where the lines of a paragraph start, and how many there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Blanks before the first line.
    pub(super) indent: usize,
    /// Blanks before the others; [`HANG`] for as many as stand before the text of the first.
    pub(super) hang: usize,
    /// Lines at most; what does not fit is cut.
    pub(super) limit: usize,
}

/// Further lines start below the text of the first one.
pub(super) const HANG: usize = usize::MAX;

/// Lines of text, written from the top.
pub(super) struct Page {
    out: String,
    width: usize,
    glyphs: Glyphs,
    color: bool,
}

impl Page {
    pub(super) fn new(options: &ReportOptions) -> Self {
        Self {
            out: String::new(),
            width: options.width.max(20),
            glyphs: options.glyphs(),
            color: options.color,
        }
    }

    pub(super) fn glyphs(&self) -> Glyphs {
        self.glyphs
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// One line of several pieces; what does not fit is cut.
    pub(super) fn line(&mut self, indent: usize, pieces: &[(Tone, &str)]) {
        let mut used = indent;
        self.blanks(indent);
        for (tone, text) in pieces {
            let shown = escape::fit(text, self.width.saturating_sub(used), self.glyphs);
            used += escape::width(&shown);
            self.paint(*tone, &shown);
        }
        self.end();
    }

    /// A paragraph, wrapped.
    pub(super) fn paragraph(&mut self, shape: Shape, tone: Tone, text: &str) {
        self.labelled(shape, (Tone::Plain, ""), tone, text);
    }

    /// A paragraph that starts with a label.
    pub(super) fn labelled(&mut self, shape: Shape, label: (Tone, &str), tone: Tone, text: &str) {
        let name = escape::harmless(label.1, self.glyphs).into_owned();
        let first = shape.indent + escape::width(&name);
        let hang = if shape.hang == HANG {
            first
        } else {
            shape.hang
        };
        let [room_first, room] = [first, hang].map(|used| self.width.saturating_sub(used));
        let mut lines = escape::wrap_after(text, room_first, room, self.glyphs);
        if lines.len() > shape.limit {
            lines.truncate(shape.limit);
            let room = if shape.limit == 1 { room_first } else { room };
            if let Some(last) = lines.last_mut() {
                escape::elide(last, room, self.glyphs);
            }
        }
        for (at, line) in lines.iter().enumerate() {
            if at == 0 {
                self.blanks(shape.indent);
                self.paint(label.0, &name);
            } else {
                self.blanks(hang);
            }
            self.paint(tone, line);
            self.end();
        }
    }

    /// A command, whole on one line however long it is, so that it can be pasted.
    pub(super) fn command(&mut self, indent: usize, text: &str) {
        self.blanks(indent);
        let shown = escape::harmless(text, self.glyphs).into_owned();
        self.paint(Tone::Command, &shown);
        self.end();
    }

    /// An empty line, never two.
    pub(super) fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    fn blanks(&mut self, n: usize) {
        self.out.extend(std::iter::repeat_n(' ', n));
    }

    fn paint(&mut self, tone: Tone, harmless: &str) {
        let sgr = tone.sgr();
        if self.color && !sgr.is_empty() && !harmless.is_empty() {
            self.out.push_str(&format!("\x1b[{sgr}m{harmless}\x1b[0m"));
        } else {
            self.out.push_str(harmless);
        }
    }

    fn end(&mut self) {
        let kept = self.out.trim_end_matches(' ').len();
        self.out.truncate(kept);
        self.out.push('\n');
    }
}

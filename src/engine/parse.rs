//! Lines to events. Never fails: a line it does not understand is no event.

mod c10d;
pub(super) mod cursor;
mod launcher;
mod literals;
mod nccl;
mod nccl_coll;
mod nccl_net;
mod text;

use super::event::Event;
use super::line::{Head, Line};
use super::vocab::LineClass;

pub use literals::{LITERALS, Literals};
pub use nccl_net::split_address;

/// True if a message of this class looks like a call or a channel's connection: seldom the same twice,
/// so that remembering it is not worth while. A guess, made for every line.
#[inline]
#[must_use]
pub fn is_frequent(class: LineClass, message: &[u8]) -> bool {
    // How long the names of calls are, the usual ones first.
    const NAMES: [usize; 7] = [9, 13, 4, 6, 7, 8, 10];
    let is_call = |name: &usize| message.get(*name..*name + 4) == Some(b": op");
    class == LineClass::NcclInfo
        && match message.first() {
            Some(b'C') => message.starts_with(b"Channel "),
            Some(b'A' | b'R' | b'B' | b'S' | b'G' | b'P' | b'W') => NAMES.iter().any(is_call),
            _ => false,
        }
}

/// Reads lines. Keeps the searchers that it needs for every other line.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    nccl: nccl::Words,
}

impl Parser {
    /// A call or a channel's connection: what most lines of a log are.
    #[inline]
    #[must_use]
    pub fn frequent<'a>(&mut self, line: &Line<'a>) -> Option<Event<'a>> {
        match line.class {
            LineClass::NcclInfo => nccl::frequent(line.message, &mut self.nccl),
            _ => None,
        }
    }

    /// What a line says, if anything. Borrows from the line. `found` are the literals in its
    /// message.
    #[must_use]
    pub fn parse<'a>(&mut self, line: &Line<'a>, found: Literals) -> Option<Event<'a>> {
        match line.class {
            LineClass::NcclInfo | LineClass::NcclOther => nccl::info(line.message, &mut self.nccl),
            LineClass::NcclWarn => nccl::warn(line.message, &self.nccl),
            LineClass::NcclCall => Some(Event::Known),
            LineClass::C10d => c10d::parse(line.message, found),
            LineClass::Launcher => launcher::parse(line.message, found),
            LineClass::Traceback => {
                text::parse(line.message, found).or_else(|| text::traceback(line.message, found))
            }
            LineClass::App => match line.head {
                Head::Plain => launcher::parse(line.message, found)
                    .or_else(|| text::parse(line.message, found)),
                Head::Nccl(_) | Head::C10d(_) => None,
            },
        }
    }
}

//! Lines to events. Never fails: a line it does not understand is no event.

mod c10d;
mod cursor;
mod launcher;
mod nccl;
mod nccl_coll;
mod nccl_net;
mod text;

use super::event::Event;
use super::line::{Head, Line};
use super::vocab::LineClass;

pub use nccl_net::split_address;

/// Literals that a line of this class must have one of to say what is not told by its beginning.
pub(super) fn literals(class: LineClass) -> impl Iterator<Item = &'static [u8]> {
    let texts = matches!(
        class,
        LineClass::C10d | LineClass::Launcher | LineClass::Traceback | LineClass::App
    );
    let all = [text::LITERALS, launcher::LITERALS, c10d::LITERALS];
    all.into_iter().flatten().copied().filter(move |_| texts)
}

/// Reads lines. Keeps the searchers that it needs for every other line.
#[derive(Debug, Default)]
pub struct Parser {
    nccl: nccl::Words,
}

impl Parser {
    /// What a line says, if anything. Borrows from the line. `literal` is whether one of
    /// [`literals`] is in its message.
    #[must_use]
    pub fn parse<'a>(&self, line: &Line<'a>, literal: bool) -> Option<Event<'a>> {
        match line.class {
            LineClass::NcclInfo | LineClass::NcclOther => nccl::info(line.message, &self.nccl),
            LineClass::NcclWarn => nccl::warn(line.message, &self.nccl),
            LineClass::NcclCall => Some(Event::Known),
            LineClass::C10d => c10d::parse(line.message, literal),
            LineClass::Launcher => launcher::parse(line.message, literal),
            LineClass::Traceback => text::parse(line.message, literal)
                .or_else(|| text::traceback(line.message, literal)),
            LineClass::App => match line.head {
                Head::Plain => launcher::parse(line.message, literal)
                    .or_else(|| text::parse(line.message, literal)),
                Head::Nccl(_) | Head::C10d(_) => None,
            },
        }
    }
}

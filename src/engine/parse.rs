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

/// What a line says, if anything. Borrows from the line.
#[must_use]
pub fn parse<'a>(line: &Line<'a>) -> Option<Event<'a>> {
    match line.class {
        LineClass::NcclInfo | LineClass::NcclOther => nccl::info(line.message),
        LineClass::NcclWarn => nccl::warn(line.message),
        LineClass::NcclCall => Some(Event::Known),
        LineClass::C10d => c10d::parse(line.message),
        LineClass::Launcher => launcher::parse(line.message),
        LineClass::Traceback => text::parse(line.message).or_else(|| text::traceback(line.message)),
        LineClass::App => match line.head {
            Head::Plain => launcher::parse(line.message).or_else(|| text::parse(line.message)),
            Head::Nccl(_) | Head::C10d(_) => None,
        },
    }
}

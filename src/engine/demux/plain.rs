//! Lines without any prefix or header that came before: a program's prints, tracebacks, reports.

use super::classify::{Block, Front, classify, continues_cpp};
use super::glue::{self, RankFinder};
use super::names::Names;
use super::prefix;
use crate::engine::vocab::LineClass;

/// What the text of such a line decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    /// It may be the rest of a C++ message.
    pub(super) continues: bool,
    /// Outside of tracebacks and reports it is a line of the program, and begins none.
    quiet: bool,
}

impl Plain {
    /// The class of the line, and the writer's block moved on.
    #[inline]
    pub(super) fn class(self, text: &[u8], block: &mut Block) -> LineClass {
        if self.quiet && *block == Block::None {
            LineClass::App
        } else {
            classify(text, Front::Bare, block)
        }
    }
}

/// What is known of a line that has neither an NCCL header nor PyTorch's nor a prefix, if it is one
/// that no source could read in another way.
pub(super) fn of(line: &[u8], names: &Names, rank: &RankFinder) -> Option<Plain> {
    let may_have_prefix = prefix::strong(line).is_some() || prefix::weak(line).is_some();
    if may_have_prefix || glue::find(line, 0, names, rank).is_some() {
        return None;
    }
    let mut block = Block::None;
    let class = classify(line, Front::Bare, &mut block);
    Some(Plain {
        continues: continues_cpp(line),
        quiet: class == LineClass::App && block == Block::None,
    })
}

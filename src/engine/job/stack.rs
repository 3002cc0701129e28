//! Which frameworks a process runs, by what it prints, and which of its lines tell of its own work.

use memchr::memmem;

use crate::engine::event::Event;
use crate::engine::line::{Head, Line};
use crate::engine::vocab::LineClass;

/// Frameworks that a writer's lines show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// NCCL's own lines, or PyTorch's about it.
    pub nccl: bool,
    /// Gloo, as PyTorch names it.
    pub gloo: bool,
    /// PyTorch.
    pub torch: bool,
}

impl Stack {
    /// Takes what one line shows.
    pub(super) fn see(&mut self, line: &Line<'_>) {
        if line.class.is_nccl() {
            self.nccl = true;
            return;
        }
        let speaks = matches!(line.class, LineClass::C10d | LineClass::Traceback);
        if !speaks || (self.nccl && self.gloo && self.torch) {
            return;
        }
        let names = |name: &[u8]| memmem::find(line.text, name).is_some();
        self.torch = self.torch || matches!(line.head, Head::C10d(_)) || names(b"torch");
        self.nccl = self.nccl || names(b"NCCL");
        self.gloo = self.gloo || names(b"Gloo") || names(b"gloo/");
    }

    /// What either shows.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            nccl: self.nccl || other.nccl,
            gloo: self.gloo || other.gloo,
            torch: self.torch || other.torch,
        }
    }
}

/// True for a line that says where its writer is in its own work: the program's prints, and NCCL's steps
/// and calls. Warnings, tracebacks and what tells of others' ends say nothing of that.
pub(super) fn is_own_work(line: &Line<'_>, event: Option<&Event<'_>>) -> bool {
    match line.class {
        LineClass::App => !line.text.iter().all(u8::is_ascii_whitespace),
        LineClass::NcclInfo => match event {
            None | Some(Event::Known | Event::PeerClosed { .. } | Event::ConnectFailed { .. }) => {
                false
            }
            Some(Event::CommEnd { abort, .. }) => !abort,
            Some(_) => true,
        },
        _ => false,
    }
}

//! Which frameworks a process runs, by what it prints, and which of its lines tell of its own work.

use memchr::memmem::Finder;

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

/// Searchers for what names a framework.
#[derive(Clone, Debug)]
pub(super) struct Names {
    nccl: Finder<'static>,
    torch: Finder<'static>,
    /// `Gloo`, `gloo/`.
    loo: Finder<'static>,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            nccl: Finder::new("NCCL"),
            torch: Finder::new("torch"),
            loo: Finder::new("loo"),
        }
    }
}

impl Names {
    fn gloo(&self, text: &[u8]) -> bool {
        self.loo.find_iter(text).any(|at| {
            let before = at.checked_sub(1).map(|before| text[before]);
            before == Some(b'G') || before == Some(b'g') && text[at..].starts_with(b"loo/")
        })
    }
}

impl Stack {
    /// Takes what one line shows.
    #[inline]
    pub(super) fn see(&mut self, line: &Line<'_>, names: &Names) {
        if line.class.is_nccl() {
            self.nccl = true;
        } else if matches!(line.class, LineClass::C10d | LineClass::Traceback) {
            let has = |name: &Finder<'_>| name.find(line.text).is_some();
            self.torch = self.torch || matches!(line.head, Head::C10d(_)) || has(&names.torch);
            self.nccl = self.nccl || has(&names.nccl);
            self.gloo = self.gloo || names.gloo(line.text);
        }
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

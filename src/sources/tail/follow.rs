//! One followed file: a small state machine over (device, inode, offset, first bytes).
//!
//! ```text
//!            the name appears            name is another file, twice quiet
//!  waiting ───────────────────► reading ──────────────────────────────────► waiting ─► Rotated
//!                                │  ▲
//!                  shorter, or   └──┘  name is gone: goes on with the open file
//!                  first bytes differ: Truncated, from 0
//! ```
//!
//! An open file is read to its end before its successor is looked at, so a rotation by renaming
//! loses nothing; and it is not left for an empty one. While it is open its inode cannot be given to another file, which is why
//! comparing inodes is enough then; after it was closed the first bytes decide too. A file that is
//! truncated and grows again beyond the old end *with the same first bytes* between two looks
//! cannot be told from one that only grew.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::engine::ids::SourceId;
use crate::engine::input::{EndReason, Input};
use crate::error::InputError;
use crate::sources::decompress::{self, Packing};

/// First bytes that are remembered to know a file again.
const FIRST: usize = 256;
/// Looks without a new byte before a file whose name now means another one is left.
const QUIET: u32 = 2;
/// Looks without a new byte before a deleted file is closed, which frees its disk space (about a minute).
const DELETED: u32 = 240;

/// A file that was read and left, to know it again under the name it was rotated to.
#[derive(Clone, Debug)]
pub struct Known {
    inode: Inode,
    first: Vec<u8>,
}

impl Known {
    /// True if this file, of this inode, is that file.
    #[must_use]
    pub fn is(&self, path: &Path, inode: Inode) -> bool {
        inode == self.inode
            && File::open(path)
                .and_then(|file| begins_with(&file, &self.first))
                .unwrap_or(false)
    }
}

/// What one look at a file found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing new.
    Idle,
    /// Nothing new, but something is about to change: look again soon.
    Unsettled,
    /// New bytes.
    Read {
        /// How many.
        bytes: u64,
        /// There may be more right now.
        more: bool,
    },
}

/// One file.
pub struct Followed {
    id: SourceId,
    path: PathBuf,
    body: Body,
    /// Of the file being read, or last read.
    inode: Option<Inode>,
    left: Option<Known>,
    offset: u64,
    /// Its size when it was found.
    found: u64,
    first: Vec<u8>,
    /// Size and time of change at the last look: nothing has to be compared while they stay.
    seen: Option<(u64, Option<SystemTime>)>,
    quiet: u32,
    problem: Option<InputError>,
    last_problem: Option<ErrorKind>,
}

enum Body {
    Waiting,
    Open(File),
    /// A packed file grows no more; it is read once.
    Packed(Box<dyn Read + Send>),
    PackedNotOpened(Packing),
    Done,
}

impl Followed {
    /// Nothing is opened before the first [`Followed::poll`].
    #[must_use]
    pub fn new(id: SourceId, path: PathBuf, packing: Packing, found: u64) -> Self {
        let body = match packing {
            Packing::Plain => Body::Waiting,
            packing => Body::PackedNotOpened(packing),
        };
        Self {
            id,
            path,
            body,
            inode: None,
            left: None,
            offset: 0,
            found,
            first: Vec::new(),
            seen: None,
            quiet: 0,
            problem: None,
            last_problem: None,
        }
    }

    /// Bytes read of those it had when it was found; a packed one counts at its end.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let read = match self.body {
            Body::Packed(_) | Body::PackedNotOpened(_) => 0,
            Body::Done => self.found,
            Body::Waiting | Body::Open(_) => self.offset.min(self.found),
        };
        (read, self.found)
    }

    /// The name it is followed by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that is being read.
    #[must_use]
    pub fn inode(&self) -> Option<Inode> {
        self.inode
    }

    /// A file that was left since the last call.
    pub fn take_left(&mut self) -> Option<Known> {
        self.left.take()
    }

    /// An error that was not told yet.
    pub fn take_problem(&mut self) -> Option<InputError> {
        self.problem.take()
    }

    /// Looks once; reads `buf.len()` bytes at most.
    pub fn poll(&mut self, buf: &mut [u8], sink: &mut dyn FnMut(Input<'_>)) -> Look {
        match &self.body {
            Body::Done => return Look::Idle,
            Body::Packed(_) | Body::PackedNotOpened(_) => return self.poll_packed(buf, sink),
            Body::Open(_) => {}
            Body::Waiting => match self.open(sink) {
                Ok(true) => {}
                Ok(false) => return Look::Idle,
                Err(error) => return self.failed("open", &error),
            },
        }
        match self.poll_open(buf, sink) {
            Ok(look) => look,
            Err(error) => {
                // A stale handle of a network file system is opened anew and goes on where it was.
                self.body = Body::Waiting;
                self.failed("read", &error)
            }
        }
    }

    /// Opens the name; false while there is no such file.
    fn open(&mut self, sink: &mut dyn FnMut(Input<'_>)) -> io::Result<bool> {
        // A name that became a pipe meanwhile must not block us.
        let file = match File::options()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(&self.path)
        {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Ok(false);
        }
        let known = self.inode.is_some();
        let same = self.inode == Some(inode(&meta))
            && meta.len() >= self.offset
            && self.has_first_bytes(&file)?;
        if known && !same {
            sink(Input::Rotated(self.id));
            self.restart();
        }
        self.inode = Some(inode(&meta));
        self.seen = None;
        self.quiet = 0;
        self.body = Body::Open(file);
        Ok(true)
    }

    fn poll_open(&mut self, buf: &mut [u8], sink: &mut dyn FnMut(Input<'_>)) -> io::Result<Look> {
        let Body::Open(file) = &self.body else {
            return Ok(Look::Idle);
        };
        let meta = file.metadata()?;
        let look = (meta.len(), meta.modified().ok());
        let truncated =
            meta.len() < self.offset || self.seen != Some(look) && !self.has_first_bytes(file)?;
        if truncated {
            sink(Input::Truncated(self.id));
            self.restart();
        }
        self.seen = Some(look);
        let Body::Open(file) = &self.body else {
            return Ok(Look::Idle);
        };
        let n = if meta.len() > self.offset {
            file.read_at(buf, self.offset)?
        } else {
            0
        };
        if n > 0 {
            let chunk = &buf[..n];
            sink(Input::Bytes {
                source: self.id,
                offset: self.offset,
                chunk,
            });
            if self.first.len() < FIRST {
                self.first
                    .extend_from_slice(&chunk[..n.min(FIRST - self.first.len())]);
            }
            self.offset += n as u64;
            self.quiet = 0;
            return Ok(Look::Read {
                bytes: n as u64,
                more: self.offset < meta.len(),
            });
        }
        Ok(self.look_at_name(truncated))
    }

    /// Nothing new in the open file: does its name still mean it?
    fn look_at_name(&mut self, truncated: bool) -> Look {
        let calm = if truncated {
            Look::Unsettled
        } else {
            Look::Idle
        };
        let patience = match fs::metadata(&self.path) {
            Ok(meta) if self.inode == Some(inode(&meta)) => {
                self.quiet = 0;
                return calm;
            }
            // A new file in which nobody writes: the writer still has the old one.
            Ok(meta) if meta.len() == 0 => return calm,
            Ok(_) => QUIET,
            Err(error) if error.kind() == ErrorKind::NotFound => DELETED,
            // Not to be seen just now says nothing.
            Err(_) => return calm,
        };
        self.quiet += 1;
        if self.quiet >= patience {
            self.leave();
        }
        if patience == QUIET {
            Look::Unsettled
        } else {
            calm
        }
    }

    /// Closes the file; what has its name next is another one.
    fn leave(&mut self) {
        self.body = Body::Waiting;
        let inode = self.inode.replace((u64::MAX, u64::MAX, None));
        if let Some(inode) = inode.filter(|_| !self.first.is_empty()) {
            self.left = Some(Known {
                inode,
                first: self.first.clone(),
            });
        }
    }

    fn poll_packed(&mut self, buf: &mut [u8], sink: &mut dyn FnMut(Input<'_>)) -> Look {
        if let Body::PackedNotOpened(packing) = self.body {
            match decompress::open(&self.path, packing) {
                Ok(reader) => self.body = Body::Packed(reader),
                Err(error) => return self.end_packed(Some(error), sink),
            }
        }
        let Body::Packed(reader) = &mut self.body else {
            return Look::Idle;
        };
        match reader.read(buf) {
            Ok(0) => self.end_packed(None, sink),
            Ok(n) => {
                sink(Input::Bytes {
                    source: self.id,
                    offset: self.offset,
                    chunk: &buf[..n],
                });
                self.offset += n as u64;
                Look::Read {
                    bytes: n as u64,
                    more: true,
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Look::Unsettled,
            Err(error) => self.end_packed(Some(error), sink),
        }
    }

    fn end_packed(&mut self, error: Option<io::Error>, sink: &mut dyn FnMut(Input<'_>)) -> Look {
        self.body = Body::Done;
        let why = if error.is_some() {
            EndReason::Unreadable
        } else {
            EndReason::Eof
        };
        let detail = error.as_ref().map(crate::error::in_words);
        sink(Input::Ended {
            source: self.id,
            why,
            detail,
        });
        error.map_or(Look::Idle, |error| self.failed("read", &error))
    }

    fn restart(&mut self) {
        self.offset = 0;
        self.first.clear();
        self.seen = None;
    }

    fn has_first_bytes(&self, file: &File) -> io::Result<bool> {
        begins_with(file, &self.first)
    }

    fn failed(&mut self, operation: &'static str, error: &io::Error) -> Look {
        if self.last_problem != Some(error.kind()) {
            self.last_problem = Some(error.kind());
            self.problem = Some(InputError::io(operation, &self.path, error));
        }
        Look::Idle
    }
}

/// Which file a name means now.
#[must_use]
pub fn inode_of(path: &Path) -> Option<Inode> {
    fs::metadata(path).ok().map(|meta| inode(&meta))
}

fn begins_with(file: &File, first: &[u8]) -> io::Result<bool> {
    let mut now = [0; FIRST];
    let now = &mut now[..first.len()];
    match file.read_exact_at(now, 0) {
        Ok(()) => Ok(now == first),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Device, number and, where the file system knows it, time of birth: numbers are used again.
pub type Inode = (u64, u64, Option<SystemTime>);

fn inode(meta: &Metadata) -> Inode {
    (meta.dev(), meta.ino(), meta.created().ok())
}

//! Opens a named pipe without being held up by a writer that never comes.

use std::fs::{File, OpenOptions};
use std::io::{self, Chain, Cursor, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::statfs::{FsType, fstatfs};

use crate::error::InputError;

/// Between two looks for a writer.
const LOOK: Duration = Duration::from_millis(50);
/// The file system of pipes without a name (`linux/magic.h`): `report <(zcat log.gz)`.
const PIPEFS: FsType = FsType(0x5049_5045);

/// A pipe whose first bytes were taken to see whether there is a writer.
pub type Pipe = Chain<Cursor<Vec<u8>>, File>;

/// Opens the pipe once somebody writes to it; `waits` is called once if nobody does yet.
///
/// # Errors
/// If it cannot be opened, or nobody has come when `patience` is over.
pub fn open(path: &Path, patience: Duration, waits: impl FnOnce()) -> Result<Pipe, InputError> {
    let failed = |error: io::Error| InputError::io("open", path, &error);
    let mut pipe = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(failed)?;
    // Nobody can come to a pipe without a name: its end is its end.
    let named = fstatfs(&pipe).is_ok_and(|stat| stat.filesystem_type() != PIPEFS);
    let end = Instant::now() + patience;
    let mut waits = Some(waits);
    let first = loop {
        if let Some(first) = first_bytes(&mut pipe).map_err(failed)? {
            break first;
        }
        if !named {
            break Vec::new();
        }
        if let Some(waits) = waits.take() {
            waits();
        }
        if Instant::now() >= end {
            let why = format!(
                "it is a named pipe that nobody wrote to for {} s",
                patience.as_secs()
            );
            let problem = InputError::because("read", path, why);
            return Err(problem.hint("start what writes to it first, or name a file"));
        }
        thread::sleep(LOOK);
    };
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::empty())).map_err(|error| failed(error.into()))?;
    Ok(Cursor::new(first).chain(pipe))
}

/// What is there; `None` if nobody has the pipe open for writing. A writer that has written nothing yet makes the
/// read say that it would have to wait.
fn first_bytes(pipe: &mut File) -> io::Result<Option<Vec<u8>>> {
    let mut buf = vec![0; 4 << 10];
    match pipe.read(&mut buf) {
        Ok(0) => Ok(None),
        Ok(n) => {
            buf.truncate(n);
            Ok(Some(buf))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(Vec::new())),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_without_a_writer_is_waited_for_and_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut told = 0;
        let error = open(&path, Duration::ZERO, || told += 1)
            .map(drop)
            .unwrap_err();
        assert_eq!(told, 1);
        assert_eq!(error.why, "it is a named pipe that nobody wrote to for 0 s");

        let name = path.clone();
        let writer = thread::spawn(move || std::fs::write(name, "a line\n").unwrap());
        let mut text = String::new();
        let mut pipe = open(&path, Duration::from_secs(60), || ()).unwrap();
        pipe.read_to_string(&mut text).unwrap();
        writer.join().unwrap();
        assert_eq!(text, "a line\n");
    }
}

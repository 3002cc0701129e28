//! The end of this host's kernel log, where it may be read: processes that it killed for lack of
//! memory, and what the NVIDIA driver reports.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// Records that are read at one look; the kernel keeps no more.
const RECORDS: usize = 20_000;

/// Reads the kernel log from its oldest record on.
#[derive(Debug)]
pub struct KernelLog {
    file: File,
}

/// One message that may concern a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// When, since the host started.
    pub at: Duration,
    /// What it says.
    pub text: String,
    /// Whom it is about.
    pub about: About,
}

/// Whom a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A process that was killed for lack of memory.
    Killed(u32),
    /// A GPU, by its PCI bus id as far as it is printed (`0000:18:00`).
    Gpu(String),
}

impl KernelLog {
    /// Opens it; `None` where it is not there or not for us.
    #[must_use]
    pub fn open() -> Option<Self> {
        Self::at(Path::new("/dev/kmsg"))
    }

    fn at(path: &Path) -> Option<Self> {
        let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .ok()?;
        Some(Self { file })
    }

    /// What came since the last look.
    pub fn news(&mut self) -> Vec<Message> {
        let mut news = Vec::new();
        // One read gives one record.
        let mut record = [0; 8192];
        for _ in 0..RECORDS {
            match self.file.read(&mut record) {
                Ok(0) => break,
                Ok(len) => news.extend(parse(&String::from_utf8_lossy(&record[..len]))),
                // The oldest ones were overwritten meanwhile.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(_) => break,
            }
        }
        news
    }
}

/// `priority,number,microseconds,flags;text`, then lines with details that begin with a blank.
fn parse(record: &str) -> Option<Message> {
    let (head, text) = record.split_once(';')?;
    let at = head.split(',').nth(2)?.parse().ok()?;
    let text = text.lines().next()?;
    Some(Message {
        at: Duration::from_micros(at),
        about: about(text)?,
        text: text.to_owned(),
    })
}

fn about(text: &str) -> Option<About> {
    if let Some((_, after)) = text.split_once("Killed process ") {
        let pid = after.split(' ').next()?;
        return Some(About::Killed(pid.parse().ok()?));
    }
    let (_, after) = text.split_once("NVRM: ")?;
    let (_, after) = after.split_once("Xid (")?;
    let (bus, _) = after.split_once(')')?;
    Some(About::Gpu(bus.trim_start_matches("PCI:").to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records() {
        let killed = parse(
            "3,1042,98765432100,-;Out of memory: Killed process 4711 (python3) total-vm:1kB\n SUBSYSTEM=x\n",
        );
        let killed = killed.expect("a message");
        assert_eq!(killed.about, About::Killed(4711));
        assert_eq!(killed.at, Duration::from_micros(98_765_432_100));
        assert!(killed.text.ends_with("total-vm:1kB"));
        let xid =
            parse("3,7,5,-;NVRM: Xid (PCI:0000:3B:00): 79, pid=1, GPU has fallen off the bus.");
        let about = xid.map(|message| message.about);
        assert_eq!(about, Some(About::Gpu("0000:3b:00".to_owned())));
        assert_eq!(parse("6,8,9,-;usb 1-1: new device"), None);
        assert_eq!(parse("garbage"), None);
    }

    #[test]
    fn what_cannot_be_read_is_none() {
        assert!(KernelLog::at(Path::new("/nonexistent")).is_none());
    }
}

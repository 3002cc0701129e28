//! Is this file a log? Told by its name where that is enough, else by its first bytes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use memchr::memmem;

use super::decompress::{self, Packing};
use super::journal;
use crate::engine::{dump, ras};

/// Bytes looked at.
const HEAD: usize = 8 << 10;
/// Bytes looked at where the name says nothing.
const LONG_HEAD: usize = 64 << 10;

/// What a file seems to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guess {
    /// A log.
    Log(Packing),
    /// An answer of NCCL RAS.
    Ras(Packing),
    /// A journal written by `watch --record`.
    Journal,
    /// A dump of PyTorch's Flight Recorder, pickled or JSON.
    Dump(Packing),
    /// Something else, in words that follow "is" (`a picture`).
    Not(&'static str),
    /// Nothing yet: empty, and its name does not say that a log will come.
    Empty,
}

/// Who chose the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The user named it: its name is not held against it.
    ByName,
    /// It was found below a directory.
    BySearch,
}

/// What a name says about a file found below a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSays {
    /// Launchers and people call logs like this.
    Log,
    /// Programs, data and settings are called like this.
    Not(&'static str),
    /// A dump, or else no log: what it is then.
    Dump(&'static str),
    /// Nothing.
    Nothing,
}

const LOG_ENDS: &[&str] = &["log", "out", "err", "stdout", "stderr"];
const OTHER_ENDS: &[&str] = &[
    "bin",
    "c",
    "cc",
    "cfg",
    "conf",
    "cpp",
    "csv",
    "cu",
    "env",
    "h",
    "hpp",
    "html",
    "ini",
    "ipynb",
    "js",
    "lock",
    "md",
    "npy",
    "npz",
    "onnx",
    "pdf",
    "pid",
    "pt",
    "pth",
    "py",
    "pyc",
    "rs",
    "rst",
    "safetensors",
    "sbatch",
    "sh",
    "slurm",
    "so",
    "toml",
    "tsv",
    "ts",
    "xml",
    "yaml",
    "yml",
    "jsonl",
];
/// Files called like this are looked into: a dump may be called anything.
const DUMP_ENDS: &[(&str, &str)] = &[
    ("json", "JSON"),
    ("pkl", "a pickle"),
    ("pickle", "a pickle"),
];
const PICTURE_ENDS: &[&str] = &["gif", "jpeg", "jpg", "png", "svg", "webp"];

/// What the name alone says. `.gz` and `.zst` are looked through.
#[must_use]
pub fn name_says(name: &str) -> NameSays {
    let lower = name.to_ascii_lowercase();
    let lower = lower
        .strip_suffix(".gz")
        .or_else(|| lower.strip_suffix(".zst"))
        .unwrap_or(&lower);
    if matches!(lower, "stdout" | "stderr") {
        return NameSays::Log;
    }
    let mut parts = lower.rsplit('.');
    let end = parts.next().unwrap_or("");
    if LOG_ENDS.contains(&end) && end.len() < lower.len() {
        return NameSays::Log;
    }
    // `rank0.log.1`, `0.log.20260102-030405`: logs that were rotated away.
    if parts.take(2).any(|part| LOG_ENDS.contains(&part))
        && end.bytes().all(|b| b.is_ascii_digit() || b == b'-')
    {
        return NameSays::Log;
    }
    if PICTURE_ENDS.contains(&end) {
        return NameSays::Not("a picture");
    }
    if let Some((_, what)) = DUMP_ENDS.iter().find(|(name, _)| *name == end)
        && end.len() < lower.len()
    {
        return NameSays::Dump(what);
    }
    if OTHER_ENDS.contains(&end) && end.len() < lower.len() {
        return NameSays::Not("not a log by its name");
    }
    NameSays::Nothing
}

/// Opens a regular file and tells what it is.
///
/// # Errors
/// If it cannot be read.
pub fn look(path: &Path, chosen: Chosen) -> io::Result<Guess> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy())
        .unwrap_or_default();
    let says = match chosen {
        Chosen::ByName => NameSays::Log,
        Chosen::BySearch => name_says(&name),
    };
    if let NameSays::Not(why) = says {
        return Ok(Guess::Not(why));
    }
    let mut file = File::open(path)?;
    let limit = match says {
        NameSays::Log | NameSays::Not(_) => HEAD,
        NameSays::Nothing | NameSays::Dump(_) => LONG_HEAD,
    };
    let mut head = read_head(&mut file, limit)?;
    let packing = Packing::of(&head);
    if packing != Packing::Plain {
        file.rewind()?;
        // A cut or broken stream still shows its beginning.
        head = Vec::new();
        let _cut = decompress::unpack(file, packing)?
            .take(limit as u64)
            .read_to_end(&mut head);
    } else if head.len() >= HEAD && head.iter().all(|&b| b == 0) {
        // A log that was truncated under its writer begins with a hole.
        let len = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(len.saturating_sub(HEAD as u64)))?;
        head = read_head(&mut file, HEAD)?;
    }
    Ok(guess(&head, packing, says))
}

/// How a file is packed, by its first bytes; plain if it cannot be read, which whoever reads it will tell.
#[must_use]
pub fn packing(path: &Path) -> Packing {
    let head = File::open(path).and_then(|mut file| read_head(&mut file, 4));
    head.map_or(Packing::Plain, |head| Packing::of(&head))
}

fn read_head(file: &mut File, limit: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(limit as u64).read_to_end(&mut head)?;
    Ok(head)
}

fn guess(head: &[u8], packing: Packing, says: NameSays) -> Guess {
    let has = |what: &str| memmem::find(head, what.as_bytes()).is_some();
    if head.is_empty() {
        return if says == NameSays::Log {
            Guess::Log(packing)
        } else {
            Guess::Empty
        };
    }
    // A journal that was cut within its first bytes is no log either.
    let cut = head.len() >= 4 && journal::MAGIC.starts_with(head);
    if head.starts_with(journal::MAGIC) || cut {
        return Guess::Journal;
    }
    if dump::looks_like(head) {
        return Guess::Dump(packing);
    }
    if matches!(head, [0x80, 2..=5, ..]) {
        return Guess::Not("a pickle, and no Flight Recorder dump");
    }
    if is_ras(head) || ras::events::begin(head) {
        return Guess::Ras(packing);
    }
    if let NameSays::Dump(what) = says {
        return Guess::Not(what);
    }
    let nccl = has(" NCCL ");
    if is_binary(head) && !nccl {
        return Guess::Not("binary");
    }
    if head.starts_with(b"<?xml") || head.starts_with(b"<system ") {
        return Guess::Not("XML");
    }
    let known = says == NameSays::Log
        || nccl
        || [
            "[rank",
            "torch.distributed",
            "Traceback (most recent call last)",
            "ncclComm",
        ]
        .into_iter()
        .any(has);
    if known {
        Guess::Log(packing)
    } else {
        Guess::Not("no log: nothing in it looks like one")
    }
}

/// The beginning of a text or JSON report, or of a session that ends with one. A log can begin with
/// `NCCL version` too, but not so.
fn is_ras(head: &[u8]) -> bool {
    let line = |head: &[u8], start: &[u8]| head.starts_with(start);
    let mut rest = head.trim_ascii_start();
    while line(rest, b"SERVER PROTOCOL") || line(rest, b"OK\n") || line(rest, b"OK\r\n") {
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        rest = rest[end..].trim_ascii_start();
    }
    let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    let (first, second) = rest.split_at(end);
    if first.starts_with(b"{") {
        let begins = &rest[..rest.len().min(200)];
        return memmem::find(begins, b"\"nccl_version\"").is_some();
    }
    first.starts_with(b"NCCL version ")
        && memmem::find(first, b" compiled with CUDA ").is_some()
        && second
            .trim_ascii_start()
            .starts_with(b"CUDA runtime version ")
}

/// More than a tenth of it is control characters that no terminal program prints.
fn is_binary(head: &[u8]) -> bool {
    let is_strange = |b: u8| (b < 0x07) | ((0x0e..0x20).contains(&b) & (b != 0x1b));
    // Counts of a byte each, so that many are added at once.
    let of_chunk = |chunk: &[u8]| chunk.iter().map(|&b| u8::from(is_strange(b))).sum::<u8>();
    let strange: usize = head.chunks(128).map(|c| usize::from(of_chunk(c))).sum();
    strange * 10 > head.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in [
            "rank0.log",
            "stdout",
            "slurm-12.out",
            "F.prterun-a-1@1.0.err",
            "nccl.node-1.77.log",
            "0.log.20260102-030405",
            "rank3.log.1",
            "rank3.log.2.gz",
            "worker-ffff-01000000-3.out",
            "STDERR.LOG",
        ] {
            assert_eq!(name_says(name), NameSays::Log, "{name}");
        }
        for name in ["train.py", "a.png", "model.safetensors", "job.sbatch"] {
            assert!(matches!(name_says(name), NameSays::Not(_)), "{name}");
        }
        for name in ["truth.json", "fr_rank_3.json.gz", "trace_3.pkl"] {
            assert!(matches!(name_says(name), NameSays::Dump(_)), "{name}");
        }
        for name in ["host_7.txt", "core.123", "out", "fr_rank_0"] {
            assert_eq!(name_says(name), NameSays::Nothing, "{name}");
        }
    }

    #[test]
    fn contents() {
        let plain = |head: &[u8], says| guess(head, Packing::Plain, says);
        let nothing = NameSays::Nothing;
        let not_a_dump = Guess::Not("a pickle, and no Flight Recorder dump");
        assert_eq!(plain(b"\x80\x02}q\x00", NameSays::Log), not_a_dump);
        let a_dump = Guess::Dump(Packing::Plain);
        let pickled = b"\x80\x02}(X\x07\0\0\0versionq\0X\x04\0\0\x002.10q\x01X\x09\0\0\0pg_config";
        assert_eq!(plain(pickled, nothing), a_dump);
        let text = br#"{"entries":[{"profiling_name":"nccl:all_reduce","record_id":0"#;
        assert_eq!(plain(text, NameSays::Dump("JSON")), a_dump);
        let truth = br#"{"case": "x", "class": "healthy"}"#;
        assert_eq!(plain(truth, NameSays::Dump("JSON")), Guess::Not("JSON"));
        assert_eq!(
            plain(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0", NameSays::Log),
            Guess::Not("binary")
        );
        let garbage = [&b"h:1:1 [0] NCCL INFO x"[..], &[0; 400]].concat();
        assert_eq!(plain(&garbage, nothing), Guess::Log(Packing::Plain));
        assert_eq!(
            plain(b"epoch 1\n", NameSays::Log),
            Guess::Log(Packing::Plain)
        );
        assert_eq!(
            plain(b"numpy==1.0\n", nothing),
            Guess::Not("no log: nothing in it looks like one")
        );
        assert_eq!(
            plain(b"\x1b[31m\x1b[0m\r\n", NameSays::Log),
            Guess::Log(Packing::Plain)
        );
        assert_eq!(plain(b"", nothing), Guess::Empty);
        let ras = Guess::Ras(Packing::Plain);
        let text = b"NCCL version 2.28.9 compiled with CUDA 13.0\nCUDA runtime version 13000, driver version 13000\n\nJob summary\n===";
        assert_eq!(plain(text, nothing), ras);
        let session = [b"SERVER PROTOCOL 2\r\nOK\r\n", &text[..]].concat();
        assert_eq!(plain(&session, NameSays::Log), ras);
        let json = NameSays::Dump("JSON");
        assert_eq!(plain(b"{\n  \"nccl_version\": \"2.28.9\",", json), ras);
        assert_eq!(plain(b"{\n  \"case\": \"x\",", json), Guess::Not("JSON"));
        assert_eq!(
            plain(
                b"NCCL version 2.28.9+cuda13.0\nh:1:1 [0] NCCL INFO x\n",
                NameSays::Log
            ),
            Guess::Log(Packing::Plain)
        );
    }
}

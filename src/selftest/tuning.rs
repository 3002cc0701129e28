//! Which algorithm and protocol NCCL took for a size, by its own lines (`NCCL_DEBUG_SUBSYS=TUNING`).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};

/// Bytes of a log that are looked through for one size.
const MOST: u64 = 4 << 20;

/// Algorithms by number (NCCL 2.6 to 2.23; `src/include/nccl_common.h`), in the spelling of `NCCL_ALGO`.
const ALGORITHMS: [&str; 7] = [
    "Tree",
    "Ring",
    "CollnetDirect",
    "CollnetChain",
    "NVLS",
    "NVLSTree",
    "PAT",
];
/// Protocols by number, in the spelling of `NCCL_PROTO`.
const PROTOCOLS: [&str; 3] = ["LL", "LL128", "Simple"];

/// What NCCL chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// `Ring`, `Tree`, `NVLS`; the kernel's name where NCCL took one for symmetric memory.
    pub algorithm: String,
    /// `LL`, `LL128`, `Simple`, where there is one.
    pub protocol: Option<String>,
}

impl Chosen {
    /// Reads a line of NCCL's log:
    /// `8 Bytes -> Algo 1 proto 0 time 9.6` (to 2.23),
    /// `AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}` (from 2.24 on),
    /// `AllReduce [Symmetric]: 8 Bytes -> Kernel AllReduce_AGxLL_R nchannels 1 …` (from 2.27 on),
    /// `AllGather [Copy Engine]: 8 Bytes -> cudaMemcpy` (from 2.29 on).
    #[must_use]
    pub fn of_line(line: &str) -> Option<Self> {
        let (_, chosen) = line.split_once(" Bytes -> ")?;
        let words: Vec<&str> = chosen.split_ascii_whitespace().collect();
        match words.as_slice() {
            ["Algo", algorithm, "proto", protocol, ..] => Some(Self {
                algorithm: name(algorithm, &ALGORITHMS),
                protocol: Some(name(protocol, &PROTOCOLS)),
            }),
            ["Kernel", kernel, ..] => Some(Self {
                algorithm: (*kernel).to_owned(),
                protocol: None,
            }),
            [copies, ..] if copies.starts_with("cudaMemcpy") => Some(Self {
                algorithm: "copy engine".to_owned(),
                protocol: None,
            }),
            _ => None,
        }
    }

    /// `Ring/Simple`
    #[must_use]
    pub fn words(&self) -> String {
        match &self.protocol {
            Some(protocol) => format!("{}/{protocol}", self.algorithm),
            None => self.algorithm.clone(),
        }
    }
}

/// `1` and `RING` are both `Ring`; what is not known stays as it is.
fn name(word: &str, names: &[&str]) -> String {
    let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
    let known = match word.parse::<usize>() {
        Ok(number) => names.get(number),
        Err(_) => names.iter().find(|known| plain(known) == plain(word)),
    };
    known.copied().unwrap_or(word).to_owned()
}

/// NCCL's own log while it is written, from where it was last looked at.
#[derive(Debug)]
pub(super) struct Log(Option<File>);

impl Log {
    /// The log of this process; without one nothing is known.
    pub(super) fn open() -> Self {
        let path = std::env::var_os("NCCL_DEBUG_FILE");
        Self(path.and_then(|path| File::open(path).ok()))
    }

    /// Passes over what has been written.
    pub(super) fn skip(&mut self) {
        if let Some(file) = &mut self.0
            && file.seek(SeekFrom::End(0)).is_err()
        {
            self.0 = None;
        }
    }

    /// The last choice that was written since.
    pub(super) fn last(&mut self) -> Option<Chosen> {
        let mut bytes = Vec::new();
        self.0.as_mut()?.take(MOST).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        text.lines().rev().find_map(Chosen::of_line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_line() {
        for (line, words) in [
            (
                "n:1:1 [0] NCCL INFO 67108864 Bytes -> Algo 1 proto 2 time 331.6",
                "Ring/Simple",
            ),
            (
                "n:1:1 [0] NCCL INFO AllReduce: 8 Bytes -> Algo 0 proto 0 time 9.6",
                "Tree/LL",
            ),
            (
                "n:1:1 [0] NCCL INFO AllReduce: 8 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}",
                "NVLSTree/Simple",
            ),
            (
                "n:1:1 [0] NCCL INFO AllReduce [Symmetric]: 8 Bytes -> Kernel AllReduce_AGxLL_R nchannels 1 nthreads 512",
                "AllReduce_AGxLL_R",
            ),
            (
                "n:1:1 [0] NCCL INFO AllGather [Copy Engine]: 8 Bytes -> cudaMemcpy",
                "copy engine",
            ),
            ("8 Bytes -> Algo 42 proto LL128 x", "42/LL128"),
        ] {
            let chosen = Chosen::of_line(line).map(|chosen| chosen.words());
            assert_eq!(chosen.as_deref(), Some(words), "{line}");
        }
        for line in ["8 Bytes -> ", "Algo 1 proto 2", "8 Bytes -> something else"] {
            assert_eq!(Chosen::of_line(line), None, "{line}");
        }
    }
}

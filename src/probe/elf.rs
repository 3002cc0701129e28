//! Reads a text out of a shared library without loading it: only its table of sections and its constants.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memchr::memmem;

use super::host;

/// Sections, and bytes of constants, that are looked at.
const SECTIONS: u16 = 4096;
const CONSTANTS: u64 = 64 << 20;
/// Bytes of the text.
const TEXT: usize = 64;

/// The word that stands behind `mark` in the constants (`.rodata`) of a 64-bit little-endian library.
#[must_use]
pub(crate) fn text_after(path: &Path, mark: &[u8]) -> Option<String> {
    let file = host::open(path)?;
    let (offset, size) = constants(&file)?;
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    memmem::find_iter(&bytes, mark).find_map(|at| {
        let rest = &bytes[at + mark.len()..];
        let rest = &rest[..rest.len().min(TEXT)];
        let end = rest.iter().position(|b| !b.is_ascii_graphic())?;
        let word = std::str::from_utf8(&rest[..end]).ok()?;
        // The same words with a hole for the version may stand there too.
        word.starts_with(|c: char| c.is_ascii_digit())
            .then(|| word.to_owned())
    })
}

/// Where the constants lie.
fn constants(file: &File) -> Option<(u64, u64)> {
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0).ok()?;
    // 64 bits, little-endian.
    if head[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let table = u64_at(&head, 40)?;
    let (entry, count, names) = (u16_at(&head, 58)?, u16_at(&head, 60)?, u16_at(&head, 62)?);
    if entry < 64 {
        return None;
    }
    let section = |index: u16| {
        let mut bytes = [0; 64];
        let at = table.checked_add(u64::from(index) * u64::from(entry))?;
        file.read_exact_at(&mut bytes, at).ok()?;
        let name = u32::from_le_bytes(bytes[..4].try_into().ok()?);
        Some((u64::from(name), u64_at(&bytes, 24)?, u64_at(&bytes, 32)?))
    };
    let (_, names, _) = section(names)?;
    for index in 0..count.min(SECTIONS) {
        let (name, offset, size) = section(index)?;
        let mut bytes = [0; 8];
        let at = names.checked_add(name)?;
        if file.read_exact_at(&mut bytes, at).is_ok() && &bytes == b".rodata\0" {
            return Some((offset, size.min(CONSTANTS)));
        }
    }
    None
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kept in this program's constants.
    static SAID: &str = "unhang's own elf test 12.34.5+x86 and on";

    #[test]
    fn this_program_holds_its_texts() {
        assert!(std::hint::black_box(SAID).len() > 20);
        let own = std::env::current_exe().expect("a path");
        let found = text_after(&own, b"unhang's own elf test ");
        // Other constants may stand right behind it.
        let found = found.unwrap_or_default();
        assert!(found.starts_with("12.34.5+x8"), "{found}");
    }

    #[test]
    fn other_files_hold_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("libnccl.so.2");
        std::fs::write(&path, b"\x7fELF\x02\x01 and no more").expect("a file");
        assert_eq!(text_after(&path, b"NCCL version "), None);
        let mut bytes = vec![0xff_u8; 256];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        std::fs::write(&path, bytes).expect("a file");
        assert_eq!(text_after(&path, b"NCCL version "), None);
    }
}

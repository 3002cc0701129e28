//! Where a Python traceback leads.

use memchr::memmem;

/// Longer places are cut: a log can hold anything.
const LONGEST: usize = 256;

/// The innermost frames so far. Tracebacks are long, and only the last frames matter: their text is
/// made when it is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    /// Of the program's own files.
    own: Frame,
    /// Of any file.
    any: Frame,
}

/// A file and a line in it, as they are printed.
#[derive(Clone, Debug, Default)]
struct Frame {
    file: Vec<u8>,
    /// Empty if there is no frame.
    line: Vec<u8>,
}

impl Frames {
    /// Takes a line of the traceback: `  File "/job/train.py", line 212, in step`.
    pub(super) fn take(&mut self, line: &[u8]) {
        let Some((file, line)) = place(line.trim_ascii_start()) else {
            return;
        };
        let library = [
            &b"/site-packages/"[..],
            b"/dist-packages/",
            b"/lib/python",
            b"<frozen",
        ];
        if !library
            .iter()
            .any(|part| memmem::find(file, part).is_some())
        {
            self.own.set(file, line);
        }
        self.any.set(file, line);
    }

    /// Begins with the next traceback.
    pub(super) fn clear(&mut self) {
        self.own.set(b"", b"");
        self.any.set(b"", b"");
    }

    /// `file:line` of the one that matters.
    pub(super) fn at(&self) -> Option<String> {
        self.own.text().or_else(|| self.any.text())
    }
}

impl Frame {
    fn set(&mut self, file: &[u8], line: &[u8]) {
        self.file.clear();
        self.file.extend_from_slice(file);
        self.line.clear();
        self.line.extend_from_slice(line);
    }

    fn text(&self) -> Option<String> {
        let [file, line] = [&self.file, &self.line].map(|part| String::from_utf8_lossy(part));
        (!line.is_empty()).then(|| format!("{file}:{line}"))
    }
}

/// The file and the number of its line.
fn place(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(b"File \"")?;
    let rest = &rest[..rest.len().min(LONGEST)];
    let end = memmem::find(rest, b"\", line ")?;
    let (file, rest) = (&rest[..end], &rest[end + b"\", line ".len()..]);
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    (digits > 0).then(|| (file, &rest[..digits]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_innermost_frame_counts() {
        let at = |lines: &[&str]| {
            let mut frames = Frames::default();
            for line in lines {
                frames.take(line.as_bytes());
            }
            frames.at()
        };
        let own = "  File \"/job/train.py\", line 212, in step";
        let library = "  File \"/usr/lib/python3.12/site-packages/torch/x.py\", line 3, in f";
        assert_eq!(
            at(&[own, "    loss()", library]).as_deref(),
            Some("/job/train.py:212")
        );
        assert!(at(&[library]).is_some_and(|at| at.ends_with("torch/x.py:3")));
        assert_eq!(at(&["  File \"/job/train.py\", line"]), None);
        assert_eq!(at(&[]), None);
    }
}

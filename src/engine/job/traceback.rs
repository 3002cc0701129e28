//! Where a Python traceback leads.

/// Longer places are cut: a log can hold anything.
const LONGEST: usize = 256;

/// The innermost frames so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    /// Of the program's own files.
    own: Option<String>,
    /// Of any file.
    any: Option<String>,
}

impl Frames {
    /// Takes a line of the traceback: `  File "/job/train.py", line 212, in step`.
    pub(super) fn take(&mut self, line: &[u8]) {
        let Some(place) = place(line.trim_ascii_start()) else {
            return;
        };
        let library = [
            "/site-packages/",
            "/dist-packages/",
            "/lib/python",
            "<frozen",
        ];
        if !library.iter().any(|part| place.contains(part)) {
            self.own = Some(place.clone());
        }
        self.any = Some(place);
    }

    /// `file:line` of the one that matters.
    pub(super) fn at(self) -> Option<String> {
        self.own.or(self.any)
    }
}

fn place(line: &[u8]) -> Option<String> {
    let rest = line.strip_prefix(b"File \"")?;
    let rest = &rest[..rest.len().min(LONGEST)];
    let rest = String::from_utf8_lossy(rest);
    let (file, rest) = rest.split_once("\", line ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    (!digits.is_empty()).then(|| format!("{file}:{digits}"))
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

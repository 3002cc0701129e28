//! How much of what was there at the start has been read.

/// What was read of what there is. Bytes are those on the disk: a packed file counts once it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub bytes: u64,
    /// Bytes there were when they were found.
    pub of: u64,
    /// Files read to their end.
    pub files: usize,
    /// Files there were.
    pub of_files: usize,
}

/// Counts, and tells.
pub struct Meter<'a> {
    progress: Progress,
    /// Bytes of the files that are read to their end.
    whole: u64,
    tell: &'a mut dyn FnMut(Progress),
}

impl<'a> Meter<'a> {
    /// A meter of so many files and bytes.
    pub fn new(of_files: usize, of: u64, tell: &'a mut dyn FnMut(Progress)) -> Self {
        let progress = Progress {
            of,
            of_files,
            ..Progress::default()
        };
        Self {
            progress,
            whole: 0,
            tell,
        }
    }

    /// So many bytes of the present file were read.
    pub fn read(&mut self, bytes: usize) {
        self.progress.bytes = (self.progress.bytes + bytes as u64).min(self.progress.of);
        (self.tell)(self.progress);
    }

    /// A file of this length was read to its end.
    pub fn file(&mut self, len: u64) {
        self.whole += len;
        self.progress.bytes = self.whole.min(self.progress.of);
        self.progress.files += 1;
        (self.tell)(self.progress);
    }
}

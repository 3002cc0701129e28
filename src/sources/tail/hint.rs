//! File system events: a hint to poll now, never more than that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nix::sys::statfs::statfs;
use notify::{ErrorKind, RecommendedWatcher, RecursiveMode, Watcher};

/// Folders watched for events at most; the rest is polled only.
const FOLDERS: usize = 1_024;

/// File systems that tell nothing about what other hosts write, by their magic number (`statfs(2)`).
const SILENT: &[(u64, &str)] = &[
    (0x6969, "nfs"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb"),
    (0x517b, "smb"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x1983_0326, "beegfs"),
    (0x5346_414f, "afs"),
    (0xaad7_aaea, "panfs"),
    (0x5257_4d42, "quobyte"),
];

/// Watches folders and calls back when anything in them changed.
pub struct Hints {
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
    why_polling: Option<String>,
}

impl Hints {
    /// `wake` is called from a thread of the watcher, often, and must not block.
    pub fn new(wake: impl Fn() + Send + 'static) -> Self {
        let watcher = notify::recommended_watcher(move |_: notify::Result<notify::Event>| wake());
        let (watcher, why_polling) = match watcher {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (None, Some(in_words(&error, None))),
        };
        Self {
            watcher,
            folders: BTreeSet::new(),
            why_polling,
        }
    }

    /// Adds folders; those already watched cost nothing.
    pub fn watch(&mut self, folders: Vec<PathBuf>) {
        for folder in folders {
            if self.folders.contains(&folder) {
                continue;
            }
            let Err(why) = self.add(&folder) else {
                continue;
            };
            self.why_polling.get_or_insert(why);
        }
    }

    /// Why events cannot be relied on, if they cannot.
    #[must_use]
    pub fn why_polling(&self) -> Option<&str> {
        self.why_polling.as_deref()
    }

    fn add(&mut self, folder: &Path) -> Result<(), String> {
        let Some(watcher) = &mut self.watcher else {
            return Ok(());
        };
        if self.folders.len() >= FOLDERS {
            return Err(format!("more than {FOLDERS} folders"));
        }
        self.folders.insert(folder.to_owned());
        if let Some(name) = silent_file_system(folder) {
            return Err(format!(
                "{} is on {name}, which sends no events",
                folder.display()
            ));
        }
        watcher
            .watch(folder, RecursiveMode::NonRecursive)
            .map_err(|error| in_words(&error, Some(folder)))
    }
}

fn in_words(error: &notify::Error, folder: Option<&Path>) -> String {
    match (&error.kind, folder) {
        (ErrorKind::MaxFilesWatch, _) => {
            "the limit fs.inotify.max_user_watches or max_user_instances is reached".to_owned()
        }
        (ErrorKind::Io(error), Some(folder)) => {
            format!("{}: {}", folder.display(), crate::error::in_words(error))
        }
        (_, Some(folder)) => format!("{}: {error}", folder.display()),
        (_, None) => format!("no events: {error}"),
    }
}

fn silent_file_system(folder: &Path) -> Option<&'static str> {
    let kind = statfs(folder).ok()?.filesystem_type().0;
    // The magic is 32 bits; some systems sign-extend it.
    let magic = kind.cast_unsigned() & 0xffff_ffff;
    SILENT
        .iter()
        .find(|(number, _)| *number == magic)
        .map(|(_, name)| *name)
}

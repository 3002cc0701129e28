//! Which files are meant by `PATH|GLOB|DIR|-`, and what was passed over and why.

use std::collections::{HashMap, HashSet};
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

mod pseudo;

use super::decompress::Packing;
use super::sniff::{self, Chosen, Guess, NameSays};
use crate::error::InputError;

/// Folders below each other that are searched.
const DEPTH: usize = 32;
/// Files and folders looked at in one search.
const ENTRIES: usize = 1_000_000;
/// Logs taken.
const LOGS: usize = 65_536;
/// Clocks of file systems and hosts differ by less than this.
const CLOCKS: Duration = Duration::from_secs(2);
/// Notes kept about what was passed over; more are counted.
const NOTES: usize = 4_096;

/// Why a journal that was found is passed over.
pub const A_JOURNAL: &str = "a journal of unhang: name it to replay it";

/// A log to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Where it is.
    pub path: PathBuf,
    /// Its name for people: relative to what was asked for.
    pub name: String,
    /// How it is packed.
    pub packing: Packing,
    /// Its size when it was found; 0 for a pipe.
    pub len: u64,
    /// True for a named pipe: it can be read only once and has no size.
    pub pipe: bool,
}

/// What a search found. Logs are in natural order of their names: `rank2` before `rank10`.
#[derive(Debug, Default)]
pub struct Found {
    /// Logs.
    pub logs: Vec<Log>,
    /// Saved answers of NCCL RAS, by name.
    pub answers: Vec<Log>,
    /// Flight Recorder dumps; again whenever one has changed.
    pub dumps: Vec<Log>,
    /// Journals that were named.
    pub journals: Vec<PathBuf>,
    /// True if standard input was named (`-`).
    pub stdin: bool,
    /// What was passed over, and why (`a Flight Recorder dump`). Bounded.
    pub passed_over: Vec<(PathBuf, String)>,
    /// What was asked for and could not be used.
    pub problems: Vec<InputError>,
}

/// Searches, again and again while files appear; each search gives what is new since the last.
#[derive(Debug)]
pub struct Discoverer {
    args: Vec<PathBuf>,
    base: PathBuf,
    /// Paths already given out.
    given: HashSet<PathBuf>,
    /// Files that were no log when they looked like this, and dumps that were given.
    refused: HashMap<PathBuf, (u64, Option<SystemTime>)>,
    /// Names of dumps without the number at their end: a file called so that is none is one that was not written.
    dump_names: HashSet<PathBuf>,
    /// Problems already told.
    told: HashSet<PathBuf>,
    /// Files written last before this are left for a later search.
    since: Option<SystemTime>,
    first: bool,
}

/// Length and time of a file when it was looked at.
type Look = (u64, Option<SystemTime>);

/// One search in progress.
struct Walk {
    found: Found,
    folders: HashSet<(u64, u64)>,
    files: HashMap<(u64, u64), PathBuf>,
    links: Vec<PathBuf>,
    /// Files that are no log: if they are called like dumps, they are broken ones.
    doubtful: Vec<(PathBuf, Look, &'static str)>,
    entries: usize,
}

impl Discoverer {
    /// For these arguments; none means the present folder.
    #[must_use]
    pub fn new(args: &[PathBuf]) -> Self {
        let args = if args.is_empty() {
            vec![PathBuf::from(".")]
        } else {
            args.to_vec()
        };
        Self {
            base: common_base(&args),
            args,
            given: HashSet::new(),
            refused: HashMap::new(),
            dump_names: HashSet::new(),
            told: HashSet::new(),
            since: None,
            first: true,
        }
    }

    /// Takes a file only once it was written since this time: what was there before is another job's.
    #[must_use]
    pub fn since(mut self, since: Option<SystemTime>) -> Self {
        self.since = since.and_then(|since| since.checked_sub(CLOCKS));
        self
    }

    /// Searches once.
    pub fn search(&mut self) -> Found {
        let mut walk = Walk {
            found: Found::default(),
            folders: HashSet::new(),
            files: HashMap::new(),
            links: Vec::new(),
            doubtful: Vec::new(),
            entries: 0,
        };
        for arg in self.args.clone() {
            self.argument(&arg, &mut walk);
        }
        for link in std::mem::take(&mut walk.links) {
            self.file(&link, Chosen::BySearch, &mut walk);
        }
        for (path, look, why) in std::mem::take(&mut walk.doubtful) {
            if self.dump_names.contains(&without_number(&path)) {
                let packing = sniff::packing(&path);
                self.give_dump(&path, packing, look, &mut walk);
            } else {
                self.refuse(&path, look, why, &mut walk);
            }
        }
        self.first = false;
        let mut found = walk.found;
        if walk.entries >= ENTRIES {
            found.problems.push(InputError::because(
                "list",
                &self.base,
                format!("more than {ENTRIES} files below it; the rest is left out"),
            ));
        }
        for (files, what) in [
            (&mut found.logs, "logs"),
            (&mut found.dumps, "dumps"),
            (&mut found.answers, "answers of RAS"),
        ] {
            files.sort_by_cached_key(|log| (natural(&log.name), log.path.clone()));
            if files.len() > LOGS {
                let why = format!(
                    "{} {what} are more than {LOGS}; the rest is left out",
                    files.len()
                );
                let problem = InputError::because("read", &self.base, why);
                found.problems.push(problem);
                files.truncate(LOGS);
            }
        }
        found
            .problems
            .retain(|problem| self.told.insert(problem.path.clone()));
        found
    }

    /// Folders whose changes can bring new logs: those asked for.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        let folder = |arg: &PathBuf| {
            if arg.is_dir() {
                arg.clone()
            } else {
                literal_parent(arg)
            }
        };
        self.args
            .iter()
            .filter(|arg| arg.as_os_str() != "-")
            .map(folder)
            .collect()
    }

    fn argument(&mut self, arg: &Path, walk: &mut Walk) {
        if arg.as_os_str() == "-" {
            walk.found.stdin |= self.first;
            return;
        }
        match fs::metadata(arg) {
            Ok(meta) if meta.is_dir() && pseudo::is_pseudo(arg) => {
                if self.first {
                    let problem = InputError::because("search", arg, pseudo::WHY);
                    walk.found.problems.push(problem.hint("name the file"));
                }
            }
            Ok(meta) if meta.is_dir() => self.folder(arg, walk),
            Ok(_) => self.file(arg, Chosen::ByName, walk),
            Err(_) if is_pattern(arg) => self.pattern(arg, walk),
            Err(error) if self.first => walk.found.problems.push(no_such(arg, &error)),
            Err(_) => {}
        }
    }

    fn pattern(&mut self, arg: &Path, walk: &mut Walk) {
        let text = arg.to_string_lossy();
        let paths = match glob::glob(&text) {
            Ok(paths) => paths,
            Err(error) => {
                walk.found
                    .problems
                    .push(InputError::because("understand", arg, error.msg));
                return;
            }
        };
        let mut any = false;
        for path in paths.flatten().take(ENTRIES) {
            any = true;
            match fs::metadata(&path) {
                Ok(meta) if meta.is_dir() => self.folder(&path, walk),
                Ok(_) => self.file(&path, Chosen::BySearch, walk),
                Err(error) => walk
                    .found
                    .problems
                    .push(InputError::io("open", &path, &error)),
            }
        }
        if !any && self.first {
            walk.found
                .problems
                .push(InputError::because("open", arg, "no file has such a name"));
        }
    }

    fn folder(&mut self, top: &Path, walk: &mut Walk) {
        let mut stack = vec![(top.to_owned(), 0)];
        while let Some((folder, depth)) = stack.pop() {
            match fs::metadata(&folder) {
                Ok(meta) if walk.folders.insert((meta.dev(), meta.ino())) => {}
                Ok(_) => continue,
                Err(error) => {
                    walk.found
                        .problems
                        .push(InputError::io("list", &folder, &error));
                    continue;
                }
            }
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    walk.found
                        .problems
                        .push(InputError::io("list", &folder, &error));
                    continue;
                }
            };
            for entry in entries.flatten() {
                walk.entries += 1;
                if walk.entries >= ENTRIES {
                    return;
                }
                let path = entry.path();
                if entry.file_name().as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                if kind.is_symlink() && path.is_dir() {
                    // It leads out of what was asked for, or to what is searched anyway.
                    self.pass_over(&path, "a link to a folder: name it to search it", walk);
                } else if kind.is_dir() {
                    if pseudo::is_pseudo(&path) {
                        self.pass_over(&path, pseudo::WHY, walk);
                    } else if depth < DEPTH {
                        stack.push((path, depth + 1));
                    } else {
                        self.pass_over(&path, "too many folders deep", walk);
                    }
                } else if kind.is_symlink() {
                    walk.links.push(path);
                } else {
                    self.file(&path, Chosen::BySearch, walk);
                }
            }
        }
    }

    fn file(&mut self, path: &Path, chosen: Chosen, walk: &mut Walk) {
        if self.given.contains(path) {
            return;
        }
        let meta = match fs::metadata(path) {
            Ok(meta) => meta,
            Err(error) => {
                // Between the listing and now it may just have gone; a dangling link stays.
                if path.is_symlink() && chosen == Chosen::BySearch {
                    self.dangling(path, walk);
                } else if self.first {
                    walk.found
                        .problems
                        .push(InputError::io("open", path, &error));
                }
                return;
            }
        };
        if !meta.is_file() {
            self.special(path, meta.file_type(), chosen, walk);
            return;
        }
        if self
            .since
            .is_some_and(|since| meta.modified().is_ok_and(|at| at < since))
        {
            return;
        }
        // Only a link leads from a folder that is searched to such a file; reading it may never end.
        if chosen == Chosen::BySearch && path.is_symlink() && pseudo::is_pseudo(path) {
            self.pass_over(path, pseudo::WHY, walk);
            return;
        }
        if let Some(other) = walk.files.insert((meta.dev(), meta.ino()), path.to_owned()) {
            let why = format!("the same file as {}", other.display());
            walk.files.insert((meta.dev(), meta.ino()), other);
            self.pass_over(path, &why, walk);
            return;
        }
        let look = (meta.len(), meta.modified().ok());
        if self.refused.get(path) == Some(&look) {
            return;
        }
        match sniff::look(path, chosen) {
            Ok(Guess::Log(packing)) => {
                let log = self.give(path, packing, &meta);
                walk.found.logs.push(log);
            }
            Ok(Guess::Ras(packing)) => {
                let answer = self.give(path, packing, &meta);
                walk.found.answers.push(answer);
            }
            Ok(Guess::Journal) if chosen == Chosen::ByName => {
                self.given.insert(path.to_owned());
                walk.found.journals.push(path.to_owned());
            }
            Ok(Guess::Journal) => self.refuse(path, look, A_JOURNAL, walk),
            Ok(Guess::Dump(packing)) => self.give_dump(path, packing, look, walk),
            Ok(Guess::Empty) => walk.doubtful.push((path.to_owned(), look, "empty")),
            Ok(Guess::Not(why)) if chosen == Chosen::ByName => {
                self.given.insert(path.to_owned());
                let problem = InputError::because("read", path, format!("it is {why}, not a log"));
                walk.found.problems.push(problem);
            }
            Ok(Guess::Not(why)) => walk.doubtful.push((path.to_owned(), look, why)),
            Err(error) => walk
                .found
                .problems
                .push(InputError::io("read", path, &error)),
        }
    }

    fn give(&mut self, path: &Path, packing: Packing, meta: &Metadata) -> Log {
        self.given.insert(path.to_owned());
        Log {
            path: path.to_owned(),
            name: self.name_of(path),
            packing,
            len: meta.len(),
            pipe: false,
        }
    }

    /// A dump is written whole and replaced by the next one.
    fn give_dump(
        &mut self,
        path: &Path,
        packing: Packing,
        look: (u64, Option<SystemTime>),
        walk: &mut Walk,
    ) {
        self.refused.insert(path.to_owned(), look);
        self.dump_names.insert(without_number(path));
        let name = self.name_of(path);
        walk.found.dumps.push(Log {
            path: path.to_owned(),
            name,
            packing,
            len: look.0,
            pipe: false,
        });
    }

    fn special(&mut self, path: &Path, kind: FileType, chosen: Chosen, walk: &mut Walk) {
        let what = match kind {
            kind if kind.is_fifo() && chosen == Chosen::ByName => {
                self.given.insert(path.to_owned());
                // `report <(zcat job.gz)`: the number is a descriptor's and would be taken for a rank.
                let unnamed = ["/dev/fd", "/proc"].iter().any(|top| path.starts_with(top));
                let name = if unnamed {
                    "a pipe".to_owned()
                } else {
                    self.name_of(path)
                };
                let log = Log {
                    path: path.to_owned(),
                    name,
                    packing: Packing::Plain,
                    len: 0,
                    pipe: true,
                };
                walk.found.logs.push(log);
                return;
            }
            kind if kind.is_fifo() => "a named pipe",
            kind if kind.is_socket() => "a socket",
            _ => "a device",
        };
        if chosen == Chosen::ByName {
            self.given.insert(path.to_owned());
            walk.found.problems.push(InputError::because(
                "read",
                path,
                format!("it is {what}, not a log"),
            ));
        } else {
            self.pass_over(path, what, walk);
        }
    }

    fn dangling(&mut self, path: &Path, walk: &mut Walk) {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy())
            .unwrap_or_default();
        if sniff::name_says(&name) == NameSays::Log && self.first {
            let error = io::Error::from(io::ErrorKind::NotFound);
            let mut problem = InputError::io("open", path, &error);
            "the link points to nothing".clone_into(&mut problem.why);
            walk.found.problems.push(problem);
        } else {
            self.pass_over(path, "a link to nothing", walk);
        }
    }

    fn refuse(&mut self, path: &Path, look: (u64, Option<SystemTime>), why: &str, walk: &mut Walk) {
        self.refused.insert(path.to_owned(), look);
        self.pass_over(path, why, walk);
    }

    fn pass_over(&mut self, path: &Path, why: &str, walk: &mut Walk) {
        if walk.found.passed_over.len() < NOTES {
            walk.found
                .passed_over
                .push((path.to_owned(), why.to_owned()));
        }
    }

    fn name_of(&self, path: &Path) -> String {
        let name = path.strip_prefix(&self.base).unwrap_or(path);
        name.to_string_lossy().into_owned()
    }
}

/// `fr/trace_rank_12.json` → `fr/trace_rank_`
fn without_number(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    let stem = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '/');
    PathBuf::from(stem.trim_end_matches(|c: char| c.is_ascii_digit()))
}

fn no_such(arg: &Path, error: &io::Error) -> InputError {
    let missing = error.kind() == io::ErrorKind::NotFound;
    let problem = InputError::io("open", arg, error);
    if missing {
        return problem.hint("to wait for files that a job will write, watch their folder");
    }
    problem
}

fn is_pattern(arg: &Path) -> bool {
    arg.to_string_lossy().contains(['*', '?', '['])
}

/// The folder in front of the first part that holds a pattern, or that a file lies in.
fn literal_parent(arg: &Path) -> PathBuf {
    let mut parent = PathBuf::new();
    let parts: Vec<Component<'_>> = arg.components().collect();
    for part in parts.iter().take(parts.len().saturating_sub(1)) {
        if is_pattern(Path::new(part)) {
            break;
        }
        parent.push(part);
    }
    if parent.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        parent
    }
}

/// What all arguments have in common: names are shown relative to it.
fn common_base(args: &[PathBuf]) -> PathBuf {
    let bases = args.iter().filter(|arg| arg.as_os_str() != "-").map(|arg| {
        let base = if arg.is_dir() {
            arg.clone()
        } else {
            literal_parent(arg)
        };
        // "." in front of relative paths is not part of what files below them are called.
        if base.as_os_str() == "." && !arg.starts_with(".") {
            PathBuf::new()
        } else {
            base
        }
    });
    bases
        .reduce(|a, b| {
            a.components()
                .zip(b.components())
                .take_while(|(a, b)| a == b)
                .map(|(a, _)| a)
                .collect()
        })
        .unwrap_or_default()
}

/// A piece of a name in natural order: numbers by value, then by their zeros, text by its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Piece {
    /// Folders end before anything goes on: `a/b` comes before `a.b`.
    Slash,
    /// Digits: their count without leading zeros, themselves, and the leading zeros.
    Number(usize, String, usize),
    /// Anything else.
    Text(String),
}

/// The key that sorts `rank2` before `rank10`.
#[must_use]
pub fn natural(name: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let same = |c: char| c != '/' && c.is_ascii_digit() == first.is_ascii_digit();
        let end = if first == '/' {
            1
        } else {
            rest.find(|c| !same(c)).unwrap_or(rest.len())
        };
        let (piece, after) = rest.split_at(end);
        rest = after;
        pieces.push(if first == '/' {
            Piece::Slash
        } else if first.is_ascii_digit() {
            let digits = piece.trim_start_matches('0');
            Piece::Number(digits.len(), digits.to_owned(), piece.len() - digits.len())
        } else {
            Piece::Text(piece.to_owned())
        });
    }
    pieces
}

#[cfg(test)]
#[path = "discover/tests.rs"]
mod tests;

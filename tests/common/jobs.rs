//! The recorded jobs below `fixtures/`: their logs and the truth about them.

use std::fs;
use std::path::{Path, PathBuf};

/// One recorded job.
#[derive(Debug)]
pub(crate) struct Case {
    /// Its folder below `fixtures/`: `cases/mismatch-op`.
    pub(crate) name: String,
    /// The job was seen to stand still.
    pub(crate) stuck: bool,
    /// Its logs, sorted by path.
    pub(crate) logs: Vec<Log>,
    /// Its Flight Recorder dumps, sorted by path.
    pub(crate) dumps: Vec<Log>,
}

/// One log of a job.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    /// Path below the job's folder.
    pub(crate) name: String,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

/// Every job below `fixtures/<kind>`, sorted by name.
pub(crate) fn recorded(kind: &str) -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(kind);
    entries(&root)
        .into_iter()
        .filter(|path| path.is_dir())
        .map(|path| read_case(kind, &path))
        .collect()
}

fn read_case(kind: &str, folder: &Path) -> Case {
    let truth = fs::read(folder.join("truth.json")).expect("every job has a truth.json");
    let truth: serde_json::Value = serde_json::from_slice(&truth)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let (mut logs, mut dumps) = (Vec::new(), Vec::new());
    let is_log = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
    let is_dump = |path: &Path| file_name(path).contains("_rank_");
    collect(folder, folder, &is_log, &mut logs);
    collect(folder, folder, &is_dump, &mut dumps);
    Case {
        name: format!("{kind}/{}", file_name(folder)),
        stuck: truth["stuck"].as_bool().unwrap_or(false),
        logs,
        dumps,
    }
}

/// Takes the files that `wanted` picks.
fn collect(folder: &Path, below: &Path, wanted: &dyn Fn(&Path) -> bool, logs: &mut Vec<Log>) {
    for path in entries(folder) {
        if path.is_dir() {
            collect(&path, below, wanted, logs);
        } else if wanted(&path) {
            let name = path
                .strip_prefix(below)
                .expect("found below it")
                .to_string_lossy()
                .into_owned();
            logs.push(Log {
                name,
                bytes: fs::read(&path).expect("a readable file"),
            });
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = listed
        .map(|entry| entry.expect("a listed entry").path())
        .collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .expect("a named folder")
        .to_string_lossy()
        .into_owned()
}

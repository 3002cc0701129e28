//! The variables that make a job say what a diagnosis needs, and what the user has set already.
//!
//! NCCL_DEBUG=TRACE says no more than INFO: released NCCL has no TRACE lines compiled in. COLL is off by
//! default and says which collective a rank reached; setting NCCL_DEBUG_SUBSYS replaces the default, so
//! that is listed too. NCCL ignores names that it does not know.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Subsystems whose lines a diagnosis reads.
pub const SUBSYSTEMS: &str = "INIT,BOOTSTRAP,ENV,NET,COLL,P2P,SHM,GRAPH,NVLS,DESTROY,RAS";

/// What is set, what is left as it is, and what follows from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Variables that the job gets.
    pub set: Vec<(&'static str, OsString)>,
    /// What the user should know, as sentences without their end.
    pub notes: Vec<String>,
    /// A pattern of the files that NCCL writes instead of those in the folder.
    pub elsewhere: Option<PathBuf>,
}

/// Decides; `present` is the environment, `folder` where NCCL is to write.
#[must_use]
pub fn settings(present: impl Fn(&str) -> Option<OsString>, folder: &Path) -> Settings {
    let mut settings = Settings::default();
    let is = |value: &OsStr, words: &[&str]| {
        let value = value.to_string_lossy();
        words.iter().any(|word| value.eq_ignore_ascii_case(word))
    };
    match present("NCCL_DEBUG") {
        None => settings.set.push(("NCCL_DEBUG", "INFO".into())),
        Some(value) if is(&value, &["INFO", "TRACE", "ABORT"]) => {}
        Some(value) => settings.notes.push(format!(
            "NCCL_DEBUG={} stays as it is set; INFO would show how far each rank gets",
            value.display()
        )),
    }
    match present("NCCL_DEBUG_SUBSYS") {
        None => settings.set.push(("NCCL_DEBUG_SUBSYS", SUBSYSTEMS.into())),
        Some(value) if shows_collectives(&value.to_string_lossy()) => {}
        Some(value) => settings.notes.push(format!(
            "NCCL_DEBUG_SUBSYS={} stays as it is set; with INIT and COLL in it, it would show which collective \
             each rank reached",
            value.display()
        )),
    }
    match present("NCCL_DEBUG_FILE") {
        None => {
            let mut name = percents(folder.as_os_str()).into_vec();
            name.extend_from_slice(b"/nccl.%h.%p.log");
            settings
                .set
                .push(("NCCL_DEBUG_FILE", OsString::from_vec(name)));
        }
        Some(value) => {
            let pattern = pattern(&value);
            settings.notes.push(format!(
                "NCCL_DEBUG_FILE stays as it is set; {} is watched too",
                pattern.display()
            ));
            settings.elsewhere = Some(pattern);
        }
    }
    // Into a file Python writes whole blocks, the last of which a killed rank never writes.
    if present("PYTHONUNBUFFERED").is_none() {
        settings.set.push(("PYTHONUNBUFFERED", "1".into()));
    }
    settings
}

/// What an MPI launcher has to be told, if it starts ranks on other hosts.
#[must_use]
pub fn of_launcher(command: &[OsString]) -> Option<&'static str> {
    let program = Path::new(command.first()?).file_name()?;
    let args = || command.iter().skip(1).map(|arg| arg.to_string_lossy());
    let elsewhere = [
        "-H",
        "-host",
        "--host",
        "-hostfile",
        "--hostfile",
        "-machinefile",
        "--machinefile",
    ];
    let is_mpi = ["mpirun", "orterun", "mpiexec"]
        .iter()
        .any(|name| program == *name);
    let far = is_mpi && args().any(|arg| elsewhere.contains(&arg.as_ref()));
    (far && !args().any(|arg| arg.contains("NCCL_DEBUG"))).then_some(
        "Open MPI hands variables to other hosts only where it is told to: add \
         -x NCCL_DEBUG -x NCCL_DEBUG_SUBSYS -x NCCL_DEBUG_FILE -x PYTHONUNBUFFERED to the command",
    )
}

fn shows_collectives(list: &str) -> bool {
    match list.strip_prefix('^') {
        Some(without) => !without
            .split(',')
            .any(|name| name.eq_ignore_ascii_case("COLL")),
        None => {
            let has = |wanted: &str| {
                list.split(',')
                    .any(|name| name.eq_ignore_ascii_case(wanted))
            };
            has("ALL") || has("COLL") && has("INIT")
        }
    }
}

/// A path in which NCCL finds nothing to fill in.
fn percents(path: &OsStr) -> OsString {
    let mut out = Vec::with_capacity(path.len());
    for byte in path.as_bytes() {
        out.push(*byte);
        if *byte == b'%' {
            out.push(b'%');
        }
    }
    OsString::from_vec(out)
}

/// The files that NCCL makes of a name with `%h` (host), `%p` (process) and `%%` in it.
fn pattern(name: &OsStr) -> PathBuf {
    let mut out = Vec::with_capacity(name.len());
    let mut bytes = name.as_bytes().iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek()) {
            (b'%', Some(b'h' | b'p')) => {
                bytes.next();
                out.push(b'*');
            }
            (b'%', Some(b'%')) => {
                bytes.next();
                out.push(b'%');
            }
            _ => out.push(byte),
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(present: &[(&str, &str)]) -> Settings {
        let find = |name: &str| {
            let found = present.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| OsString::from(value))
        };
        settings(find, Path::new("/runs/100%/1"))
    }

    #[test]
    fn what_is_not_set_is_set() {
        let all = with(&[]);
        let value = |name| {
            all.set
                .iter()
                .find(|(n, _)| *n == name)
                .and_then(|(_, v)| v.to_str())
        };
        assert_eq!(value("NCCL_DEBUG"), Some("INFO"));
        assert_eq!(value("NCCL_DEBUG_SUBSYS"), Some(SUBSYSTEMS));
        assert_eq!(
            value("NCCL_DEBUG_FILE"),
            Some("/runs/100%%/1/nccl.%h.%p.log")
        );
        assert_eq!(value("PYTHONUNBUFFERED"), Some("1"));
        assert!(all.notes.is_empty() && all.elsewhere.is_none());
    }

    #[test]
    fn what_is_set_stays_and_is_told_where_it_matters() {
        let own = with(&[
            ("NCCL_DEBUG", "warn"),
            ("NCCL_DEBUG_SUBSYS", "INIT,NET"),
            ("NCCL_DEBUG_FILE", "/logs/%h/n.%p.100%%"),
            ("PYTHONUNBUFFERED", "0"),
        ]);
        assert_eq!(own.set, []);
        assert_eq!(own.notes.len(), 3, "{:?}", own.notes);
        assert_eq!(own.elsewhere, Some(PathBuf::from("/logs/*/n.*.100%")));
        for good in ["ALL", "init,coll", "^ENV"] {
            let own = with(&[("NCCL_DEBUG", "TRACE"), ("NCCL_DEBUG_SUBSYS", good)]);
            assert!(own.notes.is_empty(), "{:?}", own.notes);
        }
        let none = with(&[("NCCL_DEBUG_SUBSYS", "^COLL")]);
        assert_eq!(none.notes.len(), 1);
    }

    #[test]
    fn mpirun_is_told_about_other_hosts() {
        let told = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            of_launcher(&words).is_some()
        };
        assert!(told("/usr/bin/mpirun -np 16 -H a:8,b:8 python t.py"));
        assert!(!told("mpirun -np 8 python t.py"));
        assert!(!told("mpirun -H a,b -x NCCL_DEBUG python t.py"));
        assert!(!told("torchrun --nproc-per-node 8 t.py"));
    }
}

//! `--like`: the libnccl of a running job, or the installed one that has the version of a job's log.

use std::path::{Path, PathBuf};

use super::super::common::{Common, new_engine};
use crate::app::report;
use crate::error::InputError;
use crate::probe::host::Host;
use crate::probe::libraries::{Nccl, libraries, version_of};
use crate::probe::nccl_library::{self, Library, Origin};

/// What the job is named by, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Like {
    /// A process.
    Process(u32),
    /// Its log, or the folder of its logs.
    Log(PathBuf),
}

/// A number is a process, all else a path: `./4711` for a file of that name.
///
/// # Errors
/// None; the command line wants a result.
pub(crate) fn parse(text: &str) -> Result<Like, std::convert::Infallible> {
    Ok(match text.parse() {
        Ok(pid) => Like::Process(pid),
        Err(_) => Like::Log(text.into()),
    })
}

/// Finds it.
///
/// # Errors
/// If the process or log cannot be read or tells no version, or no such version is installed.
pub(super) fn library(like: &Like, common: &Common) -> anyhow::Result<Library> {
    let path = match like {
        Like::Process(pid) => return Ok(nccl_library::of_process(*pid)?),
        Like::Log(path) => path,
    };
    let wanted = version_in(path, common)?;
    let installed = libraries(&Host::this()).nccl;
    if let Some(found) = of_version(&installed, &wanted) {
        return Ok(Library {
            path: found.path.clone(),
            origin: Origin::Log,
        });
    }
    Err(not_installed(path, &wanted, &installed).into())
}

/// The one version of NCCL that a log is of.
fn version_in(path: &Path, common: &Common) -> anyhow::Result<String> {
    let (files, _sound) = common.rule_files();
    let plan = report::Plan {
        paths: vec![path.to_owned()],
        ..report::Plan::default()
    };
    let read = report::run(&plan, new_engine(&files, false));
    if let Some(problem) = read.problems.into_iter().next() {
        return Err(problem.into());
    }
    let why = |why: &str| InputError::because("find NCCL's version in", path, why);
    let mut versions = read.snapshot.job.versions.iter();
    let Some(values) = versions.find(|v| v.name == "nccl").map(|v| &v.values) else {
        return Err(why("no line tells it")
            .hint("NCCL prints it with NCCL_DEBUG=VERSION or higher; --nccl PATH names a library")
            .into());
    };
    match values.as_slice() {
        [(version, _)] => Ok(version.clone()),
        several => {
            let list: Vec<&str> = several.iter().map(|(v, _)| v.as_str()).collect();
            Err(
                why(&format!("its ranks have several, {}", list.join(" and ")))
                    .hint("--nccl RANK:PATH names one for each rank")
                    .into(),
            )
        }
    }
}

/// An installed library of that version; of the same build for CUDA if there is one.
fn of_version<'a>(installed: &'a [Nccl], wanted: &str) -> Option<&'a Nccl> {
    let of = |nccl: &&Nccl| {
        let version = nccl.version.as_deref().and_then(version_of);
        version.is_some() && version == version_of(wanted)
    };
    let same = installed.iter().filter(of);
    same.clone()
        .find(|nccl| nccl.version.as_deref() == Some(wanted))
        .or_else(|| same.clone().next())
}

fn not_installed(path: &Path, wanted: &str, installed: &[Nccl]) -> InputError {
    let plain = wanted.split('+').next().unwrap_or(wanted);
    let cuda = wanted
        .split_once("+cuda")
        .map_or("12", |(_, cuda)| cuda.split('.').next().unwrap_or(cuda));
    let here: Vec<String> = installed
        .iter()
        .map(|nccl| {
            let version = nccl.version.as_deref().unwrap_or("of unknown version");
            format!("{version} ({})", nccl.path.display())
        })
        .collect();
    let here = if here.is_empty() {
        "no libnccl is installed here".to_owned()
    } else {
        format!("installed here: {}", here.join(", "))
    };
    InputError::because(
        "find the libnccl of",
        path,
        format!(
            "the log is of NCCL {wanted}, and {here}; get it with `pip install --target DIR --no-deps \
             nvidia-nccl-cu{cuda}=={plain}`"
        ),
    )
    .hint("then --nccl DIR/nvidia/nccl/lib; without --like the test takes the one that is installed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nccl(path: &str, version: Option<&str>) -> Nccl {
        Nccl {
            path: path.into(),
            origin: "of the Python environment".to_owned(),
            version: version.map(str::to_owned),
        }
    }

    #[test]
    fn the_same_build_comes_before_the_same_version() {
        let installed = [
            nccl("/a", None),
            nccl("/b", Some("2.27.3+cuda12.9")),
            nccl("/c", Some("2.28.9+cuda12.9")),
            nccl("/d", Some("2.28.9+cuda13.0")),
        ];
        let path = |wanted| of_version(&installed, wanted).map(|n| n.path.as_path());
        assert_eq!(path("2.28.9+cuda13.0"), Some(Path::new("/d")));
        assert_eq!(path("2.28.9+cuda11.8"), Some(Path::new("/c")));
        assert_eq!(path("2.27.3"), Some(Path::new("/b")));
        assert_eq!(path("2.18.1"), None);
        let error = not_installed(Path::new("job.log"), "2.18.1+cuda13.0", &installed);
        assert!(error.why.contains("nvidia-nccl-cu13==2.18.1"), "{error}");
        assert!(error.why.contains("2.28.9+cuda12.9 (/c)"), "{error}");
    }

    #[test]
    fn a_number_is_a_process() {
        assert_eq!(parse("4711"), Ok(Like::Process(4711)));
        assert_eq!(parse("./4711"), Ok(Like::Log("./4711".into())));
    }
}

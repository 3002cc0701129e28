//! Which libnccl: the one that a process uses, a Python wheel's, or the system's.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{host, python};
use crate::error::InputError;

/// Folders of libraries, where the loader's cache tells nothing.
pub(super) const SYSTEM_FOLDERS: [&str; 5] = [
    "/usr/local/lib",
    "/usr/local/cuda/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
];

/// Where the program lies that shows the loader's cache.
const LDCONFIG: [&str; 2] = ["/sbin/ldconfig", "/usr/sbin/ldconfig"];

/// Where a library was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Named by the user.
    Named,
    /// Mapped by a process.
    Process(u32),
    /// In the Python environment.
    Wheel,
    /// In a folder of LD_LIBRARY_PATH.
    Searched,
    /// Installed, and of the version that a log is of.
    Log,
    /// Where the loader looks.
    System,
}

/// A library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its file.
    pub path: PathBuf,
    /// Where it was found.
    pub origin: Origin,
}

impl Library {
    /// Where it was found, in words.
    #[must_use]
    pub fn origin_in_words(&self) -> String {
        match self.origin {
            Origin::Named => "named".to_owned(),
            Origin::Process(pid) => format!("used by process {pid}"),
            Origin::Wheel => "of the Python environment".to_owned(),
            Origin::Searched => "in LD_LIBRARY_PATH".to_owned(),
            Origin::Log => "installed, of the log's version".to_owned(),
            Origin::System => "of the system".to_owned(),
        }
    }
}

/// The library that was named.
///
/// # Errors
/// If there is no such file.
pub fn named(path: &Path) -> Result<Library, InputError> {
    let inside = path.join("libnccl.so.2");
    let path = if path.is_dir() { &inside } else { path };
    let path = fs::canonicalize(path).map_err(|error| InputError::io("open", path, &error))?;
    Ok(Library {
        path,
        origin: Origin::Named,
    })
}

/// The library that a running process has mapped.
///
/// # Errors
/// If its maps cannot be read, or it has none.
pub fn of_process(pid: u32) -> Result<Library, InputError> {
    let maps = PathBuf::from(format!("/proc/{pid}/maps"));
    let text = fs::read_to_string(&maps).map_err(|error| InputError::io("read", &maps, &error))?;
    let path = in_maps(&text).ok_or_else(|| {
        InputError::because("find libnccl in", &maps, "the process has not loaded it").hint(
            "the pid of a rank is wanted, not the launcher's; some programs link NCCL statically",
        )
    })?;
    // As the process sees it: it may live in a container. Where it does not, the path holds longer than it.
    let inside =
        PathBuf::from(format!("/proc/{pid}/root")).join(path.strip_prefix("/").unwrap_or(&path));
    let file = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let path = match file(&inside) {
        Some(there) if file(&path) != Some(there) => inside,
        _ => path,
    };
    Ok(Library {
        path,
        origin: Origin::Process(pid),
    })
}

fn in_maps(text: &str) -> Option<PathBuf> {
    let paths = text.lines().filter_map(|line| {
        let at = line.find('/')?;
        Some(line[at..].trim_end_matches(" (deleted)"))
    });
    let mut nccl = paths.filter(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with("libnccl.so")
    });
    nccl.next().map(PathBuf::from)
}

/// The library that the user's Python would load, else what the loader finds: in LD_LIBRARY_PATH, then the
/// system's.
#[must_use]
pub fn find() -> Option<Library> {
    let searched = || searched(&std::env::var_os("LD_LIBRARY_PATH")?);
    of_wheel(&python::site_packages())
        .or_else(searched)
        .or_else(of_system)
}

/// The first in a list of folders. One that is relative is left out: it depends on where a process stands.
fn searched(list: &OsStr) -> Option<Library> {
    let folders = std::env::split_paths(list).filter(|folder| folder.is_absolute());
    let mut libraries = folders.map(|folder| folder.join("libnccl.so.2"));
    Some(Library {
        path: libraries.find(|path| path.is_file())?,
        origin: Origin::Searched,
    })
}

fn of_wheel(folders: &[PathBuf]) -> Option<Library> {
    let libraries = folders
        .iter()
        .map(|folder| folder.join("nvidia/nccl/lib/libnccl.so.2"));
    let path = libraries.into_iter().find(|path| path.is_file())?;
    Some(Library {
        path,
        origin: Origin::Wheel,
    })
}

pub(crate) fn of_system() -> Option<Library> {
    // By its place: PATH may lead into the present folder.
    let program = LDCONFIG.iter().find(|path| Path::new(path).is_file());
    let output = program.and_then(|path| host::output(Command::new(path).arg("-p")));
    let cached = output.and_then(|text| {
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with("libnccl.so.2 "))?;
        Some(PathBuf::from(line.rsplit("=> ").next()?.trim()))
    });
    let path = cached.or_else(|| {
        SYSTEM_FOLDERS
            .iter()
            .map(|folder| Path::new(folder).join("libnccl.so.2"))
            .find(|path| path.is_file())
    })?;
    Some(Library {
        path,
        origin: Origin::System,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps() {
        let text = "7f1-7f2 r-xp 00000000 08:01 17  /usr/lib/libc.so.6\n\
                    7f3-7f4 r-xp 00000000 08:01 18  /opt/v env/nvidia/nccl/lib/libnccl.so.2\n";
        assert_eq!(
            in_maps(text),
            Some(PathBuf::from("/opt/v env/nvidia/nccl/lib/libnccl.so.2"))
        );
        assert_eq!(in_maps("7f1-7f2 r-xp 0 08:01 17 /x/libnccl-net.so\n"), None);
    }

    #[test]
    fn the_first_folder_of_the_search_path_that_has_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().display();
        for name in ["empty", "first", "second"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        for name in ["first", "second"] {
            fs::write(folder.path().join(name).join("libnccl.so.2"), "").expect("a file");
        }
        let list = format!("first::{place}/empty:{place}/first:{place}/second");
        let found = searched(list.as_ref()).expect("found");
        assert_eq!(found.path, folder.path().join("first/libnccl.so.2"));
        assert_eq!(found.origin, Origin::Searched);
        assert_eq!(searched(format!("{place}/empty").as_ref()), None);
    }

    #[test]
    fn wheels() {
        let folder = tempfile::tempdir().expect("a folder");
        let lib = folder.path().join("nvidia/nccl/lib");
        fs::create_dir_all(&lib).expect("folders");
        fs::write(lib.join("libnccl.so.2"), "").expect("a file");
        let found = of_wheel(&[PathBuf::from("/none"), folder.path().to_owned()]);
        assert_eq!(found.map(|l| l.origin), Some(Origin::Wheel));
    }
}

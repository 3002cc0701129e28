//! Python packages that matter (PyTorch, vLLM, SGLang, NVIDIA's), from their metadata without importing any,
//! and every libnccl that could be loaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::host::{self, Host};
use super::nccl_library::{self, Origin};
use super::python;

/// Folders of packages, and packages in one, that are looked at.
const MOST: usize = 64;

/// One package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Package {
    /// Its name, as pip writes it in lower case with `-`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The folder of packages that it lies in.
    pub folder: PathBuf,
    /// What it says it needs of NVIDIA's packages: name and version.
    pub needs: Vec<(String, String)>,
}

/// A libnccl.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nccl {
    /// Its file.
    pub path: PathBuf,
    /// Where it was found, in words.
    pub origin: String,
    /// Its version, if it tells.
    pub version: Option<String>,
}

/// A file that two packages say is theirs: the one that was installed last has won.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Clash {
    /// The file.
    pub file: String,
    /// The packages.
    pub packages: Vec<String>,
}

/// A package that torch was built with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pin {
    /// Its name.
    pub name: String,
    /// The version that torch asks for.
    pub wanted: String,
    /// The version that torch would load: of its own folder, else the first in Python's order.
    pub installed: Option<String>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Libraries {
    /// Every libnccl, the one that is most probably used first.
    pub nccl: Vec<Nccl>,
    /// Packages that matter.
    pub packages: Vec<Package>,
    /// Files of two packages.
    pub clashes: Vec<Clash>,
    /// NVIDIA's packages that torch asks for in one version, and what is there.
    pub pins: Vec<Pin>,
    /// Whether a process was asked about that has not loaded libnccl.
    pub not_loaded: bool,
}

impl Libraries {
    /// The version of the libnccl that is most probably used.
    #[must_use]
    pub fn nccl_version(&self) -> Option<(u32, u32, u32)> {
        version_of(self.nccl.first()?.version.as_deref()?)
    }

    /// The version of a package: the first in the order in which Python looks.
    #[must_use]
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

/// `2.28.9+cuda12.9` as numbers.
#[must_use]
pub fn version_of(text: &str) -> Option<(u32, u32, u32)> {
    let digits = text
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .next()?;
    let mut parts = digits.split('.').map(str::parse);
    let major = parts.next()?.ok()?;
    let mut next = || parts.next().and_then(Result::ok).unwrap_or(0);
    Some((major, next(), next()))
}

/// Reads it. May take as long as a slow file system does: to be run with a deadline.
#[must_use]
pub fn libraries(host: &Host) -> Libraries {
    let mut found = Libraries::default();
    let mut nccl: Vec<Nccl> = Vec::new();
    let mut add = |path: PathBuf, origin: String| {
        let same = |known: &Nccl| {
            known.path == path
                || path
                    .canonicalize()
                    .is_ok_and(|p| known.path.canonicalize().is_ok_and(|k| k == p))
        };
        if nccl.len() < MOST && !nccl.iter().any(same) {
            let version = nccl_version(&path);
            nccl.push(Nccl {
                path,
                origin,
                version,
            });
        }
    };
    if let Some(pid) = host.pid() {
        match nccl_library::of_process(pid) {
            Ok(library) => add(library.path.clone(), library.origin_in_words()),
            Err(_) => found.not_loaded = true,
        }
    }
    let folders = folders(host);
    for folder in &folders {
        found.packages.extend(packages(folder));
        let path = folder.join("nvidia/nccl/lib/libnccl.so.2");
        if path.is_file() {
            let library = nccl_library::Library {
                path: path.clone(),
                origin: Origin::Wheel,
            };
            add(path, library.origin_in_words());
        }
    }
    let variables = host.variables();
    let searched = variables.get("LD_LIBRARY_PATH").map_or("", String::as_str);
    for folder in searched
        .split(':')
        .filter(|f| f.starts_with('/'))
        .take(MOST)
    {
        let path = host.path_inside(folder).join("libnccl.so.2");
        if path.is_file() {
            let library = nccl_library::Library {
                path: path.clone(),
                origin: Origin::Searched,
            };
            add(path, library.origin_in_words());
        }
    }
    if host.is_live() && host.pid().is_none() {
        if let Some(library) = nccl_library::of_system() {
            add(library.path.clone(), library.origin_in_words());
        }
    } else {
        for folder in nccl_library::SYSTEM_FOLDERS {
            let path = host.path_inside(folder).join("libnccl.so.2");
            if path.is_file() {
                add(path, "of the system".to_owned());
            }
        }
    }
    found.clashes = clashes(&folders);
    found.pins = found
        .package("torch")
        .map(|torch| pins(torch, &folders))
        .unwrap_or_default();
    found.nccl = nccl;
    found
}

/// Folders of packages, in the order in which Python looks.
fn folders(host: &Host) -> Vec<PathBuf> {
    let folders: Vec<PathBuf> = if let Some(recorded) = host.recorded_site_packages() {
        recorded
            .iter()
            .map(|f| host.path(&f.to_string_lossy()))
            .collect()
    } else if host.pid().is_some() {
        let maps = host.text(&host.process("maps")).unwrap_or_default();
        folders_in_maps(&maps)
            .iter()
            .map(|f| host.path_inside(f))
            .collect()
    } else {
        python::site_packages()
    };
    let mut once: Vec<PathBuf> = Vec::new();
    for folder in folders {
        if once.len() < MOST && !once.contains(&folder) && folder.is_dir() {
            once.push(folder);
        }
    }
    once
}

/// Folders of packages that a process has mapped libraries from.
fn folders_in_maps(maps: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in maps.lines() {
        let Some(path) = line.find('/').map(|at| &line[at..]) else {
            continue;
        };
        for name in ["/site-packages/", "/dist-packages/"] {
            if let Some(end) = path.find(name) {
                let folder = path[..end + name.len() - 1].to_owned();
                if !found.contains(&folder) {
                    found.push(folder);
                }
            }
        }
    }
    found
}

/// A package's name in the form that all writings of it have in common.
fn normal(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

fn matters(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "torch",
        "vllm",
        "sglang",
        "sgl-kernel",
        "ray",
        "deepspeed",
        "megatron-core",
        "transformer-engine",
        "cupy-cuda12x",
        "triton",
    ];
    NAMES.contains(&name)
        || [
            "nvidia-nccl",
            "nvidia-cuda-runtime",
            "nvidia-cudnn",
            "nvidia-nvshmem",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

fn packages(folder: &Path) -> Vec<Package> {
    let mut found = Vec::new();
    for entry in host::list(folder) {
        let Some(stem) = entry.strip_suffix(".dist-info") else {
            continue;
        };
        let named = normal(stem.rsplit_once('-').map_or(stem, |(name, _)| name));
        if !matters(&named) {
            continue;
        }
        let Some(text) = host::read_text(&folder.join(&entry).join("METADATA")) else {
            continue;
        };
        if let Some(package) = package(&text, folder) {
            found.push(package);
        }
    }
    found
}

/// The head of a METADATA file: fields up to the first empty line.
fn package(text: &str, folder: &Path) -> Option<Package> {
    let head: Vec<(&str, &str)> = text
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(": "))
        .collect();
    let field = |name: &str| {
        head.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.trim())
    };
    let needs = head
        .iter()
        .filter(|(key, _)| *key == "Requires-Dist")
        .filter_map(|(_, value)| {
            // `nvidia-nccl-cu12 ==2.27.5 ; platform_system == "Linux"`
            let value = value.split(';').next()?;
            let (name, version) = value.split_once("==")?;
            let name = normal(name.trim_end_matches(['(', ' ']));
            let version = version.trim().trim_end_matches(')');
            // `12.*` and `12.1,<13` leave a choice.
            let one = !version.contains(['*', ',']);
            (one && name.starts_with("nvidia-")).then(|| (name, version.to_owned()))
        });
    Some(Package {
        name: normal(field("Name")?),
        version: field("Version")?.to_owned(),
        folder: folder.to_owned(),
        needs: needs.collect(),
    })
}

/// What torch asks for of NVIDIA's packages, and what is installed, by the names of the folders of metadata:
/// `nvidia_cudnn_cu12-9.10.2.21.dist-info`.
fn pins(torch: &Package, folders: &[PathBuf]) -> Vec<Pin> {
    let own = folders.iter().filter(|folder| **folder == torch.folder);
    let others = folders.iter().filter(|folder| **folder != torch.folder);
    let mut installed: BTreeMap<String, String> = BTreeMap::new();
    for folder in own.chain(others) {
        for entry in host::list(folder) {
            let stem = entry.strip_suffix(".dist-info");
            if let Some((name, version)) = stem.and_then(|stem| stem.rsplit_once('-')) {
                let first = installed.entry(normal(name));
                first.or_insert_with(|| version.to_owned());
            }
        }
    }
    torch
        .needs
        .iter()
        .map(|(name, wanted)| Pin {
            name: name.clone(),
            wanted: wanted.clone(),
            installed: installed.get(name).cloned(),
        })
        .collect()
}

/// Shared libraries that two of NVIDIA's packages in one folder both list in their RECORD.
fn clashes(folders: &[PathBuf]) -> Vec<Clash> {
    let mut found = Vec::new();
    for folder in folders {
        let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let entries = host::list(folder);
        let nvidia = entries
            .iter()
            .filter(|entry| entry.starts_with("nvidia") && entry.ends_with(".dist-info"));
        for entry in nvidia.take(MOST * 4) {
            let Some(record) = host::read_text(&folder.join(entry).join("RECORD")) else {
                continue;
            };
            let stem = entry.trim_end_matches(".dist-info");
            let name = stem.rsplit_once('-').map_or(stem, |(name, _)| name);
            for line in record.lines() {
                let file = line.split(',').next().unwrap_or_default();
                if file.contains(".so") && !file.starts_with("..") {
                    owners
                        .entry(file.to_owned())
                        .or_default()
                        .push(normal(name));
                }
            }
        }
        for (file, mut packages) in owners {
            packages.sort_unstable();
            packages.dedup();
            if packages.len() > 1 {
                found.push(Clash { file, packages });
            }
        }
    }
    found
}

/// The version of a libnccl without loading it: from the name of its file, from the text that every build
/// carries (`NCCL version 2.28.9+cuda12.9`, `VERSION_STRING` in src/init.cc).
#[must_use]
pub fn nccl_version(path: &Path) -> Option<String> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = real.file_name()?.to_string_lossy().into_owned();
    let from_name = name
        .strip_prefix("libnccl.so.")
        .filter(|v| v.matches('.').count() == 2);
    from_name
        .map(str::to_owned)
        .or_else(|| super::elf::text_after(&real, b"NCCL version "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata() {
        let text = "Metadata-Version: 2.4\nName: torch\nVersion: 2.9.0+cu128\n\
                    Requires-Dist: filelock\n\
                    Requires-Dist: nvidia-nccl-cu12==2.27.5; platform_system == \"Linux\"\n\
                    Requires-Dist: nvidia-cudnn-cu12 (==9.10.2.21)\n\
                    Requires-Dist: nvidia-cuda-runtime-cu12==12.*\n\
                    \nVersion: 9\n";
        let torch = package(text, Path::new("/p")).expect("a package");
        assert_eq!(torch.version, "2.9.0+cu128");
        assert_eq!(
            torch.needs,
            [
                ("nvidia-nccl-cu12", "2.27.5"),
                ("nvidia-cudnn-cu12", "9.10.2.21")
            ]
            .map(|(name, version)| (name.to_owned(), version.to_owned()))
        );
        assert_eq!(package("Name: x\n", Path::new("/p")), None);
    }

    #[test]
    fn versions() {
        assert_eq!(version_of("2.28.9+cuda12.9"), Some((2, 28, 9)));
        assert_eq!(version_of("2.24"), Some((2, 24, 0)));
        assert_eq!(version_of("2.8.0rc1"), Some((2, 8, 0)));
        assert_eq!(version_of("none"), None);
    }

    #[test]
    fn folders_of_a_process() {
        let maps = "7f1-7f2 r-xp 0 08:01 1  /opt/my env/lib/python3.12/site-packages/torch/lib/libtorch.so\n\
                    7f1-7f2 r-xp 0 08:01 1  /opt/my env/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2\n\
                    7f1-7f2 r-xp 0 08:01 1  /usr/lib/libc.so.6\n";
        assert_eq!(
            folders_in_maps(maps),
            ["/opt/my env/lib/python3.12/site-packages"]
        );
    }
}

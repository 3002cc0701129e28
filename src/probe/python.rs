//! Where the user's Python looks for packages, by the files of its installation. No interpreter is run: the
//! one on PATH may lie in the present folder, and start-up files of an environment run code.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::host;

/// Files with further folders (`.pth`) that are read of one folder, and lines of each.
const MOST: usize = 64;

/// A variable of the environment.
type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Folders of packages, in the order in which Python looks: PYTHONPATH, the active environment's, the
/// user's own, and the interpreter's. Nothing is imported from any of them.
pub(crate) fn site_packages() -> Vec<PathBuf> {
    folders(&|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

fn folders(variable: Variable<'_>) -> Vec<PathBuf> {
    let added = variable("PYTHONPATH").unwrap_or_default();
    // What is relative, or empty, would be looked for in the present folder.
    let mut found: Vec<PathBuf> = std::env::split_paths(&added)
        .filter(|folder| folder.is_absolute())
        .collect();
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        if let Some(prefix) = variable(name) {
            let lib = PathBuf::from(prefix).join("lib");
            let versions = host::list(&lib);
            found.extend(versions.iter().map(|v| lib.join(v).join("site-packages")));
        }
    }
    let Some(python) = Interpreter::on_path(variable) else {
        return found;
    };
    let mut own = Vec::new();
    if let Some(environment) = &python.environment {
        own.extend(python.folders_below(environment));
    }
    if python.environment.is_none() || python.shares {
        if variable("PYTHONNOUSERSITE").is_none()
            && let Some(user) = user_base(variable)
        {
            own.extend(python.folders_below(&user));
        }
        own.extend(python.folders_below(&python.prefix));
    }
    for folder in own.into_iter().filter(|folder| folder.is_dir()) {
        let more = named_in(&folder);
        found.push(folder);
        found.extend(more);
    }
    found
}

fn user_base(variable: Variable<'_>) -> Option<PathBuf> {
    let named = variable("PYTHONUSERBASE").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local")))
}

/// The interpreter that `python3` is.
#[derive(Debug, PartialEq, Eq)]
struct Interpreter {
    /// The virtual environment that it belongs to.
    environment: Option<PathBuf>,
    /// The environment looks at the packages of the installation as well.
    shares: bool,
    /// Where the installation itself lies.
    prefix: PathBuf,
    /// Names of its folders of libraries, `python3.12`.
    versions: Vec<String>,
}

impl Interpreter {
    /// The first on PATH. Folders that are relative or empty mean the present folder, and are passed over.
    fn on_path(variable: Variable<'_>) -> Option<Self> {
        let path = variable("PATH")?;
        let absolute = || std::env::split_paths(&path).filter(|folder| folder.is_absolute());
        ["python3", "python"].iter().find_map(|name| {
            let programs = absolute().map(|folder| folder.join(name));
            programs.filter(|p| is_program(p)).find_map(|program| {
                if is_binary(&program) {
                    return Self::at(&program);
                }
                Self::at(&behind_shim(&program, variable)?)
            })
        })
    }

    /// What lies around an interpreter, as CPython itself finds it (`Modules/getpath.py`).
    fn at(program: &Path) -> Option<Self> {
        let real = program.canonicalize().ok()?;
        let prefix = real.parent()?.parent()?.to_owned();
        let name = real.file_name()?.to_string_lossy().into_owned();
        // A virtual environment is named by where the link lies, not by what it leads to.
        let folder = program.parent()?;
        let beside = [folder, folder.parent()?];
        let configuration = beside
            .iter()
            .find_map(|folder| host::read_text(&folder.join("pyvenv.cfg")));
        let versions = if is_version(&name) {
            vec![name]
        } else {
            let names = host::list(&prefix.join("lib")).into_iter();
            names.filter(|name| is_version(name)).collect()
        };
        Some(Self {
            environment: configuration.is_some().then(|| beside[1].to_owned()),
            shares: configuration.is_some_and(|text| shares(&text)),
            prefix,
            versions,
        })
    }

    /// Folders of packages below a prefix: everybody's names, and Debian's.
    fn folders_below(&self, prefix: &Path) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for version in &self.versions {
            for place in ["local/lib64", "local/lib", "lib64", "lib"] {
                for kind in ["site-packages", "dist-packages"] {
                    all.push(prefix.join(place).join(version).join(kind));
                }
            }
        }
        all.push(prefix.join("lib/python3/dist-packages"));
        all
    }
}

/// `python3.12`, `python3.13t`
fn is_version(name: &str) -> bool {
    let rest = name.strip_prefix("python3.");
    rest.is_some_and(|minor| minor.starts_with(|c: char| c.is_ascii_digit()))
}

/// `include-system-site-packages = true`
fn shares(configuration: &str) -> bool {
    configuration.lines().any(|line| {
        line.split_once('=').is_some_and(|(key, value)| {
            key.trim() == "include-system-site-packages"
                && value.trim().eq_ignore_ascii_case("true")
        })
    })
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn is_binary(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = host::open(path).and_then(|mut file| file.read_exact(&mut start).ok());
    read.is_some() && start == *b"\x7fELF"
}

/// The interpreter behind a script of pyenv's (`~/.pyenv/shims/python3`), which only running it would tell
/// else. What a `.python-version` in some folder says is left out.
fn behind_shim(shim: &Path, variable: Variable<'_>) -> Option<PathBuf> {
    let root = shim.parent()?.parent()?;
    let named = variable("PYENV_VERSION").map(|v| v.to_string_lossy().into_owned());
    let all = named.or_else(|| host::read_text(&root.join("version")))?;
    let version = all.split([':', '\n']).next()?.trim();
    let program = root.join("versions").join(version).join("bin/python3");
    (!version.is_empty() && !version.contains('/') && is_binary(&program)).then_some(program)
}

/// Further folders that files of a folder of packages name, as editable installs do. Lines of code are not
/// run.
fn named_in(folder: &Path) -> Vec<PathBuf> {
    let files = host::list(folder);
    let files = files
        .iter()
        .filter(|name| name.ends_with(".pth"))
        .take(MOST);
    let texts = files.filter_map(|name| host::read_text(&folder.join(name)));
    let mut found = Vec::new();
    for text in texts {
        let lines = text.lines().map(str::trim).take(MOST);
        let paths = lines.filter(|line| {
            !line.is_empty() && !line.starts_with(['#', '\0']) && !line.starts_with("import")
        });
        found.extend(
            paths
                .map(|line| folder.join(line))
                .filter(|path| path.is_dir()),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str, mode: u32) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("a file");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }

    fn look(variables: &[(&str, &str)]) -> Vec<PathBuf> {
        folders(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        })
    }

    /// An installation with its own packages, and a user with some.
    fn installed() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a folder");
        write(&root.join("usr/bin/python3.12"), "\x7fELF", 0o755);
        std::os::unix::fs::symlink("python3.12", root.join("usr/bin/python3")).expect("a link");
        for site in [
            "usr/lib/python3.12/site-packages",
            "usr/lib/python3.11/site-packages",
            "usr/lib/python3/dist-packages",
            "home/.local/lib/python3.12/site-packages",
            "edited",
        ] {
            fs::create_dir_all(root.join(site)).expect("folders");
        }
        (folder, root)
    }

    #[test]
    fn the_users_come_before_the_installations() {
        let (_folder, root) = installed();
        let path = format!(":relative:{}", root.join("usr/bin").display());
        let home = root.join("home").display().to_string();
        let (user, of_version, of_debian) = (
            root.join("home/.local/lib/python3.12/site-packages"),
            root.join("usr/lib/python3.12/site-packages"),
            root.join("usr/lib/python3/dist-packages"),
        );
        let found = look(&[("PATH", &path), ("HOME", &home)]);
        assert_eq!(found, [user, of_version.clone(), of_debian.clone()]);
        let shut = look(&[("PATH", &path), ("HOME", &home), ("PYTHONNOUSERSITE", "1")]);
        assert_eq!(shut, [of_version, of_debian]);
        assert_eq!(look(&[("PATH", ":relative")]), [] as [PathBuf; 0]);
    }

    #[test]
    fn an_environment_shuts_the_system_out_unless_it_says_otherwise() {
        let (_folder, root) = installed();
        let bin = root.join("venv/bin");
        let own = root.join("venv/lib/python3.12/site-packages");
        fs::create_dir_all(&own).expect("folders");
        fs::create_dir_all(&bin).expect("folders");
        std::os::unix::fs::symlink(root.join("usr/bin/python3"), bin.join("python3"))
            .expect("a link");
        let path = bin.display().to_string();
        let configured = |text: &str| {
            fs::write(root.join("venv/pyvenv.cfg"), text).expect("a file");
            look(&[("PATH", &path)])
        };
        let shut = configured("home = /usr/bin\ninclude-system-site-packages = false\n");
        assert_eq!(shut, std::slice::from_ref(&own));
        let open = configured("include-system-site-packages = true\n");
        assert_eq!(open[0], own);
        assert_eq!(open[1], root.join("usr/lib/python3.12/site-packages"));
    }

    #[test]
    fn editable_installs_are_found_and_code_is_not_run() {
        let (_folder, root) = installed();
        let site = root.join("usr/lib/python3.12/site-packages");
        let text = format!(
            "# editable\nimport os; os.system('false')\n{}\nnone\n",
            root.join("edited").display()
        );
        fs::write(site.join("mine.pth"), text).expect("a file");
        let path = root.join("usr/bin").display().to_string();
        let found = look(&[("PATH", &path)]);
        assert_eq!(found[1], root.join("edited"), "{found:?}");
    }

    #[test]
    fn a_shim_is_looked_behind() {
        let (_folder, root) = installed();
        write(&root.join("pyenv/shims/python3"), "#!/bin/sh\n", 0o755);
        let bin = root.join("pyenv/versions/3.10.4/bin");
        write(&bin.join("python3.10"), "\x7fELF", 0o755);
        std::os::unix::fs::symlink("python3.10", bin.join("python3")).expect("a link");
        fs::write(root.join("pyenv/version"), "3.10.4\n").expect("a file");
        let own = root.join("pyenv/versions/3.10.4/lib/python3.10/site-packages");
        fs::create_dir_all(&own).expect("folders");
        let path = root.join("pyenv/shims").display().to_string();
        assert_eq!(look(&[("PATH", &path)]), [own]);
    }
}

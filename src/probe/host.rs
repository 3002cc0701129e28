//! A host as files and a few system calls: this one, or a recorded one below a folder.
//!
//! Every read is bounded and none waits: files are opened without blocking, only regular ones are read, and
//! what may hang (a network file system, a program) runs on a thread that is left behind at its deadline.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Bytes of a file that are read.
const FILE_BYTES: u64 = 1 << 20;
/// Entries of a folder that are looked at.
const ENTRIES: usize = 20_000;
/// How long a name may take to resolve, or a program to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks at a program that has not answered.
const LOOK: Duration = Duration::from_millis(10);

/// An address of an interface, in the order in which `getifaddrs` gives them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Name of the interface.
    pub interface: String,
    /// Address.
    pub address: IpAddr,
    /// Bits of its network.
    pub prefix: u8,
}

/// Room of a file system, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// In all.
    pub total: u64,
    /// Free to a user.
    pub free: u64,
}

/// What system calls and the environment answer, for a recorded host: `answers.json` beside its files.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Answers {
    hostname: Option<String>,
    env: BTreeMap<String, String>,
    addresses: Vec<Address>,
    space: BTreeMap<String, Space>,
    names: BTreeMap<String, IpAddr>,
    site_packages: Vec<PathBuf>,
}

/// Where facts come from.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
    recorded: Option<Answers>,
    /// The process that is asked about; this one if none.
    pid: Option<u32>,
    /// Variables that are set beside those of the environment.
    more: BTreeMap<String, String>,
}

impl Host {
    /// This machine.
    #[must_use]
    pub fn this() -> Self {
        Self {
            root: PathBuf::from("/"),
            recorded: None,
            pid: None,
            more: BTreeMap::new(),
        }
    }

    /// This machine as a process of it sees it: its environment, limits, libraries and /dev/shm.
    #[must_use]
    pub fn of_process(pid: u32) -> Self {
        Self {
            pid: Some(pid),
            ..Self::this()
        }
    }

    /// A recorded host: files as they lay below `/`, and `answers.json`.
    ///
    /// # Errors
    /// If `answers.json` is there and not understood.
    pub fn at(root: &Path) -> Result<Self, String> {
        let answers = match fs::read_to_string(root.join("answers.json")) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| error.to_string())?,
            Err(_) => Answers::default(),
        };
        Ok(Self {
            root: root.to_owned(),
            recorded: Some(answers),
            pid: None,
            more: BTreeMap::new(),
        })
    }

    /// The same with variables that are not in the environment, or stand above it.
    #[must_use]
    pub fn with_variables(mut self, more: impl IntoIterator<Item = (String, String)>) -> Self {
        self.more.extend(more);
        self
    }

    /// The process that is asked about.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// True for the machine that this program runs on.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.recorded.is_none()
    }

    /// Where a path of the host lies here.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A path as the process that is asked about sees it: it may live in a container.
    #[must_use]
    pub fn path_inside(&self, path: &str) -> PathBuf {
        match self.pid {
            Some(pid) => {
                let root = self.path(&format!("/proc/{pid}/root"));
                root.join(path.trim_start_matches('/'))
            }
            None => self.path(path),
        }
    }

    /// The folder in /proc of the process that is asked about.
    #[must_use]
    pub fn process(&self, file: &str) -> String {
        match self.pid {
            Some(pid) => format!("/proc/{pid}/{file}"),
            None => format!("/proc/self/{file}"),
        }
    }

    /// The text of a regular file without the white space around it; `None` if it cannot be read.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        read_text(&self.path(path))
    }

    /// The number that a file holds.
    #[must_use]
    pub fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Names in a folder, sorted; none if it cannot be read.
    #[must_use]
    pub fn list(&self, path: &str) -> Vec<String> {
        list(&self.path(path))
    }

    /// The last part of what a link points to.
    #[must_use]
    pub fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// The whole of what a link points to, as it is written.
    #[must_use]
    pub fn link_target(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.to_string_lossy().into_owned())
    }

    /// Whether there is something.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    /// The host's name.
    #[must_use]
    pub fn hostname(&self) -> Option<String> {
        match &self.recorded {
            Some(answers) => answers.hostname.clone(),
            None => self.text("/proc/sys/kernel/hostname"),
        }
    }

    /// The environment: of the process that is asked about, else ours.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<String, String> {
        let mut found = self.environment();
        found.extend(self.more.clone());
        found
    }

    fn environment(&self) -> BTreeMap<String, String> {
        if let Some(answers) = &self.recorded {
            return answers.env.clone();
        }
        if self.pid.is_some() {
            let block = self.text(&self.process("environ")).unwrap_or_default();
            let pairs = block.split('\0').filter_map(|pair| pair.split_once('='));
            return pairs.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        }
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        std::env::vars_os()
            .map(|(name, value)| (lossy(name), lossy(value)))
            .collect()
    }

    /// Addresses, in the order in which NCCL meets them.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        match &self.recorded {
            Some(answers) => answers.addresses.clone(),
            None => own_addresses(),
        }
    }

    /// Room of the file system that a path lies on, as the process that is asked about sees it.
    #[must_use]
    pub fn space(&self, path: &str) -> Option<Space> {
        if let Some(answers) = &self.recorded {
            return answers.space.get(path).copied();
        }
        let found = nix::sys::statvfs::statvfs(&self.path_inside(path)).ok()?;
        let unit = found.fragment_size();
        Some(Space {
            total: found.blocks() * unit,
            free: found.blocks_available() * unit,
        })
    }

    /// The address of a name; `None` if it has none or the answer does not come in time.
    #[must_use]
    pub fn resolve(&self, name: &str) -> Option<IpAddr> {
        if let Ok(address) = name.parse() {
            return Some(address);
        }
        if let Some(answers) = &self.recorded {
            return answers.names.get(name).copied();
        }
        let name = name.to_owned();
        within(PATIENCE, move || {
            let mut found = (name.as_str(), 0).to_socket_addrs().ok()?;
            found.next().map(|address| address.ip())
        })?
    }

    /// The recorded host's folders of Python packages.
    #[must_use]
    pub fn recorded_site_packages(&self) -> Option<&[PathBuf]> {
        self.recorded
            .as_ref()
            .map(|answers| answers.site_packages.as_slice())
    }
}

/// Opens a regular file without ever waiting for a writer.
pub(crate) fn open(path: &Path) -> Option<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(path)
        .ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

/// The text of a regular file, bounded.
pub(crate) fn read_text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    open(path)?.take(FILE_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(
        text.trim_matches(|c: char| c.is_whitespace() || c == '\0')
            .to_owned(),
    )
}

/// Names in a folder, sorted.
pub(crate) fn list(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .take(ENTRIES)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

fn own_addresses() -> Vec<Address> {
    let found = nix::ifaddrs::getifaddrs().into_iter().flatten();
    found
        .filter_map(|one| {
            let address = one.address?;
            let ip = ip_of(&address)?;
            let ones = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => u32::from(ip).count_ones(),
                IpAddr::V6(ip) => u128::from(ip).count_ones(),
            };
            let prefix = one.netmask.as_ref().and_then(ip_of).map_or(0, ones);
            Some(Address {
                interface: one.interface_name,
                address: ip,
                prefix: u8::try_from(prefix).unwrap_or(128),
            })
        })
        .collect()
}

fn ip_of(address: &nix::sys::socket::SockaddrStorage) -> Option<IpAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(IpAddr::V4(v4.ip()));
    }
    address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()))
}

/// What `work` gives, if it does so in time. A thread that hangs is left behind; it ends with the process.
pub fn within<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Nobody listens after the deadline.
        let _late = sender.send(work());
    });
    receiver.recv_timeout(patience).ok()
}

/// What a program prints, if it ends in time; it is killed otherwise.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let out = child.stdout.take()?;
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = out.take(FILE_BYTES).read_to_end(&mut bytes);
        read.ok().map(|_| bytes)
    });
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(_)) if reader.is_finished() => break,
            Err(_) => return None,
            // A grandchild may hold the pipe after the program has ended.
            Ok(_) if Instant::now() >= until => {
                let _gone = child.kill();
                let _reaped = child.wait();
                return None;
            }
            Ok(_) => thread::sleep(LOOK),
        }
    }
    let bytes = reader.join().ok()??;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_without_a_writer_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let started = Instant::now();
        assert_eq!(read_text(&path), None);
        assert!(started.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn a_program_that_does_not_end_is_left() {
        let started = Instant::now();
        assert_eq!(output(Command::new("sleep").arg("60")), None);
        assert!(started.elapsed() < Duration::from_secs(20));
        assert_eq!(
            output(Command::new("echo").arg("yes")).as_deref(),
            Some("yes\n")
        );
    }

    #[test]
    fn this_machine_has_a_loopback_address() {
        let found = Host::this().addresses();
        assert!(found.iter().any(|a| a.address.is_loopback()), "{found:?}");
    }
}

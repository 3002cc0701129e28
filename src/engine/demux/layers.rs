//! The prefixes of one line together: which process they name, and what they tell of it.

use super::bytes::{short, trailing_number, whole_number};
use super::prefix::Layer;
use super::writers::Found;

const MOST: usize = 8;

/// The prefixes of a line, outermost first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layers<'a> {
    list: [Layer<'a>; MOST],
    len: usize,
    stamped: bool,
}

impl<'a> Layers<'a> {
    pub(super) fn none() -> Self {
        Self {
            list: [Layer::Stamp; MOST],
            len: 0,
            stamped: false,
        }
    }

    /// Adds an inner layer; false if there are too many.
    pub(super) fn push(&mut self, layer: Layer<'a>) -> bool {
        if self.len == MOST {
            return false;
        }
        if layer == Layer::Stamp {
            self.stamped = true;
            return true;
        }
        self.list[self.len] = layer;
        self.len += 1;
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A time stands between or before the prefixes: their bytes do not come again.
    pub(super) fn is_stamped(&self) -> bool {
        self.stamped
    }

    pub(super) fn as_slice(&self) -> &[Layer<'a>] {
        &self.list[..self.len]
    }

    /// PyTorch's global rank, of the innermost such prefix.
    pub(super) fn rank(&self) -> Option<u32> {
        self.as_slice().iter().rev().find_map(|layer| match layer {
            Layer::Rank(rank) => Some(*rank),
            _ => None,
        })
    }

    /// A launcher's number and the place of its layer.
    pub(super) fn label(&self) -> Option<u32> {
        match self.process().map(|at| self.list[at]) {
            Some(Layer::Label { rank, .. }) => Some(rank),
            _ => None,
        }
    }

    /// The innermost layer that names a process. A launcher's number that another rank contradicts
    /// names the launcher's task, not the process.
    fn process(&self) -> Option<usize> {
        let at = self.as_slice().iter().rposition(|l| {
            matches!(
                l,
                Layer::Label { .. } | Layer::Tee { .. } | Layer::Named { .. } | Layer::Rank(_)
            )
        })?;
        let Layer::Rank(rank) = self.list[at] else {
            return Some(at);
        };
        // `[rankN]:` adds to what the launcher says, unless both speak of ranks and differ.
        match self.list[..at].iter().rposition(|l| {
            matches!(
                l,
                Layer::Label { .. } | Layer::Tee { .. } | Layer::Named { .. }
            )
        }) {
            Some(outer) if !matches!(self.list[outer], Layer::Label { rank: label, .. } if label != rank) => {
                Some(outer)
            }
            _ => Some(at),
        }
    }

    /// Appends what tells this process from the others of the source.
    pub(super) fn key(&self, key: &mut Vec<u8>) {
        self.place_key(key);
        if let Some(at) = self.process() {
            for layer in &self.list[..at] {
                if let Layer::Label { rank, .. } = layer {
                    put(key, b'L', &rank.to_le_bytes());
                }
            }
            match self.list[at] {
                Layer::Label { rank, .. } => put(key, b'L', &rank.to_le_bytes()),
                Layer::Tee { role, local, .. } => {
                    put(key, b'T', role);
                    put(key, b't', &local.to_le_bytes());
                }
                Layer::Named { name, pid, address } => {
                    put(key, b'N', name);
                    put(key, b'p', &pid.unwrap_or(0).to_le_bytes());
                    put(key, b'a', address.unwrap_or(b""));
                }
                Layer::Rank(rank) => put(key, b'R', &rank.to_le_bytes()),
                _ => {}
            }
        }
    }

    /// Appends where it runs: the pod, host, node or service.
    pub(super) fn place_key(&self, key: &mut Vec<u8>) {
        for layer in self.as_slice() {
            match layer {
                Layer::Pod(name) => put(key, b'P', name),
                Layer::Host(name) => put(key, b'H', name),
                Layer::Node(node) => put(key, b'n', &node.to_le_bytes()),
                Layer::Service(name) => put(key, b'S', name),
                _ => {}
            }
        }
    }

    /// Hands out everything the prefixes tell of the process. `pid` is the one of its NCCL header,
    /// if any: a name with another pid speaks of another process.
    pub(super) fn found(
        &self,
        pid: Option<u32>,
        labels_are_tasks: bool,
        add: &mut dyn FnMut(Found<'_>),
    ) {
        let process = self.process();
        let inner = process.map(|at| self.list[at]);
        for (at, layer) in self.as_slice().iter().enumerate() {
            match *layer {
                Layer::Pod(name) => {
                    let pod = name.split(|b| *b == b'/').next().unwrap_or(name);
                    add(Found::Name(pod));
                    if let Some(node) = ordinal(pod) {
                        add(Found::Node(node));
                    }
                }
                Layer::Host(name) => add(Found::Host(short(name))),
                Layer::Node(node) => add(Found::Node(node)),
                Layer::Service(name) => add(Found::Name(name)),
                Layer::Label { rank, host, pid } if process == Some(at) => {
                    add(if labels_are_tasks {
                        Found::Node(rank)
                    } else {
                        Found::WorldRank(rank)
                    });
                    host.into_iter().for_each(|h| add(Found::Host(short(h))));
                    pid.into_iter().for_each(|p| add(Found::Pid(p)));
                }
                // A task that runs an agent of its own (torchrun): one on each node.
                Layer::Label { rank, host, .. } => {
                    if matches!(inner, Some(Layer::Tee { .. } | Layer::Rank(_))) {
                        add(Found::Node(rank));
                    }
                    host.into_iter().for_each(|h| add(Found::Host(short(h))));
                }
                Layer::Tee {
                    role,
                    local,
                    world,
                    host,
                } if process == Some(at) => {
                    add(Found::LocalRank(local));
                    world.into_iter().for_each(|w| add(Found::WorldRank(w)));
                    host.into_iter().for_each(|h| add(Found::Host(short(h))));
                    if role != b"default" {
                        add(Found::Name(role));
                    }
                }
                Layer::Named {
                    name,
                    pid: own,
                    address,
                } if process == Some(at) && (pid.is_none() || own.is_none() || own == pid) => {
                    own.into_iter().for_each(|p| add(Found::Pid(p)));
                    address.into_iter().for_each(|a| add(Found::Address(a)));
                    if !name.is_empty() {
                        add(Found::Name(name));
                    }
                    if let Some(rank) = engine_rank(name) {
                        add(Found::EngineRank(rank));
                    }
                }
                Layer::Rank(rank) => add(Found::WorldRank(rank)),
                Layer::Tee { .. } | Layer::Named { .. } | Layer::Stamp => {}
            }
        }
    }
}

fn put(key: &mut Vec<u8>, tag: u8, value: &[u8]) {
    key.push(tag);
    key.push(u8::try_from(value.len()).unwrap_or(u8::MAX));
    key.extend_from_slice(value);
}

/// The index of a pod in its set: the number that ends its name. A job's workers beside a master are
/// counted from 0 too, and an indexed job's pod carries random characters behind its number.
fn ordinal(pod: &[u8]) -> Option<u32> {
    let (before, node) = trailing_number(pod)?;
    let role = [&b"-worker-"[..], b"-launcher-"]
        .iter()
        .any(|role| before.ends_with(role));
    (before.ends_with(b"-") && !role && node < 100_000).then_some(node)
}

/// The rank in its engine that a worker's name gives, if it gives it alone: `Worker_TP1`,
/// `VllmWorker rank=3`, `VllmWorker-3`. Two dimensions need their sizes, which the name does not tell.
fn engine_rank(name: &[u8]) -> Option<u32> {
    if let Some(at) = memchr::memmem::find(name, b"rank=") {
        return whole_number(&name[at + 5..]).filter(|_| name[..at].ends_with(b" "));
    }
    if let Some(rest) = name.strip_prefix(b"VllmWorker-") {
        return whole_number(rest);
    }
    let dims = name
        .strip_prefix(b"Worker_")
        .or_else(|| name.strip_prefix(b"VllmWorker "))
        .unwrap_or(name);
    let mut rank = None;
    for dim in dims.split(|b| *b == b'_' || *b == b' ') {
        let (what, value) = trailing_number(dim)?;
        match what {
            b"TP" | b"PP" if rank.is_none() => rank = Some(value),
            // The data parallel index names the engine, the expert index follows from the others.
            b"DP" | b"EP" => {}
            _ => return None,
        }
    }
    rank
}

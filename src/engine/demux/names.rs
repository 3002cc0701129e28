//! A source's writers by name, and what the source has taught about its prefixes.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use super::bytes::{short, split};
use super::header;
use super::layers::Layers;
use super::learn::Learn;
use super::prefix::{self, Layer, Weak};
use super::torch;
use super::writers::{Found, Writers};
use crate::engine::ids::{SourceId, WriterIx};
use crate::engine::limits::WRITERS_PER_SOURCE;
use crate::engine::line::NcclHead;

/// Host names and tee roles remembered per source.
const MEMORY: usize = 64;

/// The NCCL processes that spoke under one launcher's number.
#[derive(Clone, Copy, Debug)]
struct Task {
    first: u32,
    another: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Names {
    source: SourceId,
    own: WriterIx,
    keys: FxHashMap<Box<[u8]>, WriterIx>,
    hosts: Vec<Box<[u8]>>,
    roles: Vec<Box<[u8]>>,
    tagged: bool,
    learn: Learn,
    tasks: FxHashMap<u32, Task>,
    /// Writers that took a launcher's number for their rank.
    labelled: Vec<(WriterIx, u32)>,
    labels_are_tasks: bool,
}

impl Names {
    pub(super) fn new(source: SourceId, own: WriterIx) -> Self {
        Self {
            source,
            own,
            keys: FxHashMap::default(),
            hosts: Vec::new(),
            roles: Vec::new(),
            tagged: false,
            learn: Learn::default(),
            tasks: FxHashMap::default(),
            labelled: Vec::new(),
            labels_are_tasks: false,
        }
    }

    pub(super) fn source(&self) -> SourceId {
        self.source
    }

    /// The source's own writer.
    pub(super) fn own(&self) -> WriterIx {
        self.own
    }

    /// The stream carries `<stdout>:` tags or torchrun's, so that one can begin in mid-line.
    pub(super) fn tagged(&self) -> bool {
        self.tagged || !self.roles.is_empty()
    }

    /// A tag or tee prefix of this stream begins the text.
    pub(super) fn begins(&self, text: &[u8]) -> bool {
        match prefix::strong(text) {
            Some((Layer::Tee { role, .. }, _)) => self.roles.iter().any(|r| **r == *role),
            Some((Layer::Label { .. }, _)) => self.tagged,
            _ => false,
        }
    }

    /// The text is what is left of an NCCL header of this stream: `host:` and digits.
    pub(super) fn begins_header(&self, text: &[u8]) -> bool {
        self.hosts
            .iter()
            .any(|host| match text.strip_prefix(&**host) {
                Some(rest) => rest.is_empty() || rest.starts_with(b":"),
                None => host.starts_with(text),
            })
    }

    /// Where the host really begins, if unfinished output stands directly in front of it.
    pub(super) fn unglued(&self, text: &[u8], start: usize, key: &mut Vec<u8>) -> usize {
        let Some(nccl) = header::parse(&text[start..]) else {
            return start;
        };
        let Some((full, _)) = split(&text[start..], b':', 256) else {
            return start;
        };
        process_key(key, &Layers::none(), nccl.head.host, nccl.head.pid);
        if full == nccl.head.host && self.keys.contains_key(key.as_slice()) {
            return start;
        }
        for host in self
            .hosts
            .iter()
            .filter(|h| full.len() > h.len() && full.ends_with(h))
        {
            process_key(key, &Layers::none(), host, nccl.head.pid);
            if self.keys.contains_key(key.as_slice()) {
                return start + full.len() - host.len();
            }
        }
        // NCCL prints no dot in a name: a number ended there, as in `8.0node-0`.
        match memchr::memrchr(b'.', full) {
            Some(dot) if full[0].is_ascii_digit() => {
                let digits = full[dot + 1..]
                    .iter()
                    .take_while(|b| b.is_ascii_digit())
                    .count();
                let host = dot + 1 + digits;
                if host < full.len() {
                    start + host
                } else {
                    start
                }
            }
            _ => start,
        }
    }

    /// Takes the prefixes off; returns them and where the text behind begins. `nccl` is where an
    /// NCCL header's host begins.
    pub(super) fn layers<'a>(
        &mut self,
        text: &'a [u8],
        nccl: Option<usize>,
    ) -> (Layers<'a>, usize) {
        let mut layers = Layers::none();
        let mut at = 0;
        let mut weak_allowed = true;
        while at < text.len() && nccl.is_none_or(|n| at < n) {
            let rest = &text[at..];
            let found = match prefix::strong(rest)
                .filter(|(layer, behind)| self.accepts(*layer, rest, behind))
            {
                Some(found) => Some(found),
                None if weak_allowed => {
                    weak_allowed = false;
                    self.weak(text, at, nccl)
                }
                None => None,
            };
            let Some((layer, behind)) = found else {
                break;
            };
            let end = text.len() - behind.len();
            if nccl.is_some_and(|n| end > n) || !layers.push(layer) {
                break;
            }
            at = end;
            weak_allowed &= matches!(
                layer,
                Layer::Stamp | Layer::Pod(_) | Layer::Host(_) | Layer::Service(_) | Layer::Node(_)
            );
            // Only syslog's host is known by its shape, and its unit follows.
            if let (Layer::Host(_), Some((unit, behind))) = (layer, prefix::unit(behind))
                && rest[0].is_ascii_uppercase()
                && nccl.is_none_or(|n| text.len() - behind.len() <= n)
                && layers.push(unit)
            {
                at = text.len() - behind.len();
            }
        }
        (layers, at)
    }

    /// Notes a line that carries no prefix.
    pub(super) fn no_prefix(&mut self) {
        self.learn.observe(None);
    }

    /// A role is believed once it was seen as torchrun prints it, without a blank behind, or with a
    /// host: programs print `[epoch3/10]: `.
    fn accepts(&mut self, layer: Layer<'_>, text: &[u8], behind: &[u8]) -> bool {
        match layer {
            Layer::Tee { role, host, .. } => {
                if self.roles.iter().any(|known| **known == *role) {
                    return true;
                }
                let believed = role == b"default"
                    || host.is_some()
                    || behind.first().is_some_and(|b| *b != b' ')
                        && !text[..text.len() - behind.len()].ends_with(b" ");
                if believed && self.roles.len() < MEMORY {
                    self.roles.push(role.into());
                }
                believed
            }
            Layer::Label { .. } => {
                self.tagged = true;
                true
            }
            Layer::Stamp => {
                self.tagged |= text.first() == Some(&b'<');
                true
            }
            _ => true,
        }
    }

    fn weak<'a>(
        &mut self,
        text: &'a [u8],
        at: usize,
        nccl: Option<usize>,
    ) -> Option<(Layer<'a>, &'a [u8])> {
        let seen = prefix::weak(&text[at..]);
        let believed = self
            .learn
            .observe(seen.map(|(kind, layer, _)| (kind, layer)));
        let (kind, layer, behind) = seen?;
        (believed || known_behind(kind, layer, text, behind, nccl)).then_some((layer, behind))
    }

    /// The writer of an NCCL line.
    pub(super) fn process(
        &mut self,
        head: &NcclHead<'_>,
        layers: &Layers<'_>,
        prefixes: &[u8],
        writers: &mut Writers,
        key: &mut Vec<u8>,
    ) -> WriterIx {
        process_key(key, layers, head.host, head.pid);
        let ix = match self.keys.get(key.as_slice()) {
            Some(ix) => *ix,
            None => {
                let Some(ix) = self.add(key, writers) else {
                    return self.own;
                };
                writers.hint(ix, Found::Host(short(head.host)));
                writers.hint(ix, Found::Pid(head.pid));
                if self.hosts.len() < MEMORY && !self.hosts.iter().any(|h| **h == *head.host) {
                    self.hosts.push(head.host.into());
                }
                ix
            }
        };
        if let Some(label) = layers.label() {
            self.note_task(label, head.pid, writers);
        }
        self.take_hints(ix, layers, prefixes, Some(head.pid), writers);
        ix
    }

    /// The writer that the prefixes name, if they name one.
    pub(super) fn prefixed(
        &mut self,
        layers: &Layers<'_>,
        prefixes: &[u8],
        writers: &mut Writers,
        key: &mut Vec<u8>,
    ) -> Option<WriterIx> {
        if layers.is_empty() {
            return None;
        }
        key.clear();
        key.push(b'x');
        layers.key(key);
        let ix = match self.keys.get(key.as_slice()) {
            Some(ix) => *ix,
            None => self.add(key, writers)?,
        };
        self.take_hints(ix, layers, prefixes, None, writers);
        Some(ix)
    }

    fn add(&mut self, key: &[u8], writers: &mut Writers) -> Option<WriterIx> {
        if self.keys.len() >= WRITERS_PER_SOURCE {
            return None;
        }
        let ix = writers.add(self.source)?;
        self.keys.insert(key.into(), ix);
        Some(ix)
    }

    fn take_hints(
        &mut self,
        ix: WriterIx,
        layers: &Layers<'_>,
        prefixes: &[u8],
        pid: Option<u32>,
        writers: &mut Writers,
    ) {
        if layers.is_empty() {
            return;
        }
        let mut hasher = FxHasher::default();
        prefixes.hash(&mut hasher);
        if !writers.is_news(ix, hasher.finish() | 1) {
            return;
        }
        layers.found(pid, self.labels_are_tasks, &mut |found| {
            writers.hint(ix, found);
        });
        if let Some(label) = layers.label().filter(|_| !self.labels_are_tasks)
            && self.labelled.last() != Some(&(ix, label))
            && self.labelled.len() < WRITERS_PER_SOURCE * 2
        {
            self.labelled.push((ix, label));
        }
    }

    /// Two processes that speak by turns under one number are an agent's (`srun -l torchrun`): the
    /// number is the task's, and no rank. One after the other may be a restart.
    pub(super) fn note_task(&mut self, label: u32, pid: u32, writers: &mut Writers) {
        if self.labels_are_tasks
            || (self.tasks.len() >= WRITERS_PER_SOURCE && !self.tasks.contains_key(&label))
        {
            return;
        }
        let task = self.tasks.entry(label).or_insert(Task {
            first: pid,
            another: false,
        });
        if task.first != pid {
            task.another = true;
        } else if task.another {
            self.labels_are_tasks = true;
            for (ix, label) in std::mem::take(&mut self.labelled) {
                writers.rank_is_task(ix, label);
            }
        }
    }
}

fn process_key(key: &mut Vec<u8>, layers: &Layers<'_>, host: &[u8], pid: u32) {
    key.clear();
    key.push(b'p');
    key.extend_from_slice(&pid.to_le_bytes());
    key.extend_from_slice(host);
    key.push(0);
    layers.place_key(key);
}

/// A form behind the weak prefix that is known by itself.
fn known_behind(
    kind: Weak,
    layer: Layer<'_>,
    text: &[u8],
    behind: &[u8],
    nccl: Option<usize>,
) -> bool {
    let at = text.len() - behind.len();
    if let Some(start) = nccl {
        if start < at || !(start == at || header::is_stamp(&text[at..start])) {
            // Another prefix may stand between.
            return kind != Weak::Host && start > at && prefix::strong(behind).is_some();
        }
        return match layer {
            // Any word can stand before a colon: believed only where it is the host that speaks.
            Layer::Host(name) => {
                split(&text[start..], b':', 256).is_some_and(|(host, _)| short(host) == short(name))
            }
            _ => true,
        };
    }
    if kind == Weak::Host {
        return false;
    }
    torch::parse(behind, None).is_some()
        || torch::rank(behind).is_some()
        || behind.starts_with(b"[default")
}

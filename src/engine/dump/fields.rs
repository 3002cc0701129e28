//! From plain values to a dump: which field means what in which version.
//!
//! | since | what changed |
//! | --- | --- |
//! | 2.2, 2.3 | `seq_id` instead of `collective_seq_id`; groups known by `pg_id` only, their ranks as integers |
//! | 2.4 (2.1) | `process_group`, `p2p_seq_id`, `is_p2p`, dtypes; ranks as a text `[0, 1]` |
//! | 2.5 (2.4) | `timeout_ms`; JSON |
//! | 2.8 (2.9) | `nccl_version`, later `comm_lib_version`; threads |

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::calls::{CallParts, Common, RankList};
use super::tree::{Node, Text, Tree, Val};
use super::{Dump, DumpError, Entry, Group, Progress};
use crate::engine::limits;

/// Reads the fields of a dump.
pub(super) fn read(tree: &Tree<'_>, top: Val, common: &mut Common) -> Result<Dump, DumpError> {
    if !matches!(top, Val::Dict(_)) {
        return Err(DumpError::NotADump("its value is no dictionary"));
    }
    let mut reader = Reader {
        tree,
        common,
        keys: vec![Key::Unread; tree.texts()],
        texts: vec![UNREAD; tree.texts()],
        frames: vec![UNREAD; tree.nodes()],
        costs: Costs::default(),
        groups: BTreeMap::new(),
        dump: Dump::default(),
        shape: Vec::new(),
        stack: Vec::new(),
    };
    reader.top(top)?;
    Ok(reader.dump)
}

const UNREAD: u32 = u32::MAX;

/// The fields of an entry and of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Unread,
    Other,
    RecordId,
    PgId,
    ProcessGroup,
    Seq,
    P2pSeq,
    OpId,
    IsP2p,
    Name,
    InputSizes,
    OutputSizes,
    InputTypes,
    OutputTypes,
    Created,
    Timeout,
    State,
    Retired,
    Frames,
    FrameName,
    FrameFile,
    FrameLine,
}

impl Key {
    fn of(name: &[u8]) -> Self {
        match name {
            b"record_id" => Self::RecordId,
            b"pg_id" => Self::PgId,
            b"process_group" => Self::ProcessGroup,
            b"collective_seq_id" | b"seq_id" => Self::Seq,
            b"p2p_seq_id" => Self::P2pSeq,
            b"op_id" => Self::OpId,
            b"is_p2p" => Self::IsP2p,
            b"profiling_name" => Self::Name,
            b"input_sizes" => Self::InputSizes,
            b"output_sizes" => Self::OutputSizes,
            b"input_dtypes" => Self::InputTypes,
            b"output_dtypes" => Self::OutputTypes,
            b"time_created_ns" => Self::Created,
            b"timeout_ms" => Self::Timeout,
            b"state" => Self::State,
            b"retired" => Self::Retired,
            b"frames" => Self::Frames,
            b"name" => Self::FrameName,
            b"filename" => Self::FrameFile,
            b"line" => Self::FrameLine,
            _ => Self::Other,
        }
    }
}

/// Values that are looked at where a node is read, each counted once.
#[derive(Debug, Default)]
struct Costs {
    entries: FxHashMap<Node, usize>,
    lists: FxHashMap<Node, usize>,
}

impl Costs {
    /// A dictionary, and what its values list.
    fn of_entry(&mut self, tree: &Tree<'_>, entry: Val) -> usize {
        let Val::Dict(node) = entry else { return 1 };
        if let Some(known) = self.entries.get(&node) {
            return *known;
        }
        let values = tree
            .dict(entry)
            .map(|(_, value)| 2 + self.of_list(tree, value));
        let cost = values.fold(1, usize::saturating_add);
        self.entries.insert(node, cost);
        cost
    }

    /// A list of tensors' sizes, of types or of frames. Frames are read once wherever they stand.
    fn of_list(&mut self, tree: &Tree<'_>, list: Val) -> usize {
        let Val::List(node) = list else { return 0 };
        if let Some(known) = self.lists.get(&node) {
            return *known;
        }
        let items = tree.items(node).iter().take(limits::DUMP_TENSORS);
        let cost = items
            .map(|item| 1 + tree.list(*item).len().min(limits::DUMP_DEPTH))
            .sum();
        self.lists.insert(node, cost);
        cost
    }
}

/// What tells a process group from the others of a process.
type GroupKey = (Option<i64>, u32, u32, u32);

struct Reader<'t, 'a> {
    tree: &'t Tree<'a>,
    common: &'t mut Common,
    /// What each text means as a key, once asked.
    keys: Vec<Key>,
    /// Number of each text among all dumps' texts, once asked.
    texts: Vec<u32>,
    /// Number of the frame at each dictionary, once asked.
    frames: Vec<u32>,
    costs: Costs,
    groups: BTreeMap<GroupKey, u32>,
    dump: Dump,
    shape: Vec<u64>,
    stack: Vec<u32>,
}

impl Reader<'_, '_> {
    fn top(&mut self, top: Val) -> Result<(), DumpError> {
        let (mut entries, mut config, mut status) = (None, None, None);
        let mut known = false;
        for (key, value) in self.tree.dict(top) {
            let Val::Text(key) = key else { continue };
            match self.tree.bytes(key) {
                b"version" => self.dump.version = self.string(value),
                b"comm_lib_version" | b"nccl_version" => self.dump.library = self.string(value),
                b"rank" | b"global_rank" => self.dump.rank = number(self.tree, value),
                b"entries" => entries = Some(value),
                b"pg_config" => config = Some(value),
                b"pg_status" => status = Some(value),
                b"nccl_comm_state" => known = true,
                _ => {}
            }
        }
        if entries.is_none() && config.is_none() && !known {
            return Err(DumpError::NotADump("it has neither entries nor pg_config"));
        }
        if let Some(entries) = entries {
            self.entries(entries)?;
        }
        if let Some(config) = config {
            self.config(config);
        }
        if let Some(status) = status {
            self.status(status);
        }
        Ok(())
    }

    /// `{"0": {"last_enqueued_collective": 6, "last_started_collective": -1, "last_completed_collective": 5}}`, by the
    /// process's own numbers. The default group has 0.
    fn status(&mut self, status: Val) {
        let tree = self.tree;
        for (key, value) in tree.dict(status).take(limits::DUMP_GROUPS) {
            let Some(id) = integer(tree, key) else {
                continue;
            };
            let mut fields = tree.dict(value);
            let enqueued = fields.find_map(|(key, value)| {
                let Val::Text(key) = key else { return None };
                let is = tree.bytes(key) == b"last_enqueued_collective";
                is.then(|| number(tree, value))?
            });
            let is = |group: &Group| match group.pg_id {
                Some(of) => of == id,
                None => id == 0 && group.desc == "default_pg",
            };
            for group in self.dump.groups.iter_mut().filter(|group| is(group)) {
                group.enqueued = enqueued;
            }
        }
    }

    fn entries(&mut self, entries: Val) -> Result<(), DumpError> {
        let Val::List(list) = entries else {
            return Err(DumpError::NotADump("its entries are no list"));
        };
        let tree = self.tree;
        let all = tree.items(list);
        let kept = &all[all.len().saturating_sub(limits::DUMP_ENTRIES)..];
        let affordable = self.affordable(kept);
        self.dump.unread = kept.len() - affordable;
        let kept = &kept[self.dump.unread..];
        self.dump.dropped = (all.len() - kept.len()) as u64;
        self.dump.entries.reserve(kept.len());
        for entry in kept {
            match self.entry(*entry) {
                Some(entry) => self.dump.entries.push(entry),
                None => self.dump.dropped += 1,
            }
        }
        // The ring begins anywhere; JSON and pickle give it in order, but nothing promises that.
        self.dump.entries.sort_by_key(|e| e.record_id);
        // Of a dump of the active calls alone the others are missing between them.
        let made = self
            .dump
            .entries
            .last()
            .map_or(0, |e| u64::from(e.record_id) + 1);
        let held = self.dump.dropped + self.dump.entries.len() as u64;
        self.dump.dropped += made.saturating_sub(held);
        Ok(())
    }

    /// How many of these entries, newest first, can be read within the bound. A pickle may name one list in many
    /// places, so that few bytes stand for more values than there is time for.
    fn affordable(&mut self, entries: &[Val]) -> usize {
        let mut left = limits::DUMP_VISITS;
        let newest_first = entries.iter().rev();
        let within = newest_first.take_while(|entry| {
            let cost = self.costs.of_entry(self.tree, **entry);
            left = left.saturating_sub(cost);
            left > 0
        });
        within.count()
    }

    fn key(&mut self, text: Text) -> Key {
        let known = &mut self.keys[text.0 as usize];
        if *known == Key::Unread {
            *known = Key::of(self.tree.bytes(text));
        }
        *known
    }

    fn text(&mut self, val: Val) -> u32 {
        let Val::Text(text) = val else {
            return self.common.text(b"");
        };
        let known = self.texts[text.0 as usize];
        if known != UNREAD {
            return known;
        }
        let id = self.common.text(self.tree.bytes(text));
        self.texts[text.0 as usize] = id;
        id
    }

    fn entry(&mut self, val: Val) -> Option<Entry> {
        let tree = self.tree;
        let mut entry = Entry {
            record_id: 0,
            group: 0,
            seq: 0,
            p2p_seq: 0,
            op_id: 0,
            is_p2p: false,
            call: super::CallIx::NONE,
            stack: None,
            progress: Progress::Scheduled,
            retired: false,
            created_ns: 0,
            timeout_ms: 0,
        };
        let (mut pg_id, mut group, mut name) = (None, None, None);
        let nothing = Val::None;
        let (mut inputs, mut outputs) = (nothing, nothing);
        let (mut input_types, mut output_types) = (nothing, nothing);
        for (key, value) in tree.dict(val) {
            let Val::Text(key) = key else { continue };
            match self.key(key) {
                Key::RecordId => entry.record_id = number(tree, value)?,
                Key::PgId => pg_id = integer(tree, value),
                Key::ProcessGroup => group = Some(value),
                Key::Seq => entry.seq = number(tree, value).unwrap_or(0),
                Key::P2pSeq => entry.p2p_seq = number(tree, value).unwrap_or(0),
                Key::OpId => entry.op_id = number(tree, value).unwrap_or(0),
                Key::IsP2p => entry.is_p2p = value == Val::Bool(true),
                Key::Name => name = Some(value),
                Key::InputSizes => inputs = value,
                Key::OutputSizes => outputs = value,
                Key::InputTypes => input_types = value,
                Key::OutputTypes => output_types = value,
                Key::Created => {
                    let at = integer(tree, value).unwrap_or(0);
                    entry.created_ns = u64::try_from(at).unwrap_or(0);
                }
                Key::Timeout => entry.timeout_ms = number(tree, value).unwrap_or(0),
                Key::State => entry.progress = progress(tree, value),
                Key::Retired => entry.retired = value == Val::Bool(true),
                Key::Frames => entry.stack = self.stack_of(value),
                _ => {}
            }
        }
        let name = name?;
        entry.call = self.call(name, [inputs, outputs], [input_types, output_types]);
        entry.is_p2p |= self.common.call(entry.call).peers.is_some();
        entry.group = self.group(pg_id, group, entry.call)?;
        Some(entry)
    }

    /// The shapes and types, laid out as numbers, are the key of a call: name, then for inputs and outputs the
    /// number of tensors, and of each its dimensions; then the types likewise.
    fn call(&mut self, name: Val, sizes: [Val; 2], types: [Val; 2]) -> super::CallIx {
        let tree = self.tree;
        let mut shape = std::mem::take(&mut self.shape);
        shape.clear();
        shape.push(u64::from(self.text(name)));
        // Sizes of an all-to-all differ in every call of every rank and are never compared: they would fill the
        // table of distinct calls.
        let any_size = matches!(name, Val::Text(name) if sizes_vary(tree.bytes(name)));
        for list in sizes {
            let tensors = if any_size { &[] } else { tree.list(list) };
            let tensors = &tensors[..tensors.len().min(limits::DUMP_TENSORS)];
            shape.push(tensors.len() as u64);
            for tensor in tensors {
                let dims = tree.list(*tensor);
                let dims = &dims[..dims.len().min(limits::DUMP_DEPTH)];
                shape.push(dims.len() as u64);
                for dim in dims {
                    let dim = if let Val::Int(dim) = dim { *dim } else { 0 };
                    shape.push(dim.cast_unsigned());
                }
            }
        }
        for list in types {
            let list = tree.list(list);
            let list = &list[..list.len().min(limits::DUMP_TENSORS)];
            shape.push(list.len() as u64);
            for datatype in list {
                let id = self.text(*datatype);
                shape.push(u64::from(id));
            }
        }
        let call = self.common.call_id(&shape, |texts| {
            let mut rest = shape.iter().copied();
            let mut next = || rest.next().unwrap_or(0);
            let text = |id: u64| texts.text(u32::try_from(id).unwrap_or(0)).to_owned();
            let name = text(next());
            let mut shapes = || -> Vec<Vec<i64>> {
                let count = next();
                let tensor = |_| {
                    let dims = next();
                    (0..dims).map(|_| next().cast_signed()).collect()
                };
                (0..count).map(tensor).collect()
            };
            let (inputs, outputs) = (shapes(), shapes());
            let mut types = || -> Vec<String> {
                let count = next();
                (0..count).map(|_| text(next())).collect()
            };
            CallParts {
                name,
                inputs,
                outputs,
                input_types: types(),
                output_types: types(),
            }
        });
        self.shape = shape;
        call
    }

    fn stack_of(&mut self, frames: Val) -> Option<super::StackIx> {
        let tree = self.tree;
        let list = tree.list(frames);
        if list.is_empty() {
            return None;
        }
        let mut stack = std::mem::take(&mut self.stack);
        stack.clear();
        for frame in list.iter().take(limits::DUMP_FRAMES) {
            stack.push(self.frame(*frame));
        }
        let ix = self.common.stack_id(&stack);
        self.stack = stack;
        Some(ix)
    }

    fn frame(&mut self, val: Val) -> u32 {
        let tree = self.tree;
        let Val::Dict(node) = val else {
            return self.common.frame_id(0, 0, 0);
        };
        let known = self.frames[node.0 as usize];
        if known != UNREAD {
            return known;
        }
        let (mut name, mut file, mut line) = (Val::None, Val::None, 0);
        for (key, value) in tree.dict(val) {
            let Val::Text(key) = key else { continue };
            match self.key(key) {
                Key::FrameName => name = value,
                Key::FrameFile => file = value,
                Key::FrameLine => line = number(tree, value).unwrap_or(0),
                _ => {}
            }
        }
        let (name, file) = (self.text(name), self.text(file));
        let id = self.common.frame_id(name, file, line);
        self.frames[node.0 as usize] = id;
        id
    }

    /// The group of an entry. A default group may have two backends, and each counts for itself.
    fn group(
        &mut self,
        pg_id: Option<i64>,
        named: Option<Val>,
        call: super::CallIx,
    ) -> Option<u32> {
        let tree = self.tree;
        let pair = named.map(|val| tree.list(val)).unwrap_or_default();
        let (name, desc) = match pair {
            [name, desc, ..] => (*name, *desc),
            [name] => (*name, Val::None),
            [] => (Val::None, Val::None),
        };
        let backend = self.common.call(call).backend.clone();
        let backend_id = self.common.text(backend.as_bytes());
        let key = (pg_id, self.text(name), self.text(desc), backend_id);
        if let Some(ix) = self.groups.get(&key) {
            return Some(*ix);
        }
        if self.dump.groups.len() >= limits::DUMP_GROUPS {
            return None;
        }
        let ix = u32::try_from(self.dump.groups.len()).expect("bounded above");
        let mut name = self.string(name);
        if named.is_none() {
            // Up to 2.3 a process's number is all there is.
            name = pg_id.map(|id| id.to_string()).unwrap_or_default();
        }
        self.dump.groups.push(Group {
            pg_id,
            name,
            desc: self.string(desc),
            backend,
            ranks: None,
            enqueued: None,
        });
        self.groups.insert(key, ix);
        Some(ix)
    }

    /// `{"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}`, or up to 2.3 `{0: [0, 1]}`. Gloo's has one
    /// group without a name: whichever was made last.
    fn config(&mut self, config: Val) {
        let tree = self.tree;
        let mut numbered: BTreeMap<i64, RankList> = BTreeMap::new();
        for (key, value) in tree.dict(config).take(limits::DUMP_GROUPS) {
            let (mut name, mut desc) = (self.string(key), String::new());
            let mut ranks = match value {
                Val::List(_) => numbers(tree.list(value)),
                _ => Vec::new(),
            };
            for (key, value) in tree.dict(value) {
                let Val::Text(key) = key else { continue };
                match tree.bytes(key) {
                    b"name" => name = self.string(value),
                    b"desc" => desc = self.string(value),
                    b"ranks" => {
                        ranks = match value {
                            Val::Text(text) => listed(tree.bytes(text)),
                            other => numbers(tree.list(other)),
                        };
                    }
                    _ => {}
                }
            }
            if ranks.is_empty() {
                continue;
            }
            let ranks = self.common.rank_list(ranks);
            self.dump.mentioned.push(ranks.clone());
            if let (Val::List(_), Ok(id)) = (value, name.parse()) {
                numbered.insert(id, ranks.clone());
            }
            if name.is_empty() {
                continue;
            }
            let mut known = false;
            for group in self.dump.groups.iter_mut().filter(|g| g.name == name) {
                known = true;
                group.ranks = Some(ranks.clone());
                if group.desc.is_empty() {
                    group.desc.clone_from(&desc);
                }
            }
            if !known && self.dump.groups.len() < limits::DUMP_GROUPS {
                self.dump.groups.push(Group {
                    name,
                    desc,
                    ranks: Some(ranks),
                    ..Group::default()
                });
            }
        }
        self.name_by_ranks(&numbered);
    }

    /// Up to 2.3 a group is known by the process's own number for it, which another process may have given to another
    /// group. What they have in common are its ranks, and which of the groups of these it is. The default one is the
    /// first that every process makes.
    fn name_by_ranks(&mut self, numbered: &BTreeMap<i64, RankList>) {
        /// Ranks that are named.
        const NAMED: usize = 8;
        let mut made: BTreeMap<u32, usize> = BTreeMap::new();
        for (id, list) in numbered {
            let nth = made.entry(list.id).or_default();
            *nth += 1;
            let first = list.ranks.iter().take(NAMED).map(ToString::to_string);
            let mut name = format!("of ranks {}", first.collect::<Vec<_>>().join(", "));
            if list.ranks.len() > NAMED {
                name.push_str(&format!(", … ({} in all)", list.ranks.len()));
            }
            if *nth > 1 {
                name.push_str(&format!(", number {nth}"));
            }
            let number = id.to_string();
            for group in self.dump.groups.iter_mut().filter(|g| g.name == number) {
                if *id == 0 {
                    "default_pg".clone_into(&mut group.desc);
                } else {
                    group.name.clone_from(&name);
                }
            }
        }
    }

    fn string(&self, val: Val) -> String {
        match val {
            Val::Text(text) => {
                let text = self.tree.lossy(text);
                text.chars().take(limits::EVIDENCE_BYTES / 4).collect()
            }
            Val::Int(n) => n.to_string(),
            _ => String::new(),
        }
    }
}

fn progress(tree: &Tree<'_>, val: Val) -> Progress {
    let Val::Text(text) = val else {
        return Progress::Scheduled;
    };
    match tree.bytes(text) {
        b"completed" => Progress::Completed,
        b"started" => Progress::Started,
        _ => Progress::Scheduled,
    }
}

fn sizes_vary(name: &[u8]) -> bool {
    let has = |part: &[u8]| memchr::memmem::find(name, part).is_some();
    has(b"all_to_all") || has(b"alltoall")
}

/// An integer, or a text of one.
fn integer(tree: &Tree<'_>, val: Val) -> Option<i64> {
    match val {
        Val::Int(n) => Some(n),
        Val::Text(text) => std::str::from_utf8(tree.bytes(text)).ok()?.parse().ok(),
        _ => None,
    }
}

/// A number that is not negative.
fn number(tree: &Tree<'_>, val: Val) -> Option<u32> {
    integer(tree, val).and_then(|n| u32::try_from(n).ok())
}

fn numbers(list: &[Val]) -> Vec<u32> {
    let rank = |val: &Val| match val {
        Val::Int(n) => u32::try_from(*n).ok().filter(|rank| *rank < limits::RANKS),
        _ => None,
    };
    list.iter()
        .filter_map(rank)
        .take(limits::RANKS as usize)
        .collect()
}

/// `[0, 1, 2]`
fn listed(text: &[u8]) -> Vec<u32> {
    let digits = text.split(|b| !b.is_ascii_digit());
    digits
        .filter_map(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
        .filter(|rank| *rank < limits::RANKS)
        .take(limits::RANKS as usize)
        .collect()
}

//! Writes a dump as PyTorch's recorder does: `torch::jit::Pickler` (protocol 2, texts and frames remembered after
//! their first use), or its JSON.

use std::collections::HashMap;

/// A process group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The process's own number.
    pub(crate) pg_id: i64,
    /// Its name.
    pub(crate) name: String,
    /// Its description.
    pub(crate) desc: String,
    /// World ranks.
    pub(crate) ranks: Vec<u32>,
}

/// A recorded call.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Index of its group.
    pub(crate) group: usize,
    /// Collectives of the group so far.
    pub(crate) seq: u32,
    /// Point-to-point calls of the group so far.
    pub(crate) p2p_seq: u32,
    /// Operations of the group so far.
    pub(crate) op_id: u32,
    /// `nccl:all_reduce`
    pub(crate) name: String,
    /// Shapes given.
    pub(crate) inputs: Vec<Vec<i64>>,
    /// Shapes filled.
    pub(crate) outputs: Vec<Vec<i64>>,
    /// Type of all tensors.
    pub(crate) datatype: &'static str,
    /// `scheduled`, `started`, `completed`
    pub(crate) state: &'static str,
    /// The watchdog let go of it.
    pub(crate) retired: bool,
    /// When it was called.
    pub(crate) created_ns: i64,
    /// Function, file and line, innermost first.
    pub(crate) frames: Vec<(&'static str, &'static str, i64)>,
}

impl Entry {
    fn is_p2p(&self) -> bool {
        self.p2p_seq > 0
    }
}

/// A dump: its groups, its calls and the number of the first of these.
#[derive(Clone, Debug)]
pub(crate) struct Dump {
    /// Groups.
    pub(crate) groups: Vec<Group>,
    /// Calls, oldest first.
    pub(crate) entries: Vec<Entry>,
    /// Number of the first call kept.
    pub(crate) first: i64,
}

fn ranks_text(ranks: &[u32]) -> String {
    let all: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    format!("[{}]", all.join(", "))
}

impl Dump {
    /// As a pickle of format 2.10.
    pub(crate) fn pickle(&self) -> Vec<u8> {
        let mut p = Pickler::default();
        p.out.extend_from_slice(&[0x80, 2]);
        p.dict(|p| {
            p.pair("version", |p| p.text("2.10"));
            p.pair("pg_config", |p| {
                p.dict(|p| {
                    for group in &self.groups {
                        p.pair(&group.name, |p| {
                            p.dict(|p| {
                                p.pair("name", |p| p.text(&group.name));
                                p.pair("desc", |p| p.text(&group.desc));
                                p.pair("ranks", |p| p.text(&ranks_text(&group.ranks)));
                            });
                        });
                    }
                });
            });
            p.pair("comm_lib_version", |p| p.text("2.28.9"));
            p.pair("entries", |p| {
                p.list(|p| {
                    for (at, entry) in (self.first..).zip(&self.entries) {
                        p.entry(at, entry, &self.groups[entry.group]);
                    }
                });
            });
        });
        p.out.push(b'.');
        p.out
    }

    /// As JSON, which has no frames.
    pub(crate) fn json(&self) -> String {
        let entries: Vec<serde_json::Value> = (self.first..)
            .zip(&self.entries)
            .map(|(at, e)| {
                let group = &self.groups[e.group];
                serde_json::json!({
                    "collective_seq_id": e.seq,
                    "input_dtypes": vec![e.datatype; e.inputs.len()],
                    "input_sizes": e.inputs,
                    "is_p2p": e.is_p2p(),
                    "op_id": e.op_id,
                    "output_dtypes": vec![e.datatype; e.outputs.len()],
                    "output_sizes": e.outputs,
                    "p2p_seq_id": e.p2p_seq,
                    "pg_id": group.pg_id,
                    "process_group": [group.name, group.desc],
                    "profiling_name": e.name,
                    "record_id": at,
                    "retired": e.retired,
                    "state": e.state,
                    "time_created_ns": e.created_ns,
                    "time_discovered_completed_ns": 0,
                    "timeout_ms": 600_000,
                })
            })
            .collect();
        let groups = self.groups.iter().map(|g| {
            let ranks = ranks_text(&g.ranks);
            (
                g.name.clone(),
                serde_json::json!({"desc": g.desc, "name": g.name, "ranks": ranks}),
            )
        });
        let config: serde_json::Map<String, serde_json::Value> = groups.collect();
        serde_json::json!({
            "comm_lib_version": "2.28.9",
            "entries": entries,
            "nccl_comm_state": {},
            "pg_config": config,
            "version": "2.10",
        })
        .to_string()
    }
}

#[derive(Default)]
struct Pickler {
    out: Vec<u8>,
    texts: HashMap<String, u32>,
    frames: HashMap<(&'static str, &'static str, i64), u32>,
    memo: u32,
}

impl Pickler {
    fn put(&mut self) -> u32 {
        let slot = self.memo;
        self.memo += 1;
        match u8::try_from(slot) {
            Ok(small) => self.out.extend_from_slice(&[b'q', small]),
            Err(_) => {
                self.out.push(b'r');
                self.out.extend_from_slice(&slot.to_le_bytes());
            }
        }
        slot
    }

    fn get(&mut self, slot: u32) {
        match u8::try_from(slot) {
            Ok(small) => self.out.extend_from_slice(&[b'h', small]),
            Err(_) => {
                self.out.push(b'j');
                self.out.extend_from_slice(&slot.to_le_bytes());
            }
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(slot) = self.texts.get(text).copied() {
            self.get(slot);
            return;
        }
        self.out.push(b'X');
        let len = u32::try_from(text.len()).expect("a short text");
        self.out.extend_from_slice(&len.to_le_bytes());
        self.out.extend_from_slice(text.as_bytes());
        let slot = self.put();
        self.texts.insert(text.to_owned(), slot);
    }

    fn int(&mut self, value: i64) {
        if let Ok(value) = u8::try_from(value) {
            self.out.extend_from_slice(&[b'K', value]);
        } else if let Ok(value) = u16::try_from(value) {
            self.out.push(b'M');
            self.out.extend_from_slice(&value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            self.out.push(b'J');
            self.out.extend_from_slice(&value.to_le_bytes());
        } else {
            self.out.extend_from_slice(&[0x8a, 8]);
            self.out.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn bool(&mut self, value: bool) {
        self.out.push(if value { 0x88 } else { 0x89 });
    }

    fn dict(&mut self, fill: impl FnOnce(&mut Self)) {
        self.out.extend_from_slice(b"}(");
        fill(self);
        self.out.push(b'u');
    }

    fn pair(&mut self, key: &str, value: impl FnOnce(&mut Self)) {
        self.text(key);
        value(self);
    }

    fn list(&mut self, fill: impl FnOnce(&mut Self)) {
        self.out.extend_from_slice(b"](");
        fill(self);
        self.out.push(b'e');
    }

    fn shapes(&mut self, shapes: &[Vec<i64>]) {
        self.list(|p| {
            for shape in shapes {
                p.list(|p| shape.iter().for_each(|dim| p.int(*dim)));
            }
        });
    }

    fn entry(&mut self, at: i64, e: &Entry, group: &Group) {
        self.dict(|p| {
            if !e.frames.is_empty() {
                p.pair("frames", |p| {
                    p.list(|p| e.frames.iter().for_each(|f| p.frame(*f)));
                });
            }
            p.pair("record_id", |p| p.int(at));
            p.pair("pg_id", |p| p.int(group.pg_id));
            p.pair("process_group", |p| {
                p.text(&group.name);
                p.text(&group.desc);
                p.out.push(0x86);
            });
            p.pair("thread_name", |p| p.text("python"));
            p.pair("thread_id", |p| p.text("140440390567616"));
            p.pair("collective_seq_id", |p| p.int(e.seq.into()));
            p.pair("p2p_seq_id", |p| p.int(e.p2p_seq.into()));
            p.pair("op_id", |p| p.int(e.op_id.into()));
            p.pair("profiling_name", |p| p.text(&e.name));
            p.pair("time_created_ns", |p| p.int(e.created_ns));
            p.pair("input_sizes", |p| p.shapes(&e.inputs));
            p.pair("input_dtypes", |p| {
                p.list(|p| e.inputs.iter().for_each(|_| p.text(e.datatype)));
            });
            p.pair("output_sizes", |p| p.shapes(&e.outputs));
            p.pair("output_dtypes", |p| {
                p.list(|p| e.outputs.iter().for_each(|_| p.text(e.datatype)));
            });
            p.pair("state", |p| p.text(e.state));
            p.pair("time_discovered_started_ns", |p| p.out.push(b'N'));
            p.pair("time_discovered_completed_ns", |p| {
                if e.state == "completed" {
                    p.int(e.created_ns + 1_000_000);
                } else {
                    p.out.push(b'N');
                }
            });
            p.pair("retired", |p| p.bool(e.retired));
            p.pair("timeout_ms", |p| p.int(600_000));
            p.pair("is_p2p", |p| p.bool(e.is_p2p()));
        });
    }

    fn frame(&mut self, frame: (&'static str, &'static str, i64)) {
        if let Some(slot) = self.frames.get(&frame).copied() {
            self.get(slot);
            return;
        }
        let (name, file, line) = frame;
        self.dict(|p| {
            p.pair("name", |p| p.text(name));
            p.pair("filename", |p| p.text(file));
            p.pair("line", |p| p.int(line));
        });
        let slot = self.put();
        self.frames.insert(frame, slot);
    }
}

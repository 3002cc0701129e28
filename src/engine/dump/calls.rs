//! What recorded calls are made of, kept once for all dumps: ranks of one job call the same things.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::engine::limits;

/// A distinct call in [`Common`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallIx(u32);

impl CallIx {
    /// Not known.
    pub(super) const NONE: Self = Self(0);
}

/// A distinct stack in [`Common`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackIx(u32);

/// The ranks of a group: every dump of its ranks lists the same ones. Lists with one id are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankList {
    /// Which list it is.
    pub id: u32,
    /// World ranks, in the order of their rank in the group.
    pub ranks: Arc<[u32]>,
}

/// Who sends to whom, by rank in the group; an unknown peer is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peers {
    /// True for a send.
    pub send: bool,
    /// The rank that calls.
    pub me: u32,
    /// Its peer.
    pub peer: Option<u32>,
}

/// What was called, with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `nccl`, `gloo`, `nccl2`, …
    pub backend: String,
    /// The recorder's name without the backend: `all_reduce`, `send 1->2`.
    pub name: String,
    /// For point-to-point calls.
    pub peers: Option<Peers>,
    /// Shapes of the tensors given.
    pub inputs: Vec<Vec<i64>>,
    /// Shapes of the tensors filled.
    pub outputs: Vec<Vec<i64>>,
    /// Their types.
    pub input_types: Vec<String>,
    /// Their types.
    pub output_types: Vec<String>,
    /// What has to be the same on all ranks.
    kind: Kind,
}

/// What has to be the same on all ranks, in numbers: shapes may differ where as many elements move.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    op: String,
    given: u128,
    filled: u128,
    datatype: String,
    filled_with: String,
}

impl Call {
    /// The name people call it by in their programs.
    #[must_use]
    pub fn function(&self) -> &str {
        match self.name.as_str() {
            "_all_gather_base" => "all_gather_into_tensor",
            "_reduce_scatter_base" => "reduce_scatter_tensor",
            "_broadcast_oop" => "broadcast (part of an uneven all_gather)",
            "_reduce_oop" => "reduce (part of an uneven reduce_scatter)",
            "all_reduce_barrier" => "barrier",
            "alltoall_base" | "all_to_allv" | "alltoallv" => "all_to_all_single",
            name => name,
        }
    }

    /// In words: `all_reduce of [4, 8] Float`.
    #[must_use]
    pub fn words(&self) -> String {
        let (shapes, types) = if self.inputs.is_empty() {
            (&self.outputs, &self.output_types)
        } else {
            (&self.inputs, &self.input_types)
        };
        let mut words = self.function().to_owned();
        if let Some(first) = shapes.first() {
            let dims: Vec<String> = first.iter().map(ToString::to_string).collect();
            words.push_str(&format!(" of [{}]", dims.join(", ")));
            if shapes.len() > 1 {
                words.push_str(&format!(" and {} more tensors", shapes.len() - 1));
            }
        }
        if let Some(datatype) = types.first() {
            words.push(' ');
            words.push_str(datatype);
        }
        words
    }

    /// In words that tell it from another one: what both fill, too, if that alone differs.
    #[must_use]
    pub fn words_beside(&self, other: &Self) -> String {
        let words = self.words();
        if words != other.words() || self.kind == other.kind {
            return words;
        }
        let (given, filled) = (elements(&self.inputs), elements(&self.outputs));
        if given != elements(&other.inputs) {
            return format!("{words}, {given} elements in all");
        }
        let datatype = self.output_types.first().map_or("", String::as_str);
        format!("{words} into {filled} elements {datatype}")
            .trim_end()
            .to_owned()
    }

    /// How many elements and of which type, as [`Call::moved`] has them; those that are filled, too, where these alone
    /// are not the other call's.
    #[must_use]
    pub fn moved_beside(&self, other: &Self) -> (Option<String>, Option<String>) {
        let (elements, datatype) = self.moved();
        let (kind, with) = (&self.kind, &other.kind);
        let mut count = (elements > 0).then(|| elements.to_string());
        if self.moved().0 == other.moved().0 && kind.filled != with.filled {
            count = count.map(|count| format!("{count} into {}", kind.filled));
        }
        let mut of = (!datatype.is_empty()).then(|| datatype.to_owned());
        if datatype == other.moved().1 && kind.filled_with != with.filled_with {
            of = of.map(|of| format!("{of} into {}", kind.filled_with));
        }
        (count, of)
    }

    /// What differs between two calls that have to be the same; `None` if nothing that matters does.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        let (a, b) = (&self.kind, &other.kind);
        if a == b || a.op.is_empty() || b.op.is_empty() {
            None
        } else if a.op != b.op {
            Some("function")
        } else if a.datatype != b.datatype {
            Some("datatype")
        } else if a.given != b.given {
            Some("size")
        } else if a.filled != b.filled {
            Some("the size of what is filled")
        } else {
            Some("the datatype of what is filled")
        }
    }

    /// Elements given and their type: for a send and its recv.
    #[must_use]
    pub fn moved(&self) -> (u128, &str) {
        let shapes = if self.inputs.is_empty() {
            &self.outputs
        } else {
            &self.inputs
        };
        let types = if self.inputs.is_empty() {
            &self.output_types
        } else {
            &self.input_types
        };
        (elements(shapes), types.first().map_or("", String::as_str))
    }

    /// True if no rank can get through before all have come: its completion on one rank proves that the
    /// others made the call. An uneven all-to-all may move nothing between two ranks, and these never meet.
    #[must_use]
    pub fn meets_everybody(&self) -> bool {
        let uneven = matches!(self.name.as_str(), "all_to_allv" | "alltoallv");
        let op = self.kind.op.as_str();
        let meets = [
            "all_reduce",
            "all_gather",
            "reduce_scatter",
            "all_to_all",
            "barrier",
        ];
        meets.contains(&op) && !uneven
    }

    fn kind_of(&self) -> Kind {
        let op = match self.name.as_str() {
            "_all_gather_base" | "all_gather_into_tensor" | "all_gather_into_tensor_coalesced" => {
                "all_gather"
            }
            "_reduce_scatter_base"
            | "reduce_scatter_tensor"
            | "reduce_scatter_tensor_coalesced" => "reduce_scatter",
            "allreduce_coalesced" => "all_reduce",
            "all_reduce_barrier" => "barrier",
            // Whether the split is even is each rank's own affair: the same sends and recvs move it.
            "alltoall_base" | "all_to_all_single" | "alltoall" | "all_to_allv" | "alltoallv" => {
                "all_to_all"
            }
            name => name,
        };
        let (given, filled) = (elements(&self.inputs), elements(&self.outputs));
        let input = self.input_types.first().cloned().unwrap_or_default();
        let output = self.output_types.first().cloned().unwrap_or_default();
        let nothing = String::new();
        let (given, filled, datatype, filled_with) = match op {
            // Only the root has outputs, or inputs.
            "gather" => (given, 0, input, nothing),
            "scatter" => (0, filled, output, nothing),
            // Each rank moves as much as it likes.
            "all_to_all" => (0, 0, input, nothing),
            "barrier" | "coalesced" => (0, 0, nothing.clone(), nothing),
            _ => (given, filled, input, output),
        };
        Kind {
            op: op.to_owned(),
            given,
            filled,
            datatype,
            filled_with,
        }
    }
}

fn elements(shapes: &[Vec<i64>]) -> u128 {
    let of = |shape: &Vec<i64>| {
        let dims = shape.iter().map(|n| u128::from(n.unsigned_abs()));
        dims.fold(1_u128, u128::saturating_mul)
    };
    shapes.iter().map(of).fold(0, u128::saturating_add)
}

/// One frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Function.
    pub name: String,
    /// File, as it was run.
    pub file: String,
    /// Line.
    pub line: u32,
}

impl Frame {
    /// `train.py:212 (main)`
    #[must_use]
    pub fn short(&self) -> String {
        let file = self.file.rsplit('/').next().unwrap_or(&self.file);
        format!("{file}:{} ({})", self.line, self.name)
    }

    /// True for what PyTorch and Python put between the program and the call.
    fn is_wrapping(&self) -> bool {
        let within = [
            "-packages/torch/",
            "/torch/distributed/",
            "/torch/nn/",
            "/torch/autograd/",
            "/torch/utils/",
        ];
        let native = [".cpp", ".cc", ".h", ".cu", "??"];
        self.file.is_empty()
            || self.file.starts_with('<')
            || within.iter().any(|part| self.file.contains(part))
            || native.iter().any(|end| self.file.ends_with(end))
    }
}

/// What dumps have in common. The first of everything stands for what a bound left out: such a call is unlike
/// no other.
#[derive(Clone, Debug)]
pub struct Common {
    texts: Texts,
    calls: Vec<Call>,
    call_ids: FxHashMap<Box<[u64]>, CallIx>,
    /// Numbers in all keys of calls.
    numbers: usize,
    /// Kind of each call.
    kinds: Vec<u32>,
    kind_ids: FxHashMap<Kind, u32>,
    frames: Vec<Frame>,
    frame_ids: FxHashMap<(u32, u32, u32), u32>,
    stacks: Vec<Box<[u32]>>,
    stack_ids: FxHashMap<Box<[u32]>, StackIx>,
    rank_lists: FxHashMap<Arc<[u32]>, u32>,
}

impl Default for Common {
    fn default() -> Self {
        let mut common = Self {
            texts: Texts::default(),
            calls: Vec::new(),
            call_ids: FxHashMap::default(),
            numbers: 0,
            kinds: Vec::new(),
            kind_ids: FxHashMap::default(),
            frames: Vec::new(),
            frame_ids: FxHashMap::default(),
            stacks: Vec::new(),
            stack_ids: FxHashMap::default(),
            rank_lists: FxHashMap::default(),
        };
        let nothing = common.text(b"");
        let frame = common.frame_id(nothing, nothing, 0);
        common.stack_id(&[frame]);
        common.call_id(&[], |_| CallParts {
            name: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            input_types: Vec::new(),
            output_types: Vec::new(),
        });
        common
    }
}

impl Common {
    /// A call.
    #[must_use]
    pub fn call(&self, ix: CallIx) -> &Call {
        &self.calls[ix.0 as usize]
    }

    /// Calls that are the same in all that has to be the same have one number; `None` where a bound left it out.
    #[must_use]
    pub fn kind(&self, ix: CallIx) -> Option<u32> {
        (ix != CallIx::NONE).then(|| self.kinds[ix.0 as usize])
    }

    /// True if both are the same in all that has to be the same.
    #[must_use]
    pub fn alike(&self, a: CallIx, b: CallIx) -> bool {
        let unknown = a == CallIx::NONE || b == CallIx::NONE;
        unknown || self.kinds[a.0 as usize] == self.kinds[b.0 as usize]
    }

    /// Frames of a stack, innermost first.
    pub fn stack(&self, ix: StackIx) -> impl Iterator<Item = &Frame> {
        let frames = &self.stacks[ix.0 as usize];
        frames.iter().map(|frame| &self.frames[*frame as usize])
    }

    /// The program's own frames of a stack, innermost first; all of them if none is its own.
    #[must_use]
    pub fn site(&self, ix: StackIx) -> Vec<&Frame> {
        let own: Vec<&Frame> = self.stack(ix).filter(|f| !f.is_wrapping()).collect();
        if own.is_empty() {
            self.stack(ix).collect()
        } else {
            own
        }
    }

    /// The program's own frames as text, innermost first, as many as a person reads.
    #[must_use]
    pub fn frames(&self, ix: StackIx) -> Vec<String> {
        let site = self.site(ix).into_iter().take(limits::FRAMES_SHOWN);
        site.map(Frame::short).collect()
    }

    pub(super) fn text(&mut self, bytes: &[u8]) -> u32 {
        self.texts.id(bytes)
    }

    /// The call with this key: texts by their number, counts and dimensions as [`super::fields`] lays them out.
    pub(super) fn call_id(
        &mut self,
        key: &[u64],
        make: impl FnOnce(&Texts) -> CallParts,
    ) -> CallIx {
        if let Some(ix) = self.call_ids.get(key) {
            return *ix;
        }
        let numbers = self.numbers.saturating_add(key.len());
        if self.calls.len() >= limits::DUMP_CALLS || numbers > limits::DUMP_NUMBERS {
            return CallIx::NONE;
        }
        self.numbers = numbers;
        let call = Call::of(make(&self.texts));
        let next = u32::try_from(self.kind_ids.len()).unwrap_or(u32::MAX);
        let kind = *self.kind_ids.entry(call.kind.clone()).or_insert(next);
        let ix = CallIx(u32::try_from(self.calls.len()).expect("bounded above"));
        self.calls.push(call);
        self.kinds.push(kind);
        self.call_ids.insert(key.into(), ix);
        ix
    }

    pub(super) fn rank_list(&mut self, ranks: Vec<u32>) -> RankList {
        let next = u32::try_from(self.rank_lists.len()).unwrap_or(u32::MAX);
        if let Some((ranks, id)) = self.rank_lists.get_key_value(ranks.as_slice()) {
            return RankList {
                id: *id,
                ranks: Arc::clone(ranks),
            };
        }
        let ranks: Arc<[u32]> = ranks.into();
        self.rank_lists.insert(Arc::clone(&ranks), next);
        RankList { id: next, ranks }
    }

    pub(super) fn frame_id(&mut self, name: u32, file: u32, line: u32) -> u32 {
        if let Some(id) = self.frame_ids.get(&(name, file, line)) {
            return *id;
        }
        if self.frames.len() >= limits::DUMP_DISTINCT {
            return 0;
        }
        let id = u32::try_from(self.frames.len()).expect("bounded above");
        self.frames.push(Frame {
            name: self.texts.text(name).to_owned(),
            file: self.texts.text(file).to_owned(),
            line,
        });
        self.frame_ids.insert((name, file, line), id);
        id
    }

    pub(super) fn stack_id(&mut self, frames: &[u32]) -> StackIx {
        if let Some(ix) = self.stack_ids.get(frames) {
            return *ix;
        }
        if self.stacks.len() >= limits::DUMP_DISTINCT {
            return StackIx(0);
        }
        let ix = StackIx(u32::try_from(self.stacks.len()).expect("bounded above"));
        self.stacks.push(frames.into());
        self.stack_ids.insert(frames.into(), ix);
        ix
    }
}

/// A call as it stands in a dump.
pub(super) struct CallParts {
    pub(super) name: String,
    pub(super) inputs: Vec<Vec<i64>>,
    pub(super) outputs: Vec<Vec<i64>>,
    pub(super) input_types: Vec<String>,
    pub(super) output_types: Vec<String>,
}

impl Call {
    fn of(parts: CallParts) -> Self {
        let (backend, name) = match parts.name.split_once(':') {
            Some((backend, name)) => (backend.to_owned(), name.to_owned()),
            None => (String::new(), parts.name),
        };
        let mut call = Self {
            backend,
            peers: peers(&name),
            name,
            inputs: parts.inputs,
            outputs: parts.outputs,
            input_types: parts.input_types,
            output_types: parts.output_types,
            kind: Kind {
                op: String::new(),
                given: 0,
                filled: 0,
                datatype: String::new(),
                filled_with: String::new(),
            },
        };
        call.kind = call.kind_of();
        call
    }
}

/// `send 1->2`, `recv 0<-1`, `recv 3<-?`
fn peers(name: &str) -> Option<Peers> {
    let (send, rest) = match name.split_once(' ')? {
        ("send", rest) => (true, rest),
        ("recv" | "recvAnySource", rest) => (false, rest),
        _ => return None,
    };
    let (me, peer) = rest.split_once(if send { "->" } else { "<-" })?;
    Some(Peers {
        send,
        me: me.trim().parse().ok()?,
        peer: peer.trim().parse().ok(),
    })
}

/// Distinct texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    list: Vec<Box<str>>,
    ids: FxHashMap<Box<[u8]>, u32>,
}

impl Texts {
    fn id(&mut self, bytes: &[u8]) -> u32 {
        if let Some(id) = self.ids.get(bytes) {
            return *id;
        }
        // A hostile dump fills the table; what comes after shares one text.
        if self.list.len() >= limits::DUMP_DISTINCT {
            return 0;
        }
        let id = u32::try_from(self.list.len()).expect("bounded above");
        let cut = &bytes[..bytes.len().min(limits::EVIDENCE_BYTES)];
        self.list.push(String::from_utf8_lossy(cut).into());
        self.ids.insert(cut.into(), id);
        id
    }

    pub(super) fn text(&self, id: u32) -> &str {
        self.list.get(id as usize).map_or("", |text| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, inputs: &[&[i64]], outputs: &[&[i64]], datatype: &str) -> Call {
        let shapes = |list: &[&[i64]]| list.iter().map(|shape| shape.to_vec()).collect();
        Call::of(CallParts {
            name: name.to_owned(),
            inputs: shapes(inputs),
            outputs: shapes(outputs),
            input_types: vec![datatype.to_owned()],
            output_types: vec![datatype.to_owned()],
        })
    }

    #[test]
    fn what_has_to_be_the_same_is_compared_and_nothing_else() {
        let reduce = call("nccl:all_reduce", &[&[4, 8]], &[&[4, 8]], "Float");
        let flat = call("nccl:all_reduce", &[&[32]], &[&[32]], "Float");
        let larger = call("nccl:all_reduce", &[&[33]], &[&[33]], "Float");
        let double = call("nccl:all_reduce", &[&[32]], &[&[32]], "Double");
        let base = call("nccl:_all_gather_base", &[&[4]], &[&[8]], "Float");
        let list = call("nccl:all_gather", &[&[4]], &[&[4], &[4]], "Float");
        assert_eq!(reduce.difference(&flat), None);
        assert_eq!(reduce.difference(&larger), Some("size"));
        assert_eq!(flat.difference(&double), Some("datatype"));
        assert_eq!(base.difference(&list), None);
        assert_eq!(base.difference(&flat), Some("function"));
        let (root, leaf) = (
            call("nccl:gather", &[&[4]], &[&[4], &[4]], "Float"),
            call("nccl:gather", &[&[4]], &[], "Float"),
        );
        assert_eq!(root.difference(&leaf), None);
        let (much, little) = (
            call("nccl:all_to_all", &[&[9]], &[&[1]], "Float"),
            call("nccl:all_to_all", &[&[1]], &[&[9]], "Float"),
        );
        assert_eq!(much.difference(&little), None);
        let uneven = call("nccl:all_to_allv", &[&[9]], &[&[1]], "Float");
        assert_eq!(much.difference(&uneven), None);
        assert!(much.meets_everybody() && !uneven.meets_everybody());
        assert_eq!(base.words(), "all_gather_into_tensor of [4] Float");
    }

    #[test]
    fn peers_are_read_from_names() {
        let of = |send, me, peer| Some(Peers { send, me, peer });
        assert_eq!(peers("send 1->2"), of(true, 1, Some(2)));
        assert_eq!(peers("recv 0<-1"), of(false, 0, Some(1)));
        assert_eq!(peers("recv 3<-?"), of(false, 3, None));
        assert_eq!(peers("all_reduce"), None);
        assert_eq!(peers("send everything"), None);
    }

    #[test]
    fn the_programs_own_frame_is_found() {
        let mut common = Common::default();
        let packages = "/opt/lib/python3.12/site-packages";
        let torch =
            common.text(format!("{packages}/torch/distributed/distributed_c10d.py").as_bytes());
        let own = common.text(b"/home/me/train.py");
        let (reduce, main) = (common.text(b"all_reduce"), common.text(b"main"));
        let frames = [
            common.frame_id(reduce, torch, 3_068),
            common.frame_id(main, own, 212),
        ];
        let stack = common.stack_id(&frames);
        assert_eq!(common.site(stack)[0].short(), "train.py:212 (main)");
        let only = common.stack_id(&frames[..1]);
        assert_eq!(
            common.site(only)[0].short(),
            "distributed_c10d.py:3068 (all_reduce)"
        );
    }
}

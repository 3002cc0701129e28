//! The collectives of a step: the same on every rank, decided by the seed.

use super::nccl::Nccl;
use super::prng::Prng;

/// Which communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// All ranks.
    World = 0,
    /// The ranks of one host.
    Host = 1,
}

/// One call of a collective, as the program makes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// On which communicator.
    pub(crate) group: Group,
    /// NCCL's name of it.
    pub(crate) function: &'static str,
    /// Elements.
    pub(crate) count: u64,
    /// NCCL's number of the type.
    pub(crate) datatype: u8,
    /// NCCL's number of the operation.
    pub(crate) op: u8,
    /// The root.
    pub(crate) root: u32,
    /// Place within the step.
    pub(crate) slot: u8,
    /// True for the step's first call on the world.
    pub(crate) is_first_of_world: bool,
    /// True for the step's first call on its communicator.
    pub(crate) is_first_of_group: bool,
}

const FLOAT32: u8 = 7;
const BFLOAT16: u8 = 9;
const SUM: u8 = 0;
const MAX: u8 = 2;

impl Call {
    /// Count and datatype as a version prints them: 2.21 and before turn those of Broadcast and
    /// AllGather into bytes.
    pub(crate) fn printed(&self, nccl: Nccl) -> (u64, u8) {
        let bytes = if self.datatype == FLOAT32 { 4 } else { 2 };
        match self.function {
            "Broadcast" | "AllGather" if nccl.is_old() => (self.count * bytes, 0),
            _ => (self.count, self.datatype),
        }
    }
}

/// The calls of one step, in order: layers within the host, then parameters and gradients over the
/// world, now and then a broadcast and the norm.
pub(crate) fn calls_of_step(
    seed: u64,
    step: u64,
    has_host_group: bool,
) -> impl Iterator<Item = Call> {
    let mut random = Prng::new(seed ^ step.wrapping_mul(0x9e37_79b9));
    let layers = if has_host_group { 4 } else { 0 };
    let with_norm = step.is_multiple_of(8);
    let total = layers + 3 + if with_norm { 2 } else { 0 };
    (0..total).map(move |slot: u8| {
        let size = 1 + random.next() % 4096;
        let world = slot.saturating_sub(layers);
        let (function, count, datatype, op) = match world {
            _ if slot < layers => ("AllReduce", size * 5_120, BFLOAT16, SUM),
            0 => ("AllGather", size * 1_024, BFLOAT16, SUM),
            1 => ("ReduceScatter", size * 1_024, BFLOAT16, SUM),
            2 => ("AllReduce", size * 256, FLOAT32, SUM),
            3 => ("Broadcast", size, FLOAT32, SUM),
            _ => ("AllReduce", 1, FLOAT32, MAX),
        };
        let group = if slot < layers {
            Group::Host
        } else {
            Group::World
        };
        Call {
            group,
            function,
            count,
            datatype,
            op,
            root: 0,
            slot,
            is_first_of_world: slot == layers,
            is_first_of_group: slot == 0 || slot == layers,
        }
    })
}

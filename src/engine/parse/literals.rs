//! The literals that a line without NCCL's header must have one of to say anything that is not told
//! by its beginning. They are searched together with those of the rules, once a line.

macro_rules! literals {
    ($($name:ident = $text:expr,)+) => {
        /// One of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Literal {
            $($name,)+
        }

        impl Literal {
            /// What it is.
            pub(super) fn text(self) -> &'static [u8] {
                LITERALS[self as usize]
            }
        }

        /// Every literal, by its number.
        pub const LITERALS: &[&[u8]] = &[$($text,)+];
    };
}

literals! {
    // The order of these decides where a line has several.
    ClientsJoined = b" clients joined",
    WorkersJoined = b"num_workers_joined=",
    WorkerCount = b"worker_count=",
    WorldSize = b"world_size=",
    InWorldSize = b" in world size ",
    GlobalRank = b"GLOBAL_RANK: ",
    MonitoredBarrier = b"monitoredBarrier",
    Fingerprints = b"Detected mismatch between collectives",
    ChildDied = b"died unexpectedly",
    Serving = b"Application startup complete",

    Frame = b"/distributed_c10d.py",
    AgentExit = b"failed (exitcode: ",
    AgentStopped = b"death signal, shutting down workers",
    AgentRestarts = b"will restart worker group",
    Watchdog = b"Watchdog caught collective operation timeout",
    Enqueued = b"last enqueued work: ",
    EnqueuedNccl = b"ast enqueued NCCL work: ",
    ClientSocket = b" client socket",
    NameLookup = b" cannot be retrieved (gai error: ",
    GroupOptions = b"ProcessGroupNCCL initialization options",
}

/// Which of the literals may be in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Literals(u32);

impl Literals {
    /// Nobody has searched: any of them.
    pub const ANY: Self = Self(u32::MAX);

    /// Adds one of [`LITERALS`] by its number.
    pub fn insert(&mut self, number: usize) {
        self.0 |= 1 << number;
    }

    /// None is in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn has(self, literal: Literal) -> bool {
        self.0 >> (literal as u32) & 1 != 0
    }

    /// Where the literal begins.
    pub(super) fn find(self, literal: Literal, message: &[u8]) -> Option<usize> {
        self.has(literal)
            .then(|| memchr::memmem::find(message, literal.text()))
            .flatten()
    }
}

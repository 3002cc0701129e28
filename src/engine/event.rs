//! Lines understood: typed, borrowed from the line, no allocation.

/// A subsystem that chooses a network address by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subsystem {
    /// NCCL's bootstrap (`Bootstrap : Using`).
    Bootstrap,
    /// NCCL's socket transport (`NET/Socket : Using`).
    Net,
    /// The side channel of NCCL's InfiniBand transport (`NET/IB : Using …; OOB`).
    Oob,
    /// PyTorch's store and sockets.
    C10d,
    /// Gloo's mesh.
    Gloo,
}

impl Subsystem {
    /// The word in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::Net => "net",
            Self::Oob => "oob",
            Self::C10d => "c10d",
            Self::Gloo => "gloo",
        }
    }
}

/// How a GPU reaches another one on a channel (`src/transport/*.cc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// P2P in any form (CUMEM, IPC, direct pointer, MNNVL).
    P2p,
    /// P2P through a third GPU.
    P2pIndirect,
    /// Host shared memory.
    Shm,
    /// The network, without GPUDirect RDMA.
    Net,
    /// The network with GPUDirect RDMA.
    NetGdr,
    /// SHARP.
    CollNet,
}

impl Transport {
    /// The word NCCL's log uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P2p => "P2P",
            Self::P2pIndirect => "P2P/indirect",
            Self::Shm => "SHM",
            Self::Net => "NET",
            Self::NetGdr => "NET/GDRDMA",
            Self::CollNet => "COLLNET",
        }
    }
}

/// A collective function or point-to-point call (`src/collectives.cc`, every version to 2.32).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "NCCL's own names")]
pub enum Func {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    AlltoAll,
    Gather,
    Scatter,
    Send,
    Recv,
    PutSignal,
    Signal,
    WaitSignal,
}

impl Func {
    /// Every function.
    pub const ALL: [Self; 13] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::Broadcast,
        Self::Reduce,
        Self::AlltoAll,
        Self::Gather,
        Self::Scatter,
        Self::Send,
        Self::Recv,
        Self::PutSignal,
        Self::Signal,
        Self::WaitSignal,
    ];

    /// NCCL's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "AllReduce",
            Self::AllGather => "AllGather",
            Self::ReduceScatter => "ReduceScatter",
            Self::Broadcast => "Broadcast",
            Self::Reduce => "Reduce",
            Self::AlltoAll => "AlltoAll",
            Self::Gather => "Gather",
            Self::Scatter => "Scatter",
            Self::Send => "Send",
            Self::Recv => "Recv",
            Self::PutSignal => "PutSignal",
            Self::Signal => "Signal",
            Self::WaitSignal => "WaitSignal",
        }
    }

    /// The function with this name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name().as_bytes() == name)
    }

    /// True for calls that reduce, so that their operation has to be the same everywhere.
    #[must_use]
    pub fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }

    /// True for calls that have a root.
    #[must_use]
    pub fn has_root(self) -> bool {
        matches!(
            self,
            Self::Reduce | Self::Broadcast | Self::Gather | Self::Scatter
        )
    }

    /// True for calls that concern one peer and are matched per peer, not by their place on the comm.
    #[must_use]
    pub fn is_p2p(self) -> bool {
        matches!(
            self,
            Self::Send | Self::Recv | Self::PutSignal | Self::Signal | Self::WaitSignal
        )
    }
}

/// A COLL line: one call on a communicator (`src/enqueue.cc`, 2.4–2.32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coll {
    /// The function.
    pub func: Func,
    /// NCCL's own count, which means something else in every few versions; only leaps are looked at.
    pub op_count: u64,
    /// Elements as the caller passed them (bytes for Broadcast and AllGather up to 2.21).
    pub count: u64,
    /// `ncclDataType_t`.
    pub datatype: u8,
    /// `ncclRedOp_t`; user-made ones (5 and above) are all 5 here, since their numbers are local.
    pub op: u8,
    /// Root, or the peer for point-to-point calls.
    pub root: u32,
    /// The communicator's address in the process.
    pub comm: u64,
    /// Number of ranks, where printed.
    pub nranks: Option<u32>,
}

/// START or COMPLETE of a communicator's init (`src/init.cc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommInit {
    /// Address in the process; reused after destroy.
    pub comm: u64,
    /// Rank in the communicator.
    pub rank: u32,
    /// Its ranks.
    pub nranks: u32,
    /// CUDA device in the process.
    pub cuda_dev: u32,
    /// Physical index (2.18.3 and later).
    pub nvml_dev: Option<i32>,
    /// PCI bus id, packed.
    pub bus_id: u64,
    /// The key across ranks (2.16.2 and later; not for split children of 2.23–2.30).
    pub comm_id: Option<u64>,
    /// For a split or shrink: the parent's address, which child of it, and the colour.
    pub parent: Option<(u64, Option<u32>, i64)>,
    /// COMPLETE rather than START.
    pub complete: bool,
}

/// How a process ended, as a launcher or parent reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exit {
    /// With this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A line understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// NCCL's version as printed (`2.28.9+cuda13.0`).
    NcclVersion(&'a [u8]),
    /// The driver's CUDA version (`13000`).
    CudaDriver(&'a [u8]),
    /// A variable is in effect.
    Env {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// A subsystem chose an address. `further` are the others it listed (`[1]data0:10.20.0.1<0> …`).
    Address {
        /// Which subsystem.
        subsystem: Subsystem,
        /// Interface name; empty if not printed.
        interface: &'a [u8],
        /// Address without port.
        address: &'a [u8],
        /// Rest of the list, as printed.
        further: &'a [u8],
    },
    /// `Using network X`.
    Network(&'a [u8]),
    /// `NET/Plugin: Could not find: …`, in the words of any version.
    PluginNotFound,
    /// START or COMPLETE.
    CommInit(CommInit),
    /// `comm … nRanks N nNodes M localRanks L …`.
    CommNodes {
        /// The communicator's address.
        comm: u64,
        /// Hosts as NCCL counts them.
        nodes: u32,
        /// Ranks on this host.
        local_ranks: u32,
    },
    /// The communicator was destroyed, finalized, aborted or revoked.
    CommEnd {
        /// Its address.
        comm: u64,
        /// Abort or revoke.
        abort: bool,
        /// The end of it, not the start.
        complete: bool,
    },
    /// All ranks of the communicator met once (`Bootstrap timings`).
    BootstrapDone,
    /// The RAS thread listens (or failed to): connected to both ring neighbours.
    RasListening(Option<&'a [u8]>),
    /// A topology, tree or ring line: past the first all-gather.
    Topology,
    /// A connection of a channel.
    Channel {
        /// Rank in the communicator that sends.
        from: u32,
        /// Rank that receives.
        to: u32,
        /// How.
        transport: Transport,
    },
    /// `Connected all rings` and the like.
    Connected,
    /// `Check P2P Type isAllDirectP2p N`.
    AllDirectP2p(bool),
    /// A connect that failed and is (or is not) tried again.
    ConnectFailed {
        /// Address it went to, without port; `None` where not printed (up to 2.26).
        address: Option<&'a [u8]>,
        /// The port, where printed.
        port: Option<u16>,
        /// The operating system's words.
        reason: &'a [u8],
        /// Attempts so far.
        attempt: Option<u32>,
        /// False if it gave up.
        retrying: bool,
    },
    /// A connect of PyTorch's store that failed.
    StoreRefused {
        /// Where to, as the user named it.
        host: &'a [u8],
        /// Its port.
        port: u16,
        /// Why, where the line says so: each try has one line that does and one that does not.
        reason: Option<&'a [u8]>,
        /// False if it gave up.
        retrying: bool,
    },
    /// A collective or point-to-point call.
    Coll(Coll),
    /// The front of a call's line, whose rest is missing.
    TornCall,
    /// A peer closed its connection. `local` is the local rank that did, where NCCL says so.
    PeerClosed {
        /// Local rank on this host.
        local: Option<u32>,
    },
    /// Any other NCCL line that is known to be harmless or plain progress.
    Known,
    /// A process says its rank in the world or in its engine: `world_size=8 rank=3`, `GLOBAL_RANK: 3`.
    RankOf {
        /// The rank.
        rank: u32,
        /// The size.
        of: u32,
    },
    /// Number of ranks that a store or launcher waits for.
    WorldSize(u32),
    /// PyTorch's watchdog: a collective did not finish in time.
    Watchdog {
        /// Sequence number in its group.
        seq: u64,
        /// Operation (`ALLREDUCE`).
        op: &'a [u8],
        /// It waited for this long.
        ran_ms: u64,
        /// Timeout in force.
        timeout_ms: u64,
    },
    /// `last enqueued work: 3, last completed work: 2` of a group.
    WorkStatus {
        /// The group as printed, without rank (`PG ID 0 PG GUID 0(default_pg)`).
        group: &'a [u8],
        /// Highest sequence number enqueued.
        enqueued: i64,
        /// Highest completed.
        completed: i64,
    },
    /// `J/N clients joined`.
    StoreJoined {
        /// Joined.
        joined: u32,
        /// Expected.
        of: u32,
    },
    /// A store or process group is being set up by this process, or its socket is connected.
    StoreContact,
    /// A name of a host was looked up in vain.
    Unresolved {
        /// The name.
        host: &'a [u8],
        /// Why, in the resolver's words.
        reason: &'a [u8],
    },
    /// `[Rank 0]: Rank(s) 2 failed to pass monitoredBarrier`: the list as printed.
    BarrierMissing(&'a [u8]),
    /// The DETAIL wrapper compared fingerprints.
    Fingerprints {
        /// First rank (the reporter) and its operation.
        a: (u32, &'a [u8]),
        /// Second rank and its operation.
        b: (u32, &'a [u8]),
        /// What differs, as printed.
        aspects: &'a [u8],
    },
    /// `rank : 2 (local_rank: 2)` of torchrun's report.
    ReportRank {
        /// World rank.
        rank: u32,
        /// Local rank.
        local: u32,
    },
    /// `exitcode : -9 (pid: 2715)` of torchrun's report.
    ReportExit {
        /// How it ended.
        exit: Exit,
        /// Its pid.
        pid: u32,
    },
    /// `failed (exitcode: -9) local_rank: 1 (pid: 2715)` of torchrun's agent.
    AgentExit {
        /// How it ended.
        exit: Exit,
        /// Its pid.
        pid: u32,
        /// Local rank.
        local: u32,
    },
    /// `Root Cause (first observed failure):`.
    ReportRootCause,
    /// The agent says that it starts its workers again.
    Restart,
    /// The launcher was told to stop (`Received 15 death signal`).
    LauncherStopped,
    /// `Traceback (most recent call last):`.
    TracebackStart,
    /// A frame inside PyTorch's distributed calls: the call's name (`all_reduce`).
    Frame(&'a [u8]),
    /// The last line of a traceback: the exception and its text.
    Exception {
        /// Type, with or without module.
        kind: &'a [u8],
        /// Text.
        message: &'a [u8],
    },
    /// `terminate called`, `Fatal Python error`, `Segmentation fault`: this process ends now.
    Abort(&'a [u8]),
    /// A parent says that a child ended unexpectedly (`Worker proc VllmWorker-1 died unexpectedly`).
    ChildDied {
        /// Its index among its siblings.
        index: Option<u32>,
        /// How it ended, if told.
        exit: Option<Exit>,
    },
    /// The process serves requests or says that start-up is over.
    Serving,
}

impl Event<'_> {
    /// The same event, if it holds no text of its line.
    #[must_use]
    pub fn without_text(self) -> Option<Event<'static>> {
        Some(match self {
            Self::PluginNotFound => Event::PluginNotFound,
            Self::CommInit(init) => Event::CommInit(init),
            Self::CommNodes {
                comm,
                nodes,
                local_ranks,
            } => Event::CommNodes {
                comm,
                nodes,
                local_ranks,
            },
            Self::CommEnd {
                comm,
                abort,
                complete,
            } => Event::CommEnd {
                comm,
                abort,
                complete,
            },
            Self::BootstrapDone => Event::BootstrapDone,
            Self::RasListening(None) => Event::RasListening(None),
            Self::Topology => Event::Topology,
            Self::Connected => Event::Connected,
            Self::AllDirectP2p(all) => Event::AllDirectP2p(all),
            Self::TornCall => Event::TornCall,
            Self::PeerClosed { local } => Event::PeerClosed { local },
            Self::Known => Event::Known,
            Self::StoreContact => Event::StoreContact,
            Self::ReportRootCause => Event::ReportRootCause,
            Self::Restart => Event::Restart,
            Self::LauncherStopped => Event::LauncherStopped,
            Self::TracebackStart => Event::TracebackStart,
            Self::Serving => Event::Serving,
            _ => return None,
        })
    }
}

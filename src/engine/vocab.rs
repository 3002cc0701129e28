//! The words of unhang: states, classes, phases, severities, roles, kinds of fix.

/// Declares an enum whose variants have a printed name.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word as rule files, JSON and people see it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The value with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(d)?;
                Self::from_name(&text).ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|v| v.name()).collect();
                    serde::de::Error::custom(format!(
                        "unknown value \"{text}\", expected one of: {}",
                        known.join(", ")
                    ))
                })
            }
        }
    };
}

words!(
    /// What the job as a whole does.
    State {
        /// Ranks are equal and nothing is wrong.
        Healthy = "healthy",
        /// The end was seen and nothing was wrong.
        Completed = "completed",
        /// Works, slower or on a worse path.
        Degraded = "degraded",
        /// Went on although ranks called different things.
        WrongResults = "wrong-results",
        /// Some ranks wait for others; late or stuck cannot be known.
        Waiting = "waiting",
        /// Stands still, and that is proven.
        Hung = "hung",
        /// An error ended it.
        Failed = "failed",
        /// Nothing can be said.
        Inconclusive = "inconclusive",
    }
);

words!(
    /// Classes of cause.
    Class {
        /// Nothing is wrong.
        Healthy = "healthy",
        /// A subsystem (NCCL, Gloo, c10d, Ray) chose a network interface others cannot reach.
        WrongInterface = "wrong-interface",
        /// Ranks called different collectives at the same place.
        MismatchedCollective = "mismatched-collective",
        /// A rank never came to what the others wait for.
        MissingRank = "missing-rank",
        /// A process ended by itself or was killed.
        RankDied = "rank-died",
        /// The job was ended from outside.
        Stopped = "stopped",
        /// GPUs of one host do not reach each other directly.
        P2p = "p2p",
        /// Shared memory.
        Shm = "shm",
        /// InfiniBand and RoCE.
        IbRdma = "ib-rdma",
        /// A network plugin.
        NetPlugin = "net-plugin",
        /// Versions differ between ranks.
        VersionMismatch = "version-mismatch",
        /// Variables differ between ranks.
        EnvMismatch = "env-mismatch",
        /// CUDA and its driver.
        CudaDriver = "cuda-driver",
        /// NVLink, NVSwitch and their managers.
        NvlinkFabric = "nvlink-fabric",
        /// The GPU itself.
        GpuHardware = "gpu-hardware",
        /// Which rank uses which GPU.
        DeviceMapping = "device-mapping",
        /// The store cannot be reached or does not fill.
        Rendezvous = "rendezvous",
        /// Gloo's other failures.
        Gloo = "gloo",
        /// No way from one host to another.
        NetworkUnreachable = "network-unreachable",
        /// A limit of the host.
        HostLimits = "host-limits",
        /// A wrong launch line or environment of ranks.
        Launcher = "launcher",
        /// The program.
        UserCode = "user-code",
        /// A known bug of a library.
        LibraryBug = "library-bug",
        /// Not known.
        Inconclusive = "inconclusive",
    }
);

words!(
    /// How far a rank has got.
    Phase {
        /// Something of it was seen.
        Launched = "launched",
        /// Meets the others at the store.
        Rendezvous = "rendezvous",
        /// NCCL's bootstrap.
        Bootstrap = "bootstrap",
        /// Chooses the network.
        Network = "network",
        /// Looks at the topology.
        Topology = "topology",
        /// Connects to its neighbours.
        Connect = "connect",
        /// Its communicators stand.
        Ready = "ready",
        /// Has entered a collective.
        Collective = "collective",
        /// Ended well.
        Finished = "finished",
        /// Ended with an error.
        Failed = "failed",
        /// Was killed or vanished.
        Died = "died",
        /// Says nothing.
        Silent = "silent",
    }
);

words!(
    /// How bad a finding is.
    Severity {
        /// Nothing to do.
        Info = "info",
        /// Slower or fragile.
        Warning = "warning",
        /// Broken.
        Error = "error",
    }
);

words!(
    /// What a finding is to the others.
    Role {
        /// It explains the others.
        Cause = "cause",
        /// Another finding explains it.
        Symptom = "symptom",
        /// Worth knowing, nothing is wrong with it (yet).
        Note = "note",
    }
);

words!(
    /// What has to be changed.
    FixKind {
        /// An environment variable.
        Env = "env",
        /// The launch line.
        Launch = "launch",
        /// The program.
        Code = "code",
        /// A setting of the host or container.
        Host = "host",
        /// Hardware, or its firmware.
        Hardware = "hardware",
    }
);

words!(
    /// How sure the verdict is.
    Confidence {
        /// One of several explanations.
        Possible = "possible",
        /// The evidence fits this and nothing else seen.
        Likely = "likely",
        /// The evidence says so itself.
        Certain = "certain",
    }
);

words!(
    /// What a matched line says about the job as a whole.
    Effect {
        /// Nothing.
        None = "none",
        /// It works on a worse path.
        Degraded = "degraded",
        /// It stands still, for as long as a watchdog or store waits.
        Standstill = "standstill",
        /// Start-up or the run ends with it.
        Fatal = "fatal",
        /// The process that is named ended.
        Died = "died",
    }
);

words!(
    /// What kind of line it is: decided before any rule looks at it.
    LineClass {
        /// `host:pid:tid [dev] NCCL INFO …`.
        NcclInfo = "nccl-info",
        /// `… NCCL WARN …` and `ATTN`.
        NcclWarn = "nccl-warn",
        /// `… NCCL CALL …`.
        NcclCall = "nccl-call",
        /// A bare `NCCL version …`, a `TRACE` or `DIAG` line.
        NcclOther = "nccl-other",
        /// A line of PyTorch's C++ or Python logger (`[E1130 … file.cpp:12]`, `W1130 … torch/…:12]`).
        C10d = "c10d",
        /// A launcher's report (torchrun, mpirun, srun, Ray, kubelet).
        Launcher = "launcher",
        /// Part of a Python traceback or of a C++ stack trace.
        Traceback = "traceback",
        /// Everything else: what the program prints.
        App = "app",
    }
);

impl LineClass {
    /// True for lines that NCCL prints.
    #[must_use]
    pub fn is_nccl(self) -> bool {
        matches!(
            self,
            Self::NcclInfo | Self::NcclWarn | Self::NcclCall | Self::NcclOther
        )
    }
}

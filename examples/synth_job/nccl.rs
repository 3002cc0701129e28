//! How the versions of NCCL differ in what they print.

/// A version whose lines are known from recorded jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Nccl {
    /// 2.16.5: no Init START, lines behind the collectives count.
    #[value(name = "2.16.5")]
    V2_16_5,
    /// 2.21.5: Init START behind the bootstrap.
    #[value(name = "2.21.5")]
    V2_21_5,
    /// 2.28.9: Init START in front of the bootstrap, connects at the first collective.
    #[value(name = "2.28.9")]
    V2_28_9,
    /// 2.31.2: a rank in front of Init lines, the function behind a WARN's place.
    #[value(name = "2.31.2")]
    V2_31_2,
}

impl Nccl {
    /// The version as the version line says it.
    pub(crate) fn line(self) -> &'static str {
        match self {
            Self::V2_16_5 => "2.16.5+cuda12.0",
            Self::V2_21_5 => "2.21.5+cuda12.4",
            Self::V2_28_9 => "2.28.9+cuda13.0",
            Self::V2_31_2 => "2.31.2+cuda13.3",
        }
    }

    /// 2.21 and before: a bare version line of rank 0, counts of Broadcast and AllGather in bytes,
    /// transports connect during init.
    pub(crate) fn is_old(self) -> bool {
        matches!(self, Self::V2_16_5 | Self::V2_21_5)
    }

    /// The call in front of Init lines.
    pub(crate) fn init_call(self) -> &'static str {
        match self {
            Self::V2_16_5 => "",
            Self::V2_21_5 | Self::V2_31_2 => "ncclCommInitRank ",
            Self::V2_28_9 => "ncclCommInitRankConfig ",
        }
    }

    /// What the first address is behind.
    pub(crate) fn bootstrap(self) -> &'static str {
        if self.is_old() {
            "Bootstrap : Using"
        } else {
            "Bootstrap: Using"
        }
    }

    /// How a rank that cannot connect says so, without the counter.
    pub(crate) fn connect_retry(self, address: &str, attempt: u32) -> String {
        if self.is_old() {
            return "Call to connect returned Connection timed out, retrying".to_owned();
        }
        let call = if self == Self::V2_31_2 {
            "ncclOsSocketPollConnect"
        } else {
            "socketPollConnect"
        };
        let sleep = attempt * 100;
        format!(
            "{call}: connect to {address} returned No route to host, retrying ({attempt}/34) after sleep for {sleep} msec"
        )
    }

    /// Place of the WARN about a closed connection, and the places the error went through.
    pub(crate) fn closed_trail(self) -> (&'static str, [&'static str; 4]) {
        match self {
            Self::V2_16_5 => (
                "misc/socket.cc:484",
                [
                    "misc/socket.cc:538",
                    "transport/net_socket.cc:493",
                    "transport/net.cc:1036",
                    "proxy.cc:532",
                ],
            ),
            Self::V2_21_5 => (
                "misc/socket.cc:50",
                [
                    "misc/socket.cc:752",
                    "transport/net_socket.cc:541",
                    "transport/net.cc:1240",
                    "proxy.cc:699",
                ],
            ),
            Self::V2_28_9 => (
                "misc/socket.cc:72",
                [
                    "misc/socket.cc:845",
                    "transport/net_socket.cc:557",
                    "transport/net.cc:1508",
                    "proxy.cc:965",
                ],
            ),
            Self::V2_31_2 => (
                "misc/socket.cc:74 (socketProgress)",
                [
                    "misc/socket.cc:871",
                    "transport/net_socket.cc:563",
                    "transport/net.cc:1561",
                    "proxy.cc:981",
                ],
            ),
        }
    }

    /// The stamp in front of a WARN.
    pub(crate) fn warn_stamp(self, second: u64) -> String {
        if self.is_old() {
            return String::new();
        }
        format!(
            "[2025-11-30 {:02}:{:02}:{:02}] ",
            19 + second / 3600 % 5,
            second / 60 % 60,
            second % 60
        )
    }
}

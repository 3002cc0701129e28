//! NCCL INFO and WARN messages (`src/init.cc` and friends, 2.4–2.32).

use memchr::memmem::Finder;

use super::cursor::Cursor;
use super::{nccl_coll, nccl_net};
use crate::engine::event::{CommInit, Event};

/// Searchers for the words that may stand anywhere in a message, and the call before.
#[derive(Clone, Debug)]
pub(super) struct Words {
    /// In every line about a connection, whichever verb or noun it uses.
    connect: Finder<'static>,
    closed: Finder<'static>,
    call: nccl_coll::Last,
}

impl Default for Words {
    fn default() -> Self {
        Self {
            connect: Finder::new(b"onnect"),
            closed: Finder::new(b"Connection closed by remote peer"),
            call: nccl_coll::Last::default(),
        }
    }
}

/// A call or a channel, which are most of all messages.
pub(super) fn frequent<'a>(message: &'a [u8], words: &mut Words) -> Option<Event<'a>> {
    match message.first()? {
        b'C' if message.starts_with(b"Channel ") => nccl_net::channel(message),
        b'A' | b'R' | b'B' | b'S' | b'G' | b'P' | b'W' => {
            nccl_coll::parse(message, &mut words.call).map(Event::Coll)
        }
        _ => None,
    }
}

/// A message behind `NCCL INFO `, or a bare `NCCL version …`.
pub(super) fn info<'a>(message: &'a [u8], words: &mut Words) -> Option<Event<'a>> {
    // Since 2.29 START lines begin with `[Rank n] `, since 2.31 some with `file:line (func) `.
    match message.first()? {
        b'C' => class_c(message, words),
        b'A' | b'R' | b'B' | b'S' | b'G' | b'P' | b'W' => {
            nccl_coll::parse(message, &mut words.call)
                .map(Event::Coll)
                .or_else(|| nccl_coll::begins(message).then_some(Event::TornCall))
                .or_else(|| progress(message, words))
        }
        b'n' if message.starts_with(b"ncclComm") => comm_init(message),
        b'c' if message.starts_with(b"comm 0x") => comm(message),
        b'N' => class_n(message, words),
        b'[' if message.starts_with(b"[Rank ") => comm_init(message),
        _ => progress(message, words),
    }
}

/// A message behind `NCCL WARN `: only what the model itself needs; what it means is a rule's business.
pub(super) fn warn<'a>(message: &'a [u8], words: &Words) -> Option<Event<'a>> {
    progress(message, words)
}

fn class_c<'a>(message: &'a [u8], words: &Words) -> Option<Event<'a>> {
    if message.starts_with(b"Channel ") {
        return nccl_net::channel(message);
    }
    if message.starts_with(b"Connected all")
        || message.starts_with(b"Connected NVLS")
        || message.starts_with(b"Connected binomial")
    {
        return Some(Event::Connected);
    }
    if message.starts_with(b"Connected to proxy") || message.starts_with(b"Connection to proxy") {
        return Some(Event::Known);
    }
    if let Some(rest) = message.strip_prefix(b"Check P2P Type ") {
        let mut rest = Cursor(rest);
        rest.lit(b"isAllDirectP2p ")
            .or_else(|| rest.lit(b"intraNodeP2pSupport "))?;
        return Some(Event::AllDirectP2p(rest.dec()? != 0));
    }
    if message.starts_with(b"Comm config ") {
        return Some(Event::Known);
    }
    progress(message, words)
}

fn class_n<'a>(message: &'a [u8], words: &Words) -> Option<Event<'a>> {
    if message.starts_with(b"NET/") {
        return nccl_net::net(message);
    }
    if let Some(version) = message.strip_prefix(b"NCCL version ") {
        let version = Cursor(version).word();
        let whole = version.first().is_some_and(u8::is_ascii_digit) && version.contains(&b'.');
        return whole.then_some(Event::NcclVersion(version));
    }
    if message.starts_with(b"NCCL_") {
        return env(message);
    }
    if message.starts_with(b"New proxy ") || message.starts_with(b"NVLS ") {
        return Some(Event::Known);
    }
    progress(message, words)
}

/// `NCCL_X set by environment to V[.]` (numbers end with a dot), `NCCL_IB_HCA set to V`.
fn env(message: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor(message);
    let name = rest.word();
    let strings = rest.has(b" set to ");
    if !strings && rest.lit(b" set by environment to ").is_none() {
        return None;
    }
    let value = rest.0;
    let number = value
        .strip_suffix(b".")
        .filter(|v| v.iter().all(|b| b.is_ascii_digit() || *b == b'-'));
    Some(Event::Env {
        name,
        value: number.unwrap_or(value),
    })
}

/// Everything else that says how far a rank is.
fn progress<'a>(message: &'a [u8], words: &Words) -> Option<Event<'a>> {
    let by_beginning = beginning(message);
    // What a line says of a connection outweighs that it begins like a harmless one.
    if matches!(by_beginning, None | Some(Event::Topology | Event::Known))
        && words.connect.find(message).is_some()
    {
        if words.closed.find(message).is_some() {
            return Some(Event::PeerClosed { local: None });
        }
        if by_beginning != Some(Event::Topology)
            && let Some(connect) = nccl_net::connect(message)
        {
            return Some(connect);
        }
    }
    by_beginning
}

/// What a message says by its first words.
fn beginning(message: &[u8]) -> Option<Event<'_>> {
    let starts = |text: &[u8]| message.starts_with(text);
    let any = |texts: &[&[u8]]| texts.iter().any(|text| message.starts_with(text));
    match message.first()? {
        b'B' if starts(b"Bootstrap : Using ") || starts(b"Bootstrap: Using ") => {
            nccl_net::bootstrap(message)
        }
        b'B' => starts(b"Bootstrap timings").then_some(Event::BootstrapDone),
        b'U' => {
            if let Some(network) = message.strip_prefix(b"Using network ") {
                return Some(Event::Network(network));
            }
            any(&[b"Using non-device", b"UDS converted handle"]).then_some(Event::Known)
        }
        b'c' => message
            .strip_prefix(b"cudaDriverVersion ")
            .map(Event::CudaDriver),
        b'R' if starts(b"RAS client listening") || starts(b"RAS failed to establish") => {
            let address = message.strip_prefix(b"RAS client listening socket at ");
            Some(Event::RasListening(address.map(|rest| Cursor(rest).word())))
        }
        b'R' if starts(b"Ring ") => Some(Event::Topology),
        b'R' => starts(b"RMA/Plugin").then_some(Event::Known),
        b'[' => {
            if let Some(rest) =
                message.strip_prefix(b"[Service thread] Connection closed by localRank ")
            {
                return Some(Event::PeerClosed {
                    local: Cursor(rest).dec32(),
                });
            }
            starts(b"[Proxy Service").then_some(Event::Known)
        }
        b'T' if starts(b"Trees [") || starts(b"Tree ") => Some(Event::Topology),
        b'T' => starts(b"TUNER/Plugin").then_some(Event::Known),
        b'S' => starts(b"Setting affinity").then_some(Event::Topology),
        b'n' => starts(b"ncclTopoGetCpuAffinity").then_some(Event::Topology),
        b'=' => starts(b"=== System").then_some(Event::Topology),
        b'P' if starts(b"P2P Chunksize") || starts(b"Pattern ") => Some(Event::Topology),
        b'P' => starts(b"PROFILER/Plugin").then_some(Event::Known),
        b'I' => any(&[
            b"Init timings",
            b"Initialized NET plugin",
            b"Imported shareable buffer",
        ])
        .then_some(Event::Known),
        b'E' => starts(b"ENV/Plugin").then_some(Event::Known),
        b'G' => starts(b"GIN/Plugin").then_some(Event::Known),
        b'A' => starts(b"Assigned NET plugin").then_some(Event::Known),
        b'F' => starts(b"Failed to initialize NET plugin").then_some(Event::Known),
        b'C' => any(&[b"Could not get speed", b"CC "]).then_some(Event::Known),
        b't' => starts(b"threadThresholds").then_some(Event::Known),
        b'M' => starts(b"MNNVL").then_some(Event::Known),
        b'D' => starts(b"DMA-BUF").then_some(Event::Known),
        _ => None,
    }
}

/// `comm 0x… rank 0 nranks 2 …` in all its forms.
fn comm(message: &[u8]) -> Option<Event<'_>> {
    if message.ends_with(b" - Init COMPLETE") || message.ends_with(b" - Init START") {
        return comm_init(message);
    }
    let mut rest = Cursor(message);
    rest.lit(b"comm ")?;
    let comm = rest.hex()?;
    rest.lit(b" rank ")?;
    rest.dec32()?;
    if rest.has(b" nRanks ") {
        rest.dec32()?;
        if rest.has(b" nNodes ") {
            let nodes = rest.dec32()?;
            rest.lit(b" localRanks ")?;
            return Some(Event::CommNodes {
                comm,
                nodes,
                local_ranks: rest.dec32()?,
            });
        }
    }
    let mut tail = Cursor(message);
    tail.until(b" - ")?;
    let abort = tail.0.starts_with(b"Abort") || tail.0.starts_with(b"Revoke");
    let ends = abort || tail.0.starts_with(b"Destroy") || tail.0.starts_with(b"Finalize");
    ends.then(|| Event::CommEnd {
        comm,
        abort,
        complete: memchr::memmem::find(tail.0, b"COMPLETE").is_some(),
    })
}

/// START and COMPLETE of every version; the fields vary, so they are read by name.
fn comm_init(message: &[u8]) -> Option<Event<'_>> {
    let complete = message.ends_with(b"Init COMPLETE");
    if !complete && !message.ends_with(b"Init START") {
        return None;
    }
    let mut rest = Cursor(message);
    if rest.has(b"[Rank ") {
        rest.until(b"] ")?;
    }
    if rest.0.starts_with(b"ncclComm") {
        rest.word();
        rest.lit(b" ")?;
    }
    rest.lit(b"comm ")?;
    let mut init = CommInit {
        comm: rest.hex()?,
        rank: 0,
        nranks: 0,
        cuda_dev: 0,
        nvml_dev: None,
        bus_id: 0,
        comm_id: None,
        parent: None,
        complete,
    };
    rest.lit(b" rank ")?;
    init.rank = rest.dec32()?;
    rest.lit(b" nranks ")?;
    init.nranks = rest.dec32()?;
    if init.nranks == 0 || init.rank >= init.nranks {
        return None;
    }
    let (mut parent, mut child, mut color) = (None, None, None);
    while rest.has(b" ") {
        match rest.word() {
            b"cudaDev" => init.cuda_dev = field(&mut rest, Cursor::dec32)?,
            b"nvmlDev" => init.nvml_dev = i32::try_from(field(&mut rest, Cursor::int)?).ok(),
            b"busId" => init.bus_id = field(&mut rest, Cursor::hex)?,
            b"commId" => init.comm_id = Some(field(&mut rest, Cursor::hex)?),
            b"parent" => parent = Some(field(&mut rest, Cursor::hex)?),
            b"splitCount" | b"childCount" => child = Some(field(&mut rest, Cursor::dec32)?),
            b"color" => color = Some(field(&mut rest, Cursor::int)?),
            b"key" => {
                field(&mut rest, Cursor::int)?;
                rest.has(b"-"); // 2.23–2.30 print `key 1- Init START`.
            }
            _ => break, // `- Init START`
        }
    }
    if let Some(parent) = parent.filter(|parent| *parent != 0) {
        init.parent = Some((parent, child, color.unwrap_or(0)));
    }
    Some(Event::CommInit(init))
}

fn field<'a, T>(rest: &mut Cursor<'a>, read: impl Fn(&mut Cursor<'a>) -> Option<T>) -> Option<T> {
    rest.lit(b" ")?;
    read(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(message: &[u8]) -> Option<Event<'_>> {
        info(message, &mut Words::default())
    }

    fn init(text: &str) -> CommInit {
        match info(text.as_bytes(), &mut Words::default()) {
            Some(Event::CommInit(init)) => init,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn start_and_complete_of_every_version() {
        let old = init("comm 0x7f rank 3 nranks 8 cudaDev 3 busId 4b000 - Init COMPLETE");
        assert_eq!(
            (old.rank, old.nranks, old.comm_id, old.complete),
            (3, 8, None, true)
        );
        let v216 =
            init("comm 0x7f rank 1 nranks 2 cudaDev 1 busId 70 commId 0xabc - Init COMPLETE");
        assert_eq!(v216.comm_id, Some(0xabc));
        let v228 = init(
            "ncclCommInitRankConfig comm 0x3826df60 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xfdcb716592c917a7 - Init START",
        );
        assert_eq!(
            (v228.bus_id, v228.nvml_dev, v228.complete),
            (0x60, Some(0), false)
        );
        let v229 = init(
            "[Rank 5] ncclCommInitRank comm 0x1 rank 5 nranks 8 cudaDev 5 nvmlDev 5 busId 60 commId 0x2 - Init START",
        );
        assert_eq!(v229.rank, 5);
        let split = init(
            "ncclCommSplit comm 0x9 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 70 parent 0x7f splitCount 1 color 5 key 1- Init START",
        );
        assert_eq!(split.parent, Some((0x7f, Some(1), 5)));
        let v231 = init(
            "ncclCommSplit comm 0x9 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 70 commId 0x33 parent 0x7f childCount 1 color 5 key 1 - Init COMPLETE",
        );
        assert_eq!(
            (v231.comm_id, v231.parent, v231.complete),
            (Some(0x33), Some((0x7f, Some(1), 5)), true)
        );
    }

    #[test]
    fn environment_and_ends() {
        assert_eq!(
            parsed(b"NCCL_P2P_DISABLE set by environment to 1."),
            Some(Event::Env {
                name: b"NCCL_P2P_DISABLE",
                value: b"1"
            })
        );
        assert_eq!(
            parsed(b"NCCL_SOCKET_IFNAME set by environment to eth0.100"),
            Some(Event::Env {
                name: b"NCCL_SOCKET_IFNAME",
                value: b"eth0.100"
            })
        );
        assert_eq!(
            parsed(b"comm 0x46dfd350 rank 0 nranks 16 cudaDev 0 busId 60 - Destroy COMPLETE"),
            Some(Event::CommEnd {
                comm: 0x46df_d350,
                abort: false,
                complete: true
            })
        );
        assert_eq!(
            parsed(b"comm 0x3826df60 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0"),
            Some(Event::CommNodes {
                comm: 0x3826_df60,
                nodes: 1,
                local_ranks: 2
            })
        );
        assert_eq!(
            parsed(b"[Service thread] Connection closed by localRank 1"),
            Some(Event::PeerClosed { local: Some(1) })
        );
        assert_eq!(
            parsed(b"Check P2P Type isAllDirectP2p 0 directMode 0 isAllCudaP2p 1"),
            Some(Event::AllDirectP2p(false))
        );
    }
}

//! What the self-test itself concludes of a run that failed: which data was wrong, what could not be loaded,
//! where it stands still. It knows steps and answers that no log shows; the engine's finding stands beside it.

use std::collections::BTreeSet;

use super::check::{self, Differs};
use super::child::WRONG_MEMORY;
use super::outcome::{Fault, Outcome};
use super::protocol::Step;

/// Links that are named; more have a cause in common.
const LINKS: usize = 4;

/// A conclusion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conclusion {
    /// Its name, which never changes: `wrong-data`, `not-loaded`, `gpu-memory-wrong`, `stuck`.
    pub name: &'static str,
    /// In one sentence.
    pub title: String,
    /// The ranks it is about.
    pub ranks: Vec<u32>,
    /// The pairs of ranks, sender first, between which data was changed.
    pub links: Vec<(u32, u32)>,
    /// What to do.
    pub fix: String,
    /// False if it only stands in for a finding of the engine.
    pub certain: bool,
}

/// Concludes. `None` where there is nothing to add to the reason of the failure.
#[must_use]
pub fn conclude(outcome: &Outcome) -> Option<Conclusion> {
    if !outcome.wrong.is_empty() {
        return Some(wrong_data(outcome));
    }
    match &outcome.fault {
        Some(Fault::Failed {
            step: Step::Load,
            ranks,
            what,
            ..
        }) => Some(not_loaded(ranks, what)),
        Some(Fault::Failed { ranks, what, .. }) if what.starts_with(WRONG_MEMORY) => {
            Some(Conclusion {
                name: "gpu-memory-wrong",
                title: format!("{} alone, without NCCL, does not keep what is written to it", gpus(outcome, ranks)),
                ranks: ranks.clone(),
                links: Vec::new(),
                fix: "Take the GPU out of use. `nvidia-smi -q -d ECC,ROW_REMAPPER` and `dmesg | grep -i xid` \
                      show what it knows of it; `dcgmi diag -r 3` tests its memory."
                    .to_owned(),
                certain: true,
            })
        }
        // Whoever is stopped is told by the finding.
        Some(Fault::Stuck {
            step,
            ranks,
            stopped,
            ..
        }) if stopped.is_empty() => Some(stuck(outcome, *step, ranks)),
        _ => None,
    }
}

fn not_loaded(ranks: &[u32], what: &str) -> Conclusion {
    let driver = what.contains("libcuda");
    let (title, fix) = if driver {
        (
            "the driver's libcuda.so.1 is not where the loader looks",
            "Install the NVIDIA driver on the host; in a container start it with the GPUs (`--gpus all`, \
             NVIDIA_DRIVER_CAPABILITIES=compute,utility). `ldconfig -p | grep libcuda` shows what is there.",
        )
    } else {
        (
            "libnccl is missing, broken, or needs something that is not here",
            "Install one: `pip install nvidia-nccl-cu12` (-cu13 for CUDA 13). Or name a good one: --nccl PATH, \
             or its folder in LD_LIBRARY_PATH. `unhang doctor` lists every libnccl of this host.",
        )
    };
    Conclusion {
        name: "not-loaded",
        title: title.to_owned(),
        ranks: ranks.to_vec(),
        links: Vec::new(),
        fix: fix.to_owned(),
        certain: true,
    }
}

/// The first links in words: `0 to 1, 2 to 3 and more`.
pub(super) fn listed<'a>(
    links: impl IntoIterator<Item = &'a (u32, u32), IntoIter: ExactSizeIterator>,
    most: usize,
    between: &str,
) -> String {
    let links = links.into_iter();
    let more = if links.len() > most { " and more" } else { "" };
    let first: Vec<String> = links
        .take(most)
        .map(|(a, b)| format!("{a}{between}{b}"))
        .collect();
    first.join(", ") + more
}

/// Who got wrong data, and from whom, as far as the checks tell.
fn wrong_data(outcome: &Outcome) -> Conclusion {
    let ranks: BTreeSet<u32> = outcome.wrong.iter().map(|wrong| wrong.1).collect();
    let ranks: Vec<u32> = ranks.into_iter().collect();
    let sender = |(name, rank, wrong): &(String, u32, Differs)| {
        let from = check::sender(name, *rank, outcome.world, wrong.element)?;
        (from != *rank).then_some((from, *rank))
    };
    let mut links: BTreeSet<(u32, u32)> = outcome.wrong.iter().filter_map(sender).collect();
    let direct_is_right = outcome.right.iter().any(|name| check::is_direct(name));
    // Two ranks have one link.
    if links.is_empty() && !direct_is_right && outcome.world == 2 {
        links.extend(ranks.iter().map(|rank| (1 - rank.min(&1), *rank)));
    }
    let title = if let Some((from, to)) = links.first().filter(|_| links.len() == 1) {
        let (from, to) = (*from, *to);
        format!(
            "data is changed on the link from rank {from} to rank {to}{}{}",
            between(outcome, from, to),
            way(outcome, from, to)
        )
    } else if !links.is_empty() {
        let common = common(&links).map(|rank| {
            format!(
                ", all of them with rank {rank} ({})",
                gpus(outcome, &[rank])
            )
        });
        format!(
            "data is changed on the links from rank {}{}",
            listed(&links, LINKS, " to "),
            common.unwrap_or_default()
        )
    } else if direct_is_right && ranks.len() == 1 && outcome.world > 1 {
        format!(
            "rank {} alone has wrong results ({}), and what is only passed on arrives right: it computes or keeps \
             them wrongly",
            ranks[0],
            gpus(outcome, &ranks)
        )
    } else if direct_is_right {
        format!(
            "{} have wrong results, and what is only passed on arrives right: one of the GPUs computes wrongly and \
             hands its error on",
            named(&ranks)
        )
    } else {
        format!(
            "{} got wrong data{}, and no check tells from whom",
            named(&ranks),
            if outcome.paths.is_empty() {
                String::new()
            } else {
                format!(" over {}", outcome.paths.join(", "))
            }
        )
    };
    let direct = outcome.paths.iter().any(|path| path.starts_with("P2P"));
    let cause = if direct {
        "Between GPUs of one host, IOMMU or ACS (`unhang doctor`) and a bad NVLink (`nvidia-smi nvlink -e`) change \
         data; --ab NCCL_P2P_DISABLE=1 tells whether it is the direct path."
    } else {
        "`nvidia-smi -q -d ECC,ROW_REMAPPER` and `dmesg | grep -i xid` on the host; --transports tells whether it is \
         one kind of path."
    };
    Conclusion {
        name: "wrong-data",
        title,
        ranks,
        links: links.into_iter().collect(),
        fix: format!(
            "Train on nothing until it is found: results are wrong and no error is raised. --pairs names the GPU or \
             link where there are more than two. {cause}"
        ),
        certain: true,
    }
}

/// The one rank that all links have in common.
fn common(links: &BTreeSet<(u32, u32)>) -> Option<u32> {
    let mut all = links.iter().map(|(a, b)| BTreeSet::from([*a, *b]));
    let first = all.next()?;
    let shared = all.fold(first, |shared, link| &shared & &link);
    let mut shared = shared.into_iter();
    shared.next().filter(|_| shared.next().is_none())
}

fn device(outcome: &Outcome, rank: u32) -> Option<u32> {
    let mut ranks = outcome.ranks.iter();
    ranks.find(|r| r.rank == rank).map(|rank| rank.device)
}

/// ` (GPU 0 to GPU 1)`, where the ranks have different ones.
fn between(outcome: &Outcome, from: u32, to: u32) -> String {
    match (device(outcome, from), device(outcome, to)) {
        (Some(a), Some(b)) if a != b => format!(" (GPU {a} to GPU {b})"),
        (Some(a), Some(_)) => format!(" (both on GPU {a})"),
        _ => String::new(),
    }
}

/// `, over NET/Socket`
fn way(outcome: &Outcome, from: u32, to: u32) -> String {
    let of_link = outcome
        .hops
        .iter()
        .filter(|hop| (hop.from, hop.to) == (from, to));
    let ways: BTreeSet<&str> = of_link.map(|hop| hop.way.as_str()).collect();
    let ways: Vec<&str> = ways.into_iter().collect();
    if ways.is_empty() {
        return String::new();
    }
    format!(", over {}", ways.join(", "))
}

/// `GPU 0`, `GPUs 0, 2`
fn gpus(outcome: &Outcome, ranks: &[u32]) -> String {
    let devices: BTreeSet<u32> = ranks.iter().filter_map(|r| device(outcome, *r)).collect();
    let devices: Vec<String> = devices.iter().map(u32::to_string).collect();
    let noun = if devices.len() == 1 { "GPU" } else { "GPUs" };
    format!("{noun} {}", devices.join(", "))
}

fn named(ranks: &[u32]) -> String {
    let list: Vec<String> = ranks.iter().map(u32::to_string).collect();
    let noun = if list.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", list.join(", "))
}

/// What a step waits for, and where to look.
fn stuck(outcome: &Outcome, step: Step, ranks: &[u32]) -> Conclusion {
    let all = ranks.len() == outcome.world as usize;
    let (title, fix) = match step {
        Step::Load => (
            "loading a library does not end, before any GPU or other rank is asked".to_owned(),
            "A file system that does not answer holds whoever reads from it: try `cat` on the library. --nccl PATH \
             names a copy on a local disk.",
        ),
        Step::Device => (
            format!(
                "the driver or {} does not answer, and no other rank is involved yet",
                gpus(outcome, ranks)
            ),
            "`dmesg | grep -i xid` and `nvidia-smi` (does it hang too?) on the host. A GPU that does not come back \
             needs a reset or a reboot; until then leave it out: --gpus.",
        ),
        Step::UniqueId if ranks.contains(&0) => (
            "rank 0 does not get as far as its own address: NCCL looks for interfaces and network plugins there"
                .to_owned(),
            "The last line of rank 0's log says what it looked at. --env NCCL_NET_PLUGIN=none leaves the plugin out, \
             --env NCCL_SOCKET_IFNAME=NAME chooses the interface.",
        ),
        Step::UniqueId => (
            "the unique id of rank 0 does not reach the others".to_owned(),
            "Rank 0's process made it: look at its output.",
        ),
        Step::Init if all => (
            "all ranks came, and the communicator does not stand: they cannot reach each other, or one of them \
             hangs in it"
                .to_owned(),
            "`unhang selftest --dry-run` tests names, ports and firewalls on the interface that NCCL takes; --env \
             NCCL_SOCKET_IFNAME=NAME chooses another.",
        ),
        Step::First if all => (
            "the communicator stands, and the first collective does not end: its connections are made there"
                .to_owned(),
            "--transports tells whether it is P2P, shared memory or the network; --ab NCCL_P2P_DISABLE=1 proves the \
             first.",
        ),
        Step::Init | Step::First => (
            "the others wait for what does not return there".to_owned(),
            "Look at what it does: `gdb -p PID -batch -ex 'thread apply all bt'` while it hangs (--timeout makes time \
             for it).",
        ),
        Step::Correctness | Step::Bandwidth => (
            "the first collective worked, and a later one does not end".to_owned(),
            "`dmesg | grep -i xid` and the error counters of NVLinks (`nvidia-smi nvlink -e`) and network ports on \
             the host; --transports tells which kind of path it is.",
        ),
        Step::Destroy => (
            "every result was right; only the end of the communicator hangs".to_owned(),
            "A job that ends its process without ncclCommDestroy is not held by it. Another NCCL may do better: --nccl \
             PATH.",
        ),
    };
    Conclusion {
        name: "stuck",
        title,
        ranks: ranks.to_vec(),
        links: Vec::new(),
        fix: fix.to_owned(),
        certain: step <= Step::UniqueId,
    }
}

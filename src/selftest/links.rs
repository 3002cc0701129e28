//! What the links between the GPUs can carry, and whether a measured bandwidth is what to expect of them.
//!
//! The yardstick is what these GPUs say of their own links, never one fixed number; figures that others
//! published for the same model and count stand beside it.

use std::collections::BTreeSet;

use super::outcome::Outcome;
use super::plan::Op;
use crate::engine::gpu::{Gpu, GpuSample, Link, P2p, Pcie};
use crate::engine::snapshot::Snapshot;

/// Smaller messages do not fill the links.
const FILLS: u64 = 64 << 20;
/// Busbw over NVLink is four fifths of the line rate at best, unless the switch adds (a 128 byte payload a
/// packet; nccl-tests issues 149 and 212), and 0.68 of it for two H200 (324 to 330 of 478 GB/s). Less
/// than this share is worth a look.
const NVLINK_SHARE: f64 = 0.6;
/// GPUs behind one bridge or switch share it, so that less can be asked of PCI Express.
const PCIE_SHARE: f64 = 0.35;

/// How the ranks reached each other, by NCCL's own log; the worst of several counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Directly, over NVLink.
    NvLink,
    /// Directly, over PCI Express.
    Pcie,
    /// Through shared memory of the host.
    Shm,
    /// Through the network.
    Net,
}

impl Way {
    /// In JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NvLink => "nvlink",
            Self::Pcie => "pcie",
            Self::Shm => "shm",
            Self::Net => "net",
        }
    }

    /// In words, after "over".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::NvLink => "NVLink",
            Self::Pcie => "PCI Express, GPU to GPU",
            Self::Shm => "shared memory of the host (SHM)",
            Self::Net => "the network (NET)",
        }
    }
}

/// What to think of a bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// What these links give.
    AsExpected,
    /// Less than what these links give.
    Low,
    /// These GPUs could talk directly and do not.
    WorsePath,
    /// Nothing to compare with.
    Unknown,
}

impl Standing {
    /// In JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AsExpected => "as-expected",
            Self::Low => "low",
            Self::WorsePath => "worse-path",
            Self::Unknown => "unknown",
        }
    }
}

/// A figure that somebody published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Part of the name that the driver gives the GPU.
    model: &'static str,
    /// GPUs of one host.
    pub gpus: u32,
    /// Busbw of a large all-reduce, in GB/s: lowest and highest.
    pub busbw: (u32, u32),
    /// Where it stands.
    pub source: &'static str,
}

/// The lower figure is the ring's, the higher one that of NVLink SHARP (NVLS), where both are known.
const PUBLISHED: [Published; 6] = [
    published("A100-SXM4", 8, (230, 233), "nccl-tests issues 149, 175"),
    published("A100-SXM4", 2, (208, 208), "nccl-tests issue 178"),
    published("H100 PCIe", 2, (115, 116), "nccl-tests issue 194"),
    published("H100 80GB HBM3", 8, (370, 480), "nccl-tests issue 212"),
    published("H200", 8, (370, 475), "nccl-tests issues 212, 272"),
    published("H200", 2, (324, 330), "nccl-tests, NCCL 2.28.9, NVLS off"),
];

const fn published(
    model: &'static str,
    gpus: u32,
    busbw: (u32, u32),
    source: &'static str,
) -> Published {
    Published {
        model,
        gpus,
        busbw,
        source,
    }
}

/// A measured bandwidth beside what the links can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Bytes of the message.
    pub bytes: u64,
    /// Busbw of the all-reduce, bytes a second.
    pub busbw: f64,
    /// The path it took.
    pub way: Way,
    /// What the links of the weakest GPU carry in one direction, bytes a second; for a path through the
    /// host or the network, what its direct links would.
    pub line: Option<f64>,
    /// Those links: how many, and of what.
    pub links: Option<String>,
    /// GPUs, and their name if they are alike.
    pub gpus: (usize, Option<String>),
    /// What to think of it.
    pub standing: Standing,
    /// The setting that keeps the GPUs apart, `NCCL_P2P_DISABLE=1`.
    pub because: Option<String>,
    /// What others measured.
    pub published: Option<Published>,
}

/// Judges the all-reduce of a run between different GPUs of one host. `None` if there is nothing to judge:
/// a small message, ranks that share a GPU, several hosts, or a path that NCCL did not tell.
#[must_use]
pub fn judge(outcome: &Outcome) -> Option<Judged> {
    let snapshot = outcome.diagnosis.as_deref()?;
    let (bytes, busbw) = outcome.best(Op::AllReduce).filter(|b| b.0 >= FILLS)?;
    let hosts: BTreeSet<_> = snapshot.job.ranks.iter().map(|r| &r.host).collect();
    let devices: BTreeSet<u32> = outcome.ranks.iter().map(|rank| rank.device).collect();
    let world = outcome.world as usize;
    if hosts.len() != 1 || devices.len() != world || world < 2 {
        return None;
    }
    let gpus = gpus_of(snapshot).filter(|gpus| gpus.len() == world);
    let gpus = gpus.unwrap_or_default();
    let nvlinks: Option<Vec<Vec<&Link>>> = gpus.iter().map(|gpu| links_up(gpu)).collect();
    let nvlinks = nvlinks.filter(|all| !all.is_empty() && all.iter().all(|l| !l.is_empty()));
    let way = way(&outcome.paths, nvlinks.is_some())?;
    let (line, links) = match (&nvlinks, way) {
        (Some(all), _) => over_nvlink(all),
        (None, _) => over_pcie(&gpus),
    };
    let names: BTreeSet<&str> = gpus.iter().filter_map(|gpu| gpu.name.as_deref()).collect();
    let name = (names.len() == 1).then(|| names.first().copied()).flatten();
    let published = name
        .filter(|_| way <= Way::Pcie)
        .and_then(|name| of_model(name, outcome.world));
    let direct = nvlinks.is_some() || can_reach(snapshot, &gpus);
    let standing = match (way, line) {
        (Way::Shm | Way::Net, _) if direct => Standing::WorsePath,
        (Way::Shm | Way::Net, _) | (_, None) => Standing::Unknown,
        (Way::NvLink, Some(line)) => enough(busbw, line * NVLINK_SHARE, published),
        (Way::Pcie, Some(line)) => enough(busbw, line * PCIE_SHARE, None),
    };
    Some(Judged {
        bytes,
        busbw,
        way,
        line,
        links,
        gpus: (gpus.len().max(world), name.map(str::to_owned)),
        standing,
        because: because(snapshot, way),
        published,
    })
}

/// A figure within a tenth of a published one is as expected, whatever the links say.
fn enough(busbw: f64, least: f64, published: Option<Published>) -> Standing {
    let known = published.map(|p| f64::from(p.busbw.0) * 0.9e9);
    if busbw >= known.map_or(least, |known| known.min(least)) {
        Standing::AsExpected
    } else {
        Standing::Low
    }
}

/// The GPUs of the ranks, if all are known.
fn gpus_of(snapshot: &Snapshot) -> Option<Vec<&Gpu>> {
    let ranks = &snapshot.job.ranks;
    ranks.iter().map(|rank| snapshot.job.gpu_of(rank)).collect()
}

fn links_up(gpu: &Gpu) -> Option<Vec<&Link>> {
    let links = gpu.links.as_ref()?;
    Some(links.iter().filter(|link| link.up == Some(true)).collect())
}

/// `P2P/CUMEM`, `SHM/direct/direct`, `NET/Socket`: the slowest kind counts.
fn way(paths: &[String], nvlink: bool) -> Option<Way> {
    let kind = |path: &String| match path.split('/').next()? {
        "P2P" if nvlink => Some(Way::NvLink),
        "P2P" => Some(Way::Pcie),
        "SHM" => Some(Way::Shm),
        "NET" | "COLLNET" => Some(Way::Net),
        _ => None,
    };
    paths.iter().filter_map(kind).max()
}

fn over_nvlink(all: &[Vec<&Link>]) -> (Option<f64>, Option<String>) {
    let rate = |links: &[&Link]| links.iter().map(|l| l.mbps).sum::<Option<u32>>();
    let weakest = all.iter().min_by_key(|links| (rate(links), links.len()));
    let Some(links) = weakest else {
        return (None, None);
    };
    let line = rate(links).map(|mbps| f64::from(mbps) * 1e6);
    let each = links.first().and_then(|link| link.mbps);
    let each = each.map(|mbps| format!(" of {:.1} GB/s", f64::from(mbps) / 1e3));
    let what = format!("{} NVLinks{}", links.len(), each.unwrap_or_default());
    (line, Some(what))
}

fn over_pcie(gpus: &[&Gpu]) -> (Option<f64>, Option<String>) {
    let of = |pcie: &Pcie| {
        let (generation, lanes) = (pcie.generation_max?, pcie.width_max?);
        // GB/s a lane and direction, by generation (PCI Express base specification).
        let rates = [0.25, 0.5, 0.985, 1.969, 3.938, 7.563];
        let rate = rates.get(usize::try_from(generation.checked_sub(1)?).ok()?)?;
        Some((
            rate * f64::from(lanes) * 1e9,
            format!("PCI Express {generation} x{lanes}"),
        ))
    };
    let all: Option<Vec<(f64, String)>> = gpus.iter().map(|gpu| of(&gpu.pcie)).collect();
    let weakest = all.into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0));
    weakest.map_or((None, None), |(rate, what)| (Some(rate), Some(what)))
}

/// Whether the driver says that all these GPUs reach each other's memory.
fn can_reach(snapshot: &Snapshot, gpus: &[&Gpu]) -> bool {
    let indices: BTreeSet<u32> = gpus.iter().map(|gpu| gpu.index).collect();
    let of = |sample: &GpuSample| {
        let mut pairs = sample
            .pairs
            .iter()
            .filter(|pair| indices.contains(&pair.a) && indices.contains(&pair.b))
            .peekable();
        pairs.peek().is_some()
            && pairs.all(|pair| pair.read == Some(P2p::Ok) && pair.write == Some(P2p::Ok))
    };
    let mut hosts = snapshot.job.gpus.iter();
    !gpus.is_empty() && hosts.any(|host| of(&host.sample))
}

/// The setting that makes NCCL take this path, as the ranks' logs show it.
fn because(snapshot: &Snapshot, way: Way) -> Option<String> {
    let off: &[&str] = match way {
        Way::NvLink | Way::Pcie => return None,
        Way::Shm => &["NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"],
        Way::Net => &["NCCL_SHM_DISABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"],
    };
    let set = |name: &&str| {
        let of_name = snapshot.job.env.iter().find(|env| env.name == **name)?;
        let (value, _) = of_name.values.iter().find(|(value, _)| value != "0")?;
        Some(format!("{name}={value}"))
    };
    let set: Vec<String> = off.iter().filter_map(set).collect();
    (!set.is_empty()).then(|| set.join(" and "))
}

fn of_model(name: &str, gpus: u32) -> Option<Published> {
    let mut known = PUBLISHED.iter();
    known
        .find(|p| p.gpus == gpus && name.contains(p.model))
        .copied()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::outcome::{RankOutcome, Timed};
    use super::*;
    use crate::engine::catalog::Catalog;
    use crate::engine::gpu::Pair;
    use crate::engine::input::Input;
    use crate::engine::{Engine, Options};

    /// Two ranks, each on a GPU of its own, whose largest all-reduce reached this busbw (GB/s).
    fn run(gpu: &Gpu, path: &str, gigabytes: f64, env: &[(&str, &str)]) -> Outcome {
        pair_run(gpu, Vec::new(), path, gigabytes, env)
    }

    fn pair_run(
        gpu: &Gpu,
        pairs: Vec<Pair>,
        path: &str,
        gigabytes: f64,
        env: &[(&str, &str)],
    ) -> Outcome {
        let mut engine = Engine::new(Catalog::builtin(), Options::default());
        for rank in 0..2 {
            let said = format!("node-0:{}:{} [{rank}] NCCL INFO", 100 + rank, 110 + rank);
            let mut log = String::new();
            for (name, value) in env {
                log += &format!("{said} {name} set by environment to {value}.\n");
            }
            for end in ["START", "COMPLETE"] {
                log += &format!(
                    "{said} ncclCommInitRank comm 0x{rank}a rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} \
                     busId {}8000 commId 0xabc - Init {end}\n",
                    rank + 1
                );
            }
            engine.read_log(rank, &log);
        }
        let gpu = |index| Gpu {
            index,
            bus_id: Some(format!("00000000:{}8:00.0", index + 1)),
            ..gpu.clone()
        };
        let sample = GpuSample {
            gpus: (0..2).map(gpu).collect(),
            pairs,
            ..GpuSample::default()
        };
        let host = "node-0".to_owned();
        let sample = Box::new(sample);
        engine.handle(None, Input::Gpu { host, sample });
        let rank = |rank| RankOutcome {
            rank,
            device: rank,
            pid: 100 + rank,
            done: Vec::new(),
            in_step: None,
            failed: None,
            state: None,
            ended: None,
            facts: Default::default(),
            noise: 0,
            finished: true,
        };
        let bytes: u32 = 256 << 20;
        Outcome {
            world: 2,
            ranks: (0..2).map(rank).collect(),
            right: Default::default(),
            wrong: Vec::new(),
            timed: vec![Timed {
                op: Op::AllReduce,
                bytes: u64::from(bytes),
                seconds: f64::from(bytes) / (gigabytes * 1e9),
                chosen: None,
            }],
            fault: None,
            took: Duration::from_secs(1),
            paths: vec![path.to_owned()],
            hops: Vec::new(),
            diagnosis: Some(Box::new(engine.snapshot())),
            logs: None,
        }
    }

    fn h200() -> Gpu {
        let link = |link| Link {
            link,
            up: Some(true),
            mbps: Some(26_562),
            ..Link::default()
        };
        Gpu {
            name: Some("NVIDIA H200".to_owned()),
            links: Some((0..18).map(link).collect()),
            ..Gpu::default()
        }
    }

    fn bridge() -> Gpu {
        Gpu {
            name: Some("NVIDIA GeForce RTX 4090".to_owned()),
            links: Some(Vec::new()),
            pcie: Pcie {
                generation: Some(1),
                generation_max: Some(4),
                width_max: Some(16),
                ..Pcie::default()
            },
            ..Gpu::default()
        }
    }

    #[test]
    fn nvlink_is_measured_against_its_own_links() {
        let judged = judge(&run(&h200(), "P2P/CUMEM", 327.0, &[])).expect("a judgement");
        assert_eq!(judged.way, Way::NvLink);
        assert_eq!(judged.standing, Standing::AsExpected);
        assert_eq!(judged.line.map(|l| (l / 1e9).round()), Some(478.0));
        assert_eq!(judged.links.as_deref(), Some("18 NVLinks of 26.6 GB/s"));
        assert_eq!(judged.published.map(|p| p.busbw), Some((324, 330)));
        let slow = judge(&run(&h200(), "P2P/CUMEM", 150.0, &[])).expect("a judgement");
        assert_eq!(slow.standing, Standing::Low);
        // Half of the links: less is expected of it.
        let mut half = h200();
        half.name = None;
        if let Some(links) = &mut half.links {
            links.iter_mut().step_by(2).for_each(|l| l.up = Some(false));
        }
        let judged = judge(&run(&half, "P2P/CUMEM", 150.0, &[])).expect("a judgement");
        assert_eq!(judged.standing, Standing::AsExpected);
    }

    #[test]
    fn a_worse_path_names_the_setting() {
        let off = [("NCCL_P2P_DISABLE", "1")];
        let judged = judge(&run(&h200(), "SHM/direct/direct", 27.0, &off)).expect("a judgement");
        assert_eq!(judged.way, Way::Shm);
        assert_eq!(judged.standing, Standing::WorsePath);
        assert_eq!(judged.because.as_deref(), Some("NCCL_P2P_DISABLE=1"));
        let on = [("NCCL_P2P_DISABLE", "0")];
        let judged = judge(&run(&h200(), "SHM/direct/direct", 27.0, &on)).expect("a judgement");
        assert_eq!(judged.because, None);
    }

    #[test]
    fn gpus_without_a_direct_path_are_not_blamed() {
        let with = |read| {
            let pair = Pair {
                a: 0,
                b: 1,
                read: Some(read),
                write: Some(read),
                ..Pair::default()
            };
            let run = pair_run(&bridge(), vec![pair], "SHM/direct/direct", 10.0, &[]);
            judge(&run).expect("a judgement").standing
        };
        assert_eq!(with(P2p::Chipset), Standing::Unknown);
        assert_eq!(with(P2p::Ok), Standing::WorsePath);
    }

    #[test]
    fn pcie_counts_its_lanes_at_their_best() {
        let judged = judge(&run(&bridge(), "P2P/direct pointer", 20.0, &[])).expect("a judgement");
        assert_eq!(judged.way, Way::Pcie);
        assert_eq!(judged.links.as_deref(), Some("PCI Express 4 x16"));
        assert_eq!(judged.standing, Standing::AsExpected);
        let judged = judge(&run(&bridge(), "P2P/direct pointer", 5.0, &[])).expect("a judgement");
        assert_eq!(judged.standing, Standing::Low);
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured() {
        let mut shared = run(&h200(), "NET/Socket", 3.0, &[]);
        shared.ranks[1].device = 0;
        assert_eq!(judge(&shared), None);
        let mut small = run(&h200(), "P2P/CUMEM", 3.0, &[]);
        small.timed[0].bytes = 1 << 20;
        assert_eq!(judge(&small), None);
        let silent = run(&Gpu::default(), "P2P/CUMEM", 100.0, &[]);
        assert_eq!(judge(&silent).map(|j| j.standing), Some(Standing::Unknown));
    }
}

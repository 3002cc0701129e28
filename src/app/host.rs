//! Looks at this host's GPUs and at the job's processes on it while a job is watched, and at the GPUs
//! once for a report.
//!
//! **Architecture invariant:** GPUs and processes are only asked, and the driver is never waited for
//! by anything but the GPUs' own threads.

use std::time::{Duration, Instant};

use super::clock::Clock;
use super::engine_thread::{Msg, Sender};
use super::lines::Lines;
use crate::engine::gpu::GpuSample;
use crate::engine::ids::SourceId;
use crate::engine::input::{Input, SourceInfo, SourceKind};
use crate::engine::snapshot::Snapshot;
use crate::probe::gpu::{NoGpus, Sampler};
use crate::probe::kernel_log::{About, KernelLog, Message};
use crate::probe::process::Looker;
use crate::sources::record::{self as source, Record};

/// Between two samples.
const EVERY: Duration = Duration::from_secs(1);
/// The end of a watch is noticed within this time.
const NAP: Duration = Duration::from_millis(100);
/// A report waits this long for GPUs that answer slowly.
const PATIENCE: Duration = Duration::from_secs(15);
/// Processes of one host that are looked at.
const PROCESSES: usize = 1_024;

/// The name of this host, as far as it goes before the first dot.
#[must_use]
pub fn here() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    short(&name.to_string_lossy())
}

/// A host's name as it is compared: up to the first dot, in small letters.
pub(super) fn short(name: &str) -> String {
    name.split('.').next().unwrap_or(name).to_ascii_lowercase()
}

/// The name under which the job's logs know this host, if it has ranks here.
fn as_printed(snapshot: &Snapshot, here: &str) -> Option<String> {
    let mut hosts = snapshot.job.ranks.iter().filter_map(|r| r.host.as_deref());
    hosts.find(|host| short(host) == here).map(str::to_owned)
}

/// One sample of this host's GPUs, under the name that the job's logs have for it.
///
/// # Errors
/// If there are none to ask.
pub fn gpus_once(snapshot: &Snapshot) -> Result<(String, GpuSample), NoGpus> {
    let here = here();
    let host = as_printed(snapshot, &here).unwrap_or(here);
    Ok((host, Sampler::once(PATIENCE)?))
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Processes and GPUs.
    Everything,
    /// Processes alone.
    Processes,
}

/// Looks again and again until the watch ends.
pub(crate) fn poll(what: What, kernel: SourceId, sender: &Sender, lines: &Lines, clock: Clock) {
    let here = here();
    let mut host = None;
    let mut gpus = Gpus::Unasked;
    let mut looker = Looker::default();
    let mut kernel = Kernel::new(kernel);
    let mut next = Instant::now();
    loop {
        // Short naps, so that the end of the watch is not waited for.
        std::thread::sleep(NAP);
        if sender.shared.is_shut_down() {
            return;
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + EVERY;
        let snapshot = sender.shared.snapshot();
        if host.is_none() {
            host = as_printed(&snapshot, &here);
        }
        let Some(host) = &host else { continue };
        let tell = |what| {
            sender.send(Msg::Record(Record {
                seen: Some(clock.now()),
                what,
            }))
        };
        let send = |input| tell(source::What::Other(input));
        for input in processes(&mut looker, &snapshot, host, lines) {
            send(input);
        }
        for what in kernel.news(&looker, &snapshot, host) {
            tell(what);
        }
        if what == What::Everything
            && let Some(sample) = gpus.sample(&mut |why| {
                sender.shared.edit_status(|status| {
                    status.no_gpus = Some(why);
                    true
                });
            })
        {
            let (host, sample) = (host.clone(), Box::new(sample));
            send(Input::Gpu { host, sample });
        }
    }
}

/// The GPUs, once somebody wants to know.
enum Gpus {
    Unasked,
    /// A host without GPUs is news to whoever asks for them, and no finding.
    None,
    Sampled(Sampler),
}

impl Gpus {
    /// What they show; `tell` hears once why there is nothing to look at.
    fn sample(&mut self, tell: &mut dyn FnMut(String)) -> Option<GpuSample> {
        if matches!(self, Self::Unasked) {
            *self = match Sampler::start() {
                Ok(sampler) => Self::Sampled(sampler),
                Err(why) => {
                    tell(why.to_string());
                    Self::None
                }
            };
        }
        let Self::Sampled(sampler) = self else {
            return None;
        };
        let sample = sampler.sample();
        (!sample.gpus.is_empty()).then_some(sample)
    }
}

/// The kernel log, told like a log of the job once it says something of its processes or GPUs.
struct Kernel {
    log: Option<KernelLog>,
    source: SourceId,
    /// Bytes told; `None` before the first.
    told: Option<u64>,
}

impl Kernel {
    fn new(source: SourceId) -> Self {
        Self {
            log: None,
            source,
            told: None,
        }
    }

    /// What is new and concerns the job: not what was before it, nor what is of others.
    fn news(&mut self, looker: &Looker, snapshot: &Snapshot, host: &str) -> Vec<source::What> {
        let Some(first) = looker.first_started() else {
            return Vec::new();
        };
        if self.log.is_none() {
            self.log = KernelLog::open();
        }
        let Some(log) = &mut self.log else {
            return Vec::new();
        };
        let ours = |message: &Message| match &message.about {
            About::Killed(pid) => looker.started(*pid).is_some_and(|from| message.at > from),
            About::Gpu(bus) => message.at > first && is_ours(snapshot, host, bus),
        };
        let news: Vec<Message> = log.news().into_iter().filter(ours).collect();
        let mut out = Vec::new();
        for message in news {
            if self.told.is_none() {
                out.push(source::What::Other(Input::Source(SourceInfo {
                    id: self.source,
                    name: format!("kernel log of {host}"),
                    kind: SourceKind::Tail,
                    host: None,
                    pid: None,
                    rank: None,
                })));
            }
            let offset = self.told.unwrap_or(0);
            let chunk = format!("{}\n", message.text).into_bytes();
            self.told = Some(offset + chunk.len() as u64);
            out.push(source::What::Bytes {
                source: self.source,
                offset,
                chunk,
            });
        }
        out
    }
}

/// True if a rank of this host owns the GPU with this bus id (`0000:18:00`).
fn is_ours(snapshot: &Snapshot, host: &str, bus: &str) -> bool {
    let digits = |text: &str| {
        let hex: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        u64::from_str_radix(&hex, 16).ok()
    };
    // NCCL prints the function's digit as well, which the kernel leaves out.
    let Some(wanted) = digits(bus) else {
        return false;
    };
    let ranks = snapshot.job.ranks.iter();
    let mut here = ranks.filter(|rank| rank.host.as_deref() == Some(host));
    here.any(|rank| {
        let own = rank.bus_id.as_deref().and_then(digits);
        own.is_some_and(|own| own >> 4 == wanted)
    })
}

/// Looks at the job's processes on this host.
fn processes(
    looker: &mut Looker,
    snapshot: &Snapshot,
    host: &str,
    lines: &Lines,
) -> Vec<Input<'static>> {
    let ranks = snapshot.job.ranks.iter();
    let ranks = ranks.filter(|rank| rank.rank.is_some() && rank.host.as_deref() == Some(host));
    let pids: Vec<u32> = ranks.filter_map(|rank| rank.pid).take(PROCESSES).collect();
    let new = pids.iter().any(|pid| !looker.knows(*pid));
    let last_word = new.then(|| lines.last_word()).flatten();
    let inputs = pids.into_iter().filter_map(|pid| {
        let (state, load) = looker.look(pid, last_word)?;
        Some(Input::Process {
            host: host.to_owned(),
            pid,
            state,
            load,
        })
    });
    inputs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::Catalog;
    use crate::engine::{Engine, Options};

    #[test]
    fn a_message_is_ours_if_a_rank_owns_the_gpu() {
        let mut engine = Engine::new(Catalog::builtin(), Options::default());
        let info = SourceInfo {
            id: SourceId(0),
            name: "rank0.log".to_owned(),
            kind: SourceKind::File,
            host: None,
            pid: None,
            rank: None,
        };
        engine.handle(None, Input::Source(info));
        let chunk =
            b"node-0:7:7 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 1 cudaDev 0 \
            nvmlDev 0 busId 18000 commId 0x2 - Init START\n";
        let bytes = Input::Bytes {
            source: SourceId(0),
            offset: 0,
            chunk,
        };
        engine.handle(None, bytes);
        let snapshot = engine.snapshot();
        assert!(is_ours(&snapshot, "node-0", "0000:18:00"));
        assert!(!is_ours(&snapshot, "node-0", "0000:28:00"));
        assert!(!is_ours(&snapshot, "node-1", "0000:18:00"));
    }
}

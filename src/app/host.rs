//! Looks at this host's GPUs while a job with ranks on it is watched, and once for a report.
//!
//! **Architecture invariant:** the GPUs are only asked, and their driver is never waited for by
//! anything but their own threads.

use std::time::{Duration, Instant};

use super::clock::Clock;
use super::engine_thread::{Msg, Sender};
use crate::engine::gpu::GpuSample;
use crate::engine::input::Input;
use crate::engine::snapshot::Snapshot;
use crate::probe::gpu::{NoGpus, Sampler};
use crate::sources::record::{Record, What};

/// Between two samples.
const EVERY: Duration = Duration::from_secs(1);
/// The end of a watch is noticed within this time.
const NAP: Duration = Duration::from_millis(100);
/// A report waits this long for GPUs that answer slowly.
const PATIENCE: Duration = Duration::from_secs(15);

/// The name of this host, as far as it goes before the first dot.
#[must_use]
pub fn here() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    short(&name.to_string_lossy())
}

fn short(name: &str) -> String {
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
    let sampler = Sampler::start()?;
    sampler.wait_for_all(PATIENCE);
    let here = here();
    let host = as_printed(snapshot, &here).unwrap_or(here);
    Ok((host, sampler.sample()))
}

/// Looks again and again until the watch ends.
pub(crate) fn poll(sender: &Sender, clock: Clock) {
    let here = here();
    let mut host = None;
    let mut sampler = None;
    let mut told = false;
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
        if host.is_none() {
            host = as_printed(&sender.shared.snapshot(), &here);
        }
        let Some(host) = &host else { continue };
        if sampler.is_none() && !told {
            sampler = match Sampler::start() {
                Ok(started) => Some(started),
                // A host without GPUs is no news to anybody.
                Err(_) => {
                    told = true;
                    None
                }
            };
        }
        let Some(sampler) = &sampler else { continue };
        let sample = sampler.sample();
        if sample.gpus.is_empty() {
            continue;
        }
        sender.send(Msg::Record(Record {
            seen: Some(clock.now()),
            what: What::Other(Input::Gpu {
                host: host.clone(),
                sample: Box::new(sample),
            }),
        }));
    }
}

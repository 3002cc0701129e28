//! What the GPUs say of themselves, where ranks of the job run on them: lost, Xid errors, NVLinks, P2P,
//! the fabric, the PCIe link, and who else is there.
//!
//! Only GPUs that ranks own are looked at. A GPU without load says little: it lowers its clocks and its
//! PCIe link to save power, and so may one that waits.

mod links;
mod path;

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, Scene, ranges, wait};
use crate::engine::finding::Finding;
use crate::engine::gpu::{FabricState, Gpu, Trouble};
use crate::engine::job::HostGpus;
use crate::engine::vocab::{Confidence, Effect, Role};
use crate::engine::witness::Witness;
use crate::engine::xid::{self, Whose};

/// Adds what the GPUs show.
pub(super) fn detect(scene: &Scene<'_>, found: &mut Vec<Finding>) {
    if scene.job.gpus.hosts.is_empty() {
        return;
    }
    let cause = |f: &Finding| f.role == Role::Cause;
    if wait::end_was_seen(scene) && !found.iter().any(cause) {
        // The job ended and nothing was wrong: whatever its GPUs do now is not its matter.
        return;
    }
    for (host, gpus) in &scene.job.gpus.hosts {
        let here = Here::of(scene, host, gpus);
        for (gpu, ranks) in here.owned() {
            found.extend(lost(&here, gpu, ranks).or_else(|| faults(&here, gpu, ranks)));
            found.extend(of_the_program(&here, gpu, ranks));
            found.extend(links::down(&here, gpu, ranks));
            found.extend(links::slow(&here, gpu, ranks));
            found.extend(links::errors(&here, gpu, ranks));
            found.extend(path::bus(&here, gpu, ranks));
            found.extend(shared(&here, gpu, ranks));
            found.extend(full(&here, gpu, ranks));
        }
        found.extend(path::p2p(&here));
        found.extend(fabric(&here));
    }
}

/// The GPUs of one host, and whose they are.
struct Here<'a> {
    scene: &'a Scene<'a>,
    host: &'a str,
    gpus: &'a HostGpus,
    /// Ranks by index of the GPU that they own.
    owners: BTreeMap<u32, BTreeSet<u32>>,
    /// Ranks of the host whose GPU is not known.
    homeless: BTreeSet<u32>,
}

impl<'a> Here<'a> {
    fn of(scene: &'a Scene<'a>, host: &'a str, gpus: &'a HostGpus) -> Self {
        let mut here = Self {
            scene,
            host,
            gpus,
            owners: BTreeMap::new(),
            homeless: BTreeSet::new(),
        };
        for rec in &scene.ranks.ranks {
            if rec.host.as_deref() != Some(host) {
                continue;
            }
            match scene.job.gpu_of(rec) {
                Some((_, gpu)) => {
                    here.owners.entry(gpu.index).or_default().insert(rec.rank);
                }
                None => {
                    here.homeless.insert(rec.rank);
                }
            }
        }
        here
    }

    /// GPUs that ranks own.
    fn owned(&self) -> impl Iterator<Item = (&'a Gpu, &BTreeSet<u32>)> {
        let gpus = self.gpus.last.gpus.iter();
        gpus.filter_map(|gpu| Some((gpu, self.owners.get(&gpu.index)?)))
    }

    /// Begins a finding about a GPU and the ranks on it.
    fn draft(&self, rule: &str, gpu: &Gpu, ranks: &BTreeSet<u32>) -> Option<Draft<'a>> {
        let mut draft = self.begin(rule)?;
        draft
            .fact("gpu", name(gpu))
            .ranks(ranks.iter().copied())
            .accuse(ranks.iter().copied());
        Some(draft)
    }

    /// Begins a finding about the host's GPUs.
    fn begin(&self, rule: &str) -> Option<Draft<'a>> {
        let mut draft = Draft::new(self.scene, rule)?;
        draft.fact("host", self.host);
        let finding = draft.finding();
        finding.hosts.insert(self.host.to_owned());
        finding.witnesses = BTreeSet::from([Witness::Gpu]);
        Some(draft)
    }

    fn threshold(&self, rule: &str, name: &str) -> Option<f64> {
        let rule = self.scene.catalog.by_id(rule)?;
        self.scene.catalog.rule(rule).threshold(name)
    }
}

/// `3 (18:00.0)`: the domain is nearly always zero.
fn name(gpu: &Gpu) -> String {
    match gpu.bus_id.as_deref() {
        Some(bus) => {
            let short = bus.trim_start_matches("0000").trim_start_matches("0000");
            format!("{} ({})", gpu.index, short.trim_start_matches(':'))
        }
        None => gpu.index.to_string(),
    }
}

/// A GPU that gives no values any more.
fn lost(here: &Here<'_>, gpu: &Gpu, ranks: &BTreeSet<u32>) -> Option<Finding> {
    let past = here.gpus.past.get(&gpu.index)?;
    let (how, confidence) = match gpu.trouble.as_ref()? {
        Trouble::Lost => ("has fallen off the bus".to_owned(), Confidence::Certain),
        Trouble::ResetRequired => (
            "has to be reset before anything runs on it".to_owned(),
            Confidence::Certain,
        ),
        Trouble::Silent => (
            "is gone: the driver does not answer about it".to_owned(),
            Confidence::Likely,
        ),
        // It may never have been ours to ask.
        Trouble::Other(_) if past.well.is_none() => return None,
        Trouble::Other(why) => (
            format!("gives no values any more: {why}"),
            Confidence::Likely,
        ),
    };
    let mut draft = here.draft("GPU004", gpu, ranks)?;
    draft.fact("how", how).sure(confidence);
    let xids = xids(here, gpu, |_| true);
    if !xids.is_empty() {
        draft.fact("xids", in_words(&xids));
    }
    Some(draft.build())
}

/// Xid errors of a GPU, once each.
fn xids(here: &Here<'_>, gpu: &Gpu, wanted: impl Fn(Option<Whose>) -> bool) -> Vec<u64> {
    let of_gpu = here.gpus.xids.iter().filter(|seen| seen.gpu == gpu.index);
    let known = of_gpu.map(|seen| seen.xid);
    let mut numbers: Vec<u64> = known
        .filter(|number| wanted(xid::meaning(*number).map(|m| m.whose)))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn in_words(xids: &[u64]) -> String {
    let each = xids.iter().map(|number| match xid::meaning(*number) {
        Some(meaning) => format!("Xid {number}: {}", meaning.text),
        None => format!("Xid {number}"),
    });
    each.collect::<Vec<_>>().join("; ")
}

fn actions(xids: &[u64]) -> String {
    let mut actions: Vec<&str> = Vec::new();
    for meaning in xids.iter().filter_map(|number| xid::meaning(*number)) {
        if !actions.contains(&meaning.action) {
            actions.push(meaning.action);
        }
    }
    actions.join("; ")
}

/// Xid errors that point at the GPU.
fn faults(here: &Here<'_>, gpu: &Gpu, ranks: &BTreeSet<u32>) -> Option<Finding> {
    let faults = xids(here, gpu, |whose| whose == Some(Whose::Hardware));
    let notices = xids(here, gpu, |whose| {
        matches!(whose, Some(Whose::Notice) | None)
    });
    let (numbers, serious) = if faults.is_empty() {
        (notices, false)
    } else {
        (faults, true)
    };
    if numbers.is_empty() {
        return None;
    }
    let mut draft = here.draft("GPU005", gpu, ranks)?;
    draft
        .fact("xids", in_words(&numbers))
        .fact("action", actions(&numbers));
    if !serious {
        draft.note().finding().effect = Effect::None;
    }
    Some(draft.build())
}

/// Xid errors that a program causes.
fn of_the_program(here: &Here<'_>, gpu: &Gpu, ranks: &BTreeSet<u32>) -> Option<Finding> {
    let numbers = xids(here, gpu, |whose| whose == Some(Whose::Program));
    if numbers.is_empty() {
        return None;
    }
    let mut draft = here.draft("GPU006", gpu, ranks)?;
    draft
        .fact("xids", in_words(&numbers))
        .fact("action", actions(&numbers));
    Some(draft.build())
}

/// The GPUs have not registered with their NVSwitch fabric: CUDA answers with error 802.
fn fabric(here: &Here<'_>) -> Option<Finding> {
    let mut states: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for gpu in &here.gpus.last.gpus {
        let Some(fabric) = &gpu.fabric else { continue };
        let state = match (fabric.state, fabric.status) {
            (FabricState::NotStarted, _) => "has not begun to register".to_owned(),
            (FabricState::InProgress, _) => "still registers".to_owned(),
            (FabricState::Completed, Some(status)) if status != 0 => {
                format!("failed to register (NVML error {status})")
            }
            _ if fabric.healthy == Some(false) => "is unhealthy".to_owned(),
            _ => continue,
        };
        states.entry(state).or_default().push(gpu.index);
    }
    if states.is_empty() {
        return None;
    }
    let words = states
        .iter()
        .map(|(state, gpus)| format!("GPU {} {state}", ranges(gpus.iter().copied())));
    let words = words.collect::<Vec<_>>().join(", ");
    let mut draft = here.begin("GPU010")?;
    draft.fact("states", words);
    if here.homeless.is_empty() {
        // CUDA came up on every GPU of the job, so it did not wait for the fabric.
        draft
            .ranks(here.owners.values().flatten().copied())
            .note()
            .finding()
            .effect = Effect::None;
    } else {
        draft
            .ranks(here.homeless.iter().copied())
            .accuse(here.homeless.iter().copied());
    }
    Some(draft.build())
}

/// Somebody else computes on the GPU.
fn shared(here: &Here<'_>, gpu: &Gpu, ranks: &BTreeSet<u32>) -> Option<Finding> {
    let least = here.threshold("GPU012", "memory_mib")?;
    let ours: BTreeSet<u32> = here
        .scene
        .ranks
        .ranks
        .iter()
        .filter_map(|r| r.pid)
        .collect();
    let processes = gpu.processes.as_ref()?;
    // In a container the driver may name pids of the host: then nobody is known here.
    if !processes.iter().any(|p| ours.contains(&p.pid)) {
        return None;
    }
    let others = processes.iter().filter_map(|process| {
        let mib = process.memory? >> 20;
        #[expect(clippy::cast_precision_loss, reason = "a threshold")]
        let much = mib as f64 >= least;
        (much && !ours.contains(&process.pid)).then_some((process, mib))
    });
    let others: Vec<String> = others
        .map(|(process, mib)| match process.name.as_deref() {
            Some(name) => format!("{} {name} ({mib} MiB)", process.pid),
            None => format!("{} ({mib} MiB)", process.pid),
        })
        .collect();
    if others.is_empty() {
        return None;
    }
    let mut draft = here.draft("GPU012", gpu, ranks)?;
    draft.fact("others", others.join(", "));
    Some(draft.build())
}

/// Hardly any memory is free.
fn full(here: &Here<'_>, gpu: &Gpu, ranks: &BTreeSet<u32>) -> Option<Finding> {
    if gpu.memory_is_full() != Some(true) {
        return None;
    }
    let mut draft = here.draft("GPU013", gpu, ranks)?;
    let (used, total) = (gpu.memory_used?, gpu.memory_total?);
    draft
        .fact("used", (used >> 20).to_string())
        .fact("total", (total >> 20).to_string());
    Some(draft.build())
}

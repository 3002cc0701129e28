//! NVLinks that are down, slow, or count errors.

use std::collections::{BTreeMap, BTreeSet};

use super::{Here, ranges};
use crate::engine::finding::Finding;
use crate::engine::gpu::{Gpu, Link};

fn up(gpu: &Gpu) -> usize {
    let links = gpu.links.iter().flatten();
    links.filter(|link| link.up == Some(true)).count()
}

/// Links that were up before, or that are up on most GPUs of the same kind of this host. A GPU that
/// stands alone may have links that lead nowhere.
pub(super) fn down(here: &Here<'_>, gpu: &Gpu, ranks: &BTreeSet<u32>) -> Option<Finding> {
    let past = here.gpus.past.get(&gpu.index)?;
    let links = gpu.links.as_ref()?;
    let siblings = here.gpus.last.gpus.iter().filter(|other| {
        other.index != gpu.index && other.name == gpu.name && other.links.is_some()
    });
    let (more, all) = siblings.fold((0, 0), |(more, all), other| {
        (more + usize::from(up(other) > up(gpu)), all + 1)
    });
    let odd = more * 2 > all;
    let is_down = |link: &&Link| {
        let was_up = past.links.get(&link.link).is_some_and(|p| p.was_up);
        link.up == Some(false) && (was_up || odd)
    };
    let down: Vec<u32> = links.iter().filter(is_down).map(|l| l.link).collect();
    if down.is_empty() {
        return None;
    }
    let mut draft = here.draft("GPU007", gpu, ranks)?;
    draft
        .fact(
            "how",
            if down.len() == 1 {
                "is down"
            } else {
                "are down"
            },
        )
        .fact("links", noun(&down))
        .fact("up", up(gpu).to_string())
        .fact("of", links.len().to_string());
    Some(draft.build())
}

/// Links that run at a lower speed than most of the same version on this host.
pub(super) fn slow(here: &Here<'_>, gpu: &Gpu, ranks: &BTreeSet<u32>) -> Option<Finding> {
    let mut speeds: BTreeMap<(Option<u32>, u32), usize> = BTreeMap::new();
    for link in here
        .gpus
        .last
        .gpus
        .iter()
        .flat_map(|g| g.links.iter().flatten())
    {
        if let Some(mbps) = link.mbps {
            *speeds.entry((link.version, mbps)).or_default() += 1;
        }
    }
    // The speed of most of them; of two as frequent ones the lower, which accuses nobody.
    let usual = |version: Option<u32>| {
        let of_version = speeds.iter().filter(|((v, _), _)| *v == version);
        let most = of_version.max_by_key(|((_, mbps), n)| (**n, std::cmp::Reverse(*mbps)));
        most.map(|((_, mbps), _)| *mbps)
    };
    let links = gpu.links.iter().flatten();
    let slow = links.filter_map(|link| {
        let (mbps, usual) = (link.mbps?, usual(link.version)?);
        (mbps < usual).then_some((link.link, mbps, usual))
    });
    let slow: Vec<(u32, u32, u32)> = slow.collect();
    let (_, mbps, usual) = *slow.first()?;
    let numbers: Vec<u32> = slow.iter().map(|(link, ..)| *link).collect();
    let mut draft = here.draft("GPU007", gpu, ranks)?;
    let verb = if numbers.len() == 1 { "runs" } else { "run" };
    draft.fact("links", noun(&numbers)).fact(
        "how",
        format!("{verb} at {} instead of {}", speed(mbps), speed(usual)),
    );
    Some(draft.build())
}

/// Links whose errors grow while they are watched. A few are corrected on any link.
pub(super) fn errors(here: &Here<'_>, gpu: &Gpu, ranks: &BTreeSet<u32>) -> Option<Finding> {
    let past = here.gpus.past.get(&gpu.index)?;
    let growths = here.threshold("GPU008", "growths")?;
    let least = here.threshold("GPU008", "errors")?;
    let grown = past.links.iter().filter_map(|(link, seen)| {
        let new = seen.new_errors()?;
        #[expect(clippy::cast_precision_loss, reason = "a threshold")]
        let many = new as f64 >= least;
        (many && f64::from(seen.growths) >= growths).then_some((*link, new))
    });
    let grown: Vec<(u32, u64)> = grown.collect();
    if grown.is_empty() {
        return None;
    }
    let numbers: Vec<u32> = grown.iter().map(|(link, _)| *link).collect();
    let new: u64 = grown.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n));
    let mut draft = here.draft("GPU008", gpu, ranks)?;
    draft
        .fact("links", noun(&numbers))
        .fact("new", new.to_string())
        .fact("samples", here.gpus.samples.to_string());
    Some(draft.build())
}

fn noun(links: &[u32]) -> String {
    let noun = if links.len() == 1 {
        "NVLink"
    } else {
        "NVLinks"
    };
    format!("{noun} {}", ranges(links.iter().copied()))
}

fn speed(mbps: u32) -> String {
    format!("{}.{} GB/s", mbps / 1000, mbps % 1000 / 100)
}

//! Calls that were made as one: the sends and recvs of a batch, the parts of coalesced collectives.
//!
//! Such a part keeps the state that it was recorded with. Only the entry `coalesced` that closes the batch is timed
//! and let go of (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `pointToPoint` and `endCoalescing`, PyTorch 2.2
//! and later), so the parts stand where it stands.

use crate::engine::dump::{Common, Entry, Progress};

/// Hands the state of each batch to its parts. `entries` are in the order they were recorded. A closing entry whose
/// parts are all sends and recvs says nothing more then, and is left out.
pub(super) fn settle(common: &Common, entries: &mut Vec<Entry>) {
    let closes = |entry: &Entry| common.call(entry.call).name == "coalesced";
    let is_pair = |entry: &Entry| common.call(entry.call).peers.is_some();
    let mut left_out = vec![false; entries.len()];
    let mut closed = vec![false; entries.len()];
    for at in 0..entries.len() {
        let end = entries[at];
        if !closes(&end) {
            continue;
        }
        let parts = run(entries, at, end.group, &closes);
        let pairs = parts.first().is_some_and(|part| is_pair(&entries[*part]));
        let own = |part: &usize| number(&entries[*part]) == number(&end);
        // Up to 2.3 the closing entry of sends and recvs counts as a collective.
        if !(parts.first().is_some_and(own) || pairs && !end.is_p2p) {
            continue;
        }
        for part in parts {
            let entry = &mut entries[part];
            closed[part] = true;
            entry.progress = entry.progress.max(end.progress);
            entry.retired |= end.retired;
        }
        left_out[at] = pairs;
    }
    // A dump of the active calls alone: the closing entry of a batch that is through is not in it, its parts are.
    let gaps = entries
        .windows(2)
        .any(|pair| pair[1].record_id > pair[0].record_id.saturating_add(1));
    for at in (0..entries.len()).filter(|_| gaps) {
        let entry = entries[at];
        let open = is_pair(&entry) && entry.progress == Progress::Scheduled && !entry.retired;
        if !open || closed[at] {
            continue;
        }
        let next = entries.get(at + 1).map(|next| next.record_id);
        let followed = next == Some(entry.record_id.saturating_add(1));
        let parts = run(entries, at + 1, entry.group, &closes);
        // The last call of all, by itself, may be no batch.
        if !followed && (next.is_some() || parts.len() > 1) {
            for part in parts {
                left_out[part] = true;
            }
        }
    }
    let mut left_out = left_out.into_iter();
    entries.retain(|_| !left_out.next().unwrap_or(false));
}

/// The calls of a group in front of `before` that were made as one.
fn run(
    entries: &[Entry],
    before: usize,
    group: u32,
    closes: &impl Fn(&Entry) -> bool,
) -> Vec<usize> {
    let newest_first = (0..before).rev();
    let mut of_group = newest_first.filter(|at| entries[*at].group == group);
    let Some(last) = of_group.next().filter(|at| !closes(&entries[*at])) else {
        return Vec::new();
    };
    let same = |at: &usize| {
        let entry = &entries[*at];
        !closes(entry) && number(entry) == number(&entries[last])
    };
    let others = of_group.take_while(same);
    std::iter::once(last).chain(others).collect()
}

/// Calls that were made as one have one number.
fn number(entry: &Entry) -> (bool, u32) {
    let of = if entry.is_p2p {
        entry.p2p_seq
    } else {
        entry.seq
    };
    (entry.is_p2p, of)
}

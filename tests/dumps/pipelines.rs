//! Pipelines by send and recv: the wait is followed from stage to stage.

use super::synth::Dump;
use super::{ask, call, causes, lead, named, of_world, open, p2p};

/// Stages that hand on by send and recv. `dead` left no dump; what it was waited for in is open, and so is what
/// follows.
fn pipeline(ranks: u32, dead: Option<u32>) -> Vec<(String, Vec<u8>)> {
    let dump = |rank: u32| {
        let mut entries = vec![call(0, 1, "all_reduce", &[256])];
        let before = rank.checked_sub(1);
        let from = before.map(|peer| format!("recv {rank}<-{peer}"));
        let to = (rank + 1 < ranks).then(|| format!("send {rank}->{}", rank + 1));
        for (n, name) in (1..).zip(from.iter().chain(&to)) {
            entries.push(p2p(n, name, &[8]));
        }
        let n = entries.len() as u32;
        // The next of each: whoever takes from the dead one or gives to it stands there.
        match dead {
            Some(dead) if rank > dead => {
                let from = from.expect("not the first");
                entries.push(open(p2p(n, &from, &[8])));
            }
            Some(_) => entries.push(open(p2p(n, &to.unwrap_or_default(), &[8]))),
            // A pair that is made on both sides and stands; the others wait behind it.
            None => {
                let name = from.unwrap_or_else(|| "send 0->1".to_owned());
                entries.push(open(p2p(n, &name, &[8])));
            }
        }
        of_world(ranks, entries)
    };
    let dumps: Vec<Dump> = (0..ranks).map(dump).collect();
    let mut files = named(&dumps);
    if let Some(dead) = dead {
        files.remove(dead as usize);
    }
    files
}

#[test]
fn a_stage_that_left_no_dump_is_named_and_not_those_that_wait_for_it() {
    for (ranks, dead) in [(4, 0), (4, 1), (4, 2), (4, 3), (8, 3)] {
        let answer = ask(&pipeline(ranks, Some(dead)), true);
        assert_eq!(lead(&answer).id, "FR001", "{dead} of {ranks}");
        assert_eq!(answer.verdict.ranks, [dead]);
    }
}

#[test]
fn a_pair_that_stands_accuses_neither_side_nor_those_behind_it() {
    let answer = ask(&pipeline(4, None), true);
    assert_eq!(causes(&answer), ["FR008"]);
    assert!(answer.verdict.ranks.is_empty());
}

/// The last stage is done with its part and ahead of all others: they wait for the one that is dead.
#[test]
fn who_is_ahead_of_ranks_that_wait_elsewhere_is_not_at_fault() {
    let dumps: Vec<(String, Vec<u8>)> = pipeline(4, Some(1))
        .into_iter()
        .filter(|(name, _)| !name.contains("_3"))
        .collect();
    let mut last = vec![call(0, 1, "all_reduce", &[256])];
    last.push(p2p(1, "recv 3<-2", &[8]));
    last.push(open(call(0, 2, "all_reduce", &[256])));
    let (name, bytes) = named(&[of_world(4, last)]).remove(0);
    let all = [dumps, vec![(name.replace("_0", "_3"), bytes)]].concat();
    let answer = ask(&all, true);
    assert!(!answer.verdict.ranks.contains(&3), "{:?}", answer.verdict);
    let accused = answer.findings.iter().flat_map(|f| &f.accused);
    assert!(
        accused.into_iter().all(|rank| *rank == 1),
        "{:?}",
        answer.verdict
    );
}

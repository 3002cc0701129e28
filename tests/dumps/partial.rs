//! Dumps that end before they should, and calls that tell apart what used to print alike.

use std::fs;
use std::io::Write as _;

use unhang::app::report;
use unhang::engine::catalog::Catalog;
use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::{Class, Role, State};
use unhang::engine::{Engine, Options};

use super::synth::{Dump, Entry};
use super::{ask, call, causes, equal, group, lead, named, of_world, open, stuck, world};

/// How many bytes the first `calls` calls of a dump take.
fn bytes_of(dump: &Dump, calls: usize) -> usize {
    let whole = dump.pickle();
    let at = |dump: &Dump, len: usize| {
        let read = unhang::engine::dump::read(&whole[..len], &mut Default::default());
        read.is_ok_and(|read| read.entries.len() >= dump.entries.len().min(calls))
    };
    (0..whole.len()).find(|len| at(dump, *len)).unwrap()
}

fn titles(answer: &Snapshot, id: &str) -> Vec<String> {
    let of = answer.findings.iter().filter(|f| f.id == id);
    of.map(|f| f.title.clone()).collect()
}

#[test]
fn the_calls_in_front_of_a_cut_count() {
    // Rank 3 differs in the fifth call of 20; its dump is cut behind the sixth.
    let mut dumps = equal(8, 20);
    dumps[3].entries[19].datatype = "Double";
    dumps[3].entries[4].datatype = "Half";
    let mut files = named(&dumps);
    files[3].1.truncate(bytes_of(&dumps[3], 6));
    let answer = ask(&files, false);
    assert_eq!(causes(&answer), ["COLL004"], "the others went on");
    assert_eq!(answer.verdict.ranks, [3], "{}", answer.verdict.summary);
    let notes = titles(&answer, "FR004");
    assert!(
        notes[0].starts_with("fr_rank_3: only its first 6 calls were read: it is cut off after"),
        "{notes:?}"
    );
}

#[test]
fn absence_behind_a_cut_proves_nothing() {
    for calls in [1, 3, 4] {
        let dumps = equal(8, 5);
        let mut files = named(&dumps);
        files[3].1.truncate(bytes_of(&dumps[3], calls));
        let answer = ask(&files, true);
        assert_eq!(causes(&answer), ["FR009"], "{calls}");
        assert_eq!(answer.verdict.state, State::Hung);
        assert!(answer.verdict.ranks.is_empty());
        assert_eq!(
            answer.verdict.summary,
            "ranks 0-2, 4-7 wait in all_reduce of [256] Float at train.py:5 (main) (call 5 of default_pg); \
             the dump of rank 3 ends before it, so who has not come is not known"
        );
        let answer = ask(&files, false);
        assert_eq!(causes(&answer), [""; 0], "a running job");
    }
}

/// Another rank than the one whose dump is cut is behind: it is named as ever.
#[test]
fn a_cut_dump_hides_no_other_culprit() {
    let mut dumps = equal(8, 5);
    dumps[6].entries.pop();
    let mut files = named(&dumps);
    files[3].1.truncate(bytes_of(&dumps[3], 2));
    let answer = ask(&files, true);
    assert_eq!(answer.verdict.ranks, [6]);
    assert_eq!(answer.verdict.class, Class::MissingRank);
}

#[test]
fn coalesced_calls_torn_by_a_cut_are_no_difference() {
    let part = |n: u32, name: &str| Entry {
        op_id: n,
        ..call(0, 2, name, &[8])
    };
    let mut entries = vec![call(0, 1, "all_reduce", &[1])];
    entries.extend((2..5).map(|n| part(n, "all_reduce")));
    entries.push(part(5, "coalesced"));
    let dumps = vec![of_world(4, entries); 4];
    for (rank, calls) in [(0, 2), (0, 3), (2, 2), (3, 3)] {
        let mut files = named(&dumps);
        files[rank].1.truncate(bytes_of(&dumps[rank], calls));
        let answer = ask(&files, true);
        assert!(
            answer
                .findings
                .iter()
                .all(|f| f.class != Class::MismatchedCollective),
            "{rank} {calls}: {:?}",
            answer.findings
        );
    }
}

#[test]
fn json_that_is_cut_is_worth_as_much() {
    let dumps = equal(4, 5);
    let text = dumps[2].json();
    let mut counts = Vec::new();
    for len in 0..text.len() {
        let read = unhang::engine::dump::read(&text.as_bytes()[..len], &mut Default::default());
        let Ok(read) = read else { continue };
        assert_eq!(read.cut, Some(len));
        assert!(read.entries.iter().all(|e| e.seq > 0), "{len}");
        counts.push(read.entries.len());
    }
    counts.dedup();
    assert_eq!(counts, [1, 2, 3, 4, 5]);
    let mut files = named(&dumps);
    files[2].1 = text.as_bytes()[..text.len() / 2].to_vec();
    assert_eq!(causes(&ask(&files, true)), ["FR009"]);
}

#[test]
fn an_empty_dump_of_the_one_that_is_waited_for_is_said_so() {
    let mut files = named(&equal(4, 5));
    for (bytes, why) in [
        (Vec::new(), "the dump of rank 2 cannot be read"),
        (b"\x80\x02}q".to_vec(), "the dump of rank 2 cannot be read"),
    ] {
        files[2].1 = bytes;
        let answer = ask(&files, true);
        assert_eq!(causes(&answer), ["FR009"]);
        assert!(
            answer.verdict.summary.contains(why),
            "{}",
            answer.verdict.summary
        );
        assert!(answer.verdict.ranks.is_empty());
    }
    // One dump of several says what its rank waits in.
    let answer = ask(&files[..1], true);
    let summary = &answer.verdict.summary;
    assert!(
        summary.starts_with("rank 0 waits in all_reduce")
            && summary.contains("the dumps of ranks 1-3 are missing"),
        "{summary}"
    );
}

#[test]
fn a_packed_dump_that_is_cut_or_no_dump_is_told() {
    let mut dumps = equal(4, 40);
    dumps[1].entries[30].datatype = "Half";
    let dir = tempfile::tempdir().unwrap();
    let pack = |bytes: &[u8]| {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(bytes).unwrap();
        gz.finish().unwrap()
    };
    for (rank, dump) in dumps.iter().enumerate() {
        let mut packed = pack(&dump.pickle());
        match rank {
            1 => packed.truncate(packed.len() - 30),
            // It unpacks to more than any dump holds.
            3 => packed = pack(&vec![0; 64 << 20]),
            _ => {}
        }
        fs::write(dir.path().join(format!("fr_rank_{rank}.gz")), packed).unwrap();
    }
    let plan = report::Plan {
        paths: vec![dir.path().to_owned()],
        ..Default::default()
    };
    let report = report::run(&plan, Engine::new(Catalog::builtin(), Options::default()));
    let answer = report.snapshot;
    assert_eq!(answer.verdict.ranks, [1], "{}", answer.verdict.summary);
    let notes = titles(&answer, "FR004").join("\n");
    assert!(notes.contains("fr_rank_1.gz: only its first"), "{notes}");
    assert!(
        notes.contains("fr_rank_3.gz is left out: it is larger than 30 MiB"),
        "{notes}"
    );
}

/// A mismatch that every rank is through, as the last call of its group, beside a hang in another group.
#[test]
fn a_mismatch_that_is_over_is_not_what_holds_another_group() {
    let all = [0, 1, 2, 3];
    let dump = |rank: u32| {
        let size = if rank == 1 { 5 } else { 6 };
        let mut entries = vec![
            call(1, 1, "all_reduce", &[size]),
            call(0, 1, "all_reduce", &[6]),
        ];
        if rank != 2 {
            entries.push(open(call(0, 2, "all_reduce", &[6])));
        }
        Dump {
            groups: vec![world(4), group(1, &all)],
            entries,
            first: 0,
        }
    };
    let mut dumps: Vec<Dump> = all.iter().map(|rank| dump(*rank)).collect();
    let answer = stuck(&dumps);
    assert_eq!(
        answer.verdict.class,
        Class::MissingRank,
        "{}",
        answer.verdict.summary
    );
    assert_eq!(answer.verdict.ranks, [2]);
    assert_eq!(titles(&answer, "COLL004").len(), 1, "still told");
    // A rank that is not through it: then it is what holds them.
    dumps[0].entries[0].state = "started";
    assert_eq!(stuck(&dumps).verdict.class, Class::MismatchedCollective);
    // Nothing else holds anybody: told as the cause, as ever.
    dumps[0].entries[0].state = "completed";
    for dump in &mut dumps {
        dump.entries.truncate(2);
    }
    assert_eq!(stuck(&dumps).verdict.class, Class::MismatchedCollective);
    let answer = ask(&named(&dumps), false);
    assert_eq!(causes(&answer), ["COLL004"]);
    assert_eq!(answer.verdict.state, State::WrongResults);
}

#[test]
fn what_alone_differs_is_printed() {
    let changed = |from: &str, to: &str| {
        let dumps = equal(8, 3);
        let files: Vec<(String, Vec<u8>)> = dumps
            .iter()
            .enumerate()
            .map(|(rank, dump)| {
                let mut text = dump.json();
                if rank == 5 {
                    let at = text.rfind(from).unwrap();
                    text.replace_range(at..at + from.len(), to);
                }
                (format!("fr_rank_{rank}"), text.into_bytes())
            })
            .collect();
        ask(&files, true)
    };
    let json = equal(1, 1)[0].json();
    let compact = json.contains("\"output_dtypes\":[\"Float\"]");
    let field = |name: &str, value: &str| {
        let blank = if compact { "" } else { " " };
        format!("\"{name}\":{blank}{value}")
    };
    for (from, to, aspect, left, right) in [
        (
            field("output_dtypes", "[\"Float\"]"),
            field("output_dtypes", "[\"Int\"]"),
            "the datatype of what is filled",
            "into 256 elements Int",
            "into 256 elements Float",
        ),
        (
            field("output_sizes", "[[256]]"),
            field("output_sizes", "[[9]]"),
            "the size of what is filled",
            "into 9 elements Float",
            "into 256 elements Float",
        ),
    ] {
        let answer = changed(&from, &to);
        assert_eq!(answer.verdict.ranks, [5]);
        let cause = lead(&answer);
        let title = &cause.title;
        assert!(title.contains(left) && title.contains(right), "{title}");
        assert!(cause.explanation.contains(aspect), "{}", cause.explanation);
        let parts: Vec<_> = cause
            .calls
            .as_ref()
            .unwrap()
            .sides
            .iter()
            .map(|s| s.parts())
            .collect();
        assert_ne!(parts[0], parts[1]);
    }
}

#[test]
fn the_number_of_coalesced_calls_is_printed() {
    let part = |n: u32, name: &str| Entry {
        op_id: n,
        ..open(call(0, 2, name, &[8]))
    };
    let dump = |rank: u32| {
        let calls = if rank == 2 { 2 } else { 3 };
        let mut entries = vec![call(0, 1, "all_reduce", &[1])];
        entries.extend((2..2 + calls).map(|n| part(n, "all_reduce")));
        entries.push(part(9, "coalesced"));
        of_world(4, entries)
    };
    let answer = stuck(&(0..4).map(dump).collect::<Vec<_>>());
    assert_eq!(answer.verdict.ranks, [2]);
    let title = &lead(&answer).title;
    assert!(
        title.contains("2 coalesced calls with all_reduce")
            && title.contains("3 coalesced calls with all_reduce"),
        "{title}"
    );
    let notes = answer
        .findings
        .iter()
        .filter(|f| f.role == Role::Note)
        .count();
    assert_eq!(notes, 0);
}

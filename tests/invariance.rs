//! The answer depends on what the job printed, not on how the bytes arrive: neither on how they are
//! cut into chunks, nor on how sources take turns, nor on whether ranks share one stream.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::State;

#[path = "common/drive.rs"]
mod drive;
#[path = "common/jobs.rs"]
mod jobs;
#[path = "../examples/synth_job/prng.rs"]
mod prng;

use drive::Piece;
use jobs::Case;
use prng::Prng;

fn all_cases() -> impl Iterator<Item = Case> {
    ["cases", "healthy"].into_iter().flat_map(jobs::recorded)
}

fn whole(case: &Case) -> Snapshot {
    drive::diagnose(&borrowed(case), case.stuck)
}

fn borrowed(case: &Case) -> Vec<(&str, &[u8])> {
    case.logs
        .iter()
        .map(|log| (log.name.as_str(), log.bytes.as_slice()))
        .collect()
}

/// Cuts one source into chunks whose sizes `size` gives.
fn chunks(source: usize, bytes: &[u8], mut size: impl FnMut() -> usize) -> Vec<Piece<'_>> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let end = bytes.len().min(at + size().max(1));
        pieces.push((source, at as u64, &bytes[at..end]));
        at = end;
    }
    pieces
}

#[test]
fn any_chunking_gives_the_same_snapshot() {
    for case in all_cases() {
        let expected = whole(&case);
        let logs = borrowed(&case);
        let names: Vec<&str> = logs.iter().map(|(name, _)| *name).collect();
        let mut random = Prng::new(case.name.len() as u64);
        let check = |what: &str, size: &mut dyn FnMut() -> usize| {
            let pieces = logs
                .iter()
                .enumerate()
                .flat_map(|(n, (_, bytes))| chunks(n, bytes, &mut *size));
            let pieces: Vec<Piece<'_>> = pieces.collect();
            let got = drive::diagnose_pieces(&names, pieces, case.stuck);
            assert!(
                got == expected,
                "{} in chunks of {what}:\n{}",
                case.name,
                difference(&expected, &got)
            );
        };
        check("1", &mut || 1);
        check("7", &mut || 7);
        check("4096", &mut || 4096);
        check("random size", &mut || 1 + random.below(300));
    }
}

#[test]
fn any_turns_of_the_sources_give_the_same_findings() {
    let mut report = String::new();
    for case in all_cases().filter(|case| case.logs.len() > 1) {
        let expected = whole(&case);
        let logs = borrowed(&case);
        let names: Vec<&str> = logs.iter().map(|(name, _)| *name).collect();
        for seed in 0..4 {
            let mut random = Prng::new(seed);
            let mut queues: Vec<_> = logs
                .iter()
                .enumerate()
                .map(|(n, (_, bytes))| chunks(n, bytes, || 1 + random.below(2_000)).into_iter())
                .collect();
            let mut pieces = Vec::new();
            while !queues.is_empty() {
                let turn = random.below(queues.len());
                match queues[turn].next() {
                    Some(piece) => pieces.push(piece),
                    None => drop(queues.swap_remove(turn)),
                }
            }
            let got = drive::diagnose_pieces(&names, pieces, case.stuck);
            if got.verdict != expected.verdict || got.findings != expected.findings {
                writeln!(
                    report,
                    "{} with seed {seed}:\n{}",
                    case.name,
                    difference(&expected, &got)
                )
                .expect("a string");
                break;
            }
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn one_stream_of_all_ranks_gives_the_same_verdict_as_one_file_per_rank() {
    let (mut compared, mut report) = (0, String::new());
    for case in all_cases() {
        let expected = whole(&case);
        if !ownership_is_decidable(&case, &expected) {
            continue;
        }
        compared += 1;
        for seed in 0..5 {
            let stream = one_stream(&case, seed);
            let got = drive::diagnose(&[("job.log", &stream)], case.stuck);
            let (left, right) = (&expected.verdict, &got.verdict);
            if (left.class, left.state, &left.ranks, &left.hosts)
                != (right.class, right.state, &right.ranks, &right.hosts)
            {
                writeln!(
                    report,
                    "{} with seed {seed}:\n{}",
                    case.name,
                    difference(&expected, &got)
                )
                .expect("a string");
            }
        }
    }
    assert!(compared >= 25, "only {compared} jobs could be compared");
    assert!(report.is_empty(), "\n{report}");
}

/// Whether one stream of all ranks still says who wrote what the verdict rests on: every rank's log
/// says which rank it is, no two logs show the same process, and the evidence carries its owner.
fn ownership_is_decidable(case: &Case, answer: &Snapshot) -> bool {
    let mut seen = BTreeSet::new();
    let distinct = case.logs.iter().all(|log| {
        let owners: BTreeSet<&[u8]> = log
            .bytes
            .split(|&byte| byte == b'\n')
            .filter_map(process)
            .collect();
        owners.iter().all(|owner| seen.insert(owner.to_vec()))
    });
    let named = case
        .logs
        .iter()
        .all(|log| log.bytes.is_empty() || says_its_rank(&log.bytes));
    let owned = match answer.verdict.finding {
        Some(n) => answer.findings[n]
            .evidence
            .iter()
            .all(|line| process(line.text.as_bytes()).is_some()),
        // A failure that no finding explains was told by lines without an owner, such as a traceback.
        None => answer.verdict.state != State::Failed,
    };
    // A rank that wrote nothing leaves nothing in a stream: where those are not the fewer, nobody can tell
    // them from ranks whose logs were not given.
    let wrote = case.logs.iter().filter(|log| !log.bytes.is_empty()).count();
    wrote * 2 > case.logs.len()
        && case.logs.len() > 1
        && case.logs.iter().all(|log| !log.name.contains('/'))
        && distinct
        && named
        && owned
}

/// `host:pid` in front of NCCL's lines, or `[rankN]` in front of PyTorch's.
fn process(line: &[u8]) -> Option<&[u8]> {
    let text = line.strip_prefix(b"[").map_or(line, |rest| {
        rest.iter()
            .position(|&byte| byte == b']')
            .map_or(line, |end| rest[end + 1..].trim_ascii_start())
    });
    if line.starts_with(b"[rank") {
        return line.split(|&byte| byte == b']').next();
    }
    let head = text.split(|&byte| byte == b' ').next()?;
    let mut parts = head.split(|&byte| byte == b':');
    let (host, pid, tid) = (parts.next()?, parts.next()?, parts.next()?);
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let is_nccl = text.windows(5).any(|part| part == b"NCCL ");
    (is_nccl && is_number(pid) && is_number(tid)).then(|| &text[..host.len() + 1 + pid.len()])
}

fn says_its_rank(log: &[u8]) -> bool {
    log.split(|&byte| byte == b'\n').any(|line| {
        let text = String::from_utf8_lossy(line);
        process(line).is_some()
            && text.contains(" rank ")
            && text.to_lowercase().contains(" nranks ")
    })
}

/// All ranks' lines in one stream, each rank's own order kept: by turns for seed 0, else at random.
fn one_stream(case: &Case, seed: u64) -> Vec<u8> {
    let mut random = Prng::new(seed);
    let mut rest: Vec<&[u8]> = case.logs.iter().map(|log| log.bytes.as_slice()).collect();
    let (mut stream, mut turn) = (Vec::new(), 0);
    rest.retain(|left| !left.is_empty());
    while !rest.is_empty() {
        turn = if seed == 0 {
            turn % rest.len()
        } else {
            random.below(rest.len())
        };
        let line = message(rest[turn]);
        stream.extend_from_slice(&rest[turn][..line]);
        if !stream.ends_with(b"\n") {
            stream.push(b'\n');
        }
        rest[turn] = &rest[turn][line..];
        if rest[turn].is_empty() {
            rest.swap_remove(turn);
        } else {
            turn += 1;
        }
    }
    stream
}

/// Bytes of the first message: a line, the empty one before a WARN together with it.
fn message(text: &[u8]) -> usize {
    let end = |from: usize| {
        text[from..]
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(text.len(), |at| from + at + 1)
    };
    let first = end(0);
    if first == 1 { end(1) } else { first }
}

/// What differs, for the message of a failure.
fn difference(expected: &Snapshot, got: &Snapshot) -> String {
    let lines = |snapshot: &Snapshot| -> Vec<String> {
        format!("{snapshot:#?}")
            .lines()
            .map(str::to_owned)
            .collect()
    };
    let (left, right) = (lines(expected), lines(got));
    let summary = format!(
        "  expected {} {} {:?}: {}\n  got      {} {} {:?}: {}",
        expected.verdict.class,
        expected.verdict.state,
        expected.verdict.ranks,
        expected.verdict.summary,
        got.verdict.class,
        got.verdict.state,
        got.verdict.ranks,
        got.verdict.summary,
    );
    let first = left
        .iter()
        .zip(&right)
        .position(|(a, b)| a != b)
        .unwrap_or(left.len().min(right.len()));
    let near =
        |lines: &[String]| lines[first.saturating_sub(3)..lines.len().min(first + 4)].join("\n  ");
    format!(
        "{summary}\n  first difference, expected:\n  {}\n  got:\n  {}",
        near(&left),
        near(&right)
    )
}

#[test]
fn any_order_of_the_dumps_gives_the_same_findings() {
    let said = |answer: &Snapshot| -> Vec<(String, String, BTreeSet<u32>)> {
        let findings = answer.findings.iter();
        findings
            .map(|f| (f.id.clone(), f.title.clone(), f.accused.clone()))
            .collect()
    };
    for case in all_cases().filter(|case| case.dumps.len() > 1) {
        let logs = borrowed(&case);
        let names: Vec<&str> = logs.iter().map(|(name, _)| *name).collect();
        let mut dumps: Vec<(&str, &[u8])> = case
            .dumps
            .iter()
            .map(|d| (d.name.as_str(), d.bytes.as_slice()))
            .collect();
        let ask = |dumps: &[(&str, &[u8])]| {
            let pieces = logs
                .iter()
                .enumerate()
                .map(|(n, (_, bytes))| (n, 0, *bytes));
            drive::diagnose_all(&names, pieces, dumps, case.stuck)
        };
        let expected = ask(&dumps);
        for _ in 0..dumps.len() {
            dumps.rotate_left(1);
            let got = ask(&dumps);
            assert_eq!(got.verdict, expected.verdict, "{}", case.name);
            assert_eq!(said(&got), said(&expected), "{}", case.name);
        }
        dumps.reverse();
        assert_eq!(said(&ask(&dumps)), said(&expected), "{}", case.name);
    }
}

//! Each recorded job as other launchers, containers and people would have handed it over.
//!
//! What only changes how lines look must not change the answer. What takes evidence away may weaken it to
//! "cannot tell", and never to a wrong name.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use unhang::engine::finding::Finding;
use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::{Class, Confidence, State};

use super::jobs::{self, Case};
use super::prng::Prng;
use super::{ROWS, Row, Truth, drive, what_is_wrong};

/// Logs by name.
type Logs = Vec<(String, Vec<u8>)>;

/// One way to hand a job over.
struct Variant {
    name: &'static str,
    what: &'static str,
    /// All evidence is still there.
    whole: bool,
    /// The logs; `None` where the job cannot be handed over like that.
    make: fn(&Case, &Snapshot) -> Option<Logs>,
}

const VARIANTS: [Variant; 16] = [
    Variant {
        name: "CRLF",
        what: "every line ends with `\\r\\n`",
        whole: true,
        make: |case, _| Some(lines_of(case, |_, line| [line, b"\r\n"].concat())),
    },
    Variant {
        name: "colours",
        what: "every line is coloured",
        whole: true,
        make: |case, _| {
            Some(lines_of(case, |_, line| {
                [b"\x1b[32m", line, b"\x1b[0m\n"].concat()
            }))
        },
    },
    Variant {
        name: "kubectl stamps",
        what: "`kubectl logs --timestamps`",
        whole: true,
        make: |case, _| {
            Some(lines_of(case, |n, line| {
                [&rfc3339(n), line, b"\n"].concat()
            }))
        },
    },
    Variant {
        name: "docker JSON",
        what: "Docker's json-file driver",
        whole: true,
        make: |case, _| {
            Some(lines_of(case, |n, line| {
                let text = format!("{}\n", String::from_utf8_lossy(line));
                let stamp = String::from_utf8(rfc3339(n)).expect("ASCII");
                let json = serde_json::json!({
                    "log": text, "stream": "stderr", "time": stamp.trim_end(),
                });
                format!("{json}\n").into_bytes()
            }))
        },
    },
    Variant {
        name: "CRI",
        what: "containerd's log files",
        whole: true,
        make: |case, _| {
            Some(lines_of(case, |n, line| {
                [&rfc3339(n)[..], b"stderr F ", line, b"\n"].concat()
            }))
        },
    },
    Variant {
        name: "hosts renamed",
        what: "every host has another name",
        whole: true,
        make: |case, answer| {
            let names = hosts(answer);
            let renamed = |log: &[u8]| {
                names
                    .iter()
                    .fold(log.to_vec(), |log, (old, new)| replaced(&log, old, new))
            };
            (!names.is_empty()).then(|| {
                let logs = case.logs.iter();
                let name = |log: &jobs::Log| {
                    String::from_utf8_lossy(&renamed(log.name.as_bytes())).into_owned()
                };
                logs.map(|log| (name(log), renamed(&log.bytes))).collect()
            })
        },
    },
    Variant {
        name: "srun -l",
        what: "one stream, `N: ` in front of each line",
        whole: true,
        make: |case, _| merged(case, |rank| format!("{rank}: ")),
    },
    Variant {
        name: "mpirun --tag-output",
        what: "one stream, `[1,N]<stdout>:` in front of each line",
        whole: true,
        make: |case, _| merged(case, |rank| format!("[1,{rank}]<stdout>:")),
    },
    Variant {
        name: "mpiexec -l",
        what: "one stream, `[N] ` in front of each line",
        whole: true,
        make: |case, _| merged(case, |rank| format!("[{rank}] ")),
    },
    Variant {
        name: "kubectl --prefix",
        what: "one stream, `[pod/job-0-N/main] ` in front of each line",
        whole: true,
        make: |case, _| merged(case, |rank| format!("[pod/train-worker-{rank}/main] ")),
    },
    Variant {
        name: "compose",
        what: "one stream, `worker-N  | ` in front of each line",
        whole: true,
        make: |case, _| merged(case, |rank| format!("worker-{rank}  | ")),
    },
    Variant {
        name: "no ranks in file names",
        what: "the files are named by letters",
        whole: false,
        make: |case, _| {
            of_ranks(case)?;
            let logs = case.logs.iter().zip('a'..='z');
            Some(
                logs.map(|(log, letter)| (format!("output_{letter}.txt"), log.bytes.clone()))
                    .collect(),
            )
        },
    },
    Variant {
        name: "torn lines",
        what: "one line in fifty has lost its end and runs into the next",
        whole: false,
        make: |case, _| {
            let mut random = Prng::new(7);
            Some(lines_of(case, |_, line| {
                if random.below(50) == 0 {
                    line[..line.len().min(1 + random.below(line.len().max(1)))].to_vec()
                } else {
                    [line, b"\n"].concat()
                }
            }))
        },
    },
    Variant {
        name: "head cut off",
        what: "the first third of each log is gone",
        whole: false,
        make: |case, _| {
            let cut = |bytes: &[u8]| {
                let from = bytes.len() / 3;
                let end = bytes[from..].iter().position(|b| *b == b'\n');
                bytes[end.map_or(bytes.len(), |end| from + end + 1)..].to_vec()
            };
            let logs = case.logs.iter();
            Some(
                logs.map(|log| (log.name.clone(), cut(&log.bytes)))
                    .collect(),
            )
        },
    },
    Variant {
        name: "without INFO",
        what: "as with NCCL_DEBUG=WARN",
        whole: false,
        make: |case, _| {
            Some(lines_of(case, |_, line| {
                if line.windows(10).any(|part| part == b"NCCL INFO ") {
                    Vec::new()
                } else {
                    [line, b"\n"].concat()
                }
            }))
        },
    },
    Variant {
        name: "one log absent",
        what: "the last rank's log was not given",
        whole: false,
        make: |case, _| {
            of_ranks(case).filter(|ranks| ranks.len() > 2)?;
            let logs = &case.logs[..case.logs.len() - 1];
            Some(
                logs.iter()
                    .map(|l| (l.name.clone(), l.bytes.clone()))
                    .collect(),
            )
        },
    },
];

/// How an answer stands to the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Right,
    /// Less than the truth, and nothing that is not true.
    CannotTell,
    Wrong,
}

struct Tried {
    variant: &'static Variant,
    row: &'static Row,
    answer: Snapshot,
    mark: Mark,
}

/// Every variant of every job that is answered rightly as it is.
static TRIED: LazyLock<Vec<Tried>> = LazyLock::new(|| {
    let rows = ROWS.iter().filter(|row| row.is_right());
    let pairs = rows.flat_map(|row| VARIANTS.iter().map(move |variant| (row, variant)));
    pairs
        .filter_map(|(row, variant)| {
            let logs = (variant.make)(&row.case, &row.answer)?;
            let logs: Vec<(&str, &[u8])> = logs
                .iter()
                .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
                .collect();
            let mut answer = drive::diagnose(&logs, row.case.stuck);
            if variant.name == "hosts renamed" {
                name_back(&mut answer, &row.answer);
            }
            let mark = mark(&row.truth, &row.answer, &answer);
            Some(Tried {
                variant,
                row,
                answer,
                mark,
            })
        })
        .collect()
});

fn mark(truth: &Truth, whole: &Snapshot, answer: &Snapshot) -> Mark {
    if what_is_wrong(truth, answer).is_empty() {
        return Mark::Right;
    }
    let verdict = &answer.verdict;
    // Whoever is accused is guilty, and what it is called is true or says less.
    let also = truth.also_guilty.iter().flatten();
    let guilty: Vec<u32> = truth.guilty_ranks.iter().chain(also).copied().collect();
    let ranks = verdict.ranks.iter().all(|rank| guilty.contains(rank));
    let of_guilty = |host: &String| {
        let rows = &whole.job.ranks;
        rows.iter().any(|row| {
            row.host.as_ref() == Some(host) && row.rank.is_some_and(|rank| guilty.contains(&rank))
        })
    };
    let hosts = verdict
        .hosts
        .iter()
        .all(|host| truth.guilty_hosts.contains(host) || of_guilty(host));
    // Who did not show that it called may have called something else, or have ended without a word.
    let called = [Class::MismatchedCollective, Class::RankDied].contains(&truth.class);
    let behind = called && verdict.class == Class::MissingRank;
    let class = verdict.class == truth.class
        || truth.also_right.contains(&verdict.class)
        || verdict.class == Class::Inconclusive
        || matches!(verdict.state, State::Healthy | State::Completed)
        || behind && !verdict.ranks.is_empty();
    // What is a symptom beside the cause is still what happened.
    let symptom = verdict.finding.is_some_and(|n| {
        let lead = &answer.findings[n];
        let is_it = |f: &Finding| f.id == lead.id && f.accused == lead.accused;
        whole.findings.iter().any(is_it)
    });
    let alarm = truth.class == Class::Healthy
        && !matches!(
            verdict.state,
            State::Healthy | State::Completed | State::Inconclusive
        );
    let doubts = verdict.confidence == Confidence::Possible;
    if (doubts || symptom || ranks && hosts && class) && !alarm {
        return Mark::CannotTell;
    }
    Mark::Wrong
}

/// Every line of every log, changed; `change` gets the line's number and brings its end.
fn lines_of(case: &Case, mut change: impl FnMut(usize, &[u8]) -> Vec<u8>) -> Logs {
    let mut logs = Logs::new();
    for log in &case.logs {
        let mut out = Vec::new();
        let body = log.bytes.strip_suffix(b"\n").unwrap_or(&log.bytes);
        if !log.bytes.is_empty() {
            for (n, line) in body.split(|b| *b == b'\n').enumerate() {
                out.extend(change(n, line));
            }
        }
        logs.push((log.name.clone(), out));
    }
    logs
}

fn rfc3339(n: usize) -> Vec<u8> {
    let (minute, second) = (n / 600 % 60, n / 10 % 60);
    format!(
        "2026-11-30T19:{minute:02}:{second:02}.{:09}Z ",
        n % 10 * 100_000_000
    )
    .into_bytes()
}

/// The ranks of the logs, where each is one rank's and all are there.
fn of_ranks(case: &Case) -> Option<Vec<usize>> {
    let rank = |name: &str| {
        name.strip_prefix("rank")?
            .strip_suffix(".log")?
            .parse()
            .ok()
    };
    let mut ranks: Vec<usize> = case
        .logs
        .iter()
        .map(|log| rank(&log.name))
        .collect::<Option<_>>()?;
    let given = ranks.clone();
    ranks.sort_unstable();
    let all = ranks.iter().enumerate().all(|(n, rank)| n == *rank);
    // A rank that wrote nothing leaves nothing in a stream.
    let wrote = case.logs.iter().all(|log| !log.bytes.is_empty());
    (all && wrote && ranks.len() > 1).then_some(given)
}

/// One stream, the ranks' lines by random turns, each behind its prefix.
fn merged(case: &Case, prefix: impl Fn(usize) -> String) -> Option<Logs> {
    let ranks = of_ranks(case)?;
    // A launcher that puts prefixes on already is not started by another one.
    let bare = |log: &[u8]| !log.starts_with(b"[") && !log.windows(10).any(|w| w == b"<stdout>: ");
    if !case.logs.iter().all(|log| bare(&log.bytes)) {
        return None;
    }
    let mut random = Prng::new(case.name.len() as u64);
    let mut rest: Vec<(usize, Vec<&[u8]>)> = ranks
        .into_iter()
        .zip(&case.logs)
        .map(|(rank, log)| {
            let body = log.bytes.strip_suffix(b"\n").unwrap_or(&log.bytes);
            let mut lines: Vec<&[u8]> = body.split(|b| *b == b'\n').collect();
            lines.reverse();
            (rank, lines)
        })
        .collect();
    let mut out = Vec::new();
    while !rest.is_empty() {
        let turn = random.below(rest.len());
        let (rank, lines) = &mut rest[turn];
        match lines.pop() {
            Some(line) => {
                out.extend_from_slice(prefix(*rank).as_bytes());
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            None => drop(rest.swap_remove(turn)),
        }
    }
    Some(vec![("job.log".to_owned(), out)])
}

/// Old and new names of the hosts, the longest first.
fn hosts(answer: &Snapshot) -> Vec<(String, String)> {
    let mut names: Vec<String> = answer.job.hosts.iter().map(|h| h.name.clone()).collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let long_enough = names
        .iter()
        .all(|name| name.len() >= 4 && !name.contains('.'));
    let renamed = names.into_iter().enumerate();
    let new = |n: usize| format!("gpu{n:02}rack{}", n / 4 + 1);
    if long_enough {
        renamed.map(|(n, old)| (old, new(n))).collect()
    } else {
        Vec::new()
    }
}

fn replaced(text: &[u8], old: &str, new: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, old.as_bytes()) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(new.as_bytes());
        rest = &rest[at + old.len()..];
    }
    out.extend_from_slice(rest);
    out
}

fn name_back(answer: &mut Snapshot, whole: &Snapshot) {
    let names: BTreeMap<String, String> = hosts(whole)
        .into_iter()
        .map(|(old, new)| (new, old))
        .collect();
    for host in &mut answer.verdict.hosts {
        if let Some(old) = names.get(host) {
            host.clone_from(old);
        }
    }
    answer.verdict.hosts.sort();
}

fn explain(tried: &Tried) -> String {
    let (truth, verdict) = (&tried.row.truth, &tried.answer.verdict);
    format!(
        "{} [{}] {:?}:\n  truth   {} {} {:?} {:?}\n  answer  {} {} {:?} {:?}: {}\n",
        tried.row.case.name,
        tried.variant.name,
        tried.mark,
        truth.class,
        truth.state,
        truth.guilty_ranks,
        truth.guilty_hosts,
        verdict.class,
        verdict.state,
        verdict.ranks,
        verdict.hosts,
        verdict.summary,
    )
}

#[test]
fn how_a_job_is_handed_over_changes_no_answer() {
    let whole = TRIED.iter().filter(|tried| tried.variant.whole);
    let wrong: Vec<String> = whole
        .filter(|tried| tried.mark != Mark::Right)
        .map(explain)
        .collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.concat());
}

#[test]
fn less_evidence_weakens_an_answer_and_accuses_nobody_else() {
    let wrong: Vec<String> = TRIED
        .iter()
        .filter(|tried| tried.mark == Mark::Wrong)
        .map(explain)
        .collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.concat());
}

/// The table in `docs/accuracy.md`.
pub(super) fn table() -> String {
    let mut out = String::from(
        "\n## Handed over in other ways\n\n\
         Every job that is answered rightly as it is, changed as other launchers, containers and people would\n\
         (`tests/cases/variants.rs`). The last five rows take evidence away: \"cannot tell\" is an answer that says less\n\
         than the truth, or says that it is only possible, and accuses nobody else.\n\n\
         | change | | jobs | right | cannot tell | wrong |\n| --- | --- | ---: | ---: | ---: | ---: |\n",
    );
    for variant in &VARIANTS {
        let of_it = || TRIED.iter().filter(|t| t.variant.name == variant.name);
        let count = |mark: Mark| of_it().filter(|tried| tried.mark == mark).count();
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            variant.name,
            variant.what.replace('|', "\\|"),
            of_it().count(),
            count(Mark::Right),
            count(Mark::CannotTell),
            count(Mark::Wrong),
        )
        .expect("a string");
    }
    out
}

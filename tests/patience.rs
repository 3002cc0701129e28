//! Silence while somebody watches: it proves a standstill once the rule's patience is over, not before,
//! and only where some ranks are seen to wait for others. Time is virtual.

use std::time::Duration;

use unhang::engine::catalog::Catalog;
use unhang::engine::ids::SourceId;
use unhang::engine::input::{EndReason, Input, SourceInfo, SourceKind, Time};
use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::{Class, Role, State};
use unhang::engine::{Engine, Options};

const RANKS: u32 = 4;
/// `patience_s` of the rules that are tested here.
const PATIENCE: f64 = 30.0;

/// A watched job: every line says when it is seen.
struct Watched {
    engine: Engine,
    lengths: Vec<u64>,
    merged: bool,
}

impl Watched {
    /// One file per rank.
    fn files() -> Self {
        Self::of((0..RANKS).map(|rank| format!("rank{rank}.log")).collect())
    }

    /// One stream of all ranks.
    fn stream() -> Self {
        Self::of(vec!["job.log".to_owned()])
    }

    fn of(names: Vec<String>) -> Self {
        let mut engine = Engine::new(Catalog::builtin(), Options::default());
        let lengths = vec![0; names.len()];
        let merged = names.len() == 1;
        for (n, name) in names.into_iter().enumerate() {
            let info = SourceInfo {
                id: SourceId::from_ix(n),
                name,
                kind: SourceKind::Tail,
                host: None,
                pid: None,
                rank: None,
            };
            engine.handle(Some(at(0.0)), Input::Source(info));
        }
        Self {
            engine,
            lengths,
            merged,
        }
    }

    fn line(&mut self, seconds: f64, rank: u32, text: &str) {
        let source = if self.merged { 0 } else { rank as usize };
        let chunk = format!("{text}\n");
        let input = Input::Bytes {
            source: SourceId::from_ix(source),
            offset: self.lengths[source],
            chunk: chunk.as_bytes(),
        };
        self.engine.handle(Some(at(seconds)), input);
        self.lengths[source] += chunk.len() as u64;
    }

    fn nccl(&mut self, seconds: f64, rank: u32, message: &str) {
        let pid = 100 + rank;
        self.line(
            seconds,
            rank,
            &format!("node-0:{pid}:{pid} [{rank}] NCCL INFO {message}"),
        );
    }

    fn start(&mut self, seconds: f64, rank: u32) {
        self.init(seconds, rank, "START");
    }

    fn init(&mut self, seconds: f64, rank: u32, what: &str) {
        self.nccl(
            seconds,
            rank,
            &format!(
                "ncclCommInitRankConfig comm 0x55{rank}0 rank {rank} nranks {RANKS} cudaDev {rank} nvmlDev {rank} busId {rank}000 commId 0x7e7c9a59a1b57d6d - Init {what}"
            ),
        );
    }

    fn call(&mut self, seconds: f64, rank: u32, ordinal: u32, count: u32) {
        self.nccl(
            seconds,
            rank,
            &format!(
                "AllReduce: opCount {ordinal:x} sendbuff 0x7f00 recvbuff 0x7f00 count {count} datatype 7 op 0 root 0 comm 0x55{rank}0 [nranks={RANKS}] stream (nil)"
            ),
        );
    }

    /// All ranks are up and have made one call by second 1.
    fn ready(mut self) -> Self {
        for rank in 0..RANKS {
            self.start(0.1, rank);
        }
        for rank in 0..RANKS {
            self.init(0.5, rank, "COMPLETE");
            self.call(1.0, rank, 0, 1024);
        }
        self
    }

    fn look(&mut self, seconds: f64) -> Snapshot {
        self.engine.handle(Some(at(seconds)), Input::Tick);
        self.engine.snapshot()
    }

    #[track_caller]
    fn expect(&mut self, seconds: f64, state: State, class: Class, ranks: &[u32]) -> Snapshot {
        let snapshot = self.look(seconds);
        let verdict = &snapshot.verdict;
        assert_eq!(
            (verdict.state, verdict.class, verdict.ranks.as_slice()),
            (state, class, ranks),
            "at {seconds} s: {}",
            verdict.summary
        );
        snapshot
    }
}

fn at(seconds: f64) -> Time {
    let nanos = Duration::from_secs_f64(1_700_000_000.0 + seconds).as_nanos();
    Time(u64::try_from(nanos).expect("before 2554"))
}

#[test]
fn a_rank_that_is_behind_is_late_until_patience_is_over() {
    let mut job = Watched::files().ready();
    for rank in 0..3 {
        job.call(10.0, rank, 1, 2048);
    }
    let waiting = job.expect(
        10.0 + PATIENCE - 1.0,
        State::Waiting,
        Class::MissingRank,
        &[3],
    );
    assert!(waiting.findings.iter().all(|f| f.role == Role::Note));
    let hung = job.expect(10.0 + PATIENCE + 1.0, State::Hung, Class::MissingRank, &[3]);
    assert_eq!(hung.findings[0].role, Role::Cause);
    // It comes after all.
    job.call(60.0, 3, 1, 2048);
    job.expect(60.1, State::Healthy, Class::Healthy, &[]);
    job.expect(9_999.0, State::Healthy, Class::Healthy, &[]);
}

#[test]
fn in_a_job_that_moves_somebody_is_always_a_moment_behind() {
    let mut job = Watched::files().ready();
    job.expect(2.0, State::Healthy, Class::Healthy, &[]);
    for rank in 0..3 {
        job.call(10.0, rank, 1, 2048);
    }
    job.expect(10.1, State::Healthy, Class::Healthy, &[]);
    job.expect(19.0, State::Healthy, Class::Healthy, &[]);
    job.expect(21.0, State::Waiting, Class::MissingRank, &[3]);
    job.expect(10.0 + PATIENCE + 1.0, State::Hung, Class::MissingRank, &[3]);
}

#[test]
fn when_nothing_more_can_come_a_moment_behind_is_behind() {
    let mut job = Watched::files().ready();
    job.expect(2.0, State::Healthy, Class::Healthy, &[]);
    for rank in 0..3 {
        job.call(10.0, rank, 1, 2048);
    }
    for source in 0..RANKS {
        let input = Input::Ended {
            source: SourceId(source),
            why: EndReason::Closed,
            detail: None,
        };
        job.engine.handle(Some(at(10.1)), input);
    }
    job.expect(10.1, State::Waiting, Class::MissingRank, &[3]);
}

#[test]
fn a_late_rank_that_prints_is_late_and_not_stuck() {
    for mut job in [Watched::files().ready(), Watched::stream().ready()] {
        for rank in 0..3 {
            job.call(10.0, rank, 1, 2048);
        }
        job.line(30.0, 3, "[rank3]: loading shard 7 of 9");
        job.expect(
            30.0 + PATIENCE - 1.0,
            State::Waiting,
            Class::MissingRank,
            &[3],
        );
        job.expect(30.0 + PATIENCE + 1.0, State::Hung, Class::MissingRank, &[3]);
    }
}

#[test]
fn a_line_of_nobody_known_may_be_the_late_ranks() {
    let mut job = Watched::stream().ready();
    for rank in 0..3 {
        job.call(10.0, rank, 1, 2048);
    }
    job.line(30.0, 0, "loading shard 7 of 9");
    job.expect(
        30.0 + PATIENCE - 1.0,
        State::Waiting,
        Class::MissingRank,
        &[3],
    );
    job.expect(30.0 + PATIENCE + 1.0, State::Hung, Class::MissingRank, &[3]);
}

#[test]
fn what_a_waiting_rank_prints_beside_does_not_count() {
    let mut job = Watched::files().ready();
    for rank in 0..3 {
        job.call(10.0, rank, 1, 2048);
    }
    for second in 11..80 {
        job.line(f64::from(second), 0, "still no answer from the engine");
    }
    job.expect(80.0, State::Hung, Class::MissingRank, &[3]);
}

#[test]
fn a_rank_that_never_enters_init_is_late_until_patience_is_over() {
    let mut job = Watched::files();
    for rank in 0..3 {
        job.start(5.0, rank);
    }
    job.expect(
        5.0 + PATIENCE - 1.0,
        State::Waiting,
        Class::MissingRank,
        &[3],
    );
    job.expect(5.0 + PATIENCE + 1.0, State::Hung, Class::MissingRank, &[3]);
    job.start(50.0, 3);
    let state = job.look(50.1).verdict.state;
    assert!(!matches!(state, State::Hung | State::Failed), "{state:?}");
}

#[test]
fn a_mismatch_is_shown_at_once_and_hangs_when_nobody_goes_on() {
    let mut job = Watched::files().ready();
    for rank in 0..RANKS {
        job.call(10.0, rank, 1, if rank == 2 { 77 } else { 2048 });
    }
    let class = Class::MismatchedCollective;
    let waiting = job.expect(10.1, State::Waiting, class, &[2]);
    assert_eq!(waiting.findings[0].role, Role::Cause);
    job.expect(10.0 + PATIENCE + 1.0, State::Hung, class, &[2]);
}

#[test]
fn ranks_that_are_equal_may_be_silent_for_as_long_as_they_like() {
    let mut job = Watched::files().ready();
    for seconds in [2.0, 100.0, 10_000.0, 1_000_000.0] {
        job.expect(seconds, State::Healthy, Class::Healthy, &[]);
    }
}

//! Journals: what was written comes back, whatever happens to the end of the file, and a watch that
//! is played again gives the same answer.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs::{self, File};
use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use unhang::app::handle::{Axis, Handle, LogRequest};
use unhang::app::replay::script::{FilesScript, JournalScript, Script, save};
use unhang::app::replay::{self, Start};
use unhang::app::{demo, report, watch};
use unhang::engine::catalog::Catalog;
use unhang::engine::gpu::{Gpu, GpuSample, Link, Means};
use unhang::engine::ids::SourceId;
use unhang::engine::input::{
    EndReason, Input, ProcessLoad, ProcessState, SourceInfo, SourceKind, Time,
};
use unhang::engine::recent::Whose;
use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::{Class, State};
use unhang::engine::{Engine, Options};
use unhang::sources::discover::Discoverer;
use unhang::sources::journal::read::Journal;
use unhang::sources::journal::write::Writer;
use unhang::sources::record::{Record, What};
use unhang::views::json;

fn engine() -> Engine {
    let rules: [(&str, &str); 0] = [];
    Engine::new(Catalog::load(&rules).0, Options { keep_recent: true })
}

fn source(id: u32) -> Record {
    let info = SourceInfo {
        id: SourceId(id),
        name: format!("rank{id}.log"),
        kind: SourceKind::Tail,
        host: (id % 2 == 1).then(|| "node-1".to_owned()),
        pid: Some(7),
        rank: None,
    };
    Record {
        seen: Some(Time(1)),
        what: What::Other(Input::Source(info)),
    }
}

fn what() -> impl Strategy<Value = What> {
    let id = (0..4_u32).prop_map(SourceId);
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    let reason = prop_oneof![
        Just(EndReason::Eof),
        Just(EndReason::Closed),
        Just(EndReason::Unreadable)
    ];
    let state = prop_oneof![Just(ProcessState::Stopped), Just(ProcessState::Gone)];
    prop_oneof![
        8 => (id.clone(), any::<u64>(), bytes.clone()).prop_map(|(source, offset, chunk)| What::Bytes { source, offset, chunk }),
        1 => (id.clone(), bytes).prop_map(|(source, reply)| What::Ras { source, reply }),
        1 => id.clone().prop_map(|id| What::Other(Input::Rotated(id))),
        1 => id.clone().prop_map(|id| What::Other(Input::Truncated(id))),
        1 => (id, reason, any::<Option<String>>())
            .prop_map(|(source, why, detail)| What::Other(Input::Ended { source, why, detail })),
        1 => (any::<String>(), any::<u32>(), state, any::<[Option<u32>; 3]>()).prop_map(
            |(host, pid, state, [cpu_percent, threads, nccl_threads])| {
                let load = ProcessLoad { cpu_percent, threads, nccl_threads };
                What::Other(Input::Process { host, pid, state, load })
            }
        ),
        1 => (any::<String>(), any::<Option<u32>>(), any::<Option<u64>>()).prop_map(|(host, busy, errors)| {
            let link = Link { crc_errors: errors, ..Link::default() };
            let gpu = Gpu { busy, links: Some(vec![link]), ..Gpu::default() };
            let sample = Box::new(GpuSample { gpus: vec![gpu], ..GpuSample::default() });
            What::Other(Input::Gpu { host, sample })
        }),
        1 => any::<Option<u64>>()
            .prop_map(|nanos| What::Other(Input::Claim { stuck_for: nanos.map(Duration::from_nanos) })),
        2 => Just(What::Other(Input::Tick)),
    ]
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let record = (any::<Option<u64>>(), what()).prop_map(|(seen, what)| Record {
        seen: seen.map(Time),
        what,
    });
    prop::collection::vec(record, 0..60).prop_map(|rest| (0..4).map(source).chain(rest).collect())
}

/// Writes the records, a block every `every`; returns the file and where each block ends.
fn write(records: &[Record], every: usize) -> (Vec<u8>, usize) {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (n, record) in records.iter().enumerate() {
        writer.append(record.seen, &record.what.as_input()).unwrap();
        if n % every == every - 1 {
            writer.flush().unwrap();
        }
    }
    writer.flush().unwrap();
    let blocks = records.len().div_ceil(every);
    (writer.finish().unwrap(), blocks)
}

fn read(file: &[u8]) -> (Vec<Record>, Journal<Cursor<Vec<u8>>>) {
    let mut journal = Journal::open(Cursor::new(file.to_vec())).unwrap();
    let mut records = Vec::new();
    while let Some(record) = journal.next_record().unwrap() {
        records.push(record);
    }
    (records, journal)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_comes_back(records in records(), every in 1..9_usize) {
        let (file, _) = write(&records, every);
        let (back, mut journal) = read(&file);
        prop_assert_eq!(&back, &records);
        prop_assert_eq!(journal.losses(), Default::default());
        journal.rewind();
        prop_assert_eq!(journal.next_record().unwrap(), records.first().cloned());
    }

    #[test]
    fn a_torn_end_loses_the_end_only(records in records(), every in 1..9_usize, cut in 0.0..1.0_f64) {
        let (file, _) = write(&records, every);
        let keep = 16 + ((file.len() - 16) as f64 * cut) as usize;
        let (back, journal) = read(&file[..keep]);
        prop_assert_eq!(&back[..], &records[..back.len()]);
        prop_assert!(back.len() % every == 0 || back.len() == records.len(), "whole blocks");
        prop_assert_eq!(journal.losses().damaged, 0);
    }

    #[test]
    fn a_flipped_bit_harms_one_block_and_nobody_else(records in records(), at in 0.0..1.0_f64, bit in 0..8_u8) {
        let (mut file, _) = write(&records, 4);
        let at = 16 + ((file.len() - 17) as f64 * at) as usize;
        file[at] ^= 1 << bit;
        let mut journal = Journal::open(Cursor::new(file)).unwrap();
        let mut back = Vec::new();
        while let Some(record) = journal.next_record().unwrap() {
            back.push(record);
        }
        // What comes back was written, in that order.
        let mut rest = records.iter();
        prop_assert!(back.iter().all(|record| rest.any(|written| written == record)));
    }

    #[test]
    fn any_bytes_are_no_danger(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let file = [&b"unhang-journal\x01\x00"[..], &bytes].concat();
        if let Ok(mut journal) = Journal::open(Cursor::new(file)) {
            while let Ok(Some(_)) = journal.next_record() {}
        }
    }
}

#[test]
fn other_files_and_later_versions_are_refused() {
    let open = |bytes: &[u8]| {
        Journal::open(Cursor::new(bytes.to_vec()))
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    let cut = "no journal, or one that is cut off within its first bytes";
    assert_eq!(open(b""), cut);
    assert_eq!(open(b"unhang-jour"), cut);
    assert_eq!(open(b"node-1:7:7 [0] NCCL INFO"), "no journal of unhang");
    assert_eq!(
        open(b"unhang-journal\x02\x00"),
        "version 2 is newer than this unhang, which reads 1"
    );
}

/// Waits until the handle shows it.
fn until(handle: &Handle, what: &str, mut holds: impl FnMut(&Handle) -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    let mut seen = 0;
    while !holds(handle) {
        assert!(
            Instant::now() < end,
            "{what} does not happen: {:?}",
            handle.status()
        );
        seen = handle.wait_for_change(seen, Duration::from_millis(200));
    }
}

const LINE: &str = "node-1:41:41 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n";

fn append(path: &Path, text: &str) {
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_watch_that_is_played_again_gives_the_same_json() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    fs::create_dir(&logs).unwrap();
    append(&logs.join("rank0.log"), LINE);
    let journal = dir.path().join("watch.journal");
    let plan = watch::Plan {
        paths: vec![logs.clone()],
        claim: None,
        record: Some(journal.clone()),
        ..Default::default()
    };
    let watch = watch::start(&plan, engine()).unwrap();
    let handle = watch.handle();
    let lines = |n: u64| move |handle: &Handle| handle.snapshot().inputs.lines == n;
    until(&handle, "the first line", lines(1));
    append(&logs.join("rank1.log"), &LINE.repeat(3));
    until(&handle, "a new file", lines(4));
    append(&logs.join("rank0.log"), LINE);
    until(&handle, "a file that grows", lines(5));
    let live = watch.finish();
    assert!(
        handle.status().messages.is_empty(),
        "{:?}",
        handle.status().messages
    );
    assert!(live.now.is_some());

    let plan = report::Plan {
        paths: vec![journal.clone()],
        ..report::Plan::default()
    };
    let report = report::run(&plan, engine());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(
        json::to_string(&report.snapshot, true),
        json::to_string(&live, true)
    );

    let script = replay::script::open_journal(&journal).unwrap();
    assert_eq!(script.axis(), Axis::Recorded);
    let replay = replay::start(
        script,
        engine,
        Start {
            speed: 1_000.0,
            at: Duration::ZERO,
        },
    )
    .unwrap();
    until(&replay.handle(), "the end", |handle| handle.status().ended);
    assert_eq!(
        json::to_string(&replay.finish(), true),
        json::to_string(&live, true)
    );
}

/// A folder of two logs of a thousand lines.
fn saved() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    append(&dir.path().join("rank0.log"), &LINE.repeat(1_000));
    append(&dir.path().join("rank1.log"), &LINE.repeat(500));
    dir
}

fn files(dir: &tempfile::TempDir) -> Box<dyn Script> {
    let found = Discoverer::new(&[dir.path().to_owned()]).search();
    Box::new(FilesScript::new(found.logs, found.dumps, None))
}

#[test]
fn saved_files_progress_together_and_end_like_a_report() {
    let dir = saved();
    let mut script = files(&dir);
    assert_eq!(script.axis(), Axis::Bytes);
    let mut taken = [0_u64; 2];
    while let Some((at, record)) = script.next().unwrap() {
        assert!(at <= script.length());
        if let What::Bytes { source, chunk, .. } = record.what {
            assert_eq!(chunk.last(), Some(&b'\n'), "pieces are lines");
            taken[source.ix()] += chunk.len() as u64;
            let done = [taken[0] as f64 / 1_000.0, taken[1] as f64 / 500.0]
                .map(|part| part / LINE.len() as f64);
            assert!((done[0] - done[1]).abs() < 0.02, "{done:?}");
        }
    }
    let mut engine_of_replay = engine();
    let played = replay::to_the_end(files(&dir).as_mut(), &mut engine_of_replay).unwrap();
    let plan = report::Plan {
        paths: vec![dir.path().to_owned()],
        ..report::Plan::default()
    };
    let report = report::run(&plan, engine()).snapshot;
    assert_eq!(
        json::to_string(&played, true),
        json::to_string(&report, true)
    );
}

#[test]
fn a_replay_pauses_steps_seeks_and_reads_lines_back() {
    let dir = saved();
    let replay = replay::start(
        files(&dir),
        engine,
        Start {
            speed: 0.1,
            at: Duration::from_secs(2),
        },
    )
    .unwrap();
    let handle = replay.handle();
    let at = |handle: &Handle| handle.status().playback.unwrap().at;
    handle.pause();
    until(&handle, "the start position", |handle| {
        at(handle) >= Duration::from_secs(2)
    });
    until(&handle, "the jump's end", |handle| {
        !handle.status().playback.unwrap().seeking
    });

    let before = handle.snapshot().inputs.bytes;
    handle.step();
    until(&handle, "a step", |handle| {
        handle.snapshot().inputs.bytes > before
    });
    let length = handle.status().playback.unwrap().length;
    handle.seek(length);
    until(&handle, "the end", |handle| handle.status().ended);
    assert_eq!(handle.snapshot().inputs.bytes, 1_500 * LINE.len() as u64);
    let end = json::to_string(&handle.snapshot(), true);

    handle.seek(Duration::ZERO);
    until(&handle, "the start", |handle| {
        at(handle) == Duration::ZERO && !handle.status().ended
    });
    until(&handle, "the earlier state", |handle| {
        handle.snapshot().inputs.bytes < before
    });
    handle.set_speed(1e9);
    handle.resume();
    until(&handle, "the end again", |handle| handle.status().ended);
    assert_eq!(handle.status().playback.unwrap().speed, 1_000.0);
    assert_eq!(
        json::to_string(&handle.snapshot(), true),
        end,
        "the same end by another way"
    );
    let _last = replay.finish();
}

#[test]
fn a_paused_watch_takes_in_what_comes_and_says_how_much() {
    let dir = tempfile::tempdir().unwrap();
    append(&dir.path().join("rank0.log"), LINE);
    let plan = watch::Plan {
        paths: vec![dir.path().to_owned()],
        ..watch::Plan::default()
    };
    let watch = watch::start(&plan, engine()).unwrap();
    let handle = watch.handle();
    until(&handle, "the first line", |handle| {
        handle.snapshot().inputs.lines == 1
    });
    handle.pause();
    let frozen = handle.snapshot();
    append(&dir.path().join("rank0.log"), &LINE.repeat(200));
    until(&handle, "the bytes behind", |handle| {
        handle.status().behind == 200 * LINE.len() as u64
    });
    assert!(
        Arc::ptr_eq(&handle.snapshot(), &frozen),
        "the view stands still"
    );
    handle.resume();
    until(&handle, "the present", |handle| {
        handle.snapshot().inputs.lines == 201
    });
    assert_eq!(handle.status().behind, 0);
    let _last = watch.finish();
}

#[test]
fn lines_of_a_watched_file_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let start = "node-1:41:41 [0] NCCL INFO comm 0x55 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init START\n";
    append(&dir.path().join("rank0.log"), &format!("{start}{LINE}"));
    let plan = watch::Plan {
        paths: vec![dir.path().to_owned()],
        ..watch::Plan::default()
    };
    let watch = watch::start(&plan, engine()).unwrap();
    let handle = watch.handle();
    until(&handle, "two lines", |handle| {
        handle.snapshot().inputs.lines == 2
    });
    let page = handle
        .log(Whose::Ranks(vec![0]), LogRequest::Newest(1))
        .recv_timeout(Duration::from_secs(10))
        .unwrap();
    assert_eq!(page.older, 1);
    assert_eq!(page.lines[0].place.number, 2);
    let _last = watch.finish();
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_watch() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    append(&dir.path().join("rank0.log"), LINE);
    let paths = vec![dir.path().to_owned()];
    let plan = watch::Plan {
        paths,
        claim: None,
        record: Some(full.to_owned()),
        ..Default::default()
    };
    let watch = watch::start(&plan, engine()).unwrap();
    let handle = watch.handle();
    until(&handle, "the message", |handle| {
        handle
            .status()
            .messages
            .iter()
            .any(|text| text.starts_with("recording stopped"))
    });
    append(&dir.path().join("rank0.log"), LINE);
    until(&handle, "the next line", |handle| {
        handle.snapshot().inputs.lines == 2
    });
    let _last = watch.finish();
}

#[test]
fn a_file_that_is_no_journal_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("rank0.log");
    append(&log, LINE);
    let plan = watch::Plan {
        paths: vec![log.clone()],
        claim: None,
        record: Some(log.clone()),
        ..Default::default()
    };
    let Err(error) = watch::start(&plan, engine()) else {
        panic!("it was overwritten")
    };
    assert!(
        error
            .to_string()
            .ends_with("there is a file of this name that is no journal")
    );
    assert_eq!(fs::read_to_string(&log).unwrap(), LINE);
}

#[test]
fn the_built_in_cases_are_whole() {
    for case in demo::CASES {
        let mut script = case.script().unwrap();
        let mut bytes = 0;
        while let Some((_, record)) = script.next().unwrap() {
            bytes += record.what.len();
        }
        assert!(bytes > 2_000, "{}", case.name);
        assert_eq!(script.losses(), 0, "{}", case.name);
    }
}

/// Recorded beside a real job on an H200; fixtures/journals/README.md says how.
#[test]
fn a_watch_on_a_gpu_replays_without_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journals");
    let play = |name: &str| {
        let file = File::open(folder.join(name)).unwrap();
        let mut script = JournalScript::new(Journal::open(file).unwrap());
        let mut engine = Engine::new(Catalog::builtin(), Options::default());
        while let Some((_, record)) = script.next().unwrap() {
            engine.handle(record.seen, record.what.as_input());
        }
        assert_eq!(script.losses(), 0, "{name}");
        engine.snapshot()
    };
    let means = |snapshot: &Snapshot| {
        let ranks = snapshot.job.ranks.iter();
        ranks
            .map(|rank| snapshot.job.gpu_of(rank).and_then(Gpu::means))
            .collect::<Vec<_>>()
    };
    let healthy = play("h200-healthy.journal");
    assert_eq!(healthy.verdict.state, State::Healthy);
    assert_eq!(means(&healthy), [Some(Means::Moves); 2]);
    assert_eq!(
        healthy.job.gpus[0].sample.driver.as_deref(),
        Some("580.159.04")
    );
    let stopped = play("h200-stopped.journal");
    assert_eq!(
        (stopped.verdict.state, stopped.verdict.class),
        (State::Hung, Class::MissingRank)
    );
    assert_eq!(stopped.verdict.ranks, [1]);
    assert_eq!(means(&stopped), [Some(Means::Spins); 2]);
}

#[test]
fn saved_files_become_a_journal_that_plays_the_same() {
    let dir = saved();
    let file = save(files(&dir).as_mut(), Vec::new()).unwrap();
    let mut from_journal = JournalScript::new(Journal::open(Cursor::new(file)).unwrap());
    let mut from_files = files(&dir);
    loop {
        let (a, b) = (from_journal.next().unwrap(), from_files.next().unwrap());
        assert_eq!(
            a.as_ref().map(|(_, record)| record),
            b.as_ref().map(|(_, record)| record)
        );
        if a.is_none() {
            break;
        }
    }
}

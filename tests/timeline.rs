//! The bar of time: what a replay finds out about itself beforehand, how that looks, and jumping to it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use unhang::app::demo::{CASES, Case};
use unhang::app::handle::{Axis, Handle, LogRequest, Mode, Playback, Status};
use unhang::app::replay::script::FilesScript;
use unhang::app::replay::{self, Start};
use unhang::app::timeline::{Mark, Timeline};
use unhang::app::watch::{self, Plan};
use unhang::engine::catalog::Catalog;
use unhang::engine::recent::Whose;
use unhang::engine::snapshot::Snapshot;
use unhang::engine::vocab::{Role, State};
use unhang::engine::{Engine, Options};
use unhang::sources::discover::Discoverer;
use unhang::views::escape::Glyphs;
use unhang::views::tui::keymap::Action;
use unhang::views::tui::theme::{Colors, Theme};
use unhang::views::tui::update::Effect;

#[path = "support/bench.rs"]
#[expect(dead_code, reason = "this test needs a part of it")]
mod bench;
#[path = "support/samples.rs"]
mod samples;
#[path = "support/screens.rs"]
mod screens;

use bench::Bench;

/// An engine as a dashboard has it.
fn engine() -> Engine {
    Engine::new(Catalog::builtin(), Options { keep_recent: true })
}

/// Waits until the handle shows it.
fn wait(handle: &Handle, what: &str, is: impl Fn(&Status, &Snapshot) -> bool) {
    let mut seen = 0;
    for _ in 0..600 {
        if is(&handle.status(), &handle.snapshot()) {
            return;
        }
        seen = handle.wait_for_change(seen, Duration::from_millis(100));
    }
    panic!("waited for {what}: {:?}", handle.status());
}

/// Where a recorded failure shows what.
fn looked_through(case: &Case) -> (replay::Replay, Arc<Timeline>) {
    let replay = replay::start(case.script().unwrap(), engine, Start::default()).unwrap();
    let handle = replay.handle();
    handle.pause();
    wait(&handle, "the whole timeline", |status, _| {
        status.timeline.as_ref().is_some_and(|t| t.known() >= 1.0)
    });
    let timeline = handle.status().timeline.unwrap();
    (replay, timeline)
}

fn has_cause(snapshot: &Snapshot, mark: &Mark) -> bool {
    let mut findings = snapshot.findings.iter();
    findings.any(|f| f.role == Role::Cause && f.id == mark.id)
}

#[test]
fn at_the_first_sign_the_cause_is_there_and_before_it_is_not() {
    for case in CASES {
        let (replay, timeline) = looked_through(case);
        let handle = replay.handle();
        let jump = |to| {
            handle.seek(to);
            wait(&handle, "the jump", |status, _| {
                let playback = status.playback.unwrap();
                !playback.seeking && playback.at == to
            });
            handle.snapshot()
        };
        let first = timeline.first_sign().unwrap().clone();
        assert!(!first.symptom, "{}: {first:?}", case.name);
        assert!(has_cause(&jump(first.at), &first), "{}", case.name);
        // A part of the time is as exact as it is told.
        let earlier = first.at.saturating_sub(timeline.length / 256);
        if earlier > Duration::ZERO {
            assert!(!has_cause(&jump(earlier), &first), "{}", case.name);
        }
        let last = jump(timeline.length);
        assert!(has_cause(&last, &first), "{}: it still stands", case.name);
        assert_eq!(
            timeline.lines.iter().sum::<u64>(),
            last.inputs.lines,
            "{}: all lines are counted",
            case.name
        );
        let _ended = replay.finish();
    }
}

/// A rank that was late when the logs were saved is told by a note, and by whom it names.
#[test]
fn what_a_job_waits_for_is_a_sign_though_nothing_is_proven() {
    let folder = tempfile::tempdir().unwrap();
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cases/rank-killed-16");
    for rank in 0..16 {
        let name = format!("rank{rank}.log");
        let text = fs::read_to_string(case.join(&name)).unwrap();
        // Before anybody saw it end: all are in the third step, but for rank 6.
        let step = text.lines().position(|line| line.contains(" step 1 ok"));
        let more = if rank == 6 { 1 } else { 2 };
        let lines = text.lines().take(step.unwrap() + more);
        let kept: Vec<&str> = lines.collect();
        fs::write(folder.path().join(name), kept.join("\n") + "\n").unwrap();
    }
    let found = Discoverer::new(&[folder.path().to_owned()]).search();
    let script = FilesScript::new(found.logs, found.dumps, None);
    let replay = replay::start(Box::new(script), engine, Start::default()).unwrap();
    let handle = replay.handle();
    wait(&handle, "the whole timeline", |status, _| {
        status.timeline.as_ref().is_some_and(|t| t.known() >= 1.0)
    });
    let timeline = handle.status().timeline.unwrap();
    handle.seek(timeline.length);
    wait(&handle, "the end", |status, _| status.ended);
    let last = replay.finish();
    assert_eq!(last.verdict.state, State::Waiting, "{:?}", last.verdict);
    let lead = &last.findings[last.verdict.finding.unwrap()];
    let sign = timeline.first_sign().unwrap();
    assert_eq!((sign.symptom, &sign.title), (true, &lead.title));
    assert!(sign.at > timeline.length / 2, "{sign:?}");
}

#[test]
fn looking_through_gives_the_same_every_time() {
    let (first, second) = (looked_through(&CASES[0]), looked_through(&CASES[0]));
    assert_eq!(first.1, second.1);
    let _ended = (first.0.finish(), second.0.finish());
}

impl Bench {
    fn in_time(timeline: Timeline) -> Self {
        let mut bench = Self::recorded("rank-killed-16");
        bench.status = Status::new(Mode::Replay);
        bench.status.playback = Some(Playback {
            axis: timeline.axis,
            at: timeline.length / 2,
            length: timeline.length,
            speed: 1.0,
            seeking: false,
        });
        bench.status.timeline = Some(Arc::new(timeline));
        bench
    }

    /// The row above the footer, and its look.
    fn bar(&mut self, width: u16, colors: Colors, glyphs: Glyphs) -> String {
        self.ui.theme = Theme { colors, glyphs };
        let buf = self.drawn((width, 24));
        let row = |text: String| text.lines().nth(22).unwrap_or_default().to_owned();
        format!(
            "{}\n{}\n",
            row(screens::plain(&buf)),
            row(screens::styled(&buf))
        )
    }
}

fn mark(at: u64, symptom: bool, id: &str) -> Mark {
    Mark {
        at: Duration::from_secs(at),
        symptom,
        id: id.to_owned(),
        title: format!("what {id} says"),
    }
}

/// What a watch shows of a job that is written while it looks.
#[test]
fn a_watch_shows_when_lines_came_and_findings_came_up() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cases/iface-docker-16");
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        paths: vec![folder.path().to_owned()],
        no_gpu: true,
        ..Plan::default()
    };
    let watch = watch::start(&plan, engine()).unwrap();
    let handle = watch.handle();
    wait(&handle, "time to pass", |status, _| {
        status
            .timeline
            .as_ref()
            .is_some_and(|t| t.length > Duration::ZERO)
    });
    let mut lines = 0;
    for file in fs::read_dir(case).unwrap() {
        let file = file.unwrap();
        if file.path().extension().is_none_or(|end| end != "log") {
            continue;
        }
        let text = fs::read(file.path()).unwrap();
        lines += text.iter().filter(|b| **b == b'\n').count() as u64;
        fs::write(folder.path().join(file.file_name()), text).unwrap();
    }
    wait(&handle, "the first sign", |status, _| {
        let timeline = status.timeline.as_ref().unwrap();
        let sign = timeline.first_sign().is_some_and(|mark| !mark.symptom);
        sign && timeline.lines.iter().sum::<u64>() == lines
    });
    let timeline = handle.status().timeline.unwrap();
    assert!(timeline.first_sign().unwrap().at <= timeline.length);
    assert_eq!(timeline.axis, Axis::Recorded);
    looks_back(&handle, &timeline, lines, &folder);
    let last = watch.finish();
    assert_eq!(last.inputs.lines, lines + 3, "the end is the present's");
}

/// From now on it looks back, while the logs go on.
fn looks_back(handle: &Handle, timeline: &Timeline, lines: u64, folder: &tempfile::TempDir) {
    let more = |text: &str| {
        let log = folder.path().join("rank0.log");
        let mut log = fs::File::options().append(true).open(log).unwrap();
        log.write_all(text.as_bytes()).unwrap();
    };
    let first = timeline.first_sign().unwrap().clone();
    let arrived = |status: &Status, at| {
        let there = |p: Playback| !p.seeking && p.at == at;
        status.looks_back() && status.paused && status.playback.is_some_and(there)
    };
    // A moment later, or it would be the present.
    wait(handle, "time to pass", |status, _| {
        status
            .timeline
            .as_ref()
            .is_some_and(|t| t.length > first.at + Duration::from_secs(1))
    });
    handle.seek(first.at);
    wait(handle, "the first sign again", |status, snapshot| {
        arrived(status, first.at) && has_cause(snapshot, &first)
    });
    // The lines of then can be read.
    let page = handle.log(Whose::Ranks(vec![0]), LogRequest::Newest(5));
    let page = page.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(page.lines.iter().all(|line| line.bytes.is_some()) && !page.lines.is_empty());
    // What comes meanwhile is taken in, and is not of then.
    more("one more line\ntwo more lines\n");
    let length = |status: &Status| status.timeline.as_ref().map(|t| t.length).unwrap();
    wait(handle, "more lines", |status, _| {
        status.timeline.as_ref().unwrap().lines.iter().sum::<u64>() == lines + 2
    });
    assert!(arrived(&handle.status(), first.at));
    assert!(length(&handle.status()) > timeline.length);
    // At the very start nothing had been written.
    handle.seek(Duration::ZERO);
    wait(handle, "the start", |status, snapshot| {
        arrived(status, Duration::ZERO) && snapshot.inputs.lines == 0
    });
    // Piece by piece, and played; its end is the present.
    handle.step();
    wait(handle, "a piece", |status, snapshot| {
        status.looks_back() && snapshot.inputs.lines > 0
    });
    handle.set_speed(1000.0);
    handle.resume();
    wait(handle, "the present", |status, snapshot| {
        !status.looks_back() && !status.paused && snapshot.inputs.lines == lines + 2
    });
    // Or at once.
    handle.seek(Duration::ZERO);
    wait(handle, "the start", |status, _| {
        arrived(status, Duration::ZERO)
    });
    more("the last line\n");
    handle.seek(Duration::MAX);
    wait(handle, "the last line", |status, snapshot| {
        !status.looks_back() && snapshot.inputs.lines == lines + 3
    });
    // Whoever leaves while looking back is told of the present.
    handle.seek(Duration::ZERO);
    wait(handle, "the start", |status, _| {
        arrived(status, Duration::ZERO)
    });
}

/// A loud start, steps, a fault and silence.
fn timeline(axis: Axis) -> Timeline {
    let mut timeline = Timeline::new(axis, Duration::from_secs(200));
    timeline.lines = (0..512)
        .map(|part| match part {
            0..40 => 1_000,
            40..300 => 20 + part % 60,
            300..320 => 300,
            _ => 0,
        })
        .collect();
    timeline.marks = vec![
        mark(60, true, "COL001"),
        mark(118, false, "PRC001"),
        mark(118, true, "NET009"),
        mark(121, true, "NET010"),
    ];
    timeline.whole = true;
    timeline
}

#[test]
fn the_bar_looks_like_this() {
    let mut out = String::new();
    for axis in [Axis::Recorded, Axis::Bytes] {
        let mut bench = Bench::in_time(timeline(axis));
        for width in [80, 120, 200] {
            for (colors, glyphs) in [
                (Colors::Dark, Glyphs::Unicode),
                (Colors::Mono, Glyphs::Unicode),
                (Colors::Mono, Glyphs::Ascii),
            ] {
                out += &bench.bar(width, colors, glyphs);
            }
        }
    }
    let mut early = timeline(Axis::Recorded);
    early.lines.truncate(100);
    early.marks.clear();
    early.whole = false;
    out += &Bench::in_time(early).bar(120, Colors::Dark, Glyphs::Unicode);
    let mut healthy = timeline(Axis::Bytes);
    healthy.marks.clear();
    out += &Bench::in_time(healthy).bar(120, Colors::Dark, Glyphs::Unicode);
    // A watch is at the end, which is now.
    let mut watched = Bench::in_time(timeline(Axis::Recorded));
    watched.status.playback = None;
    out += &watched.bar(120, Colors::Dark, Glyphs::Unicode);
    insta::assert_snapshot!("bar", out);
}

#[test]
fn a_replay_with_its_bar_looks_like_this() {
    let mut bench = Bench::in_time(timeline(Axis::Recorded));
    for size in [(80, 24), (120, 40), (200, 50)] {
        let name = format!("replay_{}x{}", size.0, size.1);
        insta::assert_snapshot!(name, screens::plain(&bench.drawn(size)));
    }
    let low = screens::plain(&bench.drawn((80, 23)));
    assert!(!low.contains("by time"), "no room for it:\n{low}");
}

#[test]
fn keys_jump_to_findings_and_stop_there() {
    let seek = |at| Effect::Seek(Duration::from_secs(at));
    let mut bench = Bench::in_time(timeline(Axis::Recorded));
    assert_eq!(bench.press("!"), [Effect::Pause, seek(118)]);
    let said = bench.ui.message.clone();
    assert_eq!(said.as_deref(), Some("first sign: PRC001 what PRC001 says"));
    assert_eq!(bench.ui.findings.id.as_deref(), Some("PRC001"));
    bench.status.paused = true;
    assert_eq!(bench.press(">"), [seek(118)]);
    assert_eq!(bench.press("<"), [seek(60)]);
    let mut playback = bench.status.playback.unwrap();
    playback.at = Duration::from_secs(118);
    bench.status.playback = Some(playback);
    assert_eq!(bench.press(">"), [seek(121)]);
    playback.at = Duration::from_secs(121);
    bench.status.playback = Some(playback);
    assert_eq!(bench.press(">"), []);
    let said = bench.ui.message.clone();
    assert_eq!(said.as_deref(), Some("no finding comes up after this"));

    assert_eq!(bench.press("("), [seek(0)]);
    assert_eq!(bench.press(")"), [Effect::Seek(Duration::MAX)]);

    let mut early = timeline(Axis::Recorded);
    early.lines.truncate(128);
    early.marks.clear();
    early.whole = false;
    let mut bench = Bench::in_time(early);
    assert_eq!(bench.press("!"), []);
    let said = bench.ui.message.clone();
    assert_eq!(
        said.as_deref(),
        Some("no finding came up; 25% was looked through so far")
    );
}

#[test]
fn a_watch_looks_back_with_the_same_keys_and_says_so() {
    let seek = |at| Effect::Seek(Duration::from_secs(at));
    let mut bench = Bench::in_time(timeline(Axis::Recorded));
    let playback = bench.status.playback;
    bench.status.mode = Mode::Live;
    bench.status.playback = None;
    let act = |bench: &mut Bench, action| {
        bench.act(action);
        bench.effects.clone()
    };
    assert_eq!(act(&mut bench, Action::FirstSign), [seek(118)]);
    assert_eq!(act(&mut bench, Action::Sign(-1)), [seek(121)]);
    assert_eq!(act(&mut bench, Action::Seek(-1)), [seek(190)]);
    assert_eq!(
        act(&mut bench, Action::Seek(1)),
        [Effect::Seek(Duration::MAX)]
    );
    assert_eq!(act(&mut bench, Action::Edge(false)), [seek(0)]);
    for action in [Action::Step, Action::Faster] {
        assert_eq!(act(&mut bench, action), []);
        let said = bench.ui.message.take().unwrap_or_default();
        assert!(said.contains("[ looks back"), "{said}");
    }
    bench.status.paused = true;
    assert_eq!(act(&mut bench, Action::Step), [Effect::Step]);
    bench.status.playback = playback;
    bench.status.kept_from = Some(Duration::from_secs(40));
    assert_eq!(act(&mut bench, Action::Pause), [Effect::Resume]);
    let wide = screens::plain(&bench.drawn((140, 24)));
    let header = wide.lines().next().unwrap();
    assert!(
        header.contains("LOOKING BACK") && header.contains("behind the present, ) goes there"),
        "{header}"
    );
    assert!(
        header.contains("the first 40s are not kept any more"),
        "{header}"
    );
    bench.status.paused = false;
    assert!(screens::plain(&bench.draw()).contains("PLAYING THE PAST"));
}

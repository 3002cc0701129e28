//! The dashboard, frame by frame and key by key, without a terminal.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use crossterm::event::KeyCode;
use proptest::prelude::*;
use ratatui::style::Color;
use unhang::app::handle::{Loading, LogLine, LogPage, LogRequest, Mode, Status};
use unhang::app::{demo, replay};
use unhang::engine::catalog::Catalog;
use unhang::engine::ids::SourceId;
use unhang::engine::line::Place;
use unhang::engine::recent::Whose;
use unhang::engine::{Engine, Options};
use unhang::sources::progress::Progress;
use unhang::views::escape::harmless;
use unhang::views::tui::keymap::{self, KEYMAP, Key};
use unhang::views::tui::screen::Screen;
use unhang::views::tui::update::{Effect, arrived};
use unhang::views::tui::{self, svg};

#[path = "support/bench.rs"]
#[expect(dead_code, reason = "this test needs a part of it")]
mod bench;
#[path = "support/gpus.rs"]
mod gpus;
#[path = "support/samples.rs"]
mod samples;
#[path = "support/screens.rs"]
mod screens;

use bench::{ASCII, Bench, COLOR, PLAIN};

/// A screen in a size, as text and, in the smallest, its styles.
fn check(name: &str, bench: &mut Bench) {
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        bench.size(width, height);
        let buf = bench.draw();
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), screens::plain(&buf));
        if width == 80 {
            insta::assert_snapshot!(format!("{name}_style"), screens::styled(&buf));
            bench.ui.theme = PLAIN;
            insta::assert_snapshot!(
                format!("{name}_style_without_color"),
                screens::styled(&bench.draw())
            );
            bench.ui.theme = ASCII;
            insta::assert_snapshot!(format!("{name}_ascii"), screens::plain(&bench.draw()));
            bench.ui.theme = COLOR;
        }
    }
}

#[test]
fn screens_look_like_this() {
    check("overview", &mut Bench::new("wrong_interface"));
    check("ranks", Bench::new("wrong_interface").keys("2"));
    check("findings", Bench::new("wrong_interface").keys("3"));
    check("hosts", Bench::new("wrong_interface").keys("4"));
    check("collectives", Bench::new("skipped_collective").keys("5"));
    check("mismatch", Bench::recorded("mismatch-count-16").keys("5"));
    check("connects", Bench::recorded("iface-docker-16").keys("4"));
    check("log", Bench::new("wrong_interface").keys("3⏎"));
    let mut merged = Bench::new("wrong_interface");
    check("log_merged", merged.keys("2mm⏎gxline 1⏎").keys("/of⏎"));
    check("env", Bench::new("settings").keys("7"));
    let mut watched = Bench::new("healthy");
    watched.snapshot = gpus::beside_ranks(watched.snapshot);
    check("gpus", watched.keys("8"));
    check("help", Bench::new("wrong_interface").keys("?"));
    check("prove", Bench::new("wrong_interface").keys("3p"));
}

#[test]
fn overviews_of_other_jobs_look_like_this() {
    for sample in [
        "skipped_collective",
        "healthy",
        "waiting",
        "thousand",
        "sixteen_thousand",
        "empty",
        "degraded",
    ] {
        insta::assert_snapshot!(format!("overview_of_{sample}"), Bench::new(sample).shown());
    }
    insta::assert_snapshot!(
        "log_search",
        Bench::new("wrong_interface").keys("6/retry⏎").shown()
    );
    insta::assert_snapshot!(
        "ranks_filter",
        Bench::new("wrong_interface").keys("2/node-5⏎").shown()
    );
    let mut loading = Bench::new("wrong_interface");
    loading.status.loading = Some(Loading {
        progress: Progress {
            bytes: 1_288_490_189,
            of: 8_482_560_410,
            files: 300,
            of_files: 1_024,
        },
        took: Duration::from_secs(4),
    });
    insta::assert_snapshot!("loading", loading.shown());
    let mut paused = Bench::new("wrong_interface");
    paused.status.paused = true;
    paused.status.behind = 4_711;
    paused.status.dropped = 3;
    insta::assert_snapshot!("paused", paused.shown());
    insta::assert_snapshot!("replay", Bench::replay("wrong_interface").keys("2").shown());
}

#[test]
fn no_key_means_two_things_in_one_place() {
    for (at, binding) in KEYMAP.iter().enumerate() {
        for other in &KEYMAP[at + 1..] {
            let twice = binding.context == other.context
                && binding.keys.iter().any(|k| other.keys.contains(k));
            assert!(!twice, "{binding:?} and {other:?}");
        }
    }
}

#[test]
fn keys_md_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/keys.md");
    let fresh = keymap::markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &fresh).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        fresh,
        "UPDATE_DOCS=1 cargo test --test tui writes it"
    );
}

/// The picture of the README: the end of a recorded failure.
#[test]
fn dashboard_svg_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/dashboard.svg");
    let case = demo::Case::find(Some("mismatch-count-16")).unwrap();
    let mut engine = Engine::new(Catalog::builtin(), Options::default());
    let snapshot = replay::to_the_end(case.script().unwrap().as_mut(), &mut engine).unwrap();
    let mut status = Status::new(Mode::Replay);
    status.ended = true;
    let fresh = tui::picture(&snapshot, &status, 120, 36);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &fresh).unwrap();
    }
    let same = std::fs::read_to_string(path).unwrap() == fresh;
    assert!(same, "UPDATE_DOCS=1 cargo test --test tui writes it");
}

#[test]
fn screens_are_reached_by_number_and_tab_and_left_by_escape() {
    let mut bench = Bench::new("wrong_interface");
    for (at, screen) in Screen::ALL.into_iter().enumerate() {
        bench.keys(&(at + 1).to_string());
        assert_eq!(bench.ui.screen, screen);
    }
    bench.key(Key::Plain(KeyCode::Tab));
    assert_eq!(bench.ui.screen, Screen::Overview);
    bench.key(Key::Plain(KeyCode::BackTab));
    assert_eq!(bench.ui.screen, Screen::Gpus);
    bench.keys("⎋⎋");
    assert_eq!(
        bench.ui.screen,
        Screen::Gpus,
        "each step back undoes one step"
    );
    bench.keys("⎋⎋⎋⎋⎋⎋⎋⎋⎋⎋");
    assert_eq!(bench.ui.screen, Screen::Overview);
}

#[test]
fn settings_and_gpus_lead_to_their_rank() {
    let mut bench = Bench::new("settings");
    // What differs stands first: the version of rank 2, then that of the others.
    bench.keys("7⏎");
    assert_eq!((bench.ui.screen, bench.ui.log.rank), (Screen::Log, Some(2)));
    bench.keys("7j⏎");
    assert_eq!(bench.ui.log.rank, Some(0));
    let mut bench = Bench::new("healthy");
    bench.snapshot = gpus::beside_ranks(bench.snapshot);
    bench.keys("8j⏎");
    assert_eq!((bench.ui.screen, bench.ui.log.rank), (Screen::Log, Some(1)));
    bench.snapshot.job.gpus.clear();
    bench.keys("8j⏎");
    assert!(bench.shown().contains("no GPU was looked at"));
}

#[test]
fn a_finding_leads_to_its_line() {
    let mut bench = Bench::new("wrong_interface");
    bench.keys("3⏎");
    assert_eq!(bench.ui.screen, Screen::Log);
    assert_eq!(bench.ui.log.rank, Some(10));
    assert_eq!(bench.ui.log.lines[bench.ui.log.row].place.number, 6);
    assert!(bench.shown().contains(">  6 "), "{}", bench.shown());
    bench.keys("e");
    assert_eq!(
        bench.ui.log.rank,
        Some(0),
        "the next finding's evidence is of rank 0"
    );
}

#[test]
fn a_line_that_is_gone_is_told() {
    let mut bench = Bench::new("skipped_collective");
    bench.keys("3⏎");
    assert!(
        bench.ui.message.as_deref().unwrap().contains("line 88"),
        "{:?}",
        bench.ui.message
    );
}

#[test]
fn a_log_is_searched_up_and_down() {
    let mut bench = Bench::new("wrong_interface");
    bench.keys("6g/line 1[0-9]⏎");
    let at = |bench: &Bench| bench.ui.log.lines[bench.ui.log.row].place.number;
    assert_eq!(at(&bench), 10);
    bench.keys("nn");
    assert_eq!(at(&bench), 12);
    bench.keys("NNN");
    assert_eq!(
        at(&bench),
        19,
        "the search goes round; line 16 says something else"
    );
    bench.keys("/(⏎");
    assert!(
        bench
            .ui
            .message
            .as_deref()
            .unwrap()
            .starts_with("not a regular expression")
    );
    bench.keys("/no such thing⏎");
    assert!(
        bench
            .ui
            .message
            .as_deref()
            .unwrap()
            .starts_with("not found")
    );
}

#[test]
fn a_log_follows_its_end_until_one_goes_up() {
    let mut bench = Bench::new("wrong_interface");
    bench.keys("6");
    assert!(bench.ui.log.follow);
    let more = |number| {
        let place = Place {
            source: SourceId(10),
            number,
            offset: 0,
            len: 3,
        };
        LogPage {
            lines: vec![LogLine {
                place,
                rank: Some(10),
                bytes: None,
            }],
            older: 0,
            newer: 0,
        }
    };
    let last = bench.ui.log.lines.last().unwrap().place;
    let of = |rank| Whose::Ranks(vec![rank]);
    arrived(&mut bench.ui, &of(10), LogRequest::After(last, 9), more(25));
    assert_eq!(bench.ui.log.row, 24);
    bench.keys("k");
    arrived(&mut bench.ui, &of(10), LogRequest::After(last, 9), more(26));
    assert_eq!(bench.ui.log.row, 23);
    bench.keys("G");
    assert!(bench.ui.log.follow);
    arrived(&mut bench.ui, &of(3), LogRequest::After(last, 9), more(27));
    assert_eq!(
        bench.ui.log.lines.len(),
        26,
        "lines of another rank came too late"
    );
}

#[test]
fn logs_of_several_ranks_are_read_together_and_filtered() {
    let mut bench = Bench::new("wrong_interface");
    bench.keys("2gmjm⏎");
    assert_eq!(bench.ui.whose(), Some(Whose::Ranks(vec![0, 2])));
    assert!(
        bench.shown().contains("ranks 0,2, as they came"),
        "{}",
        bench.shown()
    );
    bench.keys("a");
    assert_eq!(bench.ui.whose(), Some(Whose::All));
    assert_eq!(bench.ui.log.lines.len(), 16 * 24);
    bench.keys("ione 1[0-9] of rank 3⏎x13|14⏎");
    let shown = bench.shown();
    assert!(shown.contains("only /one 1"), "{shown}");
    assert!(bench.ui.log.passing.is_empty(), "{shown}");
    bench.keys("ine 1[0-9] of rank 3⏎");
    bench.keys("i").key(Key::Ctrl('c'));
    bench.keys("⎋ine 1[0-9] of rank 3⏎x13|14⏎");
    let shown = bench.shown();
    assert_eq!(bench.ui.log.passing.len(), 8, "{shown}");
    // The cursor stays on lines that are shown, a search finds no others.
    bench.keys("g/line 1⏎kk");
    assert!(bench.ui.log.passing.contains(&bench.ui.log.row));
    // Enter leads to the line among its own rank's.
    let line = bench.ui.log.lines[bench.ui.log.row].place;
    bench.keys("⏎");
    assert_eq!(bench.ui.whose(), Some(Whose::Ranks(vec![3])));
    assert_eq!(bench.ui.log.lines[bench.ui.log.row].place, line);
    // Esc takes the filters away first.
    bench.keys("⎋");
    assert_eq!(bench.ui.screen, Screen::Log);
    assert_eq!(bench.ui.log.passing.len(), 24);
    // Evidence is shown though a filter hides it.
    bench.keys("ino such line⏎e");
    assert!(bench.ui.log.only.is_none(), "{}", bench.shown());
    // Without marks all ranks come next; all can be marked at once.
    bench.keys("2M6a");
    assert_eq!(bench.ui.whose(), Some(Whose::All));
    bench.keys("2M");
    assert_eq!(bench.ui.ranks.marked.len(), 16);
}

#[test]
fn long_lines_are_wrapped_and_the_cursor_stays_in_sight() {
    let mut bench = Bench::new("wrong_interface");
    bench.keys("3⏎w");
    assert!(bench.shown().contains("wrapped"));
    bench.size(44, 14);
    for _ in 0..30 {
        bench.keys("k");
        let number = bench.ui.log.lines[bench.ui.log.row].place.number;
        let shown = bench.shown();
        assert!(
            shown.contains(&format!("{number:>2} ")),
            "{number}: {shown}"
        );
    }
}

#[test]
fn ranks_are_filtered_sorted_and_kept_selected() {
    let mut bench = Bench::new("wrong_interface");
    bench.keys("2/node-5⏎j");
    assert!(bench.shown().contains("2 ranks of 16"));
    bench.keys("⏎");
    assert_eq!(bench.ui.log.rank, Some(11));
    bench.keys("⎋⎋");
    assert!(bench.shown().contains("16 ranks"));
    bench.keys("oO⏎");
    assert_eq!(
        bench.ui.log.rank,
        Some(11),
        "the selected rank stays selected wherever its row goes"
    );
}

/// What a GPU does stands beside its rank where there is room, and in full below the table.
#[test]
fn the_gpu_stands_beside_its_rank() {
    let mut bench = Bench::new("healthy");
    bench.snapshot = gpus::beside_ranks(bench.snapshot);
    bench.size(80, 40);
    let shown = bench.keys("2").shown();
    assert!(shown.contains("100% 118W"), "{shown}");
    assert!(shown.contains("a kernel spins, most likely waiting in a collective"));
    assert!(shown.contains("process running, 101% of a core, 84 threads, 6 of NCCL"));
    for words in [
        "means memory full",
        "means clocks held down by heat",
        "on it rank 0 (20,480 MiB), process 4711",
        "NVLink 1 of 1 up, 1 at 26.5 GB/s, errors 42, 12 of them new (link 0)",
        "fabric completed, clique 1, healthy",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(shown.contains("lost"), "{shown}");
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    // With more room the table says what it means.
    bench.size(120, 40);
    let shown = bench.shown();
    assert!(shown.contains("100% 118W spins"), "{shown}");
    // Without room for all of it the table alone is left.
    bench.size(60, 12);
    let shown = bench.shown();
    assert!(!shown.contains("118W"), "{shown}");
    assert!(shown.contains("rank"), "{shown}");
}

#[test]
fn lists_begin_at_the_one_at_fault() {
    let mut bench = Bench::new("sixteen_thousand");
    bench.keys("2⏎");
    assert_eq!(bench.ui.log.rank, Some(8192));
    let mut bench = Bench::new("wrong_interface");
    bench.keys("4⏎");
    assert_eq!(bench.ui.ranks.filter, "node-5");
}

/// Each rank that cannot connect is a row of its own behind the hosts, and leads to its log.
#[test]
fn a_failed_connect_leads_to_the_log_of_its_rank() {
    let mut bench = Bench::recorded("iface-docker-16");
    let arrow = "ranks 2-15 → 172.17.0.1:36523 (docker0 on all";
    assert!(bench.keys("4").shown().contains(arrow), "{}", bench.shown());
    bench.keys("G⏎");
    assert_eq!((bench.ui.screen, bench.ui.log.rank), (Screen::Log, Some(2)));
    bench.keys("⎋");
    bench.ui.theme = ASCII;
    assert!(bench.shown().contains("ranks 2-15 -> 172.17.0.1:36523"));
}

#[test]
fn the_call_that_differs_is_marked_without_colour_too() {
    let shown = Bench::recorded("mismatch-count-16").keys("5").shown();
    let row = shown
        .lines()
        .find(|line| line.starts_with(" ! 9 "))
        .unwrap();
    assert!(
        row.contains("!1048576") && !row.contains("!AllReduce"),
        "{row}"
    );
    let usual = shown
        .lines()
        .find(|line| line.contains(" 0-8,10-15 "))
        .unwrap();
    assert!(!usual.contains('!'), "{usual}");
}

#[test]
fn the_fix_is_copied_as_a_shell_reads_it() {
    let mut bench = Bench::new("wrong_interface");
    bench.keys("y");
    assert_eq!(
        bench.effects,
        [Effect::Copy("export NCCL_SOCKET_IFNAME=data0\n".to_owned())]
    );
    bench.keys("3jjj");
    bench.keys("y");
    assert!(bench.effects.is_empty());
    assert_eq!(bench.ui.message.as_deref(), Some("there is no fix to copy"));
    let mut hostile = Bench::new("hostile");
    hostile.keys("3y");
    let [Effect::Copy(text)] = &hostile.effects[..] else {
        panic!("{:?}", hostile.effects)
    };
    assert_eq!(text, "export NCCL_SOCKET_IFNAME='x'\\''; reboot^J#'\n");
}

#[test]
fn replays_are_steered() {
    let mut bench = Bench::replay("wrong_interface");
    for (keys, effect) in [
        (".", Effect::Step),
        ("+", Effect::Speed(8.0)),
        ("-", Effect::Speed(2.0)),
        ("[", Effect::Seek(Duration::from_secs(90))),
        ("]", Effect::Seek(Duration::from_secs(110))),
        (" ", Effect::Pause),
        ("s", Effect::Save),
        ("q", Effect::Quit),
    ] {
        bench.keys(keys);
        assert_eq!(bench.effects, [effect], "{keys}");
    }
    bench.status.paused = true;
    bench.keys(" ");
    assert_eq!(bench.effects, [Effect::Resume]);
}

#[test]
fn small_terminals_get_a_message() {
    let mut bench = Bench::new("wrong_interface");
    bench.size(30, 8);
    insta::assert_snapshot!("small", bench.shown());
}

#[test]
fn a_picture_is_the_same_every_time() {
    let bench = Bench::new("wrong_interface");
    let picture = svg::svg(&bench.draw());
    assert_eq!(picture, svg::svg(&bench.draw()));
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    let hostile = svg::svg(&Bench::new("hostile").draw());
    assert!(!hostile.contains("<script"), "text is escaped");
}

fn assert_harmless(bench: &Bench, what: &str) {
    for cell in bench.draw().content() {
        let symbol = cell.symbol();
        assert_eq!(symbol, harmless(symbol, bench.ui.theme.glyphs), "{what}");
    }
}

#[test]
fn no_screen_shows_what_a_terminal_would_obey() {
    for theme in [COLOR, ASCII] {
        for keys in [
            "1",
            "2",
            "2/\u{1b}[2J",
            "3",
            "3jj",
            "4",
            "5",
            "5⏎",
            "6",
            "3⏎",
            "6/o⏎",
            "?",
        ] {
            let mut bench = Bench::new("hostile");
            bench.ui.theme = theme;
            bench.status.messages.push("\x1b[31m\u{202e}".to_owned());
            bench.status.recording = Some("\x07".to_owned());
            bench.keys(keys);
            for size in [(40, 10), (80, 24), (250, 60)] {
                bench.size(size.0, size.1);
                assert_harmless(&bench, keys);
            }
        }
    }
}

#[test]
fn without_colour_there_is_none() {
    for (name, _) in samples::all() {
        for keys in ["1", "2", "3", "4", "5", "6", "6/o⏎", "?"] {
            let mut bench = Bench::new(name);
            bench.ui.theme = PLAIN;
            bench.keys(keys);
            for cell in bench.draw().content() {
                assert_eq!(
                    (cell.fg, cell.bg),
                    (Color::Reset, Color::Reset),
                    "{name} {keys}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_size_and_no_key_panics(
        sample in 0usize..7,
        width in 1u16..=250,
        height in 1u16..=60,
        typed in "[1-6jkhlgGeEnNfoOmMaixwys?/+. \\[\\]{}⏎⎋]{0,12}",
        text in "\\PC{0,30}",
        color in any::<bool>(),
    ) {
        let name = ["wrong_interface", "skipped_collective", "healthy", "waiting", "thousand", "hostile", "empty"][sample];
        let mut bench = Bench::replay(name);
        bench.ui.theme = if color { COLOR } else { ASCII };
        bench.size(width, height);
        if let Some(rank) = bench.snapshot.job.ranks.first_mut() {
            rank.last_line = Some(text.clone());
            rank.host = Some(text.clone());
        }
        bench.snapshot.verdict.summary = text;
        bench.keys(&typed);
        assert_harmless(&bench, &typed);
        bench.key(Key::Plain(KeyCode::PageDown)).key(Key::Plain(KeyCode::End));
        assert_harmless(&bench, &typed);
    }
}

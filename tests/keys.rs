//! Every key does something somewhere, says why where it does nothing, and the footer offers those that work.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crossterm::event::KeyCode;
use unhang::views::tui::keymap::{self, Action, Binding, KEYMAP, Key};
use unhang::views::tui::screen::Screen;
use unhang::views::tui::ui::Ui;

#[path = "support/bench.rs"]
#[expect(dead_code, reason = "this test needs a part of it")]
mod bench;
#[path = "support/samples.rs"]
mod samples;
#[path = "support/screens.rs"]
#[expect(dead_code, reason = "this test needs a part of it")]
mod screens;

use bench::{Bench, COLOR, event};

/// Places from which a key is tried: somewhere each one has something to do.
const PLACES: &[&str] = &[
    "",
    "1",
    "3",
    "3jj",
    "2",
    "2j",
    "2jjo",
    "2/node-5⏎",
    "2m",
    "4",
    "4j",
    "5",
    "6",
    "6/line⏎",
    "6l",
    "6gjj",
    "6a",
    "6{",
    "2mm6a",
    "6/x",
    "2/x",
    "7",
    "7j",
    "8",
    ":",
    "3p",
    "?",
];

/// Jobs that are looked at, the last ones again.
const JOBS: [&str; 5] = [
    "wrong_interface",
    "skipped_collective",
    "healthy",
    "empty",
    "waiting",
];

/// Made once: a place is gone to many times.
static JOBS_MADE: LazyLock<Vec<Bench>> = LazyLock::new(|| {
    let live = JOBS.into_iter().map(Bench::new);
    live.chain([Bench::replay("wrong_interface"), Bench::replay("empty")])
        .collect()
});

/// What a key did: anything the user sees changes, or the outside is asked. A message is no deed.
fn does(bench: &mut Bench, key: Key) -> (bool, Option<String>) {
    bench.ui.message = None;
    let before = format!("{:?}", bench.ui);
    bench.effects.clear();
    bench.key(key);
    let said = bench.ui.message.take();
    let changed = format!("{:?}", bench.ui) != before;
    (changed || !bench.effects.is_empty(), said)
}

fn bench_at(n: usize, place: &str) -> Bench {
    let made = &JOBS_MADE[n];
    let mut bench = Bench {
        ui: Ui::new(COLOR),
        snapshot: made.snapshot.clone(),
        status: made.status.clone(),
        effects: Vec::new(),
    };
    bench.size(80, 24);
    bench.keys(place);
    bench
}

fn here(bench: &Bench) -> keymap::Here {
    bench
        .ui
        .here(bench.status.mode == unhang::app::handle::Mode::Replay)
}

#[test]
fn every_key_of_the_table_does_something_somewhere() {
    let mut left: BTreeSet<usize> = (0..KEYMAP.len()).collect();
    for n in 0..JOBS_MADE.len() {
        for place in PLACES {
            let bench = bench_at(n, place);
            let works = |binding: &Binding| {
                binding.keys.iter().all(|key| {
                    let meant = keymap::lookup(KEYMAP, here(&bench), event(*key));
                    meant == Some(binding.action) && does(&mut bench_at(n, place), *key).0
                })
            };
            left.retain(|at| !works(&KEYMAP[*at]));
        }
    }
    let left: Vec<&Binding> = left.into_iter().map(|at| &KEYMAP[at]).collect();
    // A jump needs a timeline, which tests/timeline.rs plays.
    let jumps = |b: &&Binding| matches!(b.action, Action::FirstSign | Action::Sign(_));
    let others: Vec<_> = left.into_iter().filter(|b| !jumps(b)).collect();
    assert!(
        others.is_empty(),
        "nowhere do these do anything: {others:#?}"
    );
}

/// At the end of a list the cursor stays; all else that does nothing says why.
#[test]
fn a_key_that_does_nothing_says_why() {
    let mut silent = Vec::new();
    for n in 0..JOBS_MADE.len() {
        for place in PLACES {
            for binding in KEYMAP {
                let key = binding.keys[0];
                let mut bench = bench_at(n, place);
                let meant = keymap::lookup(KEYMAP, here(&bench), event(key));
                let moves = matches!(
                    binding.action,
                    Action::Move(_)
                        | Action::Page(_)
                        | Action::Top
                        | Action::Bottom
                        | Action::Sideways(_)
                        | Action::Go(_)
                        | Action::Choose(_)
                        | Action::Erase
                );
                if meant != Some(binding.action) || moves {
                    continue;
                }
                let (did, said) = does(&mut bench, key);
                if !did && said.is_none() {
                    silent.push(format!("{n} {place:?}: {key:?} {:?}", binding.action));
                }
            }
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

/// The words of the footer, and nothing of it if a message stands there.
fn offered(bench: &mut Bench) -> Vec<(String, String)> {
    bench.size(250, 24);
    bench.ui.message = None;
    let rows = bench.shown();
    let last = rows.trim_end().lines().last().unwrap().trim();
    let pairs = last
        .split("  ")
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    pairs
        .filter_map(|pair| pair.split_once(' '))
        .map(|(key, word)| (key.to_owned(), word.to_owned()))
        .collect()
}

#[test]
fn the_footer_offers_what_works_and_nothing_else() {
    let mut seen = BTreeSet::new();
    for n in 0..JOBS_MADE.len() {
        for place in PLACES {
            let mut bench = bench_at(n, place);
            if bench.ui.prompt.is_some() || bench.ui.help {
                continue;
            }
            for (name, word) in offered(&mut bench) {
                let all = KEYMAP.iter().flat_map(|b| b.keys.iter());
                let key = *all
                    .clone()
                    .find(|key| key.name() == name)
                    .unwrap_or_else(|| panic!("{name:?} ({word}) at {place:?}"));
                let (did, said) = does(&mut bench_at(n, place), key);
                // Whether there is a hit is only known once it was looked for.
                let looked = said
                    .as_ref()
                    .is_some_and(|said| said.starts_with("not found"));
                assert!(did || looked, "{n} {place:?}: {name} {word}: {said:?}");
                seen.insert(word);
            }
        }
    }
    for word in [
        "log", "evidence", "copy fix", "prove", "next", "previous", "hold", "follow",
    ] {
        assert!(seen.contains(word), "{word} is never offered: {seen:?}");
    }
}

#[test]
fn what_cannot_be_done_is_not_offered() {
    let words = |bench: &mut Bench| -> Vec<String> {
        offered(bench).into_iter().map(|(_, word)| word).collect()
    };
    let mut nothing = bench_at(3, "3");
    assert_eq!(nothing.ui.screen, Screen::Findings);
    for word in ["evidence", "prove", "copy fix", "finding"] {
        assert!(!words(&mut nothing).iter().any(|w| w == word), "{word}");
    }
    let mut log = bench_at(0, "6");
    assert!(
        !words(&mut log).iter().any(|w| w == "next"),
        "nothing was searched"
    );
    log.keys("/line⏎");
    assert!(words(&mut log).iter().any(|w| w == "next"));
    let mut first = bench_at(0, "");
    assert!(!words(&mut first).iter().any(|w| w == "back"));
    let mut paused = bench_at(0, "");
    paused.status.paused = true;
    assert!(words(&mut paused).iter().any(|w| w == "go on"));
    let mut frame = bench_at(0, "3p");
    let asked = words(&mut frame);
    assert!(
        asked.iter().any(|w| w == "run") && asked.iter().any(|w| w == "close"),
        "{asked:?}"
    );
    frame.key(Key::Plain(KeyCode::Enter));
    let runs = words(&mut frame);
    assert!(
        runs.iter().any(|w| w == "hide") && runs.iter().any(|w| w == "stop"),
        "{runs:?}"
    );
}

//! What one gets used to: the list of actions, the themes, and the user's own defaults.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::{Command, Output};

use unhang::app::handle::{Mode, Status};
use unhang::views::escape::Glyphs;
use unhang::views::tui::keymap::{Action, Context, KEYMAP};
use unhang::views::tui::palette;
use unhang::views::tui::screen::Screen;
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

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];

#[test]
fn the_list_of_actions_looks_like_this() {
    let mut bench = Bench::recorded("rank-killed-16");
    let effects = bench.press("2:");
    assert_eq!(effects, []);
    for size in SIZES {
        let name = format!("palette_{}x{}", size.0, size.1);
        insta::assert_snapshot!(name, screens::plain(&bench.drawn(size)));
    }
    bench.press("log");
    bench.press("↓↓");
    let buf = bench.drawn((80, 24));
    insta::assert_snapshot!("palette_typed", screens::plain(&buf));
    insta::assert_snapshot!("palette_style", screens::styled(&buf));
    for (name, glyphs) in [
        ("palette_style_without_color", Glyphs::Unicode),
        ("palette_ascii", Glyphs::Ascii),
    ] {
        bench.ui.theme = Theme {
            colors: Colors::Mono,
            glyphs,
        };
        let buf = bench.drawn((80, 24));
        let shown = match glyphs {
            Glyphs::Unicode => screens::styled(&buf),
            Glyphs::Ascii => screens::plain(&buf),
        };
        insta::assert_snapshot!(name, shown);
    }
    bench.press("nothing");
    let shown = screens::plain(&bench.drawn((40, 10)));
    assert!(shown.contains("no action is called so"), "{shown}");
}

#[test]
fn every_action_of_the_key_table_is_in_the_list() {
    let mut bench = Bench::recorded("rank-killed-16");
    for binding in KEYMAP {
        let typing = matches!(binding.context, Context::Prompt | Context::Overlay);
        if typing || binding.action == Action::Palette {
            continue;
        }
        let mut found = Vec::new();
        for screen in Screen::ALL {
            bench.ui.screen = screen;
            for entry in palette::entries(&bench.ui, true) {
                let same = entry.action == binding.action && entry.text.ends_with(binding.help);
                found.extend(same.then_some(entry));
            }
        }
        assert!(!found.is_empty(), "{binding:?}");
    }
}

#[test]
fn enter_runs_what_was_chosen_on_its_screen() {
    let mut bench = Bench::recorded("rank-killed-16");
    assert_eq!(bench.press(":save⏎"), [Effect::Save]);
    assert!(bench.ui.prompt.is_none());
    // It is another screen's: that is shown first.
    bench.press(":sort by⏎");
    assert_eq!(bench.ui.screen, Screen::Ranks);
    bench.press(":ranks turn the order⏎");
    assert!(
        !bench.ui.ranks.reverse,
        "its own actions are not named after it"
    );
    bench.press(":turn the order⏎");
    assert!(bench.ui.ranks.reverse);
    bench.press(":no such thing⏎");
    assert_eq!(
        bench.ui.message.as_deref(),
        Some("no action is called so; ? lists all")
    );
    // What asks for something asks for it.
    bench.press(":filter⏎");
    assert!(bench.ui.prompt.is_some());
    bench.press("node-3⏎");
    assert_eq!(bench.ui.ranks.filter, "node-3");
    assert_eq!(bench.press(":⎋"), []);
    assert!(bench.ui.prompt.is_none());
    // A replay's own are there in a replay only.
    let replay = "first sign";
    bench.press(&format!(":{replay}⏎"));
    assert_eq!(
        bench.ui.message.as_deref(),
        Some("no action is called so; ? lists all")
    );
    bench.status = Status::new(Mode::Replay);
    bench.press(&format!(":{replay}⏎"));
    assert_eq!(
        bench.ui.message.as_deref(),
        Some("nobody has looked through this replay")
    );
}

#[test]
fn arrows_choose_within_the_list() {
    let mut bench = Bench::recorded("rank-killed-16");
    bench.press(":↓↓");
    let entries = palette::entries(&bench.ui, false);
    assert_eq!(bench.ui.prompt.as_ref().unwrap().row, 2);
    assert_eq!(entries[2].text, "go to the next communicator or screen");
    bench.press("↑↑↑");
    let last = entries.len() - 1;
    assert_eq!(
        bench.ui.prompt.as_ref().unwrap().row,
        last,
        "round and round"
    );
    bench.press("save");
    assert_eq!(bench.ui.prompt.as_ref().unwrap().row, 0, "another list");
    bench.press("↓↑↑");
    assert_eq!(bench.ui.prompt.as_ref().unwrap().row, 0, "it has one row");
    bench.press(":nothing of the kind↓↑");
    assert_eq!(bench.ui.prompt.as_ref().unwrap().row, 0, "it has none");
}

#[test]
fn a_light_background_has_its_own_colours() {
    let mut bench = Bench::recorded("rank-killed-16");
    bench.ui.theme = Theme {
        colors: Colors::Light,
        glyphs: Glyphs::Unicode,
    };
    for (name, keys) in [("overview", "1"), ("ranks", "2"), ("findings", "3")] {
        bench.press(keys);
        let buf = bench.drawn((80, 24));
        insta::assert_snapshot!(format!("light_{name}"), screens::styled(&buf));
    }
}

/// Runs unhang with a file of defaults.
fn with_config(text: &str, args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("unhang")).unwrap();
    fs::write(home.path().join("unhang/config.toml"), text).unwrap();
    Command::new(env!("CARGO_BIN_EXE_unhang"))
        .args(args)
        .env("XDG_CONFIG_HOME", home.path())
        .output()
        .unwrap()
}

#[test]
fn the_users_defaults_hold_and_a_broken_file_is_told() {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let plain = with_config("", &["demo"]);
    assert!(!plain.stdout.is_ascii() && plain.status.success());
    let ascii = with_config("ascii = true\ntheme = \"light\"\n", &["demo"]);
    assert!(ascii.stdout.is_ascii(), "{}", text(&ascii.stdout));
    assert_eq!(text(&ascii.stderr), "");

    let broken = with_config("ascii = true\nthem = \"light\"\n", &["demo"]);
    assert_eq!(broken.stdout, plain.stdout, "the defaults are used");
    assert!(broken.status.success());
    let said = text(&broken.stderr);
    assert!(
        said.contains("error: unknown field `them`")
            && said.contains("unhang/config.toml:2:1")
            && said.contains("the defaults are used until this is right"),
        "{said}"
    );
}

//! Options that every command shares, and how they are understood.

use std::env;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use annotate_snippets::Renderer;
use clap::{Args, ValueEnum};

use super::config::{Config, ThemeName, Unusable};
use super::messages;
use super::ranks::Ranks;
use crate::app::replay::SPEEDS;
use crate::app::report::VERBOSE_HINT;
use crate::app::rules::RuleFiles;
use crate::engine::snapshot::Snapshot;
use crate::engine::{Engine, Options};
use crate::error::InputError;
use crate::exit;
use crate::views::escape::Glyphs;
use crate::views::report::ReportOptions;
use crate::views::tui::theme::Colors;
use crate::views::{json, report};

/// Options that every command shares.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Common {
    /// Add the rules in this folder to the built-in ones
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) rules: Vec<PathBuf>,
    /// When to use colours; `auto` honours NO_COLOR
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Color::Auto, global = true)]
    pub(crate) color: Color,
    /// Colours of the dashboard; `auto` is dark unless COLORFGBG tells of a light background
    #[arg(long, value_name = "THEME", value_enum, global = true)]
    pub(crate) theme: Option<ThemeName>,
    /// Draw with ASCII characters only
    #[arg(long, global = true)]
    pub(crate) ascii: bool,
    /// Show only these ranks, such as 0-7,12 (all of them are diagnosed)
    #[arg(long, value_name = "RANKS", global = true, allow_hyphen_values = true)]
    pub(crate) ranks: Option<Ranks>,
    /// Show everything: all findings, and which files were read and which were not
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// What the user's file sets.
    #[arg(skip)]
    pub(crate) config: Config,
    /// Why that file is not used, in a line: standard error is hidden by the dashboard.
    #[arg(skip)]
    pub(crate) config_fault: Option<String>,
}

/// False if rules that were asked for could not all be used.
#[derive(Clone, Copy, Debug)]
#[must_use = "rules that could not be used make another exit code"]
pub(crate) struct Sound(bool);

impl Sound {
    /// The exit code, if the rules leave it as it is.
    pub(crate) fn or_input(self, code: u8) -> u8 {
        if self.0 { code } else { exit::INPUT }
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How a diagnosis is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, 80 columns.
    Text,
    /// For an issue or a chat.
    Markdown,
    /// For programs: schema 1.
    Json,
}

impl Common {
    /// The same with the defaults of the user's file; what is wrong with that is told.
    pub(crate) fn configured(mut self) -> Self {
        match Config::read() {
            Ok(config) => {
                self.ascii |= config.ascii;
                self.config = config;
            }
            Err(Unusable::Unread(problem)) => {
                messages::problem(&problem);
                self.config_fault = Some(problem.to_string());
            }
            Err(Unusable::Wrong(fault)) => {
                let renderer = if self.color_on(&io::stderr()) {
                    Renderer::styled()
                } else {
                    Renderer::plain()
                };
                messages::raw(&fault.render(&renderer));
                let fault = fault.to_string();
                let first = fault.lines().next().unwrap_or_default();
                self.config_fault = Some(format!("config.toml is not used: {first}"));
            }
        }
        self
    }

    /// Colours of a dashboard on `stream`.
    #[must_use]
    pub(crate) fn colors(&self, stream: &impl IsTerminal) -> Colors {
        if !self.color_on(stream) {
            return Colors::Mono;
        }
        match self.theme.or(self.config.theme).unwrap_or(ThemeName::Auto) {
            ThemeName::Mono => Colors::Mono,
            ThemeName::Dark => Colors::Dark,
            ThemeName::Light => Colors::Light,
            ThemeName::Auto => match env::var("COLORFGBG") {
                Ok(said) if is_light(&said) => Colors::Light,
                _ => Colors::Dark,
            },
        }
    }

    /// Whether what is written to `stream` is coloured.
    #[must_use]
    pub(crate) fn color_on(&self, stream: &impl IsTerminal) -> bool {
        let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                stream.is_terminal()
                    && !set("NO_COLOR")
                    && env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }

    /// Characters that may be used.
    #[must_use]
    pub(crate) fn glyphs(&self) -> Glyphs {
        if self.ascii {
            Glyphs::Ascii
        } else {
            Glyphs::Unicode
        }
    }

    /// Every rule file; what is wrong with them is told once.
    pub(crate) fn rule_files(&self) -> (RuleFiles, Sound) {
        let (files, problems) = RuleFiles::read(&self.rules);
        for problem in &problems {
            messages::problem(problem);
        }
        let broken = files.load(self.color_on(&io::stderr())).1;
        for broken in &broken {
            messages::raw(broken);
        }
        let sound = problems.is_empty() && broken.is_empty();
        (files, Sound(sound))
    }

    /// Whether the dashboard can be shown; if a terminal cannot, that is told.
    #[must_use]
    pub(crate) fn full_screen(&self) -> bool {
        if !io::stdout().is_terminal() {
            return false;
        }
        let why = match env::var_os("TERM") {
            Some(term) if term == "dumb" => "TERM is dumb",
            Some(term) if !term.is_empty() => return true,
            _ => "TERM is not set",
        };
        messages::warning(&format!(
            "{why}: plain lines instead of the dashboard; `TERM=xterm-256color` has it"
        ));
        false
    }

    /// The problem without the advice to do what was done.
    #[must_use]
    pub(crate) fn without_v(&self, mut problem: InputError) -> InputError {
        if self.verbose && problem.hint == Some(VERBOSE_HINT) {
            problem.hint = None;
        }
        problem
    }

    /// The diagnosis as text; `full` lists every rank in JSON however many there are.
    #[must_use]
    pub(crate) fn render(&self, snapshot: &Snapshot, format: Format, full: bool) -> String {
        let narrowed;
        let snapshot = match &self.ranks {
            Some(ranks) => {
                narrowed = ranks.narrow(snapshot);
                &narrowed
            }
            None => snapshot,
        };
        let options = ReportOptions {
            width: 80,
            color: self.color_on(&io::stdout()),
            ascii: self.ascii,
            verbose: self.verbose,
        };
        match format {
            Format::Text => {
                let mut text = report::text(snapshot, &options);
                if text.lines().count() >= rows_of_terminal() {
                    text.push_str(&report::reminder(snapshot, &options));
                }
                text
            }
            Format::Markdown => report::markdown_with(snapshot, &options),
            Format::Json => json::to_string(snapshot, full),
        }
    }
}

/// Rows of the terminal that standard output is; without one nothing scrolls away.
fn rows_of_terminal() -> usize {
    if !io::stdout().is_terminal() {
        return usize::MAX;
    }
    match crossterm::terminal::size() {
        Ok((_, rows)) if rows > 0 => usize::from(rows),
        _ => usize::MAX,
    }
}

/// Makes an engine; for replays as often as one is needed.
#[must_use]
pub(crate) fn new_engine(files: &RuleFiles, keep_recent: bool) -> Engine {
    Engine::new(files.load(false).0, Options { keep_recent })
}

/// `90`, `90s`, `10m`, `1h30m`, `1.5h`: a number without a unit is seconds.
///
/// # Errors
/// A fragment that says what is wrong.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration such as 90s, 10m or 1h30m");
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let scale = match unit {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let part = Duration::try_from_secs_f64(number * scale).map_err(|_| wrong())?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = after;
    }
    Ok(total)
}

/// Whether `COLORFGBG` (`15;0`, `0;default;15`) tells of a light background: white, grey or a bright colour.
fn is_light(said: &str) -> bool {
    let background = said.rsplit(';').next().unwrap_or_default();
    matches!(background.parse(), Ok(7 | 9..=15_u8))
}

/// How many times as fast a replay plays.
///
/// # Errors
/// A fragment that says what is wrong.
pub(crate) fn speed(text: &str) -> Result<f64, String> {
    let speed = text.trim().parse::<f64>().ok();
    speed
        .filter(|speed| SPEEDS.contains(speed))
        .ok_or_else(|| format!("`{text}` is no number from 0.1 to 1000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backgrounds() {
        for light in ["0;15", "0;default;15", "0;7"] {
            assert!(is_light(light), "{light}");
        }
        for dark in [
            "15;0",
            "7;8",
            "15;default;0",
            "default;default",
            "",
            "0;999",
        ] {
            assert!(!is_light(dark), "{dark}");
        }
    }

    #[test]
    fn speeds() {
        assert_eq!(speed("0.1"), Ok(0.1));
        assert_eq!(speed("1000"), Ok(1_000.0));
        for text in ["0", "-1", "nan", "inf", "1001", "fast", ""] {
            assert!(speed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        let good = [
            ("90", 90.0),
            ("90s", 90.0),
            ("10m", 600.0),
            ("1h30m", 5_400.0),
            ("1.5h", 5_400.0),
            ("250ms", 0.25),
        ];
        for (text, seconds) in good {
            assert_eq!(
                duration(text),
                Ok(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "m",
            "10 minutes",
            "-1",
            "1e400",
            "999999999999999999999d",
            "1..2s",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}

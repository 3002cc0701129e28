//! The user's own defaults, from a file; an option on the command line outweighs them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::app::replay::SPEEDS;
use crate::engine::catalog::RuleError;
use crate::error::InputError;
use crate::views::tui::keymap::{Keys, Refused, Wanted};

/// A larger file is not this one.
const LARGEST: u64 = 1 << 16;

/// What can be set in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    /// Colours of the dashboard.
    pub(crate) theme: Option<ThemeName>,
    /// Draw with ASCII characters only.
    pub(crate) ascii: bool,
    /// How fast replays and demos play.
    pub(crate) speed: Option<f64>,
    /// Keys of the dashboard.
    pub(crate) keys: Keys,
}

/// Colours of the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ThemeName {
    /// Light where the terminal says by COLORFGBG that it is, else dark.
    Auto,
    /// For a dark background: the terminal's own colours.
    Dark,
    /// For a light background: colours that also the colour-blind can tell apart.
    Light,
    /// No colours: bold and reversed only.
    Mono,
}

/// Why the file is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It cannot be read.
    Unread(InputError),
    /// Something in it is wrong; shown in the file, as for rules.
    Wrong(Box<RuleError>),
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    theme: Option<ThemeName>,
    ascii: Option<bool>,
    speed: Option<Spanned<f64>>,
    #[serde(default)]
    keys: BTreeMap<Spanned<String>, Spanned<OneOrMore>>,
}

/// Keys of one action.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a key is a text such as \"Ctrl-N\", or a list of such"
)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn all(&self) -> &[String] {
        match self {
            Self::One(key) => std::slice::from_ref(key),
            Self::More(keys) => keys,
        }
    }
}

impl Config {
    /// Reads the file of this user; without one nothing is set.
    ///
    /// # Errors
    /// If there is one and it cannot be used; the defaults hold then.
    pub(crate) fn read() -> Result<Self, Unusable> {
        let folder = |name| env::var_os(name).map(PathBuf::from);
        match place(folder("XDG_CONFIG_HOME"), folder("HOME")) {
            Some(path) => Self::read_file(&path),
            None => Ok(Self::default()),
        }
    }

    fn read_file(path: &Path) -> Result<Self, Unusable> {
        let wrong = |why: &str| Unusable::Unread(InputError::because("read", path, why));
        let text = match fs::metadata(path) {
            Ok(meta) if !meta.is_file() => return Err(wrong("it is no file")),
            Ok(meta) if meta.len() > LARGEST => return Err(wrong("it is too large")),
            Ok(_) => fs::read_to_string(path),
            Err(error) => Err(error),
        };
        match text {
            Ok(text) => Self::parse(&path.display().to_string(), &text).map_err(Unusable::Wrong),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(Self::default())
            }
            Err(error) => Err(Unusable::Unread(InputError::io("read", path, &error))),
        }
    }

    /// Understands the text of the file at `path`.
    ///
    /// # Errors
    /// If something in it is wrong.
    fn parse(path: &str, text: &str) -> Result<Self, Box<RuleError>> {
        let hint = "the defaults are used until this is right; the keys are \
                    theme (auto, dark, light, mono), ascii (true, false), speed (0.1 to 1000) and the table keys";
        let written: Written = toml::from_str(text).map_err(|error| {
            let message = error.message().lines().next().unwrap_or("it is no TOML");
            let fault = RuleError::new(path, text, message).hint(hint);
            Box::new(match error.span() {
                Some(span) => fault.at(span),
                None => fault,
            })
        })?;
        let speed = written.speed;
        if let Some(speed) = speed.as_ref().filter(|s| !SPEEDS.contains(s.get_ref())) {
            let fault = RuleError::new(path, text, "a speed is a number from 0.1 to 1000");
            return Err(Box::new(fault.at(speed.span()).hint(hint)));
        }
        Ok(Self {
            theme: written.theme,
            ascii: written.ascii.unwrap_or_default(),
            speed: speed.map(Spanned::into_inner),
            keys: own_keys(&written.keys).map_err(|(span, message, hint)| {
                Box::new(RuleError::new(path, text, message).at(span).hint(hint))
            })?,
        })
    }
}

/// A fault: where, what, and what to do.
type Fault = (Range<usize>, String, &'static str);

/// The table of keys with those of the file.
fn own_keys(written: &BTreeMap<Spanned<String>, Spanned<OneOrMore>>) -> Result<Keys, Fault> {
    let all: Vec<_> = written.iter().collect();
    let want = |(name, keys): &(&Spanned<String>, &Spanned<OneOrMore>)| Wanted {
        action: name.get_ref().clone(),
        keys: keys.get_ref().all().to_vec(),
    };
    let wanted: Vec<Wanted> = all.iter().map(want).collect();
    Keys::with(&wanted).map_err(|refused| match refused {
        Refused::Action(at) => (
            all[at].0.span(),
            format!("no action is called `{}`", wanted[at].action),
            "docs/keys.md has the names",
        ),
        Refused::NoKey(at) => (
            all[at].1.span(),
            format!("`{}` would have no key", wanted[at].action),
            "leave it out to keep its own key",
        ),
        Refused::Key(at, nth) => (
            all[at].1.span(),
            format!("no key is called `{}`", wanted[at].keys[nth]),
            "a character, Ctrl-A, F1, Enter, Esc, Tab, Space, Up, PgDn, Home, Backspace ...",
        ),
        Refused::Taken(at, nth, by) => (
            all[at].1.span(),
            format!("`{}` already means {by}", wanted[at].keys[nth]),
            "give that action another key in this table, too",
        ),
    })
}

/// Where the file is; a relative folder of the environment counts for nothing.
fn place(config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |folder: &PathBuf| folder.is_absolute();
    let folder = config_home
        .filter(absolute)
        .or_else(|| Some(home.filter(absolute)?.join(".config")))?;
    Some(folder.join("unhang/config.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_follows_the_environment() {
        let path = |text: &str| Some(PathBuf::from(text));
        let home = || path("/home/u");
        let own = path("/home/u/.config/unhang/config.toml");
        assert_eq!(place(None, home()), own);
        assert_eq!(place(path(""), home()), own);
        assert_eq!(place(path("etc"), home()), own);
        assert_eq!(place(path("/x"), None), path("/x/unhang/config.toml"));
        assert_eq!(place(None, None), None);
    }

    #[test]
    fn keys_are_understood() {
        let config = |text: &str| Config::parse("config.toml", text);
        let empty = config("").unwrap();
        assert_eq!((empty.theme, empty.ascii, empty.speed), (None, false, None));
        let full = config("theme = \"light\"\nascii = true\nspeed = 2.5\n").unwrap();
        assert_eq!(
            (full.theme, full.ascii, full.speed),
            (Some(ThemeName::Light), true, Some(2.5))
        );
    }

    #[test]
    fn faults_are_shown_with_their_line() {
        for (text, line, said) in [
            (
                "theme = \"dark\"\ntheem = \"x\"\n",
                2,
                "unknown field `theem`",
            ),
            ("\n\ntheme = \"pink\"", 3, "unknown variant `pink`"),
            ("speed = 0.0", 1, "a speed is a number from 0.1 to 1000"),
            ("speed = nan", 1, "a speed is a number from 0.1 to 1000"),
            ("ascii = true\nascii = 1", 2, "duplicate key"),
            ("ascii = \"yes\"", 1, "invalid type"),
            ("theme = ", 1, "string values must be quoted"),
            ("[keys]\n\nfolow = \"F\"", 3, "no action is called `folow`"),
            ("[keys]\nfollow = []", 2, "`follow` would have no key"),
            (
                "[keys]\nfollow = [\"F\",\n\"Hyper-F\"]",
                2,
                "no key is called `Hyper-F`",
            ),
            (
                "[keys]\nfollow = \"s\"",
                2,
                "`s` already means `save` (save a report)",
            ),
            (
                "[keys]\nsave = \"Ctrl-C\"",
                2,
                "`Ctrl-C` already means `quit`",
            ),
            ("[keys]\nfollow = 3", 2, "a key is a text"),
        ] {
            let shown = Config::parse("config.toml", text).unwrap_err().to_string();
            let place = format!("config.toml:{line}:");
            assert!(shown.contains(&place) && shown.contains(said), "{shown}");
        }
    }
}

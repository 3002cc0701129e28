//! The user's own defaults, from a file; an option on the command line outweighs them.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::engine::catalog::RuleError;
use crate::error::InputError;

/// A larger file is not this one.
const LARGEST: u64 = 1 << 16;

/// How fast a replay can play.
pub const SPEEDS: std::ops::RangeInclusive<f64> = 0.1..=1_000.0;

/// What can be set in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Colours of the dashboard.
    pub theme: Option<ThemeName>,
    /// Draw with ASCII characters only.
    pub ascii: bool,
    /// How fast replays and demos play.
    pub speed: Option<f64>,
}

/// Colours of the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ThemeName {
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
pub enum Unusable {
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
}

impl Config {
    /// Reads the file of this user; without one nothing is set.
    ///
    /// # Errors
    /// If there is one and it cannot be used; the defaults hold then.
    pub fn read() -> Result<Self, Unusable> {
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
    pub fn parse(path: &str, text: &str) -> Result<Self, Box<RuleError>> {
        let hint = "the defaults are used until this is right; the keys are \
                    theme (auto, dark, light, mono), ascii (true, false) and speed (0.1 to 1000)";
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
        })
    }
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
        assert_eq!(config(""), Ok(Config::default()));
        assert_eq!(
            config("theme = \"light\"\nascii = true\nspeed = 2.5\n"),
            Ok(Config {
                theme: Some(ThemeName::Light),
                ascii: true,
                speed: Some(2.5),
            })
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
        ] {
            let shown = Config::parse("config.toml", text).unwrap_err().to_string();
            let place = format!("config.toml:{line}:");
            assert!(shown.contains(&place) && shown.contains(said), "{shown}");
            assert!(shown.contains("the defaults are used"), "{shown}");
        }
    }
}

//! The screens, one per question.

pub(super) mod collectives;
pub(super) mod env;
pub(super) mod findings;
pub(super) mod gpus;
pub(super) mod help;
pub(super) mod hosts;
pub(super) mod log;
pub(super) mod overview;
pub(super) mod ranks;

pub use ranks::Sort;

/// The screens in the order of their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Screen {
    /// What is wrong?
    #[default]
    Overview,
    /// How far has every rank got?
    Ranks,
    /// Why, and what to change?
    Findings,
    /// Which addresses do hosts use?
    Hosts,
    /// Who called what?
    Collectives,
    /// What did a rank say?
    Log,
    /// What is set, and which versions are used?
    Env,
    /// What do the GPUs do?
    Gpus,
}

impl Screen {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Overview,
        Self::Ranks,
        Self::Findings,
        Self::Hosts,
        Self::Collectives,
        Self::Log,
        Self::Env,
        Self::Gpus,
    ];

    /// The word on its tab.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Ranks => "Ranks",
            Self::Findings => "Findings",
            Self::Hosts => "Hosts",
            Self::Collectives => "Collectives",
            Self::Log => "Log",
            Self::Env => "Env",
            Self::Gpus => "GPUs",
        }
    }

    /// The next one, round and round; `by` may be negative.
    #[must_use]
    pub(super) fn turned(self, by: isize) -> Self {
        let here = Self::ALL.iter().position(|s| *s == self).unwrap_or(0);
        Self::ALL[here.wrapping_add_signed(by + Self::ALL.len() as isize) % Self::ALL.len()]
    }
}

/// The rows of a list to show in `height` rows so that the selected one is among them, as far in the
/// middle as the ends of the list allow.
pub(super) fn window(selected: usize, len: usize, height: usize) -> std::ops::Range<usize> {
    let height = height.min(len);
    let top = selected.saturating_sub(height / 2).min(len - height);
    top..top + height
}

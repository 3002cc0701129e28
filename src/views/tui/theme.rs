//! How things look: a style per meaning, with colours or without.
//!
//! Nothing is told by colour alone: what a colour says is also said by a word, a letter or reverse
//! video. Only the terminal's own sixteen colours are used, so that its palette stays readable.

use ratatui::style::{Color, Modifier, Style};

use crate::engine::vocab::{Phase, Severity, State};
use crate::views::escape::Glyphs;

/// Colours and characters that may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Theme {
    /// Use colours.
    pub color: bool,
    /// Use characters outside ASCII.
    pub glyphs: Glyphs,
}

/// What a piece of text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Ordinary.
    Plain,
    /// A heading, or what matters most.
    Strong,
    /// Beside the point.
    Quiet,
    /// Broken.
    Bad,
    /// At fault: stands out even without colours.
    Guilty,
    /// Slower or late.
    Warn,
    /// To be typed or pasted.
    Command,
    /// Where the cursor is.
    Selected,
    /// What was searched for.
    Hit,
    /// The state of the job.
    State(State),
    /// How bad a finding is.
    Severity(Severity),
    /// How far a rank has got.
    Phase(Phase),
}

impl Theme {
    /// The style of a meaning.
    #[must_use]
    pub fn style(self, tone: Tone) -> Style {
        let plain = Style::new();
        let (color, modifier) = match tone {
            Tone::Plain => (None, Modifier::empty()),
            Tone::Strong => (None, Modifier::BOLD),
            Tone::Quiet if self.color => (None, Modifier::DIM),
            Tone::Quiet => (None, Modifier::empty()),
            Tone::Bad => (Some(Color::Red), Modifier::BOLD),
            Tone::Guilty => (Some(Color::Red), Modifier::BOLD | Modifier::REVERSED),
            Tone::Warn => (Some(Color::Yellow), Modifier::empty()),
            Tone::Command => (Some(Color::Cyan), Modifier::empty()),
            Tone::Selected => return selected(),
            Tone::Hit => (Some(Color::Yellow), Modifier::BOLD | Modifier::REVERSED),
            Tone::State(state) => (state_color(state), Modifier::BOLD | Modifier::REVERSED),
            Tone::Severity(Severity::Error) => return self.style(Tone::Bad),
            Tone::Severity(Severity::Warning) => return self.style(Tone::Warn),
            Tone::Severity(Severity::Info) => return plain,
            Tone::Phase(phase) => phase_color(phase),
        };
        match color {
            Some(color) if self.color => plain.fg(color).add_modifier(modifier),
            _ => plain.add_modifier(modifier),
        }
    }
}

/// Takes the other styles of a row away, so that the bar of the cursor is one piece.
fn selected() -> Style {
    let off = Modifier::DIM | Modifier::BOLD;
    Style::new()
        .fg(Color::Reset)
        .bg(Color::Reset)
        .remove_modifier(off)
        .add_modifier(Modifier::REVERSED)
}

fn state_color(state: State) -> Option<Color> {
    match state {
        State::Healthy | State::Completed => Some(Color::Green),
        State::Degraded | State::Waiting => Some(Color::Yellow),
        State::Hung | State::Failed | State::WrongResults => Some(Color::Red),
        State::Inconclusive => None,
    }
}

fn phase_color(phase: Phase) -> (Option<Color>, Modifier) {
    match phase {
        Phase::Launched
        | Phase::Rendezvous
        | Phase::Bootstrap
        | Phase::Network
        | Phase::Topology
        | Phase::Connect => (Some(Color::Cyan), Modifier::empty()),
        Phase::Ready | Phase::Finished => (Some(Color::Green), Modifier::empty()),
        Phase::Collective => (Some(Color::Blue), Modifier::empty()),
        Phase::Failed | Phase::Died => (Some(Color::Red), Modifier::BOLD),
        Phase::Silent => (Some(Color::Magenta), Modifier::empty()),
    }
}

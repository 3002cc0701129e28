//! How things look: a style per meaning, with colours or without.
//!
//! Nothing is told by colour alone: what a colour says is also said by a word, a letter or reverse
//! video. On a dark background the terminal's own sixteen colours are used, so that its palette stays
//! readable. On a light one those are often too bright to be read, so fixed colours are used there.

use ratatui::style::{Color, Modifier, Style};

use crate::engine::vocab::{Phase, Severity, State};
use crate::views::escape::Glyphs;

/// Colours and characters that may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Theme {
    /// Colours.
    pub colors: Colors,
    /// Use characters outside ASCII.
    pub glyphs: Glyphs,
}

/// Which colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colors {
    /// None: bold and reversed only.
    #[default]
    Mono,
    /// Those for a dark background.
    Dark,
    /// Those for a light background.
    Light,
}

impl Colors {
    /// A colour as it is shown; `None` without colours.
    fn shade(self, color: Color) -> Option<Color> {
        match self {
            Self::Mono => None,
            Self::Dark => Some(color),
            Self::Light => Some(on_light(color)),
        }
    }
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
            Tone::Quiet if self.colors == Colors::Dark => (None, Modifier::DIM),
            Tone::Quiet => (Some(Color::DarkGray), Modifier::empty()),
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
        match color.and_then(|color| self.colors.shade(color)) {
            Some(color) => plain.fg(color).add_modifier(modifier),
            None => plain.add_modifier(modifier),
        }
    }
}

/// The colour for a light background, of the 256 that every terminal shows alike. They are dark enough
/// to be read there, and whoever sees no red, green or blue still tells them apart (tested below).
fn on_light(color: Color) -> Color {
    Color::Indexed(match color {
        Color::Red => 88,
        Color::Yellow => 94,
        Color::Green => 23,
        Color::Cyan => 27,
        Color::Blue => 19,
        Color::Magenta => 90,
        Color::DarkGray => 241,
        other => return other,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Red, green and blue of one of the 256 colours, as amounts of light.
    fn light(color: Color) -> [f64; 3] {
        const LEVELS: [f64; 6] = [0.0, 95.0, 135.0, 175.0, 215.0, 255.0];
        let Color::Indexed(index) = on_light(color) else {
            panic!("{color:?} is not one of the 256");
        };
        let index = usize::from(index) - 16;
        [index / 36, index / 6 % 6, index % 6].map(|at| linear(LEVELS[at]))
    }

    fn linear(level: f64) -> f64 {
        ((level / 255.0 + 0.055) / 1.055).powf(2.4)
    }

    fn luminance([r, g, b]: [f64; 3]) -> f64 {
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    /// Lightness and hue as eyes see them (CIE L*a*b*).
    fn lab([r, g, b]: [f64; 3]) -> [f64; 3] {
        let f = |t: f64| {
            if t > 0.008_856 {
                t.cbrt()
            } else {
                7.787 * t + 16.0 / 116.0
            }
        };
        let x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.950_47);
        let y = f(luminance([r, g, b]));
        let z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.088_83);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// What eyes see without red, green or blue cones (Machado, Oliveira and Fernandes 2009), and with all.
    const EYES: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152, 1.053, -0.205],
            [0.115, 0.786, 0.099],
            [-0.004, -0.048, 1.052],
        ],
        [
            [0.367, 0.861, -0.228],
            [0.280, 0.673, 0.047],
            [-0.012, 0.043, 0.969],
        ],
        [
            [1.256, -0.077, -0.179],
            [-0.078, 0.931, 0.148],
            [0.005, 0.691, 0.304],
        ],
    ];

    #[test]
    fn colours_on_a_light_background_are_dark_and_differ_for_all_eyes() {
        const ALL: [Color; 6] = [
            Color::Red,
            Color::Yellow,
            Color::Green,
            Color::Cyan,
            Color::Blue,
            Color::Magenta,
        ];
        // A cream background is the darkest of the usual light ones.
        let background = luminance([253.0, 246.0, 227.0].map(linear));
        for (at, one) in ALL.into_iter().enumerate() {
            let contrast = (background + 0.05) / (luminance(light(one)) + 0.05);
            assert!(contrast >= 4.5, "{one:?}: {contrast}");
            for other in ALL.into_iter().skip(at + 1) {
                for eyes in EYES {
                    let seen = |color| {
                        let light = light(color);
                        let cone = |row: [f64; 3]| {
                            let sum: f64 = row.iter().zip(light).map(|(a, b)| a * b).sum();
                            sum.clamp(0.0, 1.0)
                        };
                        lab(eyes.map(cone))
                    };
                    let (a, b) = (seen(one), seen(other));
                    let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
                    let distance = squares.sum::<f64>().sqrt();
                    assert!(distance >= 12.0, "{one:?} and {other:?}: {distance}");
                }
            }
        }
    }
}

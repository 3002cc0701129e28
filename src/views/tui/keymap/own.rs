//! A user's own keys: they take the place of an action's built-in ones, wherever that action has a key.

use std::borrow::Cow;
use std::ops::Deref;

use crossterm::event::KeyCode;

use super::{Action, Binding, Context, KEYMAP, Key};
use crate::views::tui::screen::Screen;

/// A table of keys: [`KEYMAP`], with a user's own in it.
#[derive(Clone, Debug)]
pub struct Keys(Cow<'static, [Binding]>);

impl Default for Keys {
    fn default() -> Self {
        Self(Cow::Borrowed(KEYMAP))
    }
}

impl Deref for Keys {
    type Target = [Binding];

    fn deref(&self) -> &[Binding] {
        &self.0
    }
}

/// What a user wants: an action by its [`name`], and its keys as [`Key::name`] writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The action.
    pub action: String,
    /// All of its keys.
    pub keys: Vec<String>,
}

/// Why a table with these keys cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No action is called so: the action at this place.
    Action(usize),
    /// The action at this place has no key left.
    NoKey(usize),
    /// The action at the first place, its key at the second: no key is called so.
    Key(usize, usize),
    /// The action at the first place, its key at the second: the key does this already.
    Taken(usize, usize, String),
}

impl Keys {
    /// The table in which the wanted actions have the wanted keys and no others. Ctrl-C always quits.
    ///
    /// # Errors
    /// If an action or a key is unknown, or a key would mean two things in one place.
    pub fn with(wanted: &[Wanted]) -> Result<Self, Refused> {
        let mut table = KEYMAP.to_vec();
        for (at, want) in wanted.iter().enumerate() {
            let mut keys = Vec::new();
            for (nth, key) in want.keys.iter().enumerate() {
                keys.push(parse(key).ok_or(Refused::Key(at, nth))?);
            }
            if keys.is_empty() {
                return Err(Refused::NoKey(at));
            }
            if want.action == QUIT {
                keys.push(Key::Ctrl('c'));
            }
            let named = |row: &&mut Binding| name(row) == Some(want.action.as_str());
            let mut rows = table.iter_mut().filter(named).peekable();
            rows.peek().ok_or(Refused::Action(at))?;
            rows.for_each(|row| row.keys = Cow::Owned(keys.clone()));
        }
        for (at, want) in wanted.iter().enumerate() {
            let own = table
                .iter()
                .filter(|r| name(r) == Some(want.action.as_str()));
            for row in own {
                for (nth, key) in row.keys.iter().enumerate().take(want.keys.len()) {
                    let mut others = table.iter().filter(|other| {
                        other.action != row.action
                            && meet(other.context, row.context)
                            && other.keys.contains(key)
                    });
                    if let Some(other) = others.next() {
                        return Err(Refused::Taken(at, nth, what(other)));
                    }
                }
            }
        }
        Ok(Self(Cow::Owned(table)))
    }
}

/// What a key does, for somebody who wanted it for something else.
fn what(binding: &Binding) -> String {
    match name(binding) {
        Some(name) => format!("`{name}` ({})", binding.help),
        None => binding.help.to_owned(),
    }
}

/// Whether a key could be meant in both at once. A frame takes its keys first, and then hides what is below.
fn meet(a: Context, b: Context) -> bool {
    use Context::{Lists, On, Overlay, Prompt};
    match (a, b) {
        (Prompt | Overlay, _) | (_, Prompt | Overlay) => a == b,
        (On(a), On(b)) => a == b,
        (On(screen), Lists) | (Lists, On(screen)) => screen != Screen::Log,
        _ => true,
    }
}

/// The name of the one action that keeps a key whatever is wanted.
const QUIT: &str = "quit";

/// What the action of a row is called in the user's file. Keys of a prompt and a frame are as they are.
#[must_use]
pub fn name(binding: &Binding) -> Option<&'static str> {
    if binding.context == Context::Prompt {
        return None;
    }
    Some(match binding.action {
        Action::Go(Screen::Overview) => "overview",
        Action::Go(Screen::Ranks) => "ranks",
        Action::Go(Screen::Findings) => "findings",
        Action::Go(Screen::Hosts) => "hosts",
        Action::Go(Screen::Collectives) => "collectives",
        Action::Go(Screen::Log) => "log",
        Action::Go(Screen::Env) => "env",
        Action::Go(Screen::Gpus) => "gpus",
        Action::NextScreen => "next-screen",
        Action::PreviousScreen => "previous-screen",
        Action::Move(by) => ["down", "up"][usize::from(by < 0)],
        Action::Page(by) => ["page-down", "page-up"][usize::from(by < 0)],
        Action::Top => "first-row",
        Action::Bottom => "last-row",
        Action::Sideways(by) => ["right", "left"][usize::from(by < 0)],
        Action::Open => "open",
        Action::Back => "back",
        Action::Help => "help",
        Action::Search => "search",
        Action::Hit(by) => ["next-hit", "previous-hit"][usize::from(by < 0)],
        Action::Finding(by) => ["next-finding", "previous-finding"][usize::from(by < 0)],
        Action::CopyFix => "copy",
        Action::Sort => "order",
        Action::Reverse => "reverse",
        Action::Mark => "mark",
        Action::MarkAll => "mark-all",
        Action::Widen => "widen",
        Action::Only => "only",
        Action::Without => "without",
        Action::Wrap => "wrap",
        Action::Follow => "follow",
        Action::Neighbour(by) => ["next-rank", "previous-rank"][usize::from(by < 0)],
        Action::Prove => "prove",
        Action::Stack => "stack",
        Action::Pause => "pause",
        Action::Step => "step",
        Action::Faster => "faster",
        Action::Slower => "slower",
        Action::Seek(by) => ["forward", "backward"][usize::from(by < 0)],
        Action::Edge(end) => ["start", "end"][usize::from(end)],
        Action::FirstSign => "first-sign",
        Action::Sign(by) => ["next-sign", "previous-sign"][usize::from(by < 0)],
        Action::Palette => "actions",
        Action::Save => "save",
        Action::Suspend => "suspend",
        Action::Quit => QUIT,
        Action::Type(_) | Action::Erase | Action::Accept | Action::Cancel | Action::Choose(_) => {
            return None;
        }
    })
}

/// The key of this name, however its letters are written.
fn parse(name: &str) -> Option<Key> {
    let mut chars = name.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        let shown = c != ' ' && !c.is_control();
        return shown.then_some(Key::Plain(KeyCode::Char(c)));
    }
    let lower = name.to_ascii_lowercase();
    if let Some(c) = lower.strip_prefix("ctrl-") {
        let mut chars = c.chars();
        let (c, None) = (chars.next()?, chars.next()) else {
            return None;
        };
        // A terminal sends Tab and Enter for these.
        let told_apart = c.is_ascii_lowercase() && !matches!(c, 'i' | 'm');
        return told_apart.then_some(Key::Ctrl(c));
    }
    let functions = (1..=12).map(KeyCode::F);
    let others = [
        KeyCode::Char(' '),
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Backspace,
        KeyCode::Insert,
        KeyCode::Delete,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::PageDown,
    ];
    let mut all = functions.chain(others).map(Key::Plain);
    all.find(|key| key.name().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyEvent, KeyModifiers};

    use super::super::{Here, lookup};
    use super::*;

    fn want(action: &str, keys: &[&str]) -> Wanted {
        Wanted {
            action: action.to_owned(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        }
    }

    fn meaning(keys: &Keys, screen: Screen, code: KeyCode) -> Option<Action> {
        let here = Here {
            screen,
            prompt: false,
            overlay: false,
            replay: true,
        };
        lookup(keys, here, KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn every_action_outside_of_a_prompt_and_a_frame_has_one_name() {
        for row in KEYMAP {
            let fixed = matches!(
                row.action,
                Action::Accept | Action::Cancel | Action::Erase | Action::Choose(_)
            );
            assert_eq!(name(row).is_none(), fixed, "{row:?}");
            for other in KEYMAP {
                let same = name(row).is_some() && name(row) == name(other);
                assert!(!same || row.action == other.action, "{row:?} and {other:?}");
            }
        }
    }

    #[test]
    fn every_key_of_the_table_is_understood_by_its_name() {
        for key in KEYMAP.iter().flat_map(|row| row.keys.iter()) {
            assert_eq!(parse(&key.name()), Some(*key));
            let long = key.name().len() > 1;
            assert!(!long || parse(&key.name().to_uppercase()) == Some(*key));
        }
        for unknown in ["", "ctrl-", "Ctrl-é", "Ctrl-I", "F13", "hyper", "gg"] {
            assert_eq!(parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn own_keys_take_the_place_of_the_built_in_ones() {
        let wanted = [want("copy", &["c"]), want("quit", &["y", "F10"])];
        let keys = Keys::with(&wanted).unwrap();
        for screen in Screen::ALL {
            let is = |code| meaning(&keys, screen, code);
            assert_eq!(is(KeyCode::Char('c')), Some(Action::CopyFix));
            assert_eq!(is(KeyCode::Char('y')), Some(Action::Quit));
            assert_eq!(is(KeyCode::F(10)), Some(Action::Quit));
            assert_eq!(is(KeyCode::Char('q')), None);
        }
        let row = keys.iter().find(|row| row.action == Action::Quit).unwrap();
        assert!(row.keys.contains(&Key::Ctrl('c')), "Ctrl-C always quits");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let refused = |wanted: &[Wanted]| Keys::with(wanted).err();
        let taken = |at, nth, by: &str| Some(Refused::Taken(at, nth, by.to_owned()));
        assert_eq!(refused(&[want("yank", &["c"])]), Some(Refused::Action(0)));
        assert_eq!(refused(&[want("copy", &[])]), Some(Refused::NoKey(0)));
        assert_eq!(
            refused(&[want("copy", &["c", "cc"])]),
            Some(Refused::Key(0, 1))
        );
        assert_eq!(
            refused(&[want("copy", &["c", "s"])]),
            taken(0, 1, "`save` (save a report)")
        );
        // Of two that want the same key the first is told.
        assert_eq!(
            refused(&[want("copy", &["c"]), want("save", &["c"])]),
            taken(0, 0, "`save` (save a report)")
        );
        // On a special screen, too, and where something is listed.
        assert!(matches!(
            refused(&[want("pause", &["m"])]),
            Some(Refused::Taken(..))
        ));
        // They never meet.
        assert_eq!(
            refused(&[want("follow", &["m"]), want("mark", &["f"])]),
            None
        );
    }
}

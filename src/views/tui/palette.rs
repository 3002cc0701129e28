//! All that can be done, from the key table: `:` lists it, and what is typed narrows the list.

use super::keymap::{self, Action, Binding, Context, Here, Key};
use super::screen::Screen;
use super::ui::Ui;

/// One row of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The keys that do it, as text.
    pub keys: String,
    /// What it does; what only another screen does begins with the name of that screen.
    pub text: String,
    /// The screen to go to first, if it is another one.
    pub screen: Option<Screen>,
    /// What to do.
    pub action: Action,
}

/// What can be done here, the most special first, and then what other screens can do; only where all
/// typed words are found.
#[must_use]
pub fn entries(ui: &Ui, replay: bool) -> Vec<Entry> {
    let here = Here {
        screen: ui.screen,
        prompt: false,
        overlay: false,
        replay,
    };
    let typed = ui.prompt.as_ref().map_or("", |prompt| prompt.text.as_str());
    let words: Vec<String> = typed.split_whitespace().map(str::to_lowercase).collect();
    let found = |(binding, entry): &(&Binding, Entry)| {
        let also = also_called(binding.action);
        let text = format!("{} {} {also}", entry.text, binding.footer).to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    all(&ui.keys, here)
        .into_iter()
        .filter(found)
        .map(|(_, e)| e)
        .collect()
}

/// Other words under which an action is looked for.
fn also_called(action: Action) -> &'static str {
    match action {
        Action::CopyFix => "yank clipboard command",
        Action::Search => "find grep look for regex",
        Action::Only => "filter in grep keep",
        Action::Without => "filter out hide exclude",
        Action::Hit(_) => "search find match",
        Action::Save => "write export markdown file",
        Action::Quit => "exit leave close end",
        Action::Back => "return up undo",
        Action::Seek(_) => "time seek rewind jump history past scrub",
        Action::Edge(false) => "time begin beginning rewind first",
        Action::Edge(true) => "time now live last present",
        Action::FirstSign => "time began begin start cause when jump",
        Action::Sign(_) => "time timeline seek when",
        Action::Pause => "time play resume freeze hold continue",
        Action::Step => "time next frame single",
        Action::Faster | Action::Slower => "time speed rate",
        Action::Prove => "test verify check selftest",
        Action::Stack => "traceback backtrace python py-spy",
        Action::Follow => "tail live end",
        Action::Wrap => "long lines fold",
        Action::Widen => "merge together every",
        Action::Sort => "sort order column",
        Action::Help => "keys manual",
        Action::Go(_) | Action::NextScreen | Action::PreviousScreen => "screen tab view show",
        _ => "",
    }
}

fn all(table: &[Binding], here: Here) -> Vec<(&Binding, Entry)> {
    let mut listed: Vec<(&Binding, Entry)> = Vec::new();
    let mut taken: Vec<Key> = Vec::new();
    let of = |context: Context| {
        let bindings = table.iter().filter(move |b| b.context == context);
        bindings.filter(|b| b.action != Action::Palette)
    };
    for context in Context::ALL.into_iter().filter(|c| c.holds(here)) {
        let before = taken.clone();
        for binding in of(context) {
            // A key that a more special context took means something else here.
            let keys = binding.keys.iter().filter(|key| !before.contains(key));
            let keys: Vec<Key> = keys.copied().collect();
            taken.extend(&keys);
            if !keys.is_empty() {
                listed.push((binding, entry(binding, &keys, None)));
            }
        }
    }
    for screen in Screen::ALL.into_iter().filter(|s| *s != here.screen) {
        for binding in of(Context::On(screen)) {
            let same = |(other, _): &(&Binding, Entry)| {
                (other.action, other.help) == (binding.action, binding.help)
            };
            if !listed.iter().any(same) {
                listed.push((binding, entry(binding, &binding.keys, Some(screen))));
            }
        }
    }
    listed
}

fn entry(binding: &Binding, keys: &[Key], screen: Option<Screen>) -> Entry {
    Entry {
        keys: keymap::list(keys),
        text: match screen {
            Some(screen) => format!("{}: {}", screen.title(), binding.help),
            None => binding.help.to_owned(),
        },
        screen,
        action: binding.action,
    }
}

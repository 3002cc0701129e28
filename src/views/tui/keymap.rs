//! Every key in one table: the footer, the help page and `docs/keys.md` are made from it.

mod own;

use std::borrow::Cow;
use std::fmt::Write as _;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::screen::Screen;

pub use own::{Keys, Refused, Wanted, name};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Shows a screen.
    Go(Screen),
    /// Shows the next screen.
    NextScreen,
    /// Shows the previous screen.
    PreviousScreen,
    /// Moves the cursor by rows; negative is up.
    Move(isize),
    /// Moves the cursor, or a detail, by pages.
    Page(isize),
    /// To the first row.
    Top,
    /// To the last row.
    Bottom,
    /// Moves sideways; negative is left.
    Sideways(isize),
    /// Opens what is under the cursor.
    Open,
    /// Goes back to where one came from.
    Back,
    /// Shows or hides the help page.
    Help,
    /// Asks for a filter or a pattern.
    Search,
    /// To the next hit of the pattern; negative is the previous one.
    Hit(isize),
    /// To the next finding; negative is the previous one.
    Finding(isize),
    /// Copies the fix.
    CopyFix,
    /// Sorts by the next column.
    Sort,
    /// Turns the order round.
    Reverse,
    /// Marks a rank, or takes its mark away.
    Mark,
    /// Marks all ranks that are shown, or takes all marks away.
    MarkAll,
    /// Shows the lines of one rank, of the marked ones, of all.
    Widen,
    /// Asks for a pattern that lines must have.
    Only,
    /// Asks for a pattern that lines must not have.
    Without,
    /// Shows long lines in several rows, or in one.
    Wrap,
    /// Follows the end of a log.
    Follow,
    /// Shows the log of the next rank; negative is the previous one.
    Neighbour(isize),
    /// Proves the fix of a finding on this host's GPUs, or shows how that goes.
    Prove,
    /// Shows the Python stack of a rank of this host.
    Stack,
    /// Freezes the view, or stops a replay.
    Pause,
    /// Plays one piece of a replay.
    Step,
    /// Plays faster.
    Faster,
    /// Plays slower.
    Slower,
    /// Jumps in a replay; negative is back.
    Seek(isize),
    /// To the start of what can be seen again; true is to its end, of a watch the present.
    Edge(bool),
    /// Jumps to where the first cause came up in a replay, and stops there.
    FirstSign,
    /// Jumps to where the next finding came up in a replay, and stops there; negative is the previous one.
    Sign(isize),
    /// Asks what to do, with a list of all that can be done.
    Palette,
    /// Moves within that list; negative is up.
    Choose(isize),
    /// Saves a report.
    Save,
    /// Puts the program in the background.
    Suspend,
    /// Ends.
    Quit,
    /// A character of a prompt.
    Type(char),
    /// Takes the last character of a prompt back.
    Erase,
    /// Accepts a prompt.
    Accept,
    /// Leaves a prompt.
    Cancel,
}

/// Where a key means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// While a filter or pattern is typed.
    Prompt,
    /// While a frame lies over the screen: a proof, or a stack.
    Overlay,
    /// On one screen.
    On(Screen),
    /// On the overview, ranks, findings, hosts and collectives: wherever rows are listed.
    Lists,
    /// In a replay, and in a watch, which can look back.
    Replay,
    /// Wherever nothing is typed.
    Everywhere,
}

impl Context {
    /// All of them, the most special first: this is the order in which a key is looked up.
    pub const ALL: [Self; 9] = [
        Self::Prompt,
        Self::Overlay,
        Self::On(Screen::Ranks),
        Self::On(Screen::Findings),
        Self::On(Screen::Hosts),
        Self::On(Screen::Log),
        Self::Lists,
        Self::Replay,
        Self::Everywhere,
    ];

    /// How help pages call it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Prompt => "While typing",
            Self::Overlay => "In a frame",
            Self::On(screen) => screen.title(),
            Self::Lists => "Lists",
            Self::Replay => "Time",
            Self::Everywhere => "Everywhere",
        }
    }

    pub(super) fn holds(self, here: Here) -> bool {
        match self {
            Self::Prompt => here.prompt,
            _ if here.prompt => false,
            Self::Overlay => here.overlay,
            Self::On(screen) => here.screen == screen,
            Self::Lists => here.screen != Screen::Log,
            Self::Replay => here.replay,
            Self::Everywhere => true,
        }
    }
}

/// Where the user is, as far as keys care.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    /// The screen that is shown.
    pub screen: Screen,
    /// Something is being typed.
    pub prompt: bool,
    /// A frame lies over the screen.
    pub overlay: bool,
    /// One can move about in time.
    pub replay: bool,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Where it holds.
    pub context: Context,
    /// Its keys; the first is the one shown in the footer.
    pub keys: Cow<'static, [Key]>,
    /// What it does.
    pub action: Action,
    /// What it does, in words.
    pub help: &'static str,
    /// One word for the footer; empty to leave it out there. (Help and quit stand beside the tabs.)
    pub footer: &'static str,
}

/// A key as it is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A key by itself; Shift is part of a character.
    Plain(KeyCode),
    /// With Control.
    Ctrl(char),
}

impl Key {
    /// The key of an event.
    #[must_use]
    pub fn of(event: KeyEvent) -> Option<Self> {
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Char(c) if control => Some(Self::Ctrl(c.to_ascii_lowercase())),
            _ if event
                .modifiers
                .intersects(KeyModifiers::ALT | KeyModifiers::SUPER) =>
            {
                None
            }
            code => Some(Self::Plain(code)),
        }
    }

    /// How it is written on a help page, in ASCII.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Ctrl(c) => format!("Ctrl-{}", c.to_ascii_uppercase()),
            Self::Plain(KeyCode::Char(' ')) => "Space".to_owned(),
            Self::Plain(KeyCode::Char(c)) => c.to_string(),
            Self::Plain(KeyCode::BackTab) => "Shift-Tab".to_owned(),
            Self::Plain(KeyCode::PageUp) => "PgUp".to_owned(),
            Self::Plain(KeyCode::PageDown) => "PgDn".to_owned(),
            Self::Plain(KeyCode::F(n)) => format!("F{n}"),
            Self::Plain(code) => format!("{code:?}"),
        }
    }
}

const fn key(c: char) -> Key {
    Key::Plain(KeyCode::Char(c))
}

const fn bind(
    context: Context,
    keys: &'static [Key],
    action: Action,
    footer: &'static str,
    help: &'static str,
) -> Binding {
    Binding {
        context,
        keys: Cow::Borrowed(keys),
        action,
        help,
        footer,
    }
}

use Action::{
    Accept, Back, Bottom, Cancel, Choose, CopyFix, Edge, Erase, Faster, Finding, FirstSign, Follow,
    Go, Help, Hit, Mark, MarkAll, Move, Neighbour, NextScreen, Only, Open, Page, Palette, Pause,
    PreviousScreen, Prove, Quit, Reverse, Save, Search, Seek, Sideways, Sign, Slower, Sort, Stack,
    Step, Suspend, Top, Widen, Without, Wrap,
};
use Context::{Everywhere, Lists, On, Overlay, Prompt, Replay};
use KeyCode as K;

/// Every key. Characters typed into a prompt are the only keys that are not in it.
#[rustfmt::skip]
pub const KEYMAP: &[Binding] = &[
    bind(Prompt, &[Key::Plain(K::Enter)], Accept, "accept", "use what was typed"),
    bind(Prompt, &[Key::Plain(K::Esc), Key::Ctrl('c')], Cancel, "cancel", "leave it as it was"),
    bind(Prompt, &[Key::Plain(K::Backspace)], Erase, "", "take the last character back"),
    bind(Prompt, &[Key::Plain(K::Up)], Choose(-1), "", "among the actions of `:`, choose the one above"),
    bind(Prompt, &[Key::Plain(K::Down)], Choose(1), "", "among the actions of `:`, choose the one below"),

    bind(Overlay, &[Key::Plain(K::Enter)], Accept, "run", "run what is asked for; hide what runs, which goes on"),
    bind(Overlay, &[Key::Plain(K::Esc), key('q')], Cancel, "close", "stop what runs; close the frame"),
    bind(Overlay, &[key('y')], CopyFix, "copy", "copy the command (OSC 52)"),

    bind(On(Screen::Ranks), &[Key::Plain(K::Enter)], Open, "log", "open the log of the rank, or of the marked ones merged"),
    bind(On(Screen::Ranks), &[key('m')], Mark, "mark", "mark the rank, to read logs together; again takes the mark away"),
    bind(On(Screen::Ranks), &[key('M')], MarkAll, "", "mark all ranks shown, or take all marks away"),
    bind(On(Screen::Ranks), &[key('/')], Search, "filter", "show only ranks in whose row this is found"),
    bind(On(Screen::Ranks), &[key('P')], Stack, "stack", "show the Python stack of the rank, if it runs on this host (py-spy)"),
    bind(On(Screen::Ranks), &[key('o')], Sort, "order", "sort by the next column"),
    bind(On(Screen::Ranks), &[key('O')], Reverse, "", "turn the order round"),

    bind(On(Screen::Findings), &[Key::Plain(K::Enter)], Open, "evidence", "open the log at the finding's first line"),
    bind(On(Screen::Findings), &[key('p')], Prove, "prove", "prove the fix on the GPUs of this host, after a question"),
    bind(On(Screen::Findings), &[key('y')], CopyFix, "copy fix", "copy the commands of the fix (OSC 52)"),

    bind(On(Screen::Hosts), &[Key::Plain(K::Enter)], Open, "ranks", "show the ranks of the host, or the log of a rank that cannot connect"),

    bind(On(Screen::Log), &[key('/')], Search, "search", "search for a regular expression"),
    bind(On(Screen::Log), &[key('n')], Hit(1), "next", "go to the next hit"),
    bind(On(Screen::Log), &[key('N')], Hit(-1), "previous", "go to the previous hit"),
    bind(On(Screen::Log), &[key('a')], Widen, "all", "show the lines of one rank, of the marked ranks, of all, as they came"),
    bind(On(Screen::Log), &[key('i')], Only, "only", "show only lines that have a regular expression; Esc takes it away"),
    bind(On(Screen::Log), &[key('x')], Without, "without", "leave lines out that have a regular expression; Esc takes it away"),
    bind(On(Screen::Log), &[key('w')], Wrap, "wrap", "show long lines in several rows, or cut them"),
    bind(On(Screen::Log), &[Key::Plain(K::Enter)], Open, "", "of several ranks' lines, open the log of the one that wrote this"),
    bind(On(Screen::Log), &[key('P')], Stack, "", "show the Python stack of the rank, if it runs on this host (py-spy)"),
    bind(On(Screen::Log), &[key('f')], Follow, "follow", "follow the end of the log, or stop that"),
    bind(On(Screen::Log), &[Key::Plain(K::Left), key('h')], Sideways(-1), "", "scroll left"),
    bind(On(Screen::Log), &[Key::Plain(K::Right), key('l')], Sideways(1), "", "scroll right"),
    bind(On(Screen::Log), &[key('{')], Neighbour(-1), "", "show the log of the previous rank"),
    bind(On(Screen::Log), &[key('}')], Neighbour(1), "", "show the log of the next rank"),

    bind(Lists, &[Key::Plain(K::Enter)], Open, "open", "open what is under the cursor"),
    bind(Lists, &[Key::Plain(K::Left), key('h')], Sideways(-1), "", "go to the previous communicator or screen"),
    bind(Lists, &[Key::Plain(K::Right), key('l')], Sideways(1), "", "go to the next communicator or screen"),

    bind(Replay, &[key('!')], FirstSign, "first sign", "on the bar of time, go to the first cause, and stop there"),
    bind(Replay, &[key('>')], Sign(1), "", "on the bar of time, go to the next finding, and stop there"),
    bind(Replay, &[key('<')], Sign(-1), "", "on the bar of time, go to the previous finding, and stop"),
    bind(Replay, &[key('.')], Step, "step", "play the next piece and stop"),
    bind(Replay, &[key('(')], Edge(false), "", "go to the start, or to the oldest that is kept"),
    bind(Replay, &[key(')')], Edge(true), "", "go to the end; of a watch, back to the present"),
    bind(Replay, &[key('+'), key('=')], Faster, "", "play twice as fast"),
    bind(Replay, &[key('-')], Slower, "", "play half as fast"),
    bind(Replay, &[key('[')], Seek(-1), "earlier", "go back by a twentieth; a watch goes on meanwhile"),
    bind(Replay, &[key(']')], Seek(1), "later", "go forward by a twentieth"),

    bind(Everywhere, &[Key::Plain(K::Up), key('k')], Move(-1), "", "move up"),
    bind(Everywhere, &[Key::Plain(K::Down), key('j')], Move(1), "", "move down"),
    bind(Everywhere, &[Key::Plain(K::PageUp), Key::Ctrl('u')], Page(-1), "", "a page up"),
    bind(Everywhere, &[Key::Plain(K::PageDown), Key::Ctrl('d')], Page(1), "", "a page down"),
    bind(Everywhere, &[Key::Plain(K::Home), key('g')], Top, "", "go to the first row"),
    bind(Everywhere, &[Key::Plain(K::End), key('G')], Bottom, "", "go to the last row"),
    bind(Everywhere, &[Key::Plain(K::Esc), Key::Plain(K::Backspace)], Back, "back", "go back"),
    bind(Everywhere, &[key('e')], Finding(1), "finding", "select the next finding of the list; time stays where it is"),
    bind(Everywhere, &[key('E')], Finding(-1), "", "select the previous finding of the list"),
    bind(Everywhere, &[key(' ')], Pause, "pause", "stop, or go on; a watch reads on meanwhile"),
    bind(Everywhere, &[key('y')], CopyFix, "", "copy the commands of the fix (OSC 52)"),
    bind(Everywhere, &[key('p')], Prove, "", "prove the fix on the GPUs of this host, after a question"),
    bind(Everywhere, &[key('s')], Save, "save", "save a report"),
    bind(Everywhere, &[key('1')], Go(Screen::Overview), "", "Overview: what is wrong"),
    bind(Everywhere, &[key('2')], Go(Screen::Ranks), "", "Ranks: how far each has got"),
    bind(Everywhere, &[key('3')], Go(Screen::Findings), "", "Findings: why, and what to change"),
    bind(Everywhere, &[key('4')], Go(Screen::Hosts), "", "Hosts: which addresses they use"),
    bind(Everywhere, &[key('5')], Go(Screen::Collectives), "", "Collectives: who called what"),
    bind(Everywhere, &[key('6')], Go(Screen::Log), "", "Log: what ranks said"),
    bind(Everywhere, &[key('7')], Go(Screen::Env), "", "Env: settings and versions, what differs first"),
    bind(Everywhere, &[key('8')], Go(Screen::Gpus), "", "GPUs: what they do, beside their ranks"),
    bind(Everywhere, &[Key::Plain(K::Tab)], NextScreen, "", "next screen"),
    bind(Everywhere, &[Key::Plain(K::BackTab)], PreviousScreen, "", "previous screen"),
    bind(Everywhere, &[key(':')], Palette, "", "list all actions; typing narrows the list, Enter runs one"),
    bind(Everywhere, &[key('?'), Key::Plain(K::F(1))], Help, "", "show or hide this page"),
    bind(Everywhere, &[Key::Ctrl('z')], Suspend, "", "put unhang in the background"),
    bind(Everywhere, &[key('q'), Key::Ctrl('c')], Quit, "", "quit; the job goes on"),
];

/// What a key of this table means here.
#[must_use]
pub fn lookup(table: &[Binding], here: Here, event: KeyEvent) -> Option<Action> {
    let key = Key::of(event)?;
    for context in Context::ALL.into_iter().filter(|c| c.holds(here)) {
        let bound = table
            .iter()
            .find(|b| b.context == context && b.keys.contains(&key));
        if let Some(binding) = bound {
            return Some(binding.action);
        }
    }
    match key {
        Key::Plain(KeyCode::Char(c)) if here.prompt => Some(Action::Type(c)),
        _ => None,
    }
}

/// What the footer may show here, the most special first.
pub fn footer(table: &[Binding], here: Here) -> Vec<&Binding> {
    let contexts = Context::ALL.into_iter().filter(move |c| c.holds(here));
    let rows = contexts.flat_map(|c| table.iter().filter(move |b| b.context == c));
    let mut taken: Vec<Key> = Vec::new();
    let mut shown = Vec::new();
    for row in rows {
        // A key that a more special context took means something else here.
        if !taken.contains(&row.keys[0]) {
            taken.push(row.keys[0]);
            shown.extend((!row.footer.is_empty()).then_some(row));
        }
    }
    shown
}

/// The keys of a binding as text: `Up, k`.
#[must_use]
pub fn names(binding: &Binding) -> String {
    list(&binding.keys)
}

/// Keys as text.
pub(super) fn list(keys: &[Key]) -> String {
    let names: Vec<String> = keys.iter().map(|k| k.name()).collect();
    names.join(", ")
}

/// The table as a Markdown page (`docs/keys.md`).
#[must_use]
pub fn markdown() -> String {
    let mut out =
        "# Keys of the dashboard\n\nMade from the program's own table; `?` shows it, too. \
         What has a name can have other keys, in `config.toml` (see the README):\n\n\
         ```toml\n[keys]\ncopy = \"c\"\nnext-finding = [\"f\", \"Ctrl-N\"]\nfollow = \"F\"\n```\n"
            .to_owned();
    for context in Context::ALL {
        let _ = writeln!(
            out,
            "\n## {}\n\n| key | what it does | name |\n| --- | --- | --- |",
            context.title()
        );
        for binding in KEYMAP.iter().filter(|b| b.context == context) {
            let keys: Vec<String> = binding
                .keys
                .iter()
                .map(|k| format!("`{}`", k.name()))
                .collect();
            let name = name(binding).map_or_else(String::new, |name| format!("`{name}`"));
            let _ = writeln!(out, "| {} | {} | {name} |", keys.join(", "), binding.help);
        }
    }
    out
}

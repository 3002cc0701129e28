//! What the dashboard remembers of a program that runs beside it, on request: the proof of a fix, or the
//! Python stack of a rank.

use std::time::Duration;

use crate::app::task::{End, Seen};
use crate::app::{prove, pystack};
use crate::engine::finding::Finding;
use crate::views::escape::{self, Glyphs, harmless};
use crate::views::selftest::Compared;
use crate::views::words::{self, quoted};

use super::keymap::Action;
use super::theme::Tone;
use super::ui::Ui;
use super::update::Effect;
use super::widget::overlay;

/// What it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// The fix of this finding.
    Fix(FindingKey),
    /// The stack of this rank, whose process this is.
    Stack {
        /// The rank.
        rank: u32,
        /// Its process, if it is known.
        pid: Option<u32>,
    },
}

/// What a finding is known by while others come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingKey(String, Option<String>);

impl FindingKey {
    /// Of a finding.
    #[must_use]
    pub fn of(finding: &Finding) -> Self {
        Self(finding.id.clone(), finding.comm.clone())
    }
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The user is asked whether to start it.
    Asked(prove::Test),
    /// It cannot be done; the text says why.
    Refused,
    /// It runs, or has ended.
    Started(Seen),
}

/// One program, asked for, running or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// What it is for.
    pub about: About,
    /// What stands above its output: tone and text.
    pub intro: Vec<(Tone, String)>,
    /// How far it is.
    pub stage: Stage,
    /// The overlay is put away; it goes on.
    pub hidden: bool,
    /// First row that is shown, once the user has moved it.
    pub top: Option<usize>,
}

impl TaskView {
    fn new(about: About, intro: Vec<(Tone, String)>, stage: Stage) -> Self {
        Self {
            about,
            intro,
            stage,
            hidden: false,
            top: None,
        }
    }

    /// True while it runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        matches!(&self.stage, Stage::Started(seen) if seen.end.is_none())
    }

    /// The command that stands above its output, if there is one.
    #[must_use]
    pub fn command(&self) -> Option<&str> {
        let mut intro = self.intro.iter();
        let (_, text) = intro.find(|(tone, _)| *tone == Tone::Command)?;
        Some(text)
    }

    /// What it is, for the frame around it.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.about {
            About::Fix(FindingKey(id, _)) if matches!(self.stage, Stage::Asked(_)) => {
                format!("Prove the fix of {id}?")
            }
            About::Fix(FindingKey(id, _)) => format!("Proof of the fix of {id}"),
            About::Stack { rank, .. } => format!("Python stack of rank {rank}"),
        }
    }

    /// What can be done with it now: keys and words.
    #[must_use]
    pub fn keys(&self) -> &'static [(&'static str, &'static str)] {
        match &self.stage {
            Stage::Asked(_) => &[("Enter", "run it"), ("Esc", "leave it")],
            Stage::Started(seen) if seen.end.is_none() => {
                &[("Esc", "stop it"), ("Enter", "hide it, it goes on")]
            }
            Stage::Started(_) => match self.about {
                About::Fix(_) => &[("Esc", "close"), ("p", "prove it again")],
                About::Stack { .. } => &[("Esc", "close"), ("P", "read it again")],
            },
            Stage::Refused => &[("Esc", "close")],
        }
    }

    /// Everything it says, as rows that are neither wrapped nor escaped.
    #[must_use]
    pub fn rows(&self) -> Vec<(Tone, String)> {
        let mut rows = self.intro.clone();
        let Stage::Started(seen) = &self.stage else {
            return rows;
        };
        rows.push((Tone::Plain, String::new()));
        for (bytes, tone) in [(&seen.out, Tone::Plain), (&seen.err, Tone::Warn)] {
            let text = String::from_utf8_lossy(bytes);
            rows.extend(text.lines().map(|line| (tone, line.to_owned())));
        }
        if seen.dropped > 0 {
            let text = format!("{} more are not shown", words::bytes(seen.dropped));
            rows.push((Tone::Quiet, text));
        }
        rows.extend(self.ended(seen));
        rows
    }

    /// Everything it says, in rows of so many columns.
    pub(super) fn wrapped(&self, columns: usize, glyphs: Glyphs) -> Vec<(Tone, String)> {
        let mut out = Vec::new();
        for (tone, text) in self.rows() {
            // Output is indented where that means something.
            let indent = text.len() - text.trim_start_matches(' ').len();
            let indent = indent.min(columns / 2);
            let lines = escape::wrap(&text, columns - indent, glyphs);
            if lines.is_empty() {
                out.push((tone, String::new()));
            }
            out.extend(
                lines
                    .into_iter()
                    .map(|line| (tone, " ".repeat(indent) + line.trim_start())),
            );
        }
        out
    }

    /// The first row to show of so many, where so many have room: at first the newest of a proof, the
    /// top of a stack.
    pub(super) fn first(&self, rows: usize, room: usize) -> usize {
        let last = rows.saturating_sub(room);
        let newest = matches!(
            (&self.about, &self.stage),
            (About::Fix(_), Stage::Started(_))
        );
        self.top.unwrap_or(if newest { last } else { 0 }).min(last)
    }

    /// How it stands, below its output.
    fn ended(&self, seen: &Seen) -> Vec<(Tone, String)> {
        let took = words::duration(Duration::from_secs(seen.took.as_secs()));
        let Some(end) = &seen.end else {
            return vec![(Tone::Quiet, format!("running for {took}"))];
        };
        let why = match end {
            End::Status(0) => None,
            End::Status(_) if compared(seen).is_some() => None,
            End::Status(status) => Some(format!("it ended with status {status} after {took}")),
            End::Signal(signal) => Some(format!("it was ended by signal {signal} after {took}")),
            End::TimedOut => Some(format!("it was ended: no answer for {took}")),
            End::Stopped => Some(format!("stopped after {took}")),
            End::Failed(why) => Some(format!("it could not be run: {why}")),
        };
        let mut rows: Vec<_> = why.map(|why| (Tone::Strong, why)).into_iter().collect();
        if let (About::Stack { pid: Some(pid), .. }, false) = (&self.about, *end == End::Status(0))
        {
            let hint = pystack::why_not(&String::from_utf8_lossy(&seen.err), *pid);
            rows.extend(hint.map(|hint| (Tone::Strong, hint)));
        }
        rows
    }

    /// What stands beside the finding.
    fn result(&self) -> Option<String> {
        let Stage::Started(seen) = &self.stage else {
            return None;
        };
        let Some(end) = &seen.end else {
            return Some("is being proven on this host (p shows it)".to_owned());
        };
        if let Some(compared) = compared(seen) {
            return Some(format!("on this host: {}", compared.line()));
        }
        let why = match end {
            End::Stopped => "the test was stopped",
            End::TimedOut => "the test took too long",
            _ => "the test said nothing (p shows why)",
        };
        Some(format!("on this host: unproven, {why}"))
    }
}

fn compared(seen: &Seen) -> Option<Compared> {
    Compared::read(&String::from_utf8_lossy(&seen.out))
}

/// What is known of the fix of a finding, for the screens that show it.
#[must_use]
pub fn proof<'a>(ui: &'a Ui, finding: &Finding) -> Option<&'a str> {
    let key = FindingKey::of(finding);
    let known = ui.proofs.iter().find(|(other, _)| *other == key)?;
    Some(&known.1)
}

/// Asks whether the test is to be run, or says why there is none.
pub fn ask_to_prove(
    ui: &mut Ui,
    finding: &Finding,
    here: &prove::Here,
    test: Result<prove::Test, String>,
) {
    let about = About::Fix(FindingKey::of(finding));
    let test = match test {
        Ok(test) => test,
        Err(why) => {
            ui.task = Some(TaskView::new(
                about,
                vec![(Tone::Plain, why)],
                Stage::Refused,
            ));
            return;
        }
    };
    let command = command("unhang", test.args.iter().map(String::as_str));
    let mut intro = vec![
        (Tone::Plain, finding.title.clone()),
        (Tone::Command, command),
    ];
    if here.gpus == 0 {
        let why = if here.hidden {
            "CUDA_VISIBLE_DEVICES hides every GPU from this shell, so nothing can be tested here"
        } else {
            "this host has no NVIDIA driver (no /dev/nvidia0), so nothing can be tested here; \
             type the command on a host of the job"
        };
        intro.push((Tone::Strong, why.to_owned()));
        ui.task = Some(TaskView::new(about, intro, Stage::Refused));
        return;
    }
    for change in &test.changes {
        let present = match &change.present {
            Some(value) => quoted(value),
            None => "not set (no log shows a value)".to_owned(),
        };
        let proposed = if change.proposed.is_empty() {
            "not set".to_owned()
        } else {
            quoted(&change.proposed)
        };
        intro.push((
            Tone::Plain,
            format!(
                "{}: {present} without the change, {proposed} with it",
                change.name
            ),
        ));
    }
    if test.others > 0 {
        let others = words::count(test.others, "further setting");
        let text = format!(
            "{others} of NCCL that the ranks of this host have {} the same on both sides",
            if test.others == 1 { "is" } else { "are" }
        );
        intro.push((Tone::Plain, text));
    }
    let gpus = words::count(here.gpus as usize, "GPU");
    intro.push((
        Tone::Strong,
        format!(
            "This uses {} of {}: 5 runs of each side, a rank on each. A job that hangs still owns its \
             GPUs: the test then needs memory beside it, and takes time from it. The job itself is not touched.",
            if here.gpus == 1 { "the GPU".to_owned() } else { format!("all {gpus}") },
            here.host
        ),
    ));
    intro.extend(
        test.notes
            .iter()
            .map(|note| (Tone::Plain, format!("Note: {note}."))),
    );
    ui.task = Some(TaskView::new(about, intro, Stage::Asked(test)));
}

/// The stack of a rank was asked for: it is being read, or cannot be.
pub fn stack_asked(
    ui: &mut Ui,
    rank: u32,
    pid: Option<u32>,
    order: &Result<crate::app::task::Order, Vec<String>>,
) {
    let about = About::Stack { rank, pid };
    ui.task = Some(match order {
        Ok(order) => {
            let args = order
                .args
                .iter()
                .map(|arg| arg.to_str().unwrap_or_default());
            let intro = vec![(Tone::Command, command(pystack::PROGRAM, args))];
            TaskView::new(about, intro, Stage::Started(Seen::default()))
        }
        Err(why) => {
            let tones = std::iter::once(Tone::Plain).chain(std::iter::repeat(Tone::Command));
            let intro = tones.zip(why.iter().cloned()).collect();
            TaskView::new(about, intro, Stage::Refused)
        }
    });
}

/// The command as it can be typed.
fn command<'a>(program: &str, args: impl Iterator<Item = &'a str>) -> String {
    let words = std::iter::once(program.to_owned()).chain(args.map(quoted));
    words.collect::<Vec<_>>().join(" ")
}

/// Takes in how far the program is.
pub fn progressed(ui: &mut Ui, seen: Seen) {
    let Some(task) = &mut ui.task else { return };
    let ended = seen.end.is_some() && task.runs();
    task.stage = Stage::Started(seen);
    if let (About::Fix(key), Some(result)) = (&task.about, task.result()) {
        let key = key.clone();
        ui.proofs.retain(|(other, _)| *other != key);
        if ended {
            // The end is worth being seen wherever the user is.
            ui.message = task.hidden.then(|| format!("{}: {result}", task.title()));
        }
        ui.proofs.push((key, result));
    } else if ended && task.hidden {
        ui.message = Some(format!("{}: P shows it", task.title()));
    }
}

/// What an action means to the overlay; `None` if it is for the screen behind it.
pub(super) fn took(ui: &mut Ui, action: Action) -> Option<Vec<Effect>> {
    let (room, columns, glyphs) = (ui.page(), overlay::columns(ui.size.0), ui.theme.glyphs);
    let page = isize::try_from(room).unwrap_or(1);
    let task = ui.task.as_mut().filter(|task| !task.hidden)?;
    let by = match action {
        Action::Open | Action::Accept => {
            if let Stage::Asked(test) = &task.stage {
                let test = test.clone();
                task.stage = Stage::Started(Seen::default());
                task.top = None;
                return Some(vec![Effect::Run(test)]);
            }
            put_away(ui);
            return Some(Vec::new());
        }
        Action::Back | Action::Cancel => {
            if task.runs() {
                return Some(vec![Effect::StopTask]);
            }
            put_away(ui);
            return Some(Vec::new());
        }
        // What has ended makes room for another one; all else is put away.
        Action::Prove | Action::Stack => {
            let ended = !task.runs() && matches!(task.stage, Stage::Started(_));
            put_away(ui);
            if ended {
                ui.task = None;
            }
            return (!ended).then(Vec::new);
        }
        Action::Move(by) => by,
        Action::Page(by) => by * (page / 2).max(1),
        Action::Top => isize::MIN,
        Action::Bottom => isize::MAX,
        Action::CopyFix => {
            let text = harmless(task.command()?, Glyphs::Unicode);
            return Some(vec![Effect::Copy(text.into_owned() + "\n")]);
        }
        // The screen behind it is asked for.
        _ => {
            put_away(ui);
            return None;
        }
    };
    let rows = task.wrapped(columns, glyphs).len();
    let top = task.first(rows, room).saturating_add_signed(by);
    task.top = Some(top.min(rows.saturating_sub(1)));
    Some(Vec::new())
}

/// What runs or has ended can be seen again; what was only asked is forgotten.
fn put_away(ui: &mut Ui) {
    let started = |task: &mut TaskView| {
        task.hidden = true;
        matches!(task.stage, Stage::Started(_))
    };
    if !ui.task.as_mut().is_some_and(started) {
        ui.task = None;
    }
}

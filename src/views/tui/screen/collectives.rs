//! Who called what: per communicator, how many collectives each rank has reached, the odd ones first, and what
//! was called where ranks called different things.

mod groups;
mod table;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::engine::finding::Divergence;
use crate::engine::snapshot::{CommView, Snapshot};
use crate::views::tui::theme::{Theme, Tone};
use crate::views::tui::view::Scene;
use crate::views::tui::widget::pen::Pen;
use crate::views::words;

pub(in crate::views::tui) use groups::{Group, groups};

use super::window;

/// Columns of the names of ranks at most.
const RANKS: usize = 28;

pub(in crate::views::tui) struct Collectives<'a>(pub(in crate::views::tui) Scene<'a>);

/// The communicator to show first: the one that the verdict is about, else one that another finding is about.
#[must_use]
pub(in crate::views::tui) fn first(snapshot: &Snapshot) -> usize {
    let verdict = snapshot
        .verdict
        .finding
        .and_then(|at| snapshot.findings.get(at));
    let named = verdict.into_iter().chain(&snapshot.findings);
    let mut named = named.filter_map(|f| f.comm.as_ref());
    let at = named.find_map(|name| {
        let comms = &snapshot.job.comms;
        comms.iter().position(|comm| comm.called.contains(name))
    });
    at.unwrap_or(0)
}

/// What a finding says about calls on the communicator that differ.
fn divergence<'s>(snapshot: &'s Snapshot, comm: &CommView) -> Option<&'s Divergence> {
    let about = |name: &Option<String>| name.as_ref().is_some_and(|n| comm.called.contains(n));
    let mut findings = snapshot.findings.iter().filter(|f| about(&f.comm));
    let calls = findings.find_map(|f| f.calls.as_ref())?;
    (!calls.sides.is_empty()).then_some(calls)
}

impl Widget for &Collectives<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Scene { ui, snapshot, .. } = self.0;
        let mut pen = Pen::new(buf, area, ui.theme);
        let comms = &snapshot.job.comms;
        let here = ui.comm_row(snapshot);
        let Some(comm) = comms.get(here) else {
            pen.put(
                Tone::Plain,
                " no communicator was seen (NCCL_DEBUG=INFO prints them)",
            );
            return;
        };
        heading(&mut pen, comm, here, comms.len());
        if let Some(calls) = divergence(snapshot, comm) {
            let limit = pen.rows_left() / 2;
            table::draw(&mut pen, comm, calls, limit);
        }
        let groups = groups(comm);
        if groups.iter().all(|g| g.reached.is_none()) {
            pen.line(
                Tone::Quiet,
                " collectives are not logged: NCCL_DEBUG_SUBSYS=INIT,COLL prints them",
            );
        }
        let selected = ui.member.min(groups.len().saturating_sub(1));
        let about = groups
            .get(selected)
            .map(|group| detail(group, snapshot))
            .unwrap_or_default();
        // The detail gets what the list does not need, and two fifths of the rows in any case.
        let rows = pen.rows_left();
        let below = (about.len() + 1).min(rows.saturating_sub(groups.len() + 1).max(rows * 2 / 5));
        list(
            &mut pen,
            &groups,
            selected,
            ui.theme,
            rows.saturating_sub(below),
        );
        if pen.rows_left() > 2 {
            pen.down();
            for (tone, text) in about {
                pen.cell(Tone::Plain, "", 1);
                let left = pen.rows_left();
                pen.wrapped(tone, &text, 3, left);
            }
        }
    }
}

fn heading(pen: &mut Pen<'_>, comm: &CommView, here: usize, of: usize) {
    pen.put(Tone::Strong, &format!(" {}", comm.id));
    let others = comm.called.iter().filter(|name| **name != comm.id);
    let others: Vec<&str> = others.map(String::as_str).collect();
    if !others.is_empty() {
        pen.put(Tone::Quiet, &format!(" ({})", others.join(", ")));
    }
    let seen = format!(
        "  {} of {} seen",
        words::thousands(comm.members.len() as u64),
        words::count(comm.nranks as usize, "rank")
    );
    pen.put(Tone::Plain, &seen);
    if let Some(absent) = absent(comm) {
        pen.put(Tone::Bad, &format!("  ! without {absent}"));
    }
    if of > 1 {
        pen.put(
            Tone::Quiet,
            &format!("  communicator {} of {of}, left and right", here + 1),
        );
    }
    pen.down();
}

/// The ranks that the communicator has and nobody saw in it, where its ranks are those of the world.
fn absent(comm: &CommView) -> Option<String> {
    /// More are a job of which few logs were given.
    const FEW: usize = 64;
    let world = comm.members.iter().all(|m| m.rank == Some(m.comm_rank));
    let gone = (comm.nranks as usize).saturating_sub(comm.members.len());
    if !world || gone == 0 || gone > FEW || comm.members.is_empty() {
        return None;
    }
    let mut seen: Vec<u32> = comm.members.iter().map(|m| m.comm_rank).collect();
    seen.sort_unstable();
    let absent = (0..comm.nranks).filter(|rank| seen.binary_search(rank).is_err());
    Some(words::ranks(absent))
}

/// One row a group, with its bar, in `rows` rows at most.
fn list(pen: &mut Pen<'_>, groups: &[Group], selected: usize, theme: Theme, rows: usize) {
    let most = groups.iter().filter_map(|g| g.reached).max();
    let faulty = groups.iter().any(Group::odd);
    let shown = window(selected, groups.len(), rows.saturating_sub(1));
    let names: Vec<String> = groups[shown.clone()]
        .iter()
        .map(|g| words::ranges(g.ranks.iter().copied()))
        .collect();
    let widest = names.iter().map(String::len).max().unwrap_or(0);
    let ranks = widest.clamp(5, RANKS) + 2;
    let room = pen.width() / 5;
    pen.cell(Tone::Quiet, "", 3);
    pen.cell(Tone::Quiet, "ranks", ranks);
    if most.is_some() {
        pen.cell(Tone::Quiet, "calls", room + 1 + digits(most) + 2);
        if faulty {
            pen.cell(Tone::Quiet, "", 12);
        }
        pen.put(Tone::Quiet, "last call");
    } else {
        pen.put(Tone::Quiet, "stage");
    }
    pen.down();
    for (at, name) in shown.zip(names) {
        let group = &groups[at];
        let odd = group.odd();
        let tone = if odd { Tone::Bad } else { Tone::Plain };
        pen.cell(tone, if odd { " !" } else { "" }, 3);
        pen.cell(tone, &name, ranks - 1);
        pen.cell(tone, "", 1);
        if let Some((reached, most)) = group.reached.zip(most) {
            let length = bar(reached, most, room);
            let full = theme.glyphs.pick("█", "#").repeat(length);
            let rest = theme.glyphs.pick("░", ".").repeat(room - length);
            pen.put(tone, &full);
            pen.put(Tone::Quiet, &rest);
            let number = words::thousands(reached);
            pen.put(tone, &format!(" {number:>0$}", digits(Some(most))));
            pen.put(Tone::Plain, "  ");
        }
        let fault = match (group.behind, group.differs) {
            (0, false) => String::new(),
            (0, true) => "differs".to_owned(),
            (n, _) => format!("{} behind", words::thousands(n)),
        };
        if faulty {
            pen.cell(Tone::Bad, &fault, 12);
        }
        pen.put(
            Tone::Plain,
            group.last_call.as_deref().unwrap_or(group.stage),
        );
        if let Some(said) = &group.said {
            pen.put(Tone::Quiet, &format!("  {said}"));
        }
        if group.ranks.len() > 1 {
            let many = words::count(group.ranks.len(), "rank");
            pen.put(Tone::Quiet, &format!("  {many}"));
        }
        if at == selected {
            // The bar keeps its look: reversed, it would say the opposite.
            pen.tint_start(Tone::Selected, ranks + 2);
        }
        pen.down();
    }
}

/// The selected group in full: who, where, its call, and where in the program it stands.
fn detail(group: &Group, snapshot: &Snapshot) -> Vec<(Tone, String)> {
    let hosts = snapshot.job.ranks.iter().filter(|view| {
        view.rank
            .is_some_and(|rank| group.ranks.binary_search(&rank).is_ok())
    });
    let mut hosts: Vec<&str> = hosts.filter_map(|view| view.host.as_deref()).collect();
    hosts.dedup();
    let mut who = words::ranks(group.ranks.iter().copied());
    if !hosts.is_empty() {
        who = format!("{who} on {}", words::hosts(hosts));
    }
    let mut lines = vec![(Tone::Strong, who)];
    let call = group.last_call.as_deref().unwrap_or(group.stage);
    lines.push((
        Tone::Plain,
        match group.reached {
            Some(reached) => format!("call {}: {call}", words::thousands(reached)),
            None => call.to_owned(),
        },
    ));
    if let Some(said) = &group.said {
        lines.push((Tone::Plain, format!("by its dump: {said}")));
    }
    for frame in group.stack.iter().skip(1) {
        lines.push((Tone::Quiet, format!("  called from {frame}")));
    }
    lines
}

/// Columns of the largest number of calls.
fn digits(most: Option<u64>) -> usize {
    most.map_or(0, |most| words::thousands(most).len())
}

/// Cells of a bar; one that is behind is never full.
fn bar(reached: u64, most: u64, room: usize) -> usize {
    if reached >= most {
        return room;
    }
    let share = u128::from(reached) * room as u128 / u128::from(most.max(1));
    usize::try_from(share)
        .unwrap_or(room)
        .min(room.saturating_sub(1))
}

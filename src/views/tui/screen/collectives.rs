//! Who called what: per communicator, how many collectives each rank has reached, the last first.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::engine::snapshot::{CommView, MemberView};
use crate::views::tui::theme::Tone;
use crate::views::tui::view::Scene;
use crate::views::tui::widget::pen::Pen;
use crate::views::words;

use super::window;

/// Columns of the names of ranks at most.
const RANKS: usize = 28;

/// Members that stand at the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::views::tui) struct Group {
    /// Their world ranks, or ranks in the communicator where the world rank is not known.
    pub(in crate::views::tui) ranks: Vec<u32>,
    /// Collectives called; `None` where they are not logged.
    pub(in crate::views::tui) reached: Option<u64>,
    /// The last call in words.
    pub(in crate::views::tui) last_call: Option<String>,
    /// Started, ready, ended.
    pub(in crate::views::tui) stage: &'static str,
    /// What the dumps say: how far its call got, and where in the program it stands.
    pub(in crate::views::tui) said: Option<String>,
    /// Its last call is unlike that of most others that have reached as far.
    pub(in crate::views::tui) differs: bool,
}

/// The members of a communicator by where they stand, the one least far first.
#[must_use]
pub(in crate::views::tui) fn groups(comm: &CommView) -> Vec<Group> {
    fn key(m: &MemberView) -> (Option<u64>, Option<&str>, &'static str, Option<String>) {
        (m.reached, m.last_call.as_deref(), stage(m), said(m))
    }
    let mut members: Vec<&MemberView> = comm.members.iter().collect();
    members.sort_by_cached_key(|m| (key(m), m.rank.unwrap_or(m.comm_rank)));
    let chunks: Vec<&[&MemberView]> = members.chunk_by(|a, b| key(a) == key(b)).collect();
    let mut groups: Vec<Group> = chunks
        .iter()
        .map(|group| Group {
            ranks: group
                .iter()
                .map(|m| m.rank.unwrap_or(m.comm_rank))
                .collect(),
            reached: group[0].reached,
            last_call: group[0].last_call.clone(),
            stage: stage(group[0]),
            said: said(group[0]),
            differs: false,
        })
        .collect();
    for group in &mut groups {
        let others = chunks.iter().filter(|other| {
            let call = other[0].last_call.as_ref();
            other[0].reached == group.reached && call.is_some() && call != group.last_call.as_ref()
        });
        // Where it is one against one, both are marked.
        let most = others.map(|other| other.len()).max().unwrap_or(0);
        let logged = group.reached.is_some() && group.last_call.is_some();
        group.differs = logged && most >= group.ranks.len();
    }
    groups
}

/// `scheduled at train.py:212 (main)`
fn said(member: &MemberView) -> Option<String> {
    let said = member.said.first()?;
    // Where the logs do not show calls, the dump's takes their place.
    let call = said.call.as_ref().filter(|_| member.last_call.is_none());
    let parts = [
        call.cloned(),
        said.progress.clone(),
        said.at.as_ref().map(|at| format!("at {at}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn stage(member: &MemberView) -> &'static str {
    match member {
        m if m.ended => "ended",
        m if m.complete => "ready",
        m if m.started => "initialising",
        _ => "seen",
    }
}

pub(in crate::views::tui) struct Collectives<'a>(pub(in crate::views::tui) Scene<'a>);

impl Widget for &Collectives<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Scene { ui, snapshot, .. } = self.0;
        let mut pen = Pen::new(buf, area, ui.theme);
        let comms = &snapshot.job.comms;
        let Some(comm) = comms.get(ui.comm.min(comms.len().saturating_sub(1))) else {
            pen.put(
                Tone::Plain,
                " no communicator was seen (NCCL_DEBUG=INFO prints them)",
            );
            return;
        };
        let here = ui.comm.min(comms.len() - 1) + 1;
        pen.put(Tone::Strong, &format!(" {}", comm.id));
        let seen = format!(
            "  {} of {} seen",
            words::thousands(comm.members.len() as u64),
            words::count(comm.nranks as usize, "rank")
        );
        pen.put(Tone::Plain, &seen);
        if comms.len() > 1 {
            pen.put(
                Tone::Quiet,
                &format!("  communicator {here} of {}, left and right", comms.len()),
            );
        }
        pen.down();
        let groups = groups(comm);
        let most = groups.iter().filter_map(|g| g.reached).max();
        if most.is_none() {
            pen.line(
                Tone::Quiet,
                " collectives are not logged: NCCL_DEBUG_SUBSYS=INIT,COLL prints them",
            );
        }
        let faulty = groups.iter().any(|g| g.differs || g.reached < most);
        let selected = ui.member.min(groups.len().saturating_sub(1));
        let shown = window(selected, groups.len(), pen.rows_left());
        let name = |g: &Group| words::ranges(g.ranks.iter().copied());
        let names = groups[shown.clone()]
            .iter()
            .map(|g| name(g).len())
            .max()
            .unwrap_or(0)
            .min(RANKS)
            + 2;
        for at in shown {
            let group = &groups[at];
            let behind = most
                .zip(group.reached)
                .map_or(0, |(most, reached)| most - reached);
            let tone = if behind > 0 || group.differs {
                Tone::Bad
            } else {
                Tone::Plain
            };
            pen.cell(
                tone,
                if behind > 0 || group.differs {
                    " !"
                } else {
                    ""
                },
                3,
            );
            pen.cell(tone, &name(group), names - 1);
            pen.cell(tone, "", 1);
            if let Some((reached, most)) = group.reached.zip(most) {
                let room = pen.width() / 5;
                let length = bar(reached, most, room);
                let full = ui.theme.glyphs.pick("█", "#").repeat(length);
                let rest = ui.theme.glyphs.pick("░", ".").repeat(room - length);
                pen.put(tone, &full);
                pen.put(Tone::Quiet, &rest);
                pen.put(tone, &format!(" {}", words::thousands(reached)));
                pen.put(Tone::Plain, "  ");
            }
            let fault = match (behind, group.differs) {
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
                pen.put(
                    Tone::Quiet,
                    &format!("  {}", words::count(group.ranks.len(), "rank")),
                );
            }
            if at == selected {
                // The bar keeps its look: reversed, it would say the opposite.
                pen.tint_start(Tone::Selected, names + 2);
            }
            pen.down();
        }
    }
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

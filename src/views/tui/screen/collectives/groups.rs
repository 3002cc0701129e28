//! The members of a communicator by where they stand.

use std::sync::Arc;

use crate::engine::snapshot::{CommView, MemberView};

/// Members that stand at the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::views::tui) struct Group {
    /// Their world ranks, or ranks in the communicator where the world rank is not known.
    pub(in crate::views::tui) ranks: Vec<u32>,
    /// Collectives called; `None` where nobody tells.
    pub(super) reached: Option<u64>,
    /// Collectives that others have called and these have not.
    pub(super) behind: u64,
    /// The last call in words.
    pub(super) last_call: Option<String>,
    /// Started, ready, ended.
    pub(super) stage: &'static str,
    /// What the dumps say: how far its call got, and where in the program it stands.
    pub(super) said: Option<String>,
    /// The program's frames by the dumps, innermost first.
    pub(super) stack: Arc<[String]>,
    /// Its last call is unlike that of most others that have reached as far.
    pub(super) differs: bool,
}

impl Group {
    /// It is not where the others are.
    pub(super) fn odd(&self) -> bool {
        self.behind > 0 || self.differs
    }
}

/// The members of a communicator by where they stand, the odd ones first, of those the one least far.
#[must_use]
pub(in crate::views::tui) fn groups(comm: &CommView) -> Vec<Group> {
    // The logs and the dumps count on their own: only one of them is asked.
    let logged = comm.members.iter().any(|m| m.reached.is_some());
    let reached = |m: &MemberView| {
        let said = m.said.iter().find_map(|said| said.reached);
        m.reached.or(said.filter(|_| !logged))
    };
    let key = |m: &MemberView| {
        let stack = m.said.first().map(|said| Arc::clone(&said.stack));
        (
            reached(m),
            m.last_call.clone(),
            stage(m),
            said(m),
            stack.unwrap_or_default(),
        )
    };
    let mut members: Vec<_> = comm
        .members
        .iter()
        .map(|m| (key(m), m.rank.unwrap_or(m.comm_rank)))
        .collect();
    members.sort();
    let mut groups: Vec<Group> = members
        .chunk_by(|a, b| a.0 == b.0)
        .map(|group| {
            let (reached, last_call, stage, said, stack) = group[0].0.clone();
            Group {
                ranks: group.iter().map(|(_, rank)| *rank).collect(),
                reached,
                behind: 0,
                last_call,
                stage,
                said,
                stack,
                differs: false,
            }
        })
        .collect();
    let most = groups.iter().filter_map(|g| g.reached).max();
    let calls: Vec<_> = groups
        .iter()
        .map(|g| (g.reached, g.last_call.clone(), g.ranks.len()))
        .collect();
    for group in &mut groups {
        group.behind = most.zip(group.reached).map_or(0, |(most, own)| most - own);
        let others = calls.iter().filter(|(reached, call, _)| {
            *reached == group.reached && call.is_some() && *call != group.last_call
        });
        // Where it is one against one, both are marked.
        let most = others.map(|(.., ranks)| *ranks).max().unwrap_or(0);
        let logged = group.reached.is_some() && group.last_call.is_some();
        group.differs = logged && most >= group.ranks.len();
    }
    groups.sort_by_key(|g| (!g.odd(), g.reached, g.ranks.first().copied()));
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

//! A dry run on paper. Every output says that it is no evidence about NCCL.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::escape::{Glyphs, wrap};
use super::words;
use crate::selftest::dry::{Answer, Member};
use crate::selftest::launcher::Place;
use crate::selftest::team::seconds;

/// Columns.
const WIDTH: usize = 80;
/// Ranks and faults that are listed.
const LISTED: usize = 64;

/// What is to be remembered with every result.
pub const NO_EVIDENCE: &str = "a dry run goes over TCP alone: it is no evidence about NCCL";

fn line(out: &mut String, lead: &str, text: &str, glyphs: Glyphs) {
    for (at, part) in wrap(text, WIDTH - lead.len() - 2, glyphs)
        .iter()
        .enumerate()
    {
        let more = if at == 0 { "" } else { "  " };
        let _infallible = writeln!(out, "{lead}{more}{part}");
    }
}

/// What is about to be done.
#[must_use]
pub fn plan(place: &Place, patience: Duration, glyphs: Glyphs) -> String {
    let mut out = String::new();
    let ranks = words::count(place.world as usize, "rank");
    line(
        &mut out,
        "",
        &format!("unhang selftest --dry-run: {ranks} of {}", place.launcher),
        glyphs,
    );
    line(&mut out, "  ", NO_EVIDENCE, glyphs);
    let steps = [
        format!(
            "all ranks come to rank 0 at {} port {}",
            place.master, place.port
        ),
        "each connects to the next on the interface that NCCL would take".to_owned(),
        "they add numbers around the ring, and every sum is checked".to_owned(),
    ];
    for (at, step) in steps.iter().enumerate() {
        let step = format!("{}. {step}, within {}", at + 1, seconds(patience));
        line(&mut out, "  ", &step, glyphs);
    }
    out
}

/// What came out: for rank 0 all of it, for the others a line.
#[must_use]
pub fn text(place: &Place, answer: &Answer, glyphs: Glyphs) -> String {
    let mut out = String::new();
    let passed = answer.faults.is_empty();
    if place.rank == 0 {
        for (rank, member) in answer.members.iter().enumerate().take(LISTED) {
            let what = match member {
                Some(member) => whereabouts(member),
                None => "never came".to_owned(),
            };
            line(&mut out, "  ", &format!("rank {rank}: {what}"), glyphs);
        }
        if answer.members.len() > LISTED {
            let _infallible = writeln!(out, "  and {} more", answer.members.len() - LISTED);
        }
        for step in &answer.done {
            let _infallible = writeln!(out, "  {step:<22} ok");
        }
    }
    let verdict = match (passed, answer.reduced) {
        (true, Some((bytes, time))) => format!(
            "PASSED rank {} of {}: {} around the ring in {}",
            place.rank,
            place.world,
            words::bytes(bytes as u64),
            seconds(Duration::from_secs_f64(time.max(0.0)))
        ),
        (true, None) => format!("PASSED rank {} of {}", place.rank, place.world),
        (false, _) => format!("FAILED rank {} of {}:", place.rank, place.world),
    };
    line(&mut out, "", &verdict, glyphs);
    for fault in answer.faults.iter().take(LISTED) {
        line(&mut out, "  ", fault, glyphs);
    }
    line(&mut out, "  ", NO_EVIDENCE, glyphs);
    out
}

fn whereabouts(member: &Member) -> String {
    let mut text = format!("{} pid {}", member.host, member.pid);
    if let (Some(interface), Some(address)) = (&member.interface, member.address) {
        let _infallible = write!(text, ", {interface} {address}");
    }
    text
}

/// For programs.
#[must_use]
pub fn json(place: &Place, answer: &Answer) -> String {
    #[derive(Serialize)]
    struct Rank<'a> {
        rank: usize,
        #[serde(flatten)]
        member: Option<&'a Member>,
    }
    #[derive(Serialize)]
    struct Json<'a> {
        schema: u32,
        tool: &'static str,
        verdict: &'static str,
        about_nccl: bool,
        note: &'static str,
        rank: u32,
        world_size: u32,
        steps: &'a [&'static str],
        ranks: Vec<Rank<'a>>,
        faults: &'a [String],
        bytes: Option<usize>,
        seconds: Option<f64>,
    }
    let ranks = answer.members.iter().enumerate();
    let json = Json {
        schema: 1,
        tool: concat!("unhang ", env!("CARGO_PKG_VERSION")),
        verdict: if answer.faults.is_empty() {
            "passed"
        } else {
            "failed"
        },
        about_nccl: false,
        note: NO_EVIDENCE,
        rank: place.rank,
        world_size: place.world,
        steps: &answer.done,
        ranks: ranks
            .map(|(rank, member)| Rank {
                rank,
                member: member.as_ref(),
            })
            .collect(),
        faults: &answer.faults,
        bytes: answer.reduced.map(|(bytes, _)| bytes),
        seconds: answer.reduced.map(|(_, seconds)| seconds),
    };
    let mut text = serde_json::to_string_pretty(&json).expect("plain data");
    text.push('\n');
    text
}

//! `unhang selftest` as one rank among those of a launcher.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use super::super::common::{Common, Format, new_engine};
use super::super::output::{self, Usage};
use super::{SelftestArgs, code, head, library_of, plan_of, planted};
use crate::app::signals;
use crate::exit;
use crate::probe::gpus;
use crate::probe::host::Host;
use crate::selftest::launcher::Place;
use crate::selftest::many;
use crate::selftest::plan::Seat;
use crate::selftest::run::{Progress, Runner};
use crate::views::escape::harmless;
use crate::views::selftest as view;

/// Runs this rank; rank 0 prints the outcome of all, the others a line.
///
/// # Errors
/// If the options do not go together, or nothing could be started.
pub(super) fn run(args: &SelftestArgs, common: &Common, place: &Place) -> anyhow::Result<u8> {
    if args.pairs || args.transports || !args.ab.is_empty() || args.ranks_per_gpu > 1 {
        let why = format!(
            "--pairs, --transports, --ab and --ranks-per-gpu are for one process; this is rank {} of {} ({})",
            place.rank, place.world, place.launcher
        );
        return Err(Usage(why).into());
    }
    let (device, fault) = device(args, place);
    let seat = Seat {
        rank: place.rank,
        device,
        host_id: None,
    };
    let Some(mut plan) = plan_of(args, Some((seat, place.world)))? else {
        return Ok(exit::BROKEN);
    };
    let library = library_of(args, common, &mut plan)?;
    let first = place.rank == 0;
    let text = args.format != Format::Json;
    if first && text {
        output::print(&format!(
            "{} ranks of {}; this is rank 0\n",
            place.world, place.launcher
        ))?;
        for line in head(&plan, library.as_ref()).lines() {
            output::print(&format!("{}\n", harmless(line, common.glyphs())))?;
        }
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    signals::on_end(move || flag.store(true, Ordering::Relaxed))?;
    let (files, _sound) = common.rule_files();
    let mut progress = |progress: Progress| {
        let Progress::Step(step, took) = progress;
        if first && text {
            // A reader that has gone is noticed at the end.
            let _unread = output::print(&view::step(step, took));
        }
    };
    let scratch = std::env::temp_dir().join(format!("unhang-selftest-{}", std::process::id()));
    let runner = Runner {
        program: &std::env::current_exe().context("failed to find this program")?,
        scratch: &scratch,
        engine: new_engine(&files, false),
        interrupted: &interrupted,
        planted: planted(&args.plant)?,
        progress: &mut progress,
        others: None,
    };
    let host = Host::this()
        .hostname()
        .unwrap_or_else(|| "unknown".to_owned());
    let outcome = many::run(
        place,
        &plan,
        &host,
        fault,
        runner,
        new_engine(&files, false),
    )?;
    let ended = code(&outcome);
    output::print(&match (first, text) {
        (true, true) => view::text(&outcome, false, common.glyphs()),
        (_, false) => view::json(&outcome, false),
        (false, true) => {
            let what = match &outcome.fault {
                Some(fault) => format!("failed: {}", view::fault(fault)),
                None if ended == exit::OK => "passed".to_owned(),
                None => "failed: wrong results".to_owned(),
            };
            let line = format!("rank {} of {} on {host}: {what}", place.rank, place.world);
            format!("{}\n", harmless(&line, common.glyphs()))
        }
    })?;
    if ended == exit::OK {
        // What cannot be removed is in a temporary folder.
        let _left = std::fs::remove_dir_all(&scratch);
    }
    Ok(ended)
}

/// The GPU of this rank, or why there is none. A launcher may show each process its own GPU alone.
fn device(args: &SelftestArgs, place: &Place) -> (u32, Option<String>) {
    let local = place.local.unwrap_or(0);
    if let Some(wanted) = &args.gpus {
        let nth = wanted.iter().nth(local as usize);
        let why = || format!("--gpus names no GPU for local rank {local}");
        return (nth.unwrap_or(0), nth.is_none().then(why));
    }
    match gpus::visible() {
        0 => (
            0,
            Some("no NVIDIA driver here, or no GPU is visible".to_owned()),
        ),
        1 => (0, None),
        n if local < n => (local, None),
        n => (
            0,
            Some(format!("local rank {local} has no GPU: {n} are visible")),
        ),
    }
}

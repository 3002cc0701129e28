//! `unhang selftest`: does NCCL work between these GPUs, with these settings, and does a change cure it?

mod dry;
mod like;
mod many;
mod setting;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use super::common::{Common, Format, new_engine};
use super::output::Usage;
use super::{messages, output};
use crate::app::signals;
use crate::exit;
use crate::probe::gpus;
use crate::probe::host::Host;
use crate::probe::nccl_library::{self, Library};
use crate::selftest::ab::{self, Answer, Side};
use crate::selftest::child::{self, Fault as Planted, Task};
use crate::selftest::launcher::Place;
use crate::selftest::outcome::{Fault, Outcome, Verdict};
use crate::selftest::pairs;
use crate::selftest::plan::{self, Op, Plan, Seat, Sizes};
use crate::selftest::protocol::Step;
use crate::selftest::run::{Progress, Runner};
use crate::views::escape::harmless;
use crate::views::selftest as view;
use setting::{Change, Setting};

/// GPUs of one machine.
const MOST_GPUS: usize = 1024;

/// Arguments of `unhang selftest`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SelftestArgs {
    /// CUDA devices to use, such as 0-3; all if none
    #[arg(long, value_name = "GPUS")]
    pub(crate) gpus: Option<super::ranks::Ranks>,
    /// Start so many ranks on each GPU, each with a host identity of its own: for one GPU. It exercises
    /// bootstrap, interfaces and NET, not P2P
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) ranks_per_gpu: u32,
    /// Operations to test
    #[arg(long, value_enum, value_delimiter = ',', value_name = "OPS")]
    pub(crate) ops: Vec<OpArg>,
    /// What is timed
    #[arg(long, value_enum, default_value_t = SizesArg::Quick)]
    pub(crate) bandwidth: SizesArg,
    /// The job's setting, such as NCCL_SOCKET_IFNAME=eth0; for one rank alone RANK:NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting::parse)]
    pub(crate) env: Vec<Setting>,
    /// A change to prove: run with and without it in turn. An empty value unsets the variable
    #[arg(long, value_name = "NAME=VALUE,…", value_parser = setting::change)]
    pub(crate) ab: Vec<Change>,
    /// Test every pair of GPUs by itself: names the bad GPU or link
    #[arg(long, conflicts_with_all = ["ab", "ranks_per_gpu"])]
    pub(crate) pairs: bool,
    /// Test P2P, shared memory and the network in turn, by switching the better ones off
    #[arg(long, conflicts_with_all = ["ab", "pairs"])]
    pub(crate) transports: bool,
    /// Runs of each side
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// The libnccl to test with, a file or its folder; for one rank alone RANK:PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) nccl: Vec<String>,
    /// Test with the libnccl that this process uses, or with an installed one of the version that this log
    /// is of
    #[arg(long, value_name = "PID|LOG", value_parser = like::parse, conflicts_with = "nccl")]
    pub(crate) like: Option<like::Like>,
    /// Where --like finds no library, such as that of a process that has ended: say so, and test with the one
    /// that is installed
    #[arg(long, requires = "like")]
    pub(crate) or_installed: bool,
    /// How long a step may take
    #[arg(long, value_name = "DURATION", value_parser = setting::patience, default_value = "30s")]
    pub(crate) timeout: Duration,
    /// Without GPUs: a ring all-reduce over TCP between the ranks, on the interface that NCCL would take. It
    /// tests names, routes, ports and firewalls, and is no evidence about NCCL. Under srun, torchrun, mpirun
    /// or with RANK, WORLD_SIZE and MASTER_ADDR it joins the ranks of other hosts
    #[arg(long, conflicts_with_all = ["ab", "pairs", "transports", "gpus", "nccl", "like", "plant"])]
    pub(crate) dry_run: bool,
    /// Port at which rank 0 waits for the ranks of a launcher; the one behind MASTER_PORT if none, else 29555
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Print the command that starts this test on several hosts, and do nothing else
    #[arg(long, value_enum, value_name = "LAUNCHER")]
    pub(crate) print_launch: Option<dry::LauncherArg>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Plant a fault in a rank, such as 1:init:stop: shows that the test finds it
    #[arg(long, value_name = "RANK:STEP:FAULT", hide = true)]
    pub(crate) plant: Vec<String>,
}

impl SelftestArgs {
    /// Every setting of the change to prove.
    fn changes(&self) -> impl Iterator<Item = &Setting> {
        self.ab.iter().flat_map(|change| &change.0)
    }
}

/// Operations, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OpArg {
    /// All of them.
    All,
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    SendRecv,
    AllToAll,
}

/// What is timed, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SizesArg {
    /// Nothing.
    None,
    /// All-reduce at five sizes.
    Quick,
    /// Every operation from 8 B to 4 GiB, or what memory allows.
    Full,
}

/// Runs one rank: the hidden subcommand that the parent starts.
pub(crate) fn rank(task: &str) -> anyhow::Result<u8> {
    let task: Task = serde_json::from_str(task).context("failed to understand the task")?;
    Ok(if child::run(&task) {
        exit::OK
    } else {
        exit::BROKEN
    })
}

/// Runs `unhang selftest`.
///
/// # Errors
/// If nothing could be started.
pub(crate) fn run(args: &SelftestArgs, common: &Common) -> anyhow::Result<u8> {
    if let Some(launcher) = args.print_launch {
        output::print(&dry::launch(launcher, args))?;
        return Ok(exit::OK);
    }
    if args.dry_run {
        return dry::run(args, common);
    }
    let place = Place::of(&Host::this().variables(), args.port).map_err(Usage)?;
    if let Some(place) = place.filter(|place| place.world > 1) {
        return many::run(args, common, &place);
    }
    if args.port.is_some() {
        let why = "--port is for a --dry-run, or for ranks that a launcher starts";
        return Err(Usage(why.to_owned()).into());
    }
    let Some(mut plan) = plan_of(args, None)? else {
        return Ok(exit::BROKEN);
    };
    let library = library_of(args, common, &mut plan)?;
    let text = args.format != Format::Json;
    if text {
        for line in head(&plan, library.as_ref()).lines() {
            output::print(&format!("{}\n", harmless(line, common.glyphs())))?;
        }
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    signals::on_end(move || flag.store(true, Ordering::Relaxed))?;
    let session = Session {
        args,
        common,
        interrupted,
        scratch: std::env::temp_dir().join(format!("unhang-selftest-{}", std::process::id())),
    };
    let code = if args.pairs {
        session.series(plans_of_pairs(&plan)?)
    } else if args.transports {
        session.series(transports(&plan))
    } else if args.ab.is_empty() {
        session.once(&plan)
    } else {
        session.compare(&plan)
    };
    if matches!(code, Ok(exit::OK)) {
        // What cannot be removed is in a temporary folder.
        let _left = fs::remove_dir_all(&session.scratch);
    }
    code
}

struct Session<'a> {
    args: &'a SelftestArgs,
    common: &'a Common,
    interrupted: Arc<AtomicBool>,
    scratch: PathBuf,
}

impl Session<'_> {
    fn go(&self, plan: &Plan, name: &str, live: bool) -> anyhow::Result<Outcome> {
        let (files, _sound) = self.common.rule_files();
        let mut progress = |progress: Progress| {
            let Progress::Step(step, took) = progress;
            if live {
                // A reader that has gone is noticed at the end.
                let _unread = output::print(&view::step(step, took));
            }
        };
        let runner = Runner {
            program: &std::env::current_exe().context("failed to find this program")?,
            scratch: &self.scratch.join(name),
            engine: new_engine(&files, false),
            interrupted: &self.interrupted,
            planted: planted(&self.args.plant)?,
            progress: &mut progress,
            others: None,
        };
        Ok(runner.run(plan)?)
    }

    fn once(&self, plan: &Plan) -> anyhow::Result<u8> {
        let text = self.args.format != Format::Json;
        let outcome = self.go(plan, "run", text)?;
        let shared = shared(plan);
        output::print(&if text {
            view::text(&outcome, shared, self.common.glyphs())
        } else {
            view::json(&outcome, shared)
        })?;
        Ok(code(&outcome))
    }

    /// Runs plans one after another and shows them as a table.
    fn series(&self, plans: Vec<(String, Plan)>) -> anyhow::Result<u8> {
        let text = self.args.format != Format::Json;
        let mut outcomes = Vec::new();
        if text && plans.iter().any(|(_, plan)| shared(plan)) {
            output::print(&view::note(view::SHARED_GPU, self.common.glyphs()))?;
        }
        for (name, plan) in plans {
            let outcome = self.go(&plan, &name.replace(' ', "-"), false)?;
            if text {
                output::print(&view::row(&name, &outcome, self.common.glyphs()))?;
            }
            outcomes.push((name, shared(&plan), outcome));
            if self.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
        }
        let bad = self.args.pairs.then(|| bad_of(&outcomes));
        if !text {
            output::print(&view::series_json(&outcomes, bad.as_ref()))?;
        } else if let Some(bad) = &bad {
            output::print(&view::pairs(bad, self.common.glyphs()))?;
        }
        // A worse path that was asked for is no fault.
        let asked = |name: &str| self.args.transports && name != AS_IT_IS;
        let codes = outcomes
            .iter()
            .map(|(name, _, outcome)| match code(outcome) {
                exit::DEGRADED if asked(name) => exit::OK,
                code => code,
            });
        Ok(codes
            .max_by_key(|code| (*code == exit::BROKEN, *code))
            .unwrap_or(exit::UNKNOWN))
    }

    fn compare(&self, plan: &Plan) -> anyhow::Result<u8> {
        let text = self.args.format != Format::Json;
        let mut without = plan.clone();
        // One size tells of the path.
        without.sizes = Sizes::One;
        without.timed = vec![Op::AllReduce];
        let mut with = without.clone();
        for setting in self.args.changes() {
            let Setting { rank, name, value } = setting.clone();
            match rank {
                Some(rank) => with.env_of.entry(rank).or_default().insert(name, value),
                None => {
                    // A change for all ranks is also one for those that had a setting of their own.
                    for own in with.env_of.values_mut() {
                        own.remove(&name);
                    }
                    with.env.insert(name, value)
                }
            };
        }
        if text && shared(plan) {
            output::print(&view::note(view::SHARED_GPU, self.common.glyphs()))?;
        }
        let (mut a, mut b, mut unloaded) = (Side::default(), Side::default(), 0);
        for repeat in 1..=self.args.repeats {
            for (side, plan, name) in [(&mut a, &without, "without"), (&mut b, &with, "with")] {
                let outcome = self.go(plan, &format!("{repeat}-{name}"), false)?;
                side.take(&outcome);
                let at_load = |f: &Fault| {
                    matches!(
                        f,
                        Fault::Failed {
                            step: Step::Load,
                            ..
                        }
                    )
                };
                unloaded += u32::from(outcome.fault.as_ref().is_some_and(at_load));
                if text {
                    let what = match (&outcome.fault, outcome.best(Op::AllReduce)) {
                        (Some(fault), _) => format!("failed: {}", view::fault(fault)),
                        (None, Some((_, busbw))) => format!("passed, busbw {}", view::rate(busbw)),
                        (None, None) => "passed".to_owned(),
                    };
                    output::print(&format!(
                        "  {repeat}/{} {name:<8} {what}\n",
                        self.args.repeats
                    ))?;
                }
                if self.interrupted.load(Ordering::Relaxed) {
                    bail!("interrupted");
                }
            }
        }
        if unloaded == 2 * self.args.repeats {
            messages::error_text(
                "nothing was compared: the driver or libnccl could not be loaded in any run",
            );
            return Ok(exit::BROKEN);
        }
        let answer = ab::judge(&a, &b);
        output::print(&if text && plan.world < 2 {
            view::ALONE.to_owned()
        } else if text {
            view::ab(answer, &a, &b, self.common.glyphs())
        } else {
            view::ab_json(answer, &a, &b, plan.world, shared(plan))
        })?;
        Ok(match answer {
            _ if plan.world < 2 => exit::UNKNOWN,
            Answer::Cures | Answer::Faster => exit::OK,
            Answer::NoDifference | Answer::Worse => exit::BROKEN,
            Answer::NotReproduced | Answer::Slower | Answer::Unclear => exit::UNKNOWN,
        })
    }
}

/// Which GPU or link is bad, by the runs of all pairs.
fn bad_of(outcomes: &[(String, bool, Outcome)]) -> pairs::Bad {
    let pair = |outcome: &Outcome| {
        // Whoever never started has no device.
        let [a, b] = outcome.ranks.as_slice() else {
            return None;
        };
        Some(pairs::Pair {
            a: a.device,
            b: b.device,
            health: pairs::Health::of(outcome),
        })
    };
    let pairs: Vec<pairs::Pair> = outcomes.iter().filter_map(|o| pair(&o.2)).collect();
    pairs::conclude(&pairs)
}

/// A plan for each pair of GPUs.
fn plans_of_pairs(plan: &Plan) -> anyhow::Result<Vec<(String, Plan)>> {
    let devices: Vec<u32> = plan.seats.iter().map(|seat| seat.device).collect();
    let mut plans = Vec::new();
    for (at, a) in devices.iter().enumerate() {
        for b in &devices[at + 1..] {
            let mut pair = plan.clone();
            pair.seats = plan::seats(&[*a, *b], 1);
            pair.world = 2;
            pair.sizes = one_size(pair.sizes);
            pair.timed = vec![Op::AllReduce, Op::SendRecv];
            plans.push((format!("GPU {a} - GPU {b}"), pair));
        }
    }
    if plans.is_empty() {
        bail!("a pair needs two GPUs, and there is one");
    }
    Ok(plans)
}

/// The run of `--transports` that switches nothing off.
const AS_IT_IS: &str = "as it is";

/// A plan for each kind of path: NCCL takes the best that is left.
fn transports(plan: &Plan) -> Vec<(String, Plan)> {
    let off = |names: &[&str]| {
        let mut plan = plan.clone();
        plan.sizes = one_size(plan.sizes);
        plan.timed = vec![Op::AllReduce];
        for name in names {
            plan.env.insert((*name).to_owned(), "1".to_owned());
        }
        plan
    };
    vec![
        (AS_IT_IS.to_owned(), off(&[])),
        ("P2P off".to_owned(), off(&["NCCL_P2P_DISABLE"])),
        (
            "P2P and SHM off".to_owned(),
            off(&["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"]),
        ),
    ]
}

/// One size tells of a path, unless all were asked for.
fn one_size(sizes: Sizes) -> Sizes {
    if sizes == Sizes::Full {
        sizes
    } else {
        Sizes::One
    }
}

fn code(outcome: &Outcome) -> u8 {
    match outcome.verdict() {
        Verdict::Passed if view::degraded(outcome) => exit::DEGRADED,
        Verdict::Passed => exit::OK,
        Verdict::Failed => exit::BROKEN,
        Verdict::ProvedNothing => exit::UNKNOWN,
    }
}

fn shared(plan: &Plan) -> bool {
    plan.seats.iter().any(|seat| seat.host_id.is_some())
}

fn head(plan: &Plan, library: Option<&Library>) -> String {
    let gpus: std::collections::BTreeSet<u32> = plan.seats.iter().map(|s| s.device).collect();
    let words = |n: usize, noun: &str| crate::views::words::count(n, noun);
    let mut text = format!(
        "unhang selftest: {} on {}",
        words(plan.seats.len(), "rank"),
        words(gpus.len(), "GPU")
    );
    match library {
        Some(library) => text.push_str(&format!(
            "\n  libnccl {}: {}\n",
            library.origin_in_words(),
            library.path.display()
        )),
        None => text.push_str("\n  libnccl: whatever the loader finds\n"),
    }
    for (name, value) in &plan.env {
        text.push_str(&format!("  {name}={value}\n"));
    }
    for (rank, own) in &plan.env_of {
        for (name, value) in own {
            text.push_str(&format!("  rank {rank}: {name}={value}\n"));
        }
    }
    text
}

/// The plan; `None`, with a message, if nothing can be tested here.
fn plan_of(args: &SelftestArgs, seat: Option<(Seat, u32)>) -> anyhow::Result<Option<Plan>> {
    let present = gpus::visible();
    let devices: Vec<u32> = match &args.gpus {
        Some(wanted) => wanted.iter().take(MOST_GPUS + 1).collect(),
        None => (0..present).collect(),
    };
    if devices.len() > MOST_GPUS {
        bail!("no machine has more than {MOST_GPUS} GPUs");
    }
    if devices.is_empty() && seat.is_none() {
        messages::error_text(match std::env::var_os("CUDA_VISIBLE_DEVICES") {
            Some(_) => "CUDA_VISIBLE_DEVICES hides every GPU",
            None => "no NVIDIA driver here: there is no /dev/nvidia0",
        });
        messages::note("hint: --dry-run tests names, routes, ports and firewalls without a GPU");
        return Ok(None);
    }
    let (seats, world) = match seat {
        Some((seat, world)) => (vec![seat], world),
        None => {
            let seats = plan::seats(&devices, args.ranks_per_gpu);
            let world = u32::try_from(seats.len()).unwrap_or(u32::MAX);
            (seats, world)
        }
    };
    let mut plan = Plan {
        world,
        seats,
        library: None,
        libraries: BTreeMap::new(),
        env: BTreeMap::new(),
        env_of: BTreeMap::new(),
        // The quick test times the operation that training waits for; which are checked is another matter.
        timed: match (args.bandwidth, args.ops.is_empty()) {
            (SizesArg::Quick, true) => vec![Op::AllReduce],
            _ => ops_of(&args.ops),
        },
        ops: ops_of(&args.ops),
        sizes: match args.bandwidth {
            SizesArg::None => Sizes::None,
            SizesArg::Quick => Sizes::Quick,
            SizesArg::Full => Sizes::Full,
        },
        patience: args.timeout,
        correctness: true,
    };
    for setting in args.env.iter().chain(args.changes()) {
        if let Some(rank) = setting.rank.filter(|rank| *rank >= plan.world) {
            let most = plan.world - 1;
            return Err(Usage(format!(
                "`{setting}` is for rank {rank}, and the last one is {most}"
            ))
            .into());
        }
    }
    for setting in &args.env {
        let Setting { rank, name, value } = setting.clone();
        match rank {
            Some(rank) => plan.env_of.entry(rank).or_default().insert(name, value),
            None => plan.env.insert(name, value),
        };
    }
    Ok(Some(plan))
}

fn ops_of(args: &[OpArg]) -> Vec<Op> {
    if args.is_empty() || args.contains(&OpArg::All) {
        return Op::ALL.to_vec();
    }
    let op = |arg: &OpArg| match arg {
        OpArg::All | OpArg::AllReduce => Op::AllReduce,
        OpArg::AllGather => Op::AllGather,
        OpArg::ReduceScatter => Op::ReduceScatter,
        OpArg::Broadcast => Op::Broadcast,
        OpArg::SendRecv => Op::SendRecv,
        OpArg::AllToAll => Op::AllToAll,
    };
    args.iter().map(op).collect()
}

fn library_of(
    args: &SelftestArgs,
    common: &Common,
    plan: &mut Plan,
) -> anyhow::Result<Option<Library>> {
    let mut found = match &args.like {
        Some(like) => match like::library(like, common) {
            Ok(library) => Some(library),
            // Said here; the first lines of the output say which one is taken.
            Err(why) if args.or_installed => {
                messages::warning(&format!(
                    "{why}; the installed libnccl is tested, which may be of another version than the job's"
                ));
                None
            }
            Err(why) => return Err(why),
        },
        None => None,
    };
    for text in &args.nccl {
        let of_rank = text
            .split_once(':')
            .and_then(|(rank, path)| Some((rank.parse().ok()?, path)));
        match of_rank {
            Some((rank, path)) => {
                let library = nccl_library::named(path.as_ref())?;
                plan.libraries.insert(rank, library.path);
            }
            None => found = Some(nccl_library::named(text.as_ref())?),
        }
    }
    let found = found.or_else(nccl_library::find);
    plan.library = found.as_ref().map(|library| library.path.clone());
    if found.is_none() && plan.libraries.len() < plan.seats.len() {
        messages::warning(
            "no libnccl was found; whatever the loader finds is used. --nccl PATH names one",
        );
    }
    Ok(found)
}

fn planted(texts: &[String]) -> anyhow::Result<BTreeMap<u32, (Step, Planted)>> {
    let mut planted = BTreeMap::new();
    for text in texts {
        let bad = || format!("`{text}` is no RANK:STEP:FAULT");
        let mut parts = text.splitn(3, ':');
        let mut next = || parts.next().with_context(bad);
        let rank: u32 = next()?.parse().with_context(bad)?;
        let quoted = |text: &str| format!("\"{text}\"");
        let step: Step = serde_json::from_str(&quoted(next()?)).with_context(bad)?;
        let fault: Planted = serde_json::from_str(&quoted(next()?)).with_context(bad)?;
        if fault == Planted::StopMidway && step != Step::Correctness {
            bail!("`{text}`: what is stopped midway is the correctness step");
        }
        planted.insert(rank, (step, fault));
    }
    Ok(planted)
}

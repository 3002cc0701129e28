//! `unhang selftest --dry-run`: the ranks of one host, or one rank of a launcher's.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::thread;

use clap::ValueEnum;

use super::super::common::{Common, Format};
use super::super::messages;
use super::super::output::{self, Usage};
use super::SelftestArgs;
use crate::exit;
use crate::probe::host::Host;
use crate::selftest::dry::{self, Answer};
use crate::selftest::launcher::Place;
use crate::views::dry as view;
use crate::views::words::quoted;

/// Who starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LauncherArg {
    /// Slurm.
    Srun,
    /// PyTorch.
    Torchrun,
    /// Open MPI.
    Mpirun,
    /// Kubernetes: pods that are there already.
    Kubectl,
    /// Ray.
    Ray,
}

/// Runs it.
///
/// # Errors
/// If the launcher's variables are wrong, or nothing can be printed.
pub(super) fn run(args: &SelftestArgs, common: &Common) -> anyhow::Result<u8> {
    let variables = Host::this().variables();
    let place = Place::of(&variables, args.port).map_err(Usage)?;
    let host = settings(args, place.as_ref())?;
    let glyphs = common.glyphs();
    let text = args.format != Format::Json;
    let (place, answer) = match place {
        Some(place) => {
            if text && place.rank == 0 {
                output::print(&view::plan(&place, args.timeout, glyphs))?;
            }
            let answer = dry::run(&host(place.rank), &place, args.timeout);
            (place, answer)
        }
        None => {
            let world = args.ranks_per_gpu.max(2);
            let places = here(world, args.port);
            if text {
                output::print(&view::plan(&places[0], args.timeout, glyphs))?;
            }
            let answer = together(&places, &host, args);
            (places[0].clone(), answer)
        }
    };
    output::print(&if text {
        view::text(&place, &answer, glyphs)
    } else {
        view::json(&place, &answer)
    })?;
    // It proves nothing about NCCL, however well it went.
    Ok(if answer.faults.is_empty() {
        exit::UNKNOWN
    } else {
        exit::BROKEN
    })
}

/// The host as a rank sees it, with the settings that were given for it.
fn settings(
    args: &SelftestArgs,
    place: Option<&Place>,
) -> anyhow::Result<impl Fn(u32) -> Host + Sync + use<>> {
    let world = place.map_or(args.ranks_per_gpu.max(2), |place| place.world);
    for setting in &args.env {
        if let Some(rank) = setting.rank.filter(|rank| *rank >= world) {
            let most = world - 1;
            return Err(Usage(format!(
                "`{setting}` is for rank {rank}, and the last one is {most}"
            ))
            .into());
        }
    }
    let env = args.env.clone();
    Ok(move |rank| {
        let own = env
            .iter()
            .filter(|setting| setting.rank.is_none_or(|of| of == rank));
        // What is for one rank stands above what is for all.
        let (all, one): (Vec<_>, Vec<_>) = own.partition(|setting| setting.rank.is_none());
        let pairs = all.into_iter().chain(one);
        Host::this().with_variables(pairs.map(|s| (s.name.clone(), s.value.clone())))
    })
}

/// Ranks of this process alone.
fn here(world: u32, port: Option<u16>) -> Vec<Place> {
    let free = || {
        let listener = TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).ok()?;
        Some(listener.local_addr().ok()?.port())
    };
    let port = port.or_else(free).unwrap_or(29_555);
    let place = |rank| Place {
        rank,
        world,
        local: Some(rank),
        master: "127.0.0.1".to_owned(),
        port,
        launcher: "this process",
    };
    (0..world).map(place).collect()
}

/// A thread for each; rank 0's answer counts, since all hear the same.
fn together(places: &[Place], host: &(impl Fn(u32) -> Host + Sync), args: &SelftestArgs) -> Answer {
    thread::scope(|scope| {
        let ranks: Vec<_> = places
            .iter()
            .map(|place| scope.spawn(move || dry::run(&host(place.rank), place, args.timeout)))
            .collect();
        let mut answers = ranks.into_iter().map(thread::ScopedJoinHandle::join);
        let first = answers.next();
        // All are waited for.
        let _others = answers.count();
        match first {
            Some(Ok(answer)) => answer,
            _ => {
                messages::error_text("rank 0 ended in the middle");
                Answer {
                    faults: vec!["rank 0 ended in the middle".to_owned()],
                    ..Answer::default()
                }
            }
        }
    })
}

/// The command that starts it on several hosts. What only the user knows is in capitals.
pub(super) fn launch(launcher: LauncherArg, args: &SelftestArgs) -> String {
    let mut own = "unhang selftest".to_owned();
    if args.dry_run {
        own.push_str(" --dry-run");
    }
    if let Some(port) = args.port {
        own.push_str(&format!(" --port {port}"));
    }
    for setting in &args.env {
        own.push_str(&format!(" --env {}", quoted(&setting.to_string())));
    }
    for path in &args.nccl {
        own.push_str(&format!(" --nccl {}", quoted(path)));
    }
    let port = args.port.unwrap_or(29_555);
    // Ray hides every GPU from a task that asks for none.
    let gpus = if args.dry_run { "" } else { ", num_gpus=1" };
    match launcher {
        LauncherArg::Srun => format!("srun --nodes=NODES --ntasks-per-node=RANKS_PER_HOST {own}\n"),
        LauncherArg::Torchrun => format!(
            "# on every host, with the same RANK_0_HOST:\n\
             torchrun --no-python --nnodes=NODES --nproc-per-node=RANKS_PER_HOST --rdzv-backend=c10d \\\n  \
             --rdzv-endpoint=RANK_0_HOST:29500 {own}\n"
        ),
        LauncherArg::Mpirun => format!(
            "mpirun -np RANKS --host HOST_A:RANKS_PER_HOST,HOST_B:RANKS_PER_HOST \\\n  \
             -x MASTER_ADDR=HOST_A {own}\n"
        ),
        LauncherArg::Kubectl => format!(
            "# one rank a pod, the first at the address of POD_0:\n\
             n=0; for pod in POD_0 POD_1; do\n  \
             kubectl exec $pod -- env RANK=$n WORLD_SIZE=NUMBER_OF_PODS MASTER_ADDR=ADDRESS_OF_POD_0 \\\n    \
             MASTER_PORT={} {own} & n=$((n+1))\n\
             done; wait\n",
            port - 1
        ),
        LauncherArg::Ray => format!(
            "# one rank a node of the running cluster:\n\
             python3 - <<'END'\n\
             import os, ray, shlex, subprocess\n\
             ray.init(address='auto')\n\
             nodes = [n for n in ray.nodes() if n['Alive']]\n\
             @ray.remote(num_cpus=0{gpus})\n\
             def rank(n):\n    \
             env = dict(os.environ, RANK=str(n), WORLD_SIZE=str(len(nodes)),\n               \
             MASTER_ADDR=nodes[0]['NodeManagerAddress'], MASTER_PORT='{}')\n    \
             return subprocess.run(shlex.split({own:?}), env=env, capture_output=True, text=True).stdout\n\
             on = [rank.options(resources={{'node:' + node['NodeManagerAddress']: 0.001}}).remote(n)\n      \
             for n, node in enumerate(nodes)]\n\
             print('\\n'.join(ray.get(on)))\n\
             END\n",
            port - 1
        ),
    }
}

//! `unhang doctor`: this host before a launch, or beside a job that is stuck.

use clap::{Args, ValueEnum};

use super::common::Common;
use super::output;
use crate::error::InputError;
use crate::exit;
use crate::probe::diagnosis::expect::{self, Answer, Expectation};
use crate::probe::diagnosis::{Level, diagnose};
use crate::probe::facts::Facts;
use crate::probe::host::Host;
use crate::views::doctor::{self as view, Report};

/// Arguments of `unhang doctor`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArgs {
    /// What has to be so, such as gpus=8,rdma,nccl>=2.24: the exit code tells. Also p2p, gdr, driver>=570,
    /// torch>=2.9, shm>=16GiB, memlock>=unlimited, interface=eth0
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',', value_parser = expect::parse)]
    pub(crate) expect: Vec<Expectation>,
    /// As this process sees the host: its environment, limits, /dev/shm and libnccl
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = FormatArg::Text)]
    pub(crate) format: FormatArg,
}

/// How it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// For people, 80 columns.
    Text,
    /// For programs, one object a host: schema 1.
    Json,
}

/// Runs `unhang doctor`.
///
/// # Errors
/// If the process that is asked about is not there, or nothing can be printed.
pub(crate) fn run(args: &DoctorArgs, common: &Common) -> anyhow::Result<u8> {
    let host = match args.pid {
        Some(pid) => of_process(pid)?,
        None => Host::this(),
    };
    let facts = Facts::of(&host).and_nvml();
    let (files, _sound) = common.rule_files();
    let troubles = diagnose(&facts, &files.load(false).0);
    let expectations: Vec<_> = args
        .expect
        .iter()
        .map(|expectation| expect::check(expectation, &facts))
        .collect();
    let report = Report {
        facts: &facts,
        troubles: &troubles,
        expectations: &expectations,
    };
    output::print(&match args.format {
        FormatArg::Text => report.text(common.glyphs()),
        FormatArg::Json => report.json(),
    })?;
    if !expectations.is_empty() {
        let any = |answer| expectations.iter().any(|checked| checked.answer == answer);
        return Ok(if any(Answer::NotMet) {
            exit::BROKEN
        } else if any(Answer::CannotTell) {
            exit::UNKNOWN
        } else {
            exit::OK
        });
    }
    let wrong = troubles.iter().any(|trouble| trouble.level == Level::Wrong);
    Ok(match view::state(&facts, wrong) {
        view::State::Wrong => exit::BROKEN,
        view::State::NoGpu => exit::UNKNOWN,
        view::State::NothingWrong => exit::OK,
    })
}

/// The process must be there and be one that may be looked at.
fn of_process(pid: u32) -> Result<Host, InputError> {
    let host = Host::of_process(pid);
    let path = host.path(&host.process("environ"));
    std::fs::File::open(&path)
        .and_then(|mut file| std::io::Read::read(&mut file, &mut [0]).map(drop))
        .map_err(|error| InputError::io("look at process", &path, &error))?;
    Ok(host)
}

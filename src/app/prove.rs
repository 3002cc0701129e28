//! Which self-test proves a fix: the job's settings as its logs show them, beside the proposed ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::Duration;

use super::host::{self, short};
use super::task::Order;
use crate::engine::finding::{Finding, Fix};
use crate::engine::snapshot::{Snapshot, ValuesView};
use crate::engine::vocab::FixKind;
use crate::probe::gpus;

/// How long both sides may take, all runs together: a side that hangs takes 30 s a run.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// Processes whose libraries are looked at.
const ASKED: usize = 64;

/// Variables of NCCL that say where it writes or who takes part, not how it works: never handed on.
const NOT_SETTINGS: [&str; 9] = [
    "NCCL_DEBUG",
    "NCCL_COMM_ID",
    "NCCL_HOSTID",
    "NCCL_RAS_",
    "NCCL_CONF_FILE",
    "NCCL_TOPO_DUMP",
    "NCCL_GRAPH_DUMP",
    "NCCL_PROFILE",
    "NCCL_INSPECTOR",
];

/// Where the test would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// The host's name, up to the first dot.
    pub host: String,
    /// GPUs that a CUDA program sees.
    pub gpus: u32,
    /// `CUDA_VISIBLE_DEVICES` is why there are so few.
    pub hidden: bool,
}

impl Here {
    /// This host.
    #[must_use]
    pub fn this() -> Self {
        Self {
            host: host::here(),
            gpus: gpus::visible(),
            hidden: std::env::var_os("CUDA_VISIBLE_DEVICES").is_some(),
        }
    }
}

/// A variable of the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// What the job has, if its logs show it.
    pub present: Option<String>,
    /// What is proposed; empty to unset it.
    pub proposed: String,
}

/// The self-test that proves a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// The arguments of `unhang`.
    pub args: Vec<String>,
    /// What changes.
    pub changes: Vec<Change>,
    /// Further settings of this host's ranks.
    pub others: usize,
    /// What to know before it starts, as sentences.
    pub notes: Vec<String>,
}

impl Test {
    /// Takes the job's own libnccl where a process of it runs on this host: one of the finding's ranks if it
    /// can. `has_nccl` says whether a process has it loaded.
    #[must_use]
    pub fn with_library(
        mut self,
        snapshot: &Snapshot,
        finding: &Finding,
        here: &Here,
        has_nccl: &dyn Fn(u32) -> bool,
    ) -> Self {
        let ours = snapshot.job.ranks.iter().filter(|rank| {
            let host = rank.host.as_deref();
            let gone = rank.process.is_some_and(|process| process.is_gone());
            host.is_some_and(|host| short(host) == here.host) && !gone
        });
        let mut ours: Vec<_> = ours.filter_map(|r| Some((r.rank?, r.pid?))).collect();
        ours.sort_by_key(|(rank, _)| (!finding.ranks.contains(rank), *rank));
        let pids = ours.iter().map(|(_, pid)| *pid).take(ASKED);
        if let Some(pid) = pids.into_iter().find(|pid| has_nccl(*pid)) {
            // It may end before the test begins.
            let like = ["--like", &pid.to_string(), "--or-installed"];
            self.args.splice(1..1, like.map(str::to_owned));
            return self;
        }
        let mut versions = snapshot.job.versions.iter();
        let of_job = versions.find(|v| v.name == "nccl").map(|v| &v.values);
        let why = match of_job.map(Vec::as_slice) {
            Some([(version, _)]) => format!("the job has NCCL {version}, and no process"),
            _ => "no process".to_owned(),
        };
        self.notes.push(format!(
            "{why} of it runs here: the test takes the libnccl that is installed, whose version its first step tells"
        ));
        self
    }

    /// What to run.
    ///
    /// # Errors
    /// If this program cannot be found any more.
    pub fn order(&self) -> std::io::Result<Order> {
        Ok(Order {
            program: std::env::current_exe()?,
            args: self.args.iter().map(OsString::from).collect(),
            patience: PATIENCE,
        })
    }
}

/// The test that proves the first fix of a finding that it can.
///
/// # Errors
/// Why there is none, in a sentence.
pub fn test(snapshot: &Snapshot, finding: &Finding, here: &Here) -> Result<Test, String> {
    let env = &snapshot.job.env;
    let fixes = finding.fixes.iter().filter(|fix| fix.kind == FixKind::Env);
    let mut why = format!(
        "{} has no fix that sets an environment variable",
        finding.id
    );
    let mut found = None;
    for fix in fixes {
        match proposed(fix, env) {
            Ok(settings) => {
                found = Some(settings);
                break;
            }
            Err(reason) => why = reason,
        }
    }
    let settings = found.ok_or(why)?;

    let is_here = |host: &str| short(host) == here.host;
    let ranks = snapshot.job.ranks.iter();
    let ours = ranks.filter(|rank| rank.host.as_deref().is_some_and(is_here));
    let ours: BTreeSet<u32> = ours.filter_map(|rank| rank.rank).collect();
    let changes: Vec<Change> = settings
        .into_iter()
        .map(|(name, proposed)| Change {
            present: env
                .iter()
                .find(|v| v.name == name)
                .and_then(|v| value(v, &finding.ranks, &ours)),
            name,
            proposed,
        })
        .collect();
    let is_changed = |name: &str| changes.iter().any(|change| change.name == name);
    let others = env
        .iter()
        .filter(|v| is_setting(&v.name) && !is_changed(&v.name));
    let others: Vec<(&str, String)> = others
        .filter_map(|v| Some((v.name.as_str(), value_of(v, &ours)?)))
        .collect();

    let mut args = vec!["selftest".to_owned()];
    let mut add = |option: &str, name: &str, value: &str| {
        args.extend([option.to_owned(), format!("{name}={value}")]);
    };
    for (name, value) in &others {
        add("--env", name, value);
    }
    for change in &changes {
        if let Some(present) = &change.present {
            add("--env", &change.name, present);
        }
    }
    for change in &changes {
        add("--ab", &change.name, &change.proposed);
    }
    let mut notes = Vec::new();
    if here.gpus == 1 {
        args.extend(["--ranks-per-gpu", "2"].map(str::to_owned));
        notes.push(
            "there is one GPU: two ranks share it, which tests bootstrap, interfaces and network, \
             not what lies between GPUs"
                .to_owned(),
        );
    }
    if !finding.hosts.is_empty() && !finding.hosts.iter().any(|host| is_here(host)) {
        let hosts: Vec<&str> = finding.hosts.iter().map(String::as_str).take(4).collect();
        let more = if finding.hosts.len() > 4 {
            " and others"
        } else {
            ""
        };
        notes.push(format!(
            "the finding is about {}{more}, and this is {}: what is wrong there may not show here",
            hosts.join(", "),
            here.host
        ));
    }
    Ok(Test {
        args,
        changes,
        others: others.len(),
        notes,
    })
}

/// What a fix sets, if NCCL reads it; what it says to unset, as far as the job has it.
fn proposed(fix: &Fix, env: &[ValuesView]) -> Result<BTreeMap<String, String>, String> {
    let mut settings = fix.env.clone();
    let set = fix
        .unset
        .iter()
        .filter(|name| env.iter().any(|v| v.name == **name));
    settings.extend(set.map(|name| (name.clone(), String::new())));
    if let Some((name, value)) = settings.iter().find(|(_, value)| value.contains('<')) {
        return Err(format!(
            "the fix leaves {name} to you ({value}); with a value: unhang selftest --ab {name}=…"
        ));
    }
    settings.retain(|name, _| is_setting(name));
    if let Some(name) = fix.env.keys().next()
        && settings.is_empty()
    {
        return Err(format!(
            "the self-test runs NCCL alone, and {name} is no setting of it"
        ));
    }
    if settings.is_empty() {
        return Err("the fix names no variable to set".to_owned());
    }
    Ok(settings)
}

/// True for what decides how NCCL works.
fn is_setting(name: &str) -> bool {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let of_nccl = name.starts_with("NCCL_") || name.starts_with("CUDA_MODULE");
    of_nccl && plain && !NOT_SETTINGS.iter().any(|start| name.starts_with(start))
}

/// What the ranks of a finding have of a variable; else those of this host; else most.
fn value(values: &ValuesView, about: &BTreeSet<u32>, ours: &BTreeSet<u32>) -> Option<String> {
    let both = about.intersection(ours).copied().collect();
    let first = [&both, about, ours]
        .into_iter()
        .find_map(|ranks| value_of(values, ranks));
    first.or_else(|| {
        let most = values.values.iter().max_by_key(|(_, ranks)| ranks.len());
        most.map(|(value, _)| value.clone())
    })
}

/// The value that most of these ranks have.
fn value_of(values: &ValuesView, of: &BTreeSet<u32>) -> Option<String> {
    let counted = values.values.iter().map(|(value, ranks)| {
        let count = ranks.iter().filter(|rank| of.contains(rank)).count();
        (count, value)
    });
    let (count, value) = counted.max_by_key(|(count, _)| *count)?;
    (count > 0).then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, values: &[(&str, &[u32])]) -> ValuesView {
        ValuesView {
            name: name.to_owned(),
            values: values
                .iter()
                .map(|(v, ranks)| ((*v).to_owned(), ranks.to_vec()))
                .collect(),
        }
    }

    fn fix(env: &[(&str, &str)], unset: &[&str]) -> Fix {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Fix {
            kind: FixKind::Env,
            text: String::new(),
            env: env.iter().map(own).collect(),
            unset: unset.iter().map(|name| (*name).to_owned()).collect(),
            ranks: Vec::new(),
            cures: true,
            caution: None,
            undo: None,
        }
    }

    #[test]
    fn only_what_nccl_reads_and_has_a_value_can_be_proven() {
        let env = [variable("NCCL_P2P_DISABLE", &[("1", &[0, 1])])];
        let names = |fix: &Fix| proposed(fix, &env).map(|s| s.into_iter().collect::<Vec<_>>());
        let unset = fix(&[], &["NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"]);
        assert_eq!(
            names(&unset),
            Ok(vec![("NCCL_P2P_DISABLE".to_owned(), String::new())])
        );
        let both = fix(
            &[("NCCL_NET", "Socket"), ("GLOO_SOCKET_IFNAME", "eth0")],
            &[],
        );
        assert_eq!(
            names(&both),
            Ok(vec![("NCCL_NET".to_owned(), "Socket".to_owned())])
        );
        for (env, why) in [
            (
                &[("NCCL_SOCKET_IFNAME", "<interface>")][..],
                "leaves NCCL_SOCKET_IFNAME to you",
            ),
            (
                &[("VLLM_HOST_IP", "10.0.0.1")],
                "VLLM_HOST_IP is no setting of it",
            ),
            (&[("NCCL_DEBUG", "INFO")], "NCCL_DEBUG is no setting of it"),
            (&[], "names no variable"),
        ] {
            let refused = names(&fix(env, &[])).expect_err("refused");
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn the_jobs_own_library_is_taken_where_it_runs() {
        use crate::engine::catalog::Catalog;
        use crate::engine::{Engine, Options};

        let mut engine = Engine::new(Catalog::builtin(), Options::default());
        for rank in 0..2 {
            let pid = 70 + rank;
            let log = format!(
                "node-0:{pid}:{pid} [{rank}] NCCL INFO NCCL version 2.27.3+cuda12.9\n\
                 node-0:{pid}:{pid} [{rank}] NCCL WARN Bootstrap : no socket interface found\n"
            );
            engine.read_log(rank, &log);
        }
        let snapshot = engine.snapshot();
        let finding = Finding {
            ranks: BTreeSet::from([1]),
            ..snapshot.findings.first().cloned().expect("a finding")
        };
        let test = || Test {
            args: ["selftest", "--ab", "NCCL_NET=Socket"]
                .map(str::to_owned)
                .to_vec(),
            changes: Vec::new(),
            others: 0,
            notes: Vec::new(),
        };
        let on = |host: &str, has: &dyn Fn(u32) -> bool| {
            let here = Here {
                host: host.to_owned(),
                gpus: 2,
                hidden: false,
            };
            test().with_library(&snapshot, &finding, &here, has)
        };
        let like = |test: &Test| test.args[1..4].join(" ");
        assert_eq!(like(&on("node-0", &|_| true)), "--like 71 --or-installed");
        assert_eq!(
            like(&on("node-0", &|pid| pid == 70)),
            "--like 70 --or-installed"
        );
        for other in [on("node-0", &|_| false), on("node-9", &|_| true)] {
            assert_eq!(other.args, test().args);
            assert!(other.notes[0].contains("2.27.3"), "{:?}", other.notes);
        }
    }

    #[test]
    fn the_value_is_that_of_the_ranks_it_is_about() {
        let v = variable("NCCL_NET", &[("IB", &[0, 1, 2]), ("Socket", &[3])]);
        let set = |ranks: &[u32]| ranks.iter().copied().collect::<BTreeSet<u32>>();
        assert_eq!(value(&v, &set(&[3]), &set(&[])), Some("Socket".to_owned()));
        assert_eq!(
            value(&v, &set(&[0, 3]), &set(&[3])),
            Some("Socket".to_owned())
        );
        assert_eq!(value(&v, &set(&[]), &set(&[])), Some("IB".to_owned()));
        assert_eq!(value_of(&v, &set(&[9])), None);
    }
}

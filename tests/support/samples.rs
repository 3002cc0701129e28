//! Snapshots made by hand, for the views: what the engine would say about a few jobs.

#![expect(clippy::unwrap_used, reason = "samples are right or their tests fail")]

use std::collections::{BTreeMap, BTreeSet};

use unhang::engine::finding::{Evidence, Finding, Fix};
use unhang::engine::ids::{RuleIx, SourceId};
use unhang::engine::input::{EndReason, SourceKind, Time};
use unhang::engine::snapshot::{
    AddressView, CommView, HostView, InputsView, JobView, MemberView, RankView, Snapshot,
    SourceView, ValuesView, Verdict,
};
use unhang::engine::vocab::{Class, Confidence, Effect, FixKind, Phase, Role, Severity, State};
use unhang::engine::witness::{Said, Witness};

/// Every sample with its name.
pub(crate) fn all() -> Vec<(&'static str, Snapshot)> {
    vec![
        ("wrong_interface", wrong_interface()),
        ("skipped_collective", skipped_collective()),
        ("healthy", healthy()),
        ("waiting", waiting()),
        ("thousand", many(1024, 8)),
        ("hostile", hostile()),
        ("empty", empty()),
        ("degraded", degraded()),
        ("settings", settings()),
        ("sixteen_thousand", many(16_384, 8)),
    ]
}

fn wrong_interface() -> Snapshot {
    let mut s = job(16, 2, Phase::Bootstrap);
    for rank in &mut s.job.ranks {
        let host = rank.host.clone().unwrap();
        let n: u32 = host[5..].parse().unwrap();
        let odd = n == 5;
        rank.guilty = odd;
        rank.finding = Some(if odd { 0 } else { 1 });
        rank.last_line = Some(if odd {
            "socketPollConnect: connect to 192.168.10.5<43865> returned No route to host, retrying (7/34) after \
             sleep for 700 msec"
                .to_owned()
        } else {
            format!(
                "ncclCommInitRankConfig comm 0x130ae880 rank {} nranks 16 - Init START",
                rank.rank.unwrap()
            )
        });
    }
    for (n, host) in s.job.hosts.iter_mut().enumerate() {
        host.odd = n == 5;
        let (interface, address) = if host.odd {
            ("mgmt0", format!("192.168.15.{n}"))
        } else {
            ("data0", format!("10.20.0.{}", n + 1))
        };
        for subsystem in ["bootstrap", "net"] {
            host.addresses.push(AddressView {
                subsystem: subsystem.to_owned(),
                interface: Some(interface.to_owned()),
                address: address.clone(),
                ranks: host.ranks.clone(),
            });
        }
        host.addresses.push(AddressView {
            subsystem: "c10d".to_owned(),
            interface: None,
            address: format!("10.20.0.{}", n + 1),
            ranks: host.ranks.clone(),
        });
    }
    let mut cause = finding(
        "NET003",
        "interface-differs",
        Class::WrongInterface,
        Role::Cause,
    );
    cause.title = "node-5 bootstraps on mgmt0 192.168.15.5, the other 7 hosts on data0: rank 0 cannot reach it".into();
    cause.explanation = "NCCL picks the first interface by name when NCCL_SOCKET_IFNAME is not set, and node-5 has \
        one that the others lack. Its address belongs to the management network, which rank 0 cannot reach, so \
        the bootstrap ring never closes. Every other rank waits for ranks 10-11."
        .into();
    cause.ranks = BTreeSet::from([10, 11]);
    cause.hosts = BTreeSet::from(["node-5".to_owned()]);
    cause.phase = Phase::Bootstrap;
    cause.evidence = vec![
        line(
            10,
            6,
            "node-5:850:850 [0] NCCL INFO Bootstrap: Using mgmt0:192.168.15.5<0>",
        ),
        line(
            10,
            16,
            "node-5:850:850 [0] NCCL INFO socketPollConnect: connect to 192.168.10.5<43865> returned No route to host, retrying (1/34) after sleep for 100 msec",
        ),
        line(
            11,
            6,
            "node-5:851:851 [1] NCCL INFO Bootstrap: Using mgmt0:192.168.15.5<0>",
        ),
        line(
            0,
            6,
            "node-0:800:800 [0] NCCL INFO Bootstrap: Using data0:10.20.0.1<0>",
        ),
    ];
    cause.more_evidence = 26;
    cause.fixes = vec![
        Fix {
            kind: FixKind::Env,
            text: "Name the data interface on every rank, so that all hosts bootstrap on the same network.".into(),
            env: BTreeMap::from([("NCCL_SOCKET_IFNAME".to_owned(), "data0".to_owned())]),
            unset: vec![],
            ranks: vec![],
            cures: true,
            caution: Some("The name must exist on every host; a prefix such as data matches data0 and data1.".into()),
            undo: Some("unset NCCL_SOCKET_IFNAME".into()),
        },
        Fix {
            kind: FixKind::Host,
            text: "Take mgmt0 down on node-5, or give it a route to the other hosts.".into(),
            env: BTreeMap::new(),
            unset: vec![],
            ranks: vec![10, 11],
            cures: true,
            caution: None,
            undo: Some("ip link set mgmt0 up".into()),
        },
    ];
    cause.missing = vec![
        "Addresses of the job's own processes: NCCL_DEBUG_SUBSYS=INIT,NET,ENV prints them.".into(),
    ];
    cause.explains = vec!["BST001".into()];
    let mut symptom = finding(
        "BST001",
        "bootstrap-waits",
        Class::Inconclusive,
        Role::Symptom,
    );
    symptom.title = "14 ranks began to initialise and never finished".into();
    symptom.explanation = "They wait in bootstrap for the ranks that cannot be reached.".into();
    symptom.ranks = (0..16).filter(|r| !(10..12).contains(r)).collect();
    symptom.evidence = vec![line(
        0,
        15,
        "node-0:800:800 [0] NCCL INFO ncclCommInitRankConfig comm 0x130ae880 rank 0 nranks 16 - Init START",
    )];
    let mut retry = finding(
        "NET010",
        "connect-retries",
        Class::NetworkUnreachable,
        Role::Symptom,
    );
    retry.title = "connects to 192.168.10.5 fail: No route to host (7 attempts)".into();
    retry.explanation = "The address is of another network.".into();
    retry.severity = Severity::Warning;
    retry.ranks = BTreeSet::from([10, 11]);
    let mut note = finding("NET020", "no-rdma", Class::IbRdma, Role::Note);
    note.title = "no RDMA device was found, NCCL uses sockets".into();
    note.explanation = "Normal where there is no InfiniBand.".into();
    note.severity = Severity::Info;
    note.ranks = (0..16).collect();
    s.verdict = Verdict {
        state: State::Hung,
        class: Class::WrongInterface,
        summary: cause.title.clone(),
        confidence: Confidence::Certain,
        ranks: vec![10, 11],
        hosts: vec!["node-5".into()],
        other_causes: vec![],
        missing_evidence: vec![
            "What ranks did after bootstrap: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,COLL shows it.".into(),
        ],
        finding: Some(0),
    };
    s.findings = vec![cause, symptom, retry, note];
    s.job.env = vec![ValuesView {
        name: "NCCL_DEBUG".into(),
        values: vec![("INFO".into(), (0..16).collect())],
    }];
    s
}

fn skipped_collective() -> Snapshot {
    let mut s = job(2, 2, Phase::Collective);
    for (rank, reached) in [(0, 3), (1, 2)] {
        let view = &mut s.job.ranks[rank];
        view.collective = Some(reached);
        view.function = Some("AllReduce".into());
        view.guilty = rank == 1;
        view.finding = Some(0);
        view.last_seen = Some(Time(
            NOW - if rank == 1 {
                184_000_000_000
            } else {
                181_000_000_000
            },
        ));
        view.last_line = Some(format!(
            "AllReduce: opCount {reached} sendbuff 0x7f2e count 1048576 datatype 7 op 0 root 0"
        ));
        let member = &mut s.job.comms[0].members[rank];
        member.reached = Some(reached);
        member.last_call = Some("AllReduce 1048576 float32 sum".into());
        let done = rank == 1;
        member.said.push(Said {
            witness: Witness::Dump,
            source: SourceId(rank as u32),
            reached: Some(reached),
            call: Some("all_reduce of [1048576] Float".into()),
            progress: Some(if done { "completed" } else { "scheduled" }.into()),
            at: Some(format!("train.py:{} (main)", if done { 39 } else { 47 })),
            stack: if done {
                ["train.py:39 (main)".to_owned()].into()
            } else {
                [
                    "train.py:47 (main)".to_owned(),
                    "train.py:60 (<module>)".to_owned(),
                ]
                .into()
            },
        });
    }
    let mut cause = finding(
        "COL002",
        "skipped-collective",
        Class::MissingRank,
        Role::Cause,
    );
    cause.title = "rank 1 never called the 3rd AllReduce, rank 0 waits in it".into();
    cause.explanation =
        "Both ranks are in communicator 0x3cd91741efa7caee. Rank 0 has called 3 collectives on it \
        and rank 1 only 2; the watchdog of rank 0 reported a timeout."
            .into();
    cause.ranks = BTreeSet::from([1]);
    cause.comm = Some("0x3cd91741efa7caee".into());
    cause.evidence = vec![
        line(
            0,
            88,
            "node-0:800:812 [0] NCCL INFO AllReduce: opCount 3 sendbuff 0x7f2e00000000 recvbuff 0x7f2e00000000 acc 0 count 1048576 datatype 7 op 0 root 0 comm 0x55d1 [nranks=2] stream 0x5581",
        ),
        line(
            1,
            84,
            "node-0:801:813 [1] NCCL INFO AllReduce: opCount 2 sendbuff 0x7fae00000000 recvbuff 0x7fae00000000 acc 0 count 1048576 datatype 7 op 0 root 0 comm 0x5601 [nranks=2] stream 0x5611",
        ),
    ];
    cause.fixes = vec![Fix {
        kind: FixKind::Code,
        text: "Make every rank of the group call the collective: look for an if that only some ranks enter, or an \
            early return, before the 3rd all_reduce."
            .into(),
        env: BTreeMap::new(),
        unset: vec![],
        ranks: vec![1],
        cures: true,
        caution: None,
        undo: None,
    }];
    s.verdict = Verdict {
        state: State::Hung,
        class: Class::MissingRank,
        summary: cause.title.clone(),
        confidence: Confidence::Certain,
        ranks: vec![1],
        hosts: vec![],
        other_causes: vec![],
        missing_evidence: vec!["Where rank 1 is in its code: py-spy dump --pid 801".into()],
        finding: Some(0),
    };
    s.findings = vec![cause];
    s
}

fn healthy() -> Snapshot {
    let mut s = job(8, 8, Phase::Ready);
    s.verdict.summary = "8 of 8 ranks are ready and equal, nothing is wrong".into();
    s
}

fn waiting() -> Snapshot {
    let mut s = job(4, 2, Phase::Ready);
    s.job.ranks[3].phase = Phase::Rendezvous;
    s.job.ranks[3].guilty = true;
    s.job.ranks[3].finding = Some(0);
    for rank in 0..3 {
        s.job.ranks[rank].phase = Phase::Collective;
        s.job.ranks[rank].collective = Some(1);
        s.job.comms[0].members[rank].reached = Some(1);
    }
    s.job.comms[0].members.pop();
    let mut cause = finding("RDV001", "rank-not-in-init", Class::MissingRank, Role::Note);
    cause.title = "rank 3 has not entered initialisation yet, 3 ranks wait for it".into();
    cause.explanation = "It was seen at the store. It may still be on its way.".into();
    cause.severity = Severity::Info;
    cause.confidence = Confidence::Possible;
    cause.ranks = BTreeSet::from([3]);
    cause.missing = vec![
        "Whether it stands still: unhang watch, or --stuck if you have waited long enough.".into(),
    ];
    s.verdict = Verdict {
        state: State::Waiting,
        class: Class::MissingRank,
        summary: cause.title.clone(),
        confidence: Confidence::Possible,
        ranks: vec![3],
        hosts: vec![],
        other_causes: vec![],
        missing_evidence: cause.missing.clone(),
        finding: Some(0),
    };
    s.findings = vec![cause];
    s
}

fn degraded() -> Snapshot {
    let mut s = job(8, 8, Phase::Ready);
    let mut cause = finding("P2P001", "p2p-disabled", Class::P2p, Role::Cause);
    cause.title =
        "P2P is off by NCCL_P2P_DISABLE=1: GPUs of node-0 talk through shared memory".into();
    cause.explanation =
        "All channels go via SHM. Expect a tenth of the bandwidth of NVLink.".into();
    cause.severity = Severity::Warning;
    cause.ranks = (0..8).collect();
    cause.evidence = vec![line(
        0,
        12,
        "node-0:800:800 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.",
    )];
    cause.fixes = vec![Fix {
        kind: FixKind::Env,
        text: "Remove NCCL_P2P_DISABLE from the job's environment.".into(),
        env: BTreeMap::new(),
        unset: vec!["NCCL_P2P_DISABLE".into()],
        ranks: vec![],
        cures: true,
        caution: Some("If it was set against a hang, that fault comes back.".into()),
        undo: Some("export NCCL_P2P_DISABLE=1".into()),
    }];
    s.verdict = Verdict {
        state: State::Degraded,
        class: Class::P2p,
        summary: cause.title.clone(),
        confidence: Confidence::Likely,
        ranks: vec![],
        hosts: vec![],
        other_causes: vec!["SHM002".into(), "LIM001".into()],
        missing_evidence: vec![],
        finding: Some(0),
    };
    s.findings = vec![cause];
    s
}

/// Settings and versions that all have, that some have, and that differ.
fn settings() -> Snapshot {
    let mut s = job(4, 2, Phase::Ready);
    let of = |name: &str, values: &[(&str, &[u32])]| ValuesView {
        name: name.to_owned(),
        values: values
            .iter()
            .map(|(value, ranks)| ((*value).to_owned(), ranks.to_vec()))
            .collect(),
    };
    s.job.versions = vec![
        of("cuda-driver", &[("13.0", &[0, 1, 2, 3])]),
        of("nccl", &[("2.27.5", &[2]), ("2.28.9", &[0, 1, 3])]),
    ];
    s.job.env = vec![
        of("NCCL_ALGO", &[("Ring", &[0]), ("Tree", &[1, 2, 3])]),
        of(
            "NCCL_IB_HCA",
            &[("=mlx5_0,mlx5_1,mlx5_2,mlx5_3", &[0, 1, 2, 3])],
        ),
        of("NCCL_P2P_DISABLE", &[("1", &[0, 1, 2, 3])]),
        of("NCCL_SOCKET_IFNAME", &[("ens", &[0, 1])]),
        of("OF_SOMEBODY_ELSE", &[("x", &[3])]),
    ];
    s
}

fn many(world: u32, per_host: u32) -> Snapshot {
    let mut s = job(world, per_host, Phase::Collective);
    let missing = world / 2;
    for (rank, view) in s.job.ranks.iter_mut().enumerate() {
        view.collective = Some(128);
        view.function = Some("ReduceScatter".into());
        view.guilty = rank as u32 == missing;
        view.finding = Some(if view.guilty { 0 } else { 1 });
    }
    for member in &mut s.job.comms[0].members {
        member.reached = Some(if member.comm_rank == missing {
            127
        } else {
            128
        });
        member.last_call = Some("ReduceScatter 8388608 bfloat16 sum".into());
    }
    let guilty = &mut s.job.ranks[missing as usize];
    guilty.phase = Phase::Died;
    let host = guilty.host.clone().unwrap();
    let mut cause = finding("DIE001", "rank-died", Class::RankDied, Role::Cause);
    cause.title = format!(
        "rank {missing} on {host} was killed by signal 9, the others wait in collective 128"
    );
    cause.explanation = "The launcher reported its exit. Nothing was printed before.".into();
    cause.ranks = BTreeSet::from([missing]);
    cause.hosts = BTreeSet::from([host]);
    cause.evidence = vec![line(missing, 512, "exitcode: -9 (pid: 801)")];
    let mut symptom = finding("COL001", "ranks-wait", Class::Inconclusive, Role::Symptom);
    symptom.title = format!("{} ranks wait in ReduceScatter 128", world - 1);
    symptom.ranks = (0..world).filter(|r| *r != missing).collect();
    s.verdict = Verdict {
        state: State::Hung,
        class: Class::RankDied,
        summary: cause.title.clone(),
        confidence: Confidence::Likely,
        ranks: vec![missing],
        hosts: vec![],
        other_causes: vec![],
        missing_evidence: vec!["Why the kernel killed it: dmesg -T on that host.".into()],
        finding: Some(0),
    };
    s.findings = vec![cause, symptom];
    s
}

/// Strings that would take over a terminal, a Markdown page or a shell.
const HOSTILE: &[&str] = &[
    "\x1b]0;owned\x07\x1b[2J\x1b[H",
    "\u{9b}31m\u{202e}evil\u{200b}\u{feff}",
    "a\tb\rc\nd\0e\x7f\x08",
    "日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語",
    "e\u{301}\u{301}\u{301}\u{301} 👩\u{200d}👩\u{200d}👧\u{200d}👦 🏳\u{fe0f}",
    "```\n# heading <script>alert(1)</script> @someone ![x](http://e) | `x`",
    "$(reboot) `reboot`; 'reboot' \"x\"",
    "",
    "\u{10ffff}\u{e0001}\u{fff9}\u{2028}\u{2029}",
];

fn hostile() -> Snapshot {
    let mut s = wrong_interface();
    let mut pool = HOSTILE.iter().cycle();
    let mut next = || (*pool.next().unwrap()).to_owned();
    for rank in &mut s.job.ranks {
        rank.host = Some(next());
        rank.name = Some(next());
        rank.last_line = Some(next().repeat(40));
        rank.function = Some(next());
        rank.bus_id = Some(next());
        rank.phase = Phase::Collective;
    }
    s.job.ranks[15].rank = None;
    for host in &mut s.job.hosts {
        host.name = next();
        for address in &mut host.addresses {
            address.subsystem = next();
            address.interface = Some(next());
            address.address = next();
        }
    }
    for finding in &mut s.findings {
        finding.id = next();
        finding.name = next();
        finding.title = next();
        finding.explanation = next();
        finding.hosts = HOSTILE.iter().map(|h| (*h).to_owned()).collect();
        finding.comm = Some(next());
        finding.missing = vec![next(), next()];
        for evidence in &mut finding.evidence {
            evidence.text = next();
        }
        for fix in &mut finding.fixes {
            fix.text = next();
            fix.env = HOSTILE
                .iter()
                .map(|h| ((*h).to_owned(), (*h).to_owned()))
                .collect();
            fix.env
                .insert("NCCL_SOCKET_IFNAME".into(), "x'; reboot\n#".into());
            fix.caution = Some(next());
            fix.undo = Some(next());
        }
    }
    s.findings[0].evidence[0].source = SourceId(999_999);
    s.verdict.finding = Some(99);
    s.verdict.ranks = vec![3, 3, 1];
    for comm in &mut s.job.comms {
        comm.id = next();
        for member in &mut comm.members {
            member.last_call = Some(next());
            member.reached = Some(u64::MAX);
        }
    }
    s.verdict.summary = HOSTILE.concat();
    s.verdict.hosts = HOSTILE.iter().map(|h| (*h).to_owned()).collect();
    s.verdict.missing_evidence = HOSTILE.iter().map(|h| (*h).to_owned()).collect();
    s.verdict.other_causes = HOSTILE.iter().map(|h| (*h).to_owned()).collect();
    for source in &mut s.inputs.sources {
        source.name = next();
        source.problem = Some(next());
    }
    s.job.env = vec![ValuesView {
        name: next(),
        values: vec![(next(), vec![0]), (next(), vec![1])],
    }];
    s.job.versions.clone_from(&s.job.env);
    s
}

fn empty() -> Snapshot {
    Snapshot {
        verdict: Verdict {
            state: State::Inconclusive,
            class: Class::Inconclusive,
            summary: "nothing was read".into(),
            confidence: Confidence::Possible,
            ranks: vec![],
            hosts: vec![],
            other_causes: vec![],
            missing_evidence: vec!["NCCL's own log: run with NCCL_DEBUG=INFO".into()],
            finding: None,
        },
        findings: vec![],
        job: JobView::default(),
        inputs: InputsView::default(),
        now: None,
    }
}

const NOW: u64 = 1_764_532_800_000_000_000;

fn job(world: u32, per_host: u32, phase: Phase) -> Snapshot {
    let mut s = empty();
    let hosts = world.div_ceil(per_host);
    s.now = Some(Time(NOW));
    s.verdict.state = State::Healthy;
    s.verdict.class = Class::Healthy;
    s.verdict.confidence = Confidence::Certain;
    s.verdict.missing_evidence.clear();
    s.job.world_size = Some(world);
    s.job.hosts = (0..hosts)
        .map(|h| HostView {
            name: format!("node-{h}"),
            ranks: (h * per_host..((h + 1) * per_host).min(world)).collect(),
            addresses: vec![],
            odd: false,
        })
        .collect();
    s.job.ranks = (0..world)
        .map(|r| RankView {
            rank: Some(r),
            name: None,
            host: Some(format!("node-{}", r / per_host)),
            pid: Some(800 + r),
            gpu: Some(r % per_host),
            bus_id: Some(format!("{:x}", 0x10 * (r % per_host + 1))),
            gpu_at: None,
            process: None,
            phase,
            collective: None,
            function: None,
            comms: vec![0],
            last_line: Some(format!(
                "ncclCommInitRankConfig comm 0x130ae880 rank {r} nranks {world} - Init COMPLETE"
            )),
            lines: 24 + u64::from(r % 3),
            last_seen: Some(Time(NOW - 2_000_000_000)),
            guilty: false,
            absent: false,
            finding: None,
        })
        .collect();
    s.job.comms = vec![CommView {
        id: "0x3cd91741efa7caee".into(),
        called: vec!["0x3cd91741efa7caee".into()],
        nranks: world,
        members: (0..world)
            .map(|r| MemberView {
                comm_rank: r,
                rank: Some(r),
                started: true,
                complete: phase >= Phase::Ready,
                ended: false,
                reached: None,
                last_call: None,
                said: vec![],
            })
            .collect(),
    }];
    s.job.versions = vec![ValuesView {
        name: "nccl".into(),
        values: vec![("2.28.9".into(), (0..world).collect())],
    }];
    s.inputs.sources = (0..world)
        .map(|r| SourceView {
            id: SourceId(r),
            name: format!("rank{r}.log"),
            kind: SourceKind::File,
            bytes: 2_891,
            lines: 24,
            ended: Some(EndReason::Eof),
            problem: None,
        })
        .collect();
    s.inputs.bytes = 2_891 * u64::from(world);
    s.inputs.lines = 24 * u64::from(world);
    s.inputs.unparsed_lines = 3;
    s
}

fn finding(id: &str, name: &str, class: Class, role: Role) -> Finding {
    Finding {
        rule: RuleIx(0),
        id: id.into(),
        name: name.into(),
        class,
        role,
        severity: Severity::Error,
        effect: Effect::Standstill,
        confidence: Confidence::Certain,
        title: String::new(),
        explanation: String::new(),
        ranks: BTreeSet::new(),
        hosts: BTreeSet::new(),
        accused: BTreeSet::new(),
        accused_hosts: BTreeSet::new(),
        comm: None,
        phase: Phase::Bootstrap,
        evidence: vec![],
        more_evidence: 0,
        fixes: vec![],
        missing: vec![],
        explains: vec![],
        witnesses: BTreeSet::from([Witness::Log]),
        pointing: BTreeSet::new(),
        sites: None,
        calls: None,
    }
}

fn line(rank: u32, number: u64, text: &str) -> Evidence {
    Evidence {
        source: SourceId(rank),
        line: number,
        offset: 0,
        len: text.len() as u32,
        entry: None,
        rank: Some(rank),
        text: text.into(),
    }
}

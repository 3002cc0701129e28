//! Findings from samples and states, in virtual time.

use unhang::engine::gpu::{Fabric, FabricState, GpuProcess, GpuSample, P2p, Trouble, Xid};
use unhang::engine::input::ProcessState;
use unhang::engine::vocab::{Class, Role, State};
use unhang::engine::xid::{TABLE, Whose};

use super::support::{Job, sample};

/// A healthy sample with one thing changed.
fn with(change: impl FnOnce(&mut GpuSample)) -> GpuSample {
    let mut sample = sample();
    change(&mut sample);
    sample
}

#[test]
fn healthy_gpus_are_silent() {
    let mut job = Job::running();
    let before = job.snapshot();
    for _ in 0..20 {
        job.after(1).gpus(sample());
        job.call(0);
        job.call(1);
    }
    let after = job.snapshot();
    assert_eq!(after.findings, vec![], "{:#?}", after.findings);
    assert_eq!(after.verdict.state, before.verdict.state);
    assert_eq!(after.job.ranks[1].gpu_at, Some((0, 1)));
}

/// Everything unknown is no fault of anybody.
#[test]
fn gpus_that_tell_nothing_are_silent() {
    let mut job = Job::running();
    let unknown = with(|sample| {
        for gpu in &mut sample.gpus {
            let (index, bus_id) = (gpu.index, gpu.bus_id.take());
            *gpu = unhang::engine::gpu::Gpu {
                index,
                bus_id,
                ..Default::default()
            };
        }
        sample.pairs[0].read = None;
        sample.pairs[0].write = None;
    });
    for _ in 0..10 {
        job.after(1).gpus(unknown.clone());
    }
    assert_eq!(job.snapshot().findings, vec![]);
    assert_eq!(
        job.snapshot()
            .job
            .gpu_of(&job.snapshot().job.ranks[0])
            .and_then(|g| g.means()),
        None
    );
}

/// An idle GPU lowers its PCIe link: that is no finding. Under load it is, once it lasts.
#[test]
fn a_slow_bus_counts_only_under_load() {
    let slow = |busy: u32, carried: u32| {
        with(|sample| {
            let gpu = &mut sample.gpus[1];
            gpu.busy = Some(busy);
            gpu.pcie.generation = Some(1);
            gpu.pcie.sent_kbps = Some(carried);
            gpu.pcie.received_kbps = Some(carried);
        })
    };
    let mut job = Job::running();
    for _ in 0..20 {
        job.after(1).gpus(slow(0, 0));
    }
    assert_eq!(job.finding("GPU011"), None);
    for _ in 0..4 {
        job.after(1).gpus(slow(80, 400_000));
    }
    assert_eq!(job.finding("GPU011"), None);
    job.after(1).gpus(slow(80, 400_000));
    let finding = job.finding("GPU011").expect("a slow bus");
    assert!(
        finding.title.contains("generation 1 x16"),
        "{}",
        finding.title
    );
    assert_eq!(finding.accused.into_iter().collect::<Vec<_>>(), [1]);
    assert_eq!(job.snapshot().verdict.state, State::Degraded);
}

#[test]
fn a_lost_gpu_is_the_cause_and_names_its_rank() {
    let mut job = Job::running();
    job.after(1).gpus(sample());
    job.after(1).gpus(with(|sample| {
        sample.gpus[1].trouble = Some(Trouble::Lost);
        sample.xids.push(Xid { gpu: 1, xid: 79 });
    }));
    let snapshot = job.snapshot();
    assert_eq!(snapshot.verdict.class, Class::GpuHardware);
    assert_eq!(snapshot.verdict.ranks, [1]);
    let finding = &snapshot.findings[0];
    assert_eq!(finding.id, "GPU004");
    assert!(finding.title.contains("Xid 79"), "{}", finding.title);
    assert!(
        finding.fixes[0].text.contains("node-0"),
        "{:?}",
        finding.fixes
    );
    // One matter, one finding.
    assert_eq!(job.finding("GPU005"), None);
}

#[test]
fn an_xid_says_what_it_means_and_whom_it_points_at() {
    let xid = |number| {
        let mut job = Job::running();
        job.after(1).gpus(with(|sample| {
            sample.xids.push(Xid {
                gpu: 0,
                xid: number,
            });
        }));
        // The event is given once and stays known.
        job.after(1).gpus(sample());
        job
    };
    let fault = xid(95).finding("GPU005").expect("a fault");
    assert_eq!((fault.class, fault.role), (Class::GpuHardware, Role::Cause));
    assert!(
        fault.fixes[0].text.contains("reset the GPU"),
        "{:?}",
        fault.fixes
    );
    let program = xid(31);
    assert_eq!(program.finding("GPU005"), None);
    let program = program.finding("GPU006").expect("the program's");
    assert_eq!(
        (program.class, program.role),
        (Class::UserCode, Role::Symptom)
    );
    for harmless in [121, 99_999] {
        let notice = xid(harmless).finding("GPU005").expect("a notice");
        assert_eq!(notice.role, Role::Note, "{harmless}");
    }
}

#[test]
fn a_link_is_down_if_it_was_up_or_its_siblings_are() {
    let down = with(|sample| {
        let links = sample.gpus[0].links.as_mut().expect("links");
        links[2].up = Some(false);
        links[2].mbps = None;
    });
    let mut job = Job::running();
    job.after(1).gpus(down);
    let finding = job.finding("GPU007").expect("a link that is down");
    assert!(
        finding.title.contains("NVLink 2 of GPU 0"),
        "{}",
        finding.title
    );
    assert!(finding.title.contains("3 of 4 are up"), "{}", finding.title);
    assert_eq!(finding.class, Class::NvlinkFabric);
    // Links that lead nowhere on every GPU are how the host is built.
    let mut job = Job::running();
    job.after(1).gpus(with(|sample| {
        for gpu in &mut sample.gpus {
            gpu.links.as_mut().expect("links")[3].up = Some(false);
        }
    }));
    assert_eq!(job.finding("GPU007"), None);
}

#[test]
fn a_link_is_slow_beside_its_siblings() {
    let mut job = Job::running();
    job.after(1).gpus(with(|sample| {
        sample.gpus[1].links.as_mut().expect("links")[0].mbps = Some(12_500);
    }));
    let finding = job.finding("GPU007").expect("a slow link");
    assert!(
        finding.title.contains("12.5 GB/s instead of 26.5 GB/s"),
        "{}",
        finding.title
    );
}

/// Old errors are history; errors that grow are a finding, and a few are not.
#[test]
fn link_errors_count_while_they_grow() {
    let errors = |count: u64| {
        with(|sample| {
            sample.gpus[1].links.as_mut().expect("links")[1].crc_errors = Some(count);
        })
    };
    let mut job = Job::running();
    for _ in 0..10 {
        job.after(1).gpus(errors(5_000));
    }
    job.after(1).gpus(errors(5_001));
    assert_eq!(job.finding("GPU008"), None);
    for count in [5_010, 5_020, 5_030] {
        job.after(1).gpus(errors(count));
    }
    let link = |job: &Job| {
        job.snapshot().job.gpus[0].sample.gpus[1]
            .links
            .as_ref()
            .expect("links")[1]
            .clone()
    };
    assert_eq!(link(&job).new_errors, Some(30));
    let finding = job.finding("GPU008").expect("growing errors");
    assert!(finding.title.contains("30 new errors"), "{}", finding.title);
    // Counters that were not told at first are old errors all the same.
    let mut job = Job::running();
    job.after(1).gpus(with(|sample| {
        let link = &mut sample.gpus[1].links.as_mut().expect("links")[1];
        (link.replays, link.recoveries, link.crc_errors) = (None, None, None);
    }));
    assert_eq!(link(&job).new_errors, None);
    for count in 5_000..5_008 {
        job.after(1).gpus(errors(count));
    }
    assert_eq!(job.finding("GPU008"), None);
    assert_eq!(link(&job).new_errors, Some(7));
}

#[test]
fn p2p_that_somebody_can_allow_is_a_degradation() {
    let p2p = |status| {
        let mut job = Job::running();
        job.after(1)
            .gpus(with(|sample| sample.pairs[0].read = Some(status)));
        job
    };
    let chipset = p2p(P2p::Chipset);
    let finding = chipset.finding("GPU009").expect("no P2P");
    assert_eq!((finding.class, finding.role), (Class::P2p, Role::Cause));
    assert!(finding.title.contains("chipset"), "{}", finding.title);
    assert_eq!(chipset.snapshot().verdict.state, State::Degraded);
    // What these GPUs never can is how they are.
    let consumer = p2p(P2p::Gpu);
    let finding = consumer.finding("GPU009").expect("a note");
    assert_eq!(finding.role, Role::Note);
    assert_ne!(consumer.snapshot().verdict.state, State::Degraded);
}

#[test]
fn a_fabric_that_is_not_ready_is_a_note_where_cuda_came_up() {
    let mut job = Job::running();
    job.after(1).gpus(with(|sample| {
        sample.gpus[0].fabric = Some(Fabric {
            state: FabricState::InProgress,
            ..Fabric::default()
        });
    }));
    let finding = job.finding("GPU010").expect("a note");
    assert_eq!(finding.role, Role::Note);
}

#[test]
fn a_stranger_on_the_gpu_is_told_if_pids_can_be_compared() {
    let running = |pids: &[u32]| {
        let process = |pid: &u32| GpuProcess {
            pid: *pid,
            memory: Some(20 << 30),
            ..GpuProcess::default()
        };
        let mut job = Job::running();
        job.after(1).gpus(with(|sample| {
            sample.gpus[0].processes = Some(pids.iter().map(process).collect());
        }));
        job.finding("GPU012")
    };
    assert_eq!(running(&[100]), None);
    let finding = running(&[100, 4711]).expect("a stranger");
    assert!(
        finding.title.contains("4711 (20480 MiB)"),
        "{}",
        finding.title
    );
    assert_eq!(finding.role, Role::Note);
    // The driver names pids of another namespace.
    assert_eq!(running(&[91_000, 91_001]), None);
}

#[test]
fn full_memory_is_a_note() {
    let mut job = Job::running();
    job.after(1).gpus(with(|sample| {
        sample.gpus[1].memory_used = Some(149_900_000_000);
    }));
    assert_eq!(job.finding("GPU013").expect("a note").role, Role::Note);
}

/// Stopped is a fault once it lasts: "at 9 s not, at 11 s yes".
#[test]
fn a_stopped_process_is_named_once_it_lasts() {
    let mut job = Job::running();
    job.call(0);
    job.after(1).process(1, ProcessState::Stopped);
    job.after(9).process(1, ProcessState::Stopped);
    assert_eq!(job.finding("PROC001"), None);
    job.after(2).process(1, ProcessState::Stopped);
    let snapshot = job.snapshot();
    assert_eq!(
        snapshot.verdict.state,
        State::Hung,
        "{:#?}",
        snapshot.verdict
    );
    assert_eq!(snapshot.verdict.class, Class::MissingRank);
    assert_eq!(snapshot.verdict.ranks, [1]);
    assert_eq!(snapshot.findings[0].id, "PROC001");
    assert!(
        snapshot.findings[0].fixes[0]
            .text
            .contains("kill -CONT 101")
    );
    // It runs again.
    job.after(1).process(1, ProcessState::Running);
    assert_eq!(job.finding("PROC001"), None);
}

/// A process that ended is missed while another one waits for it.
#[test]
fn a_process_that_is_gone_is_named_if_somebody_waits() {
    let spins = |sample: &mut GpuSample| {
        sample.gpus[0].busy = Some(100);
        sample.gpus[0].power_mw = Some(120_000);
    };
    let mut job = Job::running();
    job.after(1).process(0, ProcessState::Running);
    job.process(1, ProcessState::Gone).gpus(with(spins));
    job.after(9).gpus(with(spins));
    assert_ne!(job.snapshot().verdict.class, Class::RankDied);
    job.after(2).gpus(with(spins));
    let snapshot = job.snapshot();
    assert_eq!(
        snapshot.verdict.class,
        Class::RankDied,
        "{:#?}",
        snapshot.verdict
    );
    assert_eq!(snapshot.verdict.ranks, [1]);
    assert_eq!(snapshot.verdict.state, State::Hung);
}

/// At the end of a job all processes go; one may still save a checkpoint while the others are gone.
#[test]
fn processes_that_go_at_the_end_accuse_nobody() {
    let mut job = Job::running();
    job.process(0, ProcessState::Running);
    job.process(1, ProcessState::Gone);
    job.gpus(with(|sample| {
        for gpu in &mut sample.gpus {
            gpu.busy = Some(0);
        }
    }));
    job.after(120);
    assert_eq!(job.finding("DIED001"), None);
    job.process(0, ProcessState::Gone);
    job.after(120);
    assert_eq!(job.finding("DIED001"), None);
}

#[test]
fn the_kernel_says_whom_it_killed() {
    let mut job = Job::running();
    job.after(1)
        .kernel("Out of memory: Killed process 101 (python3) total-vm:1kB, anon-rss:1kB");
    let finding = job.finding("HOST002").expect("the killer");
    assert!(finding.title.contains("101"), "{}", finding.title);
    assert_eq!(finding.class, Class::HostLimits);
    assert_eq!(job.snapshot().job.world_size, Some(2));
}

/// The rules that read Xids in logs and the table that gives them meanings say the same.
#[test]
fn the_kernel_log_and_the_driver_agree_on_xids() {
    for meaning in TABLE {
        let mut job = Job::running();
        job.kernel(&format!(
            "NVRM: Xid (PCI:0000:18:00): {}, pid=100, name=python3, what",
            meaning.xid
        ));
        let fired = |id| job.finding(id).is_some();
        let expected = match meaning.whose {
            Whose::Hardware => (true, false),
            Whose::Program => (false, true),
            Whose::Notice => (false, false),
        };
        assert_eq!(
            (fired("HW001"), fired("HW002")),
            expected,
            "Xid {}",
            meaning.xid
        );
    }
}

//! One rank: goes through the steps and tells its parent on standard output.
//!
//! It ends as soon as its parent does: the kernel kills it (`PR_SET_PDEATHSIG`), and the end of standard
//! input is the second sign.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::check::{self, Check, Differs, Dtype, Reduce};
use super::nccl::{self, Comm, Device, Failed, ID_BYTES};
use super::plan::{Op, Sizes};
use super::protocol::{Event, Step};
use super::tuning;

/// What a child is to do; its only argument, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its rank.
    pub rank: u32,
    /// Ranks in all.
    pub world: u32,
    /// CUDA device.
    pub device: u32,
    /// Operations that are compared with the CPU's answer.
    pub ops: Vec<Op>,
    /// Operations that are timed.
    pub timed: Vec<Op>,
    /// What is timed.
    pub sizes: Sizes,
    /// Whether every operation is compared with the CPU's answer.
    pub correctness: bool,
    /// Ranks that share this GPU: they share its memory.
    pub sharers: u32,
    /// Its parent's pid.
    pub parent: i32,
    /// The libnccl that was chosen for it, to name it where it cannot be loaded.
    pub library: Option<PathBuf>,
    /// For tests of the test: what to do wrong, and in which step.
    pub fault: Option<(Step, Fault)>,
    /// Some rank stops in the middle of a collective: all of them call one that is long enough for it.
    pub long: bool,
}

/// A fault that the child plants in itself, at the beginning of a step where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Stops itself (SIGSTOP).
    Stop,
    /// The same while the GPU runs a collective's kernel; of the step of the checks alone.
    StopMidway,
    /// Kills itself (SIGKILL).
    Kill,
    /// Takes nearly all of the GPU's memory first.
    FillMemory,
}

/// What a GPU whose memory is wrong is said to do; followed by how the memory was written.
pub(super) const WRONG_MEMORY: &str = "the GPU's memory gives back something else than";
/// Seconds that one size is timed for, about.
const TIMED: f64 = 0.15;
/// Calls that one size is timed over, at most.
const CALLS: u32 = 50;

/// Collectives that are enqueued one behind the other to be stopped in, and bytes of each at most.
const LONG: usize = 8;
const LONG_BYTES: u64 = 1 << 30;
/// Between two looks at how far they are.
const LOOK: Duration = Duration::from_millis(1);

/// Runs the steps. Returns false if one failed.
#[must_use]
pub fn run(task: &Task) -> bool {
    if !tie_to_parent(task.parent) {
        return false;
    }
    let result = steps(task);
    if let Err((step, failed)) = &result {
        tell(&Event::Fail {
            step: *step,
            what: failed.what.clone(),
            detail: failed.detail.clone(),
        });
    } else {
        tell(&Event::Done);
    }
    result.is_ok()
}

/// False if the parent has gone already.
fn tie_to_parent(parent: i32) -> bool {
    let tied = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    // It may have ended before the kernel was asked.
    tied.is_err() || nix::unistd::getppid().as_raw() == parent
}

fn tell(event: &Event) {
    let mut out = io::stdout().lock();
    // A parent that is gone hears nothing, and the kernel is about to end this process.
    let _unheard = out
        .write_all(event.to_line().as_bytes())
        .and_then(|()| out.flush());
}

fn fact(name: &str, value: String) {
    tell(&Event::Fact {
        name: name.to_owned(),
        value,
    });
}

type Steps<T> = Result<T, (Step, Failed)>;

/// Runs one step and tells of it.
fn step<T>(task: &Task, step: Step, work: impl FnOnce() -> Result<T, Failed>) -> Steps<T> {
    tell(&Event::Begin(step));
    plant(task, step);
    let done = work().map_err(|failed| (step, failed))?;
    tell(&Event::End(step));
    Ok(done)
}

fn plant(task: &Task, step: Step) {
    use nix::sys::signal::{Signal, raise};
    let signal = match task.fault {
        Some((at, Fault::Stop)) if at == step => Signal::SIGSTOP,
        Some((at, Fault::Kill)) if at == step => Signal::SIGKILL,
        _ => return,
    };
    let _unsent = raise(signal);
}

fn steps(task: &Task) -> Steps<()> {
    step(task, Step::Load, || {
        nccl::load(task.library.as_deref())?;
        fact("nccl", nccl::version()?);
        Ok(())
    })?;
    let mut hog = None;
    let (device, free) = step(task, Step::Device, || {
        let device = Device::open(task.device)?;
        fact("gpu", device.name());
        let (mut free, total) = device.memory()?;
        fact("memory-free", free.to_string());
        fact("memory-total", total.to_string());
        alone(&device)?;
        if let Some((Step::Device, Fault::FillMemory)) = task.fault {
            let most = usize::try_from(free.saturating_sub(64 << 20)).unwrap_or(usize::MAX);
            hog = Some(device.zeros(most)?);
            free = device.memory()?.0;
        }
        Ok((device, free / u64::from(task.sharers.max(1))))
    })?;
    let id = step(task, Step::UniqueId, || unique_id(task))?;
    let comm = step(task, Step::Init, || {
        Comm::init(&device, id, task.rank, task.world)
    })?;
    step(task, Step::First, || first(task, &device, &comm))?;
    if task.correctness {
        step(task, Step::Correctness, || {
            if task.long {
                long(task, &device, &comm, free)?;
            }
            correctness(task, &device, &comm)
        })?;
    }
    if task.sizes != Sizes::None {
        step(task, Step::Bandwidth, || {
            bandwidth(task, &device, &comm, free)
        })?;
    }
    step(task, Step::Destroy, || comm.destroy())?;
    drop(hog);
    Ok(())
}

/// The GPU without any other: what is written must be read, and what it clears itself must be clear.
fn alone(device: &Device) -> Result<(), Failed> {
    let differs = |got: &[u8], expected: &dyn Fn(usize) -> u8, what: &str| {
        let at = (0..got.len()).find(|at| got[*at] != expected(*at));
        at.map_or(Ok(()), |at| {
            let (got, expected) = (got[at], expected(at));
            Err(Failed {
                what: format!(
                    "{WRONG_MEMORY} {what}: byte {at} is {got:#04x}, not {expected:#04x}"
                ),
                detail: None,
            })
        })
    };
    let pattern: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    let mut buffer = device.upload(&pattern)?;
    device.wait()?;
    let back = device.download(&buffer)?;
    device.wait()?;
    differs(&back, &|at| pattern[at], "was written")?;
    device.clear(&mut buffer)?;
    device.wait()?;
    let back = device.download(&buffer)?;
    device.wait()?;
    differs(&back, &|_| 0, "the GPU itself set")
}

/// Rank 0 makes it and tells the parent; the others are told by theirs. What is read behind it is
/// nothing but the end of the parent.
fn unique_id(task: &Task) -> Result<[u8; ID_BYTES], Failed> {
    let wrong = |what: &str| Failed {
        what: what.to_owned(),
        detail: None,
    };
    if task.rank == 0 {
        let id = nccl::unique_id()?;
        tell(&Event::Id(id.iter().map(|b| format!("{b:02x}")).collect()));
    }
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| wrong(&format!("the parent cannot be heard: {error}")))?;
    end_with_parent();
    let line = line.trim();
    let byte = |at: usize| u8::from_str_radix(line.get(at * 2..at * 2 + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..ID_BYTES).map(byte).collect();
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| wrong("the parent gave no unique id"))
}

/// A thread that ends the process with its parent.
fn end_with_parent() {
    std::thread::spawn(|| {
        let mut rest = String::new();
        while io::stdin().lock().read_line(&mut rest).unwrap_or(0) > 0 {
            rest.clear();
        }
        let _unsent = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
    });
}

/// Ones must sum to the number of ranks.
fn first(task: &Task, device: &Device, comm: &Comm<'_>) -> Result<(), Failed> {
    const COUNT: usize = 1024;
    let ones = device.upload(&Dtype::Float32.encode((0..COUNT).map(|_| 1)))?;
    let mut sums = device.zeros(COUNT * 4)?;
    comm.enqueue(
        Op::AllReduce,
        Dtype::Float32,
        Reduce::Sum,
        COUNT,
        &ones,
        &mut sums,
    )?;
    device.wait()?;
    let got = device.download(&sums)?;
    device.wait()?;
    let expected = f64::from(task.world);
    let pair = |at| (Dtype::Float32.decode(&got, at), expected);
    let wrong = Differs::first((0..COUNT).map(pair));
    tell(&Event::Check {
        what: "all-reduce of ones".to_owned(),
        wrong,
    });
    match wrong {
        None => Ok(()),
        Some(Differs {
            element,
            got,
            expected,
        }) => Err(Failed {
            what: format!("the sum of ones is wrong: element {element} is {got}, not {expected}"),
            detail: None,
        }),
    }
}

/// Collectives that take long, one behind the other on the GPU. Once the first is over its connections stand
/// and the next one runs: that is the middle in which a rank with this fault stops.
fn long(task: &Task, device: &Device, comm: &Comm<'_>, free: u64) -> Result<(), Failed> {
    let bytes = (least(device, comm, free)? / 4).clamp(4, LONG_BYTES) / 4 * 4;
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let send = device.zeros(bytes)?;
    let mut recv = device.zeros(bytes)?;
    device.wait()?;
    let mut ends = Vec::new();
    for _ in 0..LONG {
        let count = bytes / 4;
        comm.enqueue(
            Op::AllReduce,
            Dtype::Float32,
            Reduce::Sum,
            count,
            &send,
            &mut recv,
        )?;
        ends.push(device.mark()?);
    }
    if let (Some((Step::Correctness, Fault::StopMidway)), [first, .., last]) = (task.fault, &*ends)
    {
        while !first.is_reached()? {
            std::thread::sleep(LOOK);
        }
        if last.is_reached()? {
            return Err(Failed {
                what: "every collective had ended before it could be stopped in".to_owned(),
                detail: None,
            });
        }
        let words = format!("stopped while the GPU ran an all-reduce of {bytes} bytes");
        fact("planted", words);
        let _unsent = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
    }
    device.wait()
}

/// The free memory of the rank that has the least.
fn least(device: &Device, comm: &Comm<'_>, free: u64) -> Result<u64, Failed> {
    let least = agree(device, comm, -i32::try_from(free >> 20).unwrap_or(i32::MAX))?;
    Ok(u64::from(least.unsigned_abs()) << 20)
}

fn correctness(task: &Task, device: &Device, comm: &Comm<'_>) -> Result<(), Failed> {
    let mut wrong_ones = Vec::new();
    for check in check::checks(&task.ops, task.world) {
        let wrong = compare(task, device, comm, &check)?;
        tell(&Event::Check {
            what: check.name(),
            wrong,
        });
        if wrong.is_some() {
            wrong_ones.push(check.name());
        }
    }
    if wrong_ones.is_empty() {
        return Ok(());
    }
    Err(Failed {
        what: format!("wrong results: {}", wrong_ones.join(", ")),
        detail: None,
    })
}

fn compare(
    task: &Task,
    device: &Device,
    comm: &Comm<'_>,
    check: &Check,
) -> Result<Option<Differs>, Failed> {
    let send = device.upload(&check.input(task.rank, task.world))?;
    let mut recv = device.zeros(check.gets(task.world) * check.dtype.size())?;
    comm.enqueue(
        check.op,
        check.dtype,
        check.reduce,
        check.count,
        &send,
        &mut recv,
    )?;
    device.wait()?;
    let got = device.download(&recv)?;
    device.wait()?;
    Ok(check.first_wrong(task.rank, task.world, &got))
}

/// Times every operation at every size. Ranks agree on the number of calls: the slowest one's word counts.
fn bandwidth(task: &Task, device: &Device, comm: &Comm<'_>, free: u64) -> Result<(), Failed> {
    // Whoever has the least memory decides how far all go.
    let free = least(device, comm, free)?;
    let sizes = task.sizes.bytes(free);
    let Some(most) = sizes.iter().max().copied() else {
        return Ok(());
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let send = device.zeros(most)?;
    let mut recv = device.zeros(most)?;
    let mut log = tuning::Log::open();
    for op in &task.timed {
        for bytes in &sizes {
            let count = elements(*op, *bytes, task.world);
            if count == 0 {
                continue;
            }
            let mut time = |calls: u32| {
                let started = Instant::now();
                for _ in 0..calls {
                    comm.enqueue(*op, Dtype::Float32, Reduce::Sum, count, &send, &mut recv)?;
                }
                device.wait()?;
                Ok(started.elapsed().as_secs_f64() / f64::from(calls))
            };
            // On slow links one call of the largest size takes long, and that is no hang.
            time(1)?;
            tell(&Event::Called);
            let once = time(1)?;
            tell(&Event::Called);
            #[expect(clippy::cast_possible_truncation, reason = "clamped")]
            let calls = (TIMED / once).clamp(1.0, f64::from(CALLS)) as i32;
            let calls = -agree(device, comm, -calls)?;
            log.skip();
            let seconds = time(calls.unsigned_abs().max(1))?;
            tell(&Event::Timed {
                op: *op,
                bytes: *bytes,
                seconds,
                chosen: log.last(),
            });
        }
    }
    Ok(())
}

/// Elements a rank's part has if nccl-tests calls it `bytes`: the whole buffer for all-gather,
/// reduce-scatter and all-to-all.
fn elements(op: Op, bytes: u64, world: u32) -> usize {
    let elements = usize::try_from(bytes / 4).unwrap_or(usize::MAX);
    match op {
        Op::AllGather | Op::ReduceScatter | Op::AllToAll => elements / world.max(1) as usize,
        Op::AllReduce | Op::Broadcast | Op::SendRecv => elements,
    }
}

/// The largest of all ranks' numbers.
fn agree(device: &Device, comm: &Comm<'_>, own: i32) -> Result<i32, Failed> {
    let send = device.upload(&own.to_le_bytes())?;
    let mut recv = device.zeros(4)?;
    comm.enqueue(
        Op::AllReduce,
        Dtype::Int32,
        Reduce::Max,
        1,
        &send,
        &mut recv,
    )?;
    device.wait()?;
    let got = device.download(&recv)?;
    device.wait()?;
    #[expect(clippy::cast_possible_truncation, reason = "an int32")]
    let got = Dtype::Int32.decode(&got, 0) as i32;
    Ok(got)
}

//! What kind of line it is, for lines without NCCL's header. An ordinary line costs a look at its first bytes.

use super::bytes::{number, shaped, split};
use crate::engine::vocab::LineClass;

/// What the writer's lines before this one have begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Block {
    /// Nothing.
    #[default]
    None,
    /// A Python traceback: frames follow.
    Trace,
    /// A traceback's last line was seen: its message may go on.
    Message,
    /// The next line is the rest of the message, whatever it says.
    MessageNext,
    /// torchrun's report of failed processes.
    Report,
}

/// What was taken off the front of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Front {
    /// Nothing that matters here.
    Bare,
    /// PyTorch's log header.
    Logged,
    /// `[rankN]: `, which PyTorch's excepthook puts before every line of an exception.
    Hooked,
}

/// Classifies a line and moves the writer's block on.
pub(super) fn classify(text: &[u8], front: Front, block: &mut Block) -> LineClass {
    let was = *block;
    if front == Front::Logged {
        if is_agent_report(text) {
            *block = Block::None;
            return LineClass::Launcher;
        }
        // The log's message can itself be a traceback's or a stack trace's next line.
        *block = Block::None;
        return LineClass::C10d;
    }
    if was == Block::MessageNext {
        *block = Block::Message;
        return LineClass::Traceback;
    }
    let body = behind_logger(text);
    let trimmed = body.trim_ascii_start();
    let Some(&first) = trimmed.first() else {
        return LineClass::App;
    };
    let indented = trimmed.len() < body.len();
    if was == Block::Report && in_report(trimmed, indented) {
        return LineClass::Launcher;
    }
    if is_trace(first, trimmed, body, block) {
        return LineClass::Traceback;
    }
    if was == Block::Trace {
        if indented {
            return LineClass::Traceback;
        }
        if let Some(name) = exception(trimmed, true) {
            *block = if name.ends_with(b"ChildFailedError") {
                Block::Report
            } else {
                Block::Message
            };
            return LineClass::Traceback;
        }
    }
    if was == Block::Message && (goes_on(trimmed, indented, block) || front == Front::Hooked) {
        return LineClass::Traceback;
    }
    if let Some(name) = exception(trimmed, false).filter(|_| !indented) {
        *block = if name.ends_with(b"ChildFailedError") {
            Block::Report
        } else {
            Block::Message
        };
        return LineClass::Traceback;
    }
    *block = Block::None;
    if is_report(first, trimmed, block) {
        return LineClass::Launcher;
    }
    if first == b'N' && trimmed.starts_with(b"NCCL version ") {
        return LineClass::NcclOther;
    }
    LineClass::App
}

/// True if a line without any prefix can only be the rest of a C++ message that was begun with one.
pub(super) fn continues_cpp(text: &[u8]) -> bool {
    match text.first() {
        Some(b'f') => text.starts_with(b"frame #"),
        Some(b'#') => is_stack_entry(text),
        Some(b'E') => text.starts_with(b"Exception raised from "),
        Some(b'<') => text.starts_with(b"<omitting python frames>"),
        Some(b'.') => text.starts_with(b". This may indicate"),
        _ => false,
    }
}

/// `LEVEL MM-DD HH:MM:SS [file.py:N] ` of vLLM stands in front of tracebacks too.
fn behind_logger(text: &[u8]) -> &[u8] {
    if !matches!(text.first(), Some(b'E' | b'W' | b'I' | b'C')) {
        return text;
    }
    let Some((level, rest)) = split(text, b' ', 10) else {
        return text;
    };
    if !level.iter().all(u8::is_ascii_uppercase) || !shaped(rest, b"00-00 00:00:00 [") {
        return text;
    }
    split(rest, b']', 160).map_or(text, |(_, body)| body.strip_prefix(b" ").unwrap_or(body))
}

/// Shapes that are a trace's wherever they stand.
fn is_trace(first: u8, text: &[u8], body: &[u8], block: &mut Block) -> bool {
    match first {
        b'T' if text.starts_with(b"Traceback (most recent call last)") => {
            *block = Block::Trace;
            true
        }
        b'T' if text.starts_with(b"The above exception was the direct cause") => true,
        b'T' => text.starts_with(b"Thread 0x") && contains(text, b"most recent call first"),
        b'D' => text.starts_with(b"During handling of the above exception"),
        b'F' if text.starts_with(b"File \"") && body.len() > text.len() => {
            if *block != Block::Trace && contains(text, b"\", line ") {
                *block = Block::Trace;
            }
            contains(text, b"\", line ")
        }
        b'F' => text.starts_with(b"Fatal Python error: "),
        b'C' => text.starts_with(b"Current thread 0x"),
        b't' => {
            text.starts_with(b"terminate called after throwing")
                || text.starts_with(b"terminate called without")
        }
        b'w' => text.starts_with(b"what():"),
        b'f' | b'#' | b'E' | b'<' | b'.' => continues_cpp(text),
        _ => false,
    }
}

/// `#0 all_reduce from /path/file.py:3068`.
fn is_stack_entry(text: &[u8]) -> bool {
    text.strip_prefix(b"#")
        .and_then(number)
        .is_some_and(|(_, rest)| rest.starts_with(b" ") && contains(rest, b" from "))
}

/// The name of an exception that begins the line. In a traceback its last line may be any name;
/// elsewhere only what calls itself an error.
fn exception(text: &[u8], in_trace: bool) -> Option<&[u8]> {
    let len = text
        .iter()
        .take(160)
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'.' || **b == b'_')
        .count();
    let (name, rest) = text.split_at(len);
    let ends = rest.is_empty()
        || rest.starts_with(b":") && (rest.len() == 1 || rest[1] == b' ' || rest[1] == b'\n');
    if len == 0 || !ends || !name[0].is_ascii_alphabetic() {
        return None;
    }
    let errs =
        name.ends_with(b"Error") || name.ends_with(b"Exception") || name == b"KeyboardInterrupt";
    let fits = if in_trace {
        true
    } else {
        errs && name.len() > 5 && (rest.starts_with(b":") || name.contains(&b'.'))
    };
    fits.then_some(name)
}

/// The lines that PyTorch's NCCL, Gloo and CUDA errors add to their first.
fn goes_on(text: &[u8], indented: bool, block: &mut Block) -> bool {
    const CUDA: [&[u8]; 5] = [
        b"CUDA kernel errors might be asynchronously reported",
        b"For debugging consider passing CUDA_LAUNCH_BLOCKING",
        b"Compile with `TORCH_USE_CUDA_DSA`",
        b"Search for `cuda",
        b"GPU device may be out of range",
    ];
    if text.starts_with(b"Last error:") || text.starts_with(b"Original exception:") {
        *block = Block::MessageNext;
        return true;
    }
    // `ncclInvalidUsage: …`.
    let nccl = text.starts_with(b"nccl")
        && split(text, b':', 48)
            .is_some_and(|(name, _)| name.iter().all(u8::is_ascii_alphanumeric));
    nccl || indented || CUDA.iter().any(|line| text.starts_with(line))
}

/// What torchrun's agent logs when its processes end.
fn is_agent_report(text: &[u8]) -> bool {
    (text.starts_with(b"failed (exitcode: ") && contains(text, b"local_rank: "))
        || (text.starts_with(b"Sending process ") && contains(text, b" closing signal "))
        || text.starts_with(b"Unable to shutdown process ")
        || (text.starts_with(b"Received ") && contains(text, b" death signal"))
}

/// Lines of torchrun's report, once it has begun.
fn in_report(text: &[u8], indented: bool) -> bool {
    if indented {
        return true;
    }
    let rule = |b: u8| text.len() >= 20 && text.iter().all(|c| *c == b);
    let heading = text == b"Failures:"
        || text == b"Root Cause (first observed failure):"
        || text.ends_with(b" FAILED")
        || text.ends_with(b" FAILED ");
    let entry = text
        .strip_prefix(b"[")
        .and_then(number)
        .is_some_and(|(_, rest)| rest == b"]:");
    rule(b'=')
        || rule(b'-')
        || rule(b'*')
        || heading
        || entry
        || text.starts_with(b"<NO_OTHER_FAILURES>")
}

/// Reports that launchers, schedulers and runtimes print by themselves.
fn is_report(first: u8, text: &[u8], block: &mut Block) -> bool {
    let starts = |list: &[&[u8]]| list.iter().any(|p| text.starts_with(p));
    match first {
        b's' => starts(&[b"srun: ", b"slurmstepd: ", b"sbatch: "]),
        b'm' => starts(&[
            b"mpirun noticed ",
            b"mpirun detected ",
            b"mpirun has ",
            b"mpirun: ",
            b"mpiexec noticed ",
            b"mpiexec has ",
            b"mpiexec: ",
        ]),
        b'p' => starts(&[
            b"prterun noticed ",
            b"prterun detected ",
            b"prterun has ",
            b"prterun was ",
        ]),
        b'M' => starts(&[b"MPI_ABORT was invoked"]),
        b'P' => starts(&[
            b"Primary job  terminated",
            b"Primary job terminated",
            b"PRTE has lost communication",
            b"Process name: [[",
        ]),
        b'O' => starts(&[b"ORTE has lost communication", b"OOMKilled"]),
        b'=' => {
            text.len() >= 20 && text.iter().all(|b| *b == b'=')
                || contains(
                    text,
                    b"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
                )
                || starts(&[
                    b"=   PID ",
                    b"=   EXIT CODE:",
                    b"=   KILLED BY SIGNAL",
                    b"=   CLEANING UP",
                    b"=   RANK ",
                ])
        }
        b'-' => text.len() >= 60 && text.iter().all(|b| *b == b'-'),
        b'Y' => starts(&[b"YOUR APPLICATION TERMINATED WITH"]),
        b'B' => starts(&[b"Back-off restarting failed container"]),
        b'A' => starts(&[b"A worker died or was killed while executing"]),
        b'T' => starts(&[b"The actor died", b"The node with node id"]),
        b'R' => {
            let root = starts(&[b"Root Cause (first observed failure)"]);
            if root {
                *block = Block::Report;
            }
            root
        }
        b'r' => text.starts_with(b"rank      : ") && contains(text, b"(local_rank: "),
        b'e' => text.starts_with(b"exitcode  : "),
        b'f' => is_agent_report(text),
        b'S' => is_agent_report(text),
        b'[' => bracketed_report(text),
        b'<' => [&b"<mpirun>"[..], b"</mpirun>", b"<prterun>", b"</prterun>"].contains(&text),
        b'0'..=b'9' => is_ray_log(text),
        _ => false,
    }
}

/// `[host:pid] *** Process received signal ***`, `[host:pid] PMIX ERROR…`, DeepSpeed's launcher, and Slurm's
/// or torchrun's agents with a stamp.
fn bracketed_report(text: &[u8]) -> bool {
    let Some((inside, rest)) = split(&text[1..], b']', 128) else {
        return false;
    };
    if split(inside, b':', 128)
        .is_some_and(|(_, pid)| number(pid).is_some_and(|(_, r)| r.is_empty()))
    {
        return rest.starts_with(b" *** ")
            || rest.starts_with(b" PMIX ERROR")
            || rest.starts_with(b" [ ")
            || rest.starts_with(b" PRTE ERROR");
    }
    shaped(inside, b"0000-00-00 00:00:00") && contains(rest, b"[launch.py:")
}

/// `2026-11-30 19:58:07,814\tINFO worker.py:2038 -- `.
fn is_ray_log(text: &[u8]) -> bool {
    shaped(text, b"0000-00-00 00:00:00,000\t") && contains(&text[..text.len().min(160)], b" -- ")
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    memchr::memmem::find(text, what).is_some()
}

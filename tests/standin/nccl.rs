//! A stand-in for NCCL: collectives over files in a folder, right unless told to be wrong.
//!
//! `UNHANG_STANDIN_DIR` is the folder; `UNHANG_STANDIN` lists faults: `hang-id`, `hang-init`, `hang-first`,
//! `fail-init`, `crash-init`, `wrong-sum`, `wrong-wire` (what is received from another rank), `nan` and
//! `late-nan` (a sum that is no number, at once or after the first all-reduce), `noise`, `slow`,
//! `slow-timing` (a second for every call after the checks), `old-tuning` (lines of 2.22), `no-tuning`; `fail-init@NCCL_X` is one only where `NCCL_X` is set, and
//! `fail-link-0-2` fails between those two GPUs. Built by `tests/selftest.rs`.

#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

type Code = c_int;
const OK: Code = 0;

/// A rank of the one communicator.
struct Comm {
    rank: usize,
    ranks: usize,
    calls: usize,
    /// In front of the names of its files: runs share the folder.
    run: u32,
}

thread_local! {
    /// Sends and receives of the open group: (comm, to or from, address, bytes).
    static GROUP: RefCell<Vec<(usize, bool, usize, usize, usize)>> = const { RefCell::new(Vec::new()) };
}

fn asked(what: &str) -> bool {
    let is_it = |fault: &str| match fault.split_once('@') {
        Some((fault, variable)) => fault == what && std::env::var_os(variable).is_some(),
        None => fault == what,
    };
    std::env::var("UNHANG_STANDIN").is_ok_and(|faults| faults.split(',').any(is_it))
}

fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os("UNHANG_STANDIN_DIR").expect("a folder"))
}

fn log(rank: usize, text: &str) {
    let Some(path) = std::env::var_os("NCCL_DEBUG_FILE") else { return };
    let Ok(mut file) = fs::OpenOptions::new().create(true).append(true).open(path) else { return };
    let pid = std::process::id();
    // As NCCL writes it: up to the first dot.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().split('.').next().unwrap_or_default();
    let _ = writeln!(file, "{host}:{pid}:{pid} [{rank}] NCCL {text}");
}

/// Hands in a part and waits for another's.
fn put(name: &str, bytes: &[u8]) {
    let path = folder().join(name);
    let part = path.with_extension(format!("part{}", std::process::id()));
    fs::write(&part, bytes).expect("a part");
    fs::rename(part, path).expect("a name");
}

fn get(name: &str) -> Vec<u8> {
    loop {
        if let Ok(bytes) = fs::read(folder().join(name)) {
            return bytes;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> Code {
    unsafe { *version = 22809 };
    OK
}
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(code: Code) -> *const c_char {
    match code {
        2 => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        _ => c"internal error",
    }
    .as_ptr()
}
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_: *mut c_void) -> *const c_char {
    c"Bootstrap : no socket interface found".as_ptr()
}

#[repr(C)]
pub struct Id([u8; 128]);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetUniqueId(id: *mut Id) -> Code {
    if asked("hang-id") {
        hang();
    }
    unsafe {
        (*id).0 = [7; 128];
        (&mut (*id).0)[..4].copy_from_slice(&std::process::id().to_le_bytes());
    }
    OK
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRank(
    comm: *mut *mut c_void,
    ranks: c_int,
    id: Id,
    rank: c_int,
) -> Code {
    let (rank, ranks) = (rank as usize, ranks as usize);
    assert_eq!(id.0[4..], [7; 124], "the id came through");
    let run = u32::from_le_bytes(id.0[..4].try_into().unwrap());
    if asked("noise") {
        print!("\u{1b}]0;hello\u{7}@unhang {{ this is no event\n@unhang {{\"begin\":\"nothing\"}}\n");
        println!("{}", "x".repeat(300_000));
    }
    log(rank, "INFO Bootstrap: Using eth0:10.0.0.1<0>");
    log(rank, &format!("INFO ncclCommInitRank comm 0x55 rank {rank} nranks {ranks} cudaDev 0 nvmlDev 0 busId 1000 commId 0x77 - Init START"));
    if asked("hang-init") {
        hang();
    }
    if asked("crash-init") {
        std::process::abort();
    }
    if asked("fail-init") {
        log(rank, "WARN Bootstrap : no socket interface found");
        return 2;
    }
    let device = std::env::var("UNHANG_STANDIN_DEVICE").unwrap_or_default();
    put(&format!("{run}.init.{rank}"), device.as_bytes());
    let devices: Vec<String> = (0..ranks)
        .map(|other| String::from_utf8(get(&format!("{run}.init.{other}"))).unwrap())
        .collect();
    if asked(&format!("fail-link-{}", devices.join("-"))) {
        log(rank, "WARN Cuda failure 217 'peer access is not supported between these two devices'");
        return 1;
    }
    let next = (rank + 1) % ranks;
    log(rank, &format!("INFO Channel 00/0 : {rank}[0] -> {next}[0] [send] via NET/Socket/0"));
    log(rank, &format!("INFO ncclCommInitRank comm 0x55 rank {rank} nranks {ranks} cudaDev 0 nvmlDev 0 busId 1000 commId 0x77 - Init COMPLETE"));
    let made = Box::new(Comm { rank, ranks, calls: 0, run });
    unsafe { *comm = Box::into_raw(made).cast() };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommDestroy(comm: *mut c_void) -> Code {
    drop(unsafe { Box::from_raw(comm.cast::<Comm>()) });
    OK
}

/// Every rank's part of this call, by rank.
unsafe fn exchange(comm: *mut c_void, part: &[u8]) -> (Vec<Vec<u8>>, usize) {
    let comm = unsafe { &mut *comm.cast::<Comm>() };
    if asked("hang-first") {
        hang();
    }
    if asked("slow") {
        std::thread::sleep(Duration::from_millis(20));
    }
    let call = comm.calls;
    comm.calls += 1;
    // The first all-reduce and twelve checks.
    if asked("slow-timing") && call > 12 {
        std::thread::sleep(Duration::from_secs(1));
    }
    let run = comm.run;
    put(&format!("{run}.{call}.{}", comm.rank), part);
    let parts = (0..comm.ranks).map(|rank| get(&format!("{run}.{call}.{rank}"))).collect();
    // Whoever reached this call has read everything of the one before the last.
    if call >= 2 {
        let _ = fs::remove_file(folder().join(format!("{run}.{}.{}", call - 2, comm.rank)));
    }
    (parts, comm.rank)
}

fn size(kind: c_int) -> usize {
    if kind == 9 { 2 } else { 4 }
}

fn number(kind: c_int, bytes: &[u8]) -> f64 {
    match kind {
        2 => f64::from(i32::from_le_bytes(bytes.try_into().unwrap())),
        7 => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
        _ => f64::from(f32::from_le_bytes([0, 0, bytes[0], bytes[1]])),
    }
}

fn bytes(kind: c_int, value: f64) -> Vec<u8> {
    match kind {
        2 => (value as i32).to_le_bytes().to_vec(),
        7 => (value as f32).to_le_bytes().to_vec(),
        _ => (value as f32).to_le_bytes()[2..].to_vec(),
    }
}

fn reduce(parts: &[Vec<u8>], kind: c_int, op: c_int) -> Vec<u8> {
    let n = size(kind);
    let mut out = Vec::with_capacity(parts[0].len());
    for at in (0..parts[0].len()).step_by(n) {
        let values = parts.iter().map(|part| number(kind, &part[at..at + n]));
        let value = if op == 2 { values.fold(f64::MIN, f64::max) } else { values.sum() };
        out.extend(bytes(kind, value));
    }
    if asked("wrong-sum") && out.len() > 8192 {
        out[n - 1] ^= 0x41;
    }
    if kind != 2 && (asked("nan") || asked("late-nan") && out.len() > 8192) {
        out[..n].fill(0xff);
    }
    out
}

unsafe fn read<'a>(from: *const c_void, n: usize) -> &'a [u8] {
    unsafe { std::slice::from_raw_parts(from.cast(), n) }
}

unsafe fn write(to: *mut c_void, bytes: &[u8]) {
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len()) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclAllReduce(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    kind: c_int,
    op: c_int,
    comm: *mut c_void,
    _: *mut c_void,
) -> Code {
    let (parts, rank) = unsafe { exchange(comm, read(from, count * size(kind))) };
    let bytes = count * size(kind);
    // As rank 0 of NCCL 2.24 and later prints it, or of those before.
    if rank == 0 && asked("old-tuning") {
        log(rank, &format!("INFO {bytes} Bytes -> Algo 0 proto 1 time 9.5"));
    } else if rank == 0 && !asked("no-tuning") {
        log(rank, &format!("INFO AllReduce: {bytes} Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..1}}"));
    }
    unsafe { write(to, &reduce(&parts, kind, op)) };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclReduceScatter(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    kind: c_int,
    op: c_int,
    comm: *mut c_void,
    _: *mut c_void,
) -> Code {
    let n = count * size(kind);
    let ranks = unsafe { (*comm.cast::<Comm>()).ranks };
    let (parts, rank) = unsafe { exchange(comm, read(from, n * ranks)) };
    let own: Vec<Vec<u8>> = parts.iter().map(|p| p[rank * n..(rank + 1) * n].to_vec()).collect();
    unsafe { write(to, &reduce(&own, kind, op)) };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclAllGather(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    kind: c_int,
    comm: *mut c_void,
    _: *mut c_void,
) -> Code {
    let (parts, _) = unsafe { exchange(comm, read(from, count * size(kind))) };
    unsafe { write(to, &parts.concat()) };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclBroadcast(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    kind: c_int,
    root: c_int,
    comm: *mut c_void,
    _: *mut c_void,
) -> Code {
    let (parts, _) = unsafe { exchange(comm, read(from, count * size(kind))) };
    unsafe { write(to, &parts[root as usize]) };
    OK
}
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupStart() -> Code {
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclSend(
    from: *const c_void,
    count: usize,
    kind: c_int,
    peer: c_int,
    comm: *mut c_void,
    _: *mut c_void,
) -> Code {
    let call = (comm as usize, true, peer as usize, from as usize, count * size(kind));
    GROUP.with_borrow_mut(|group| group.push(call));
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclRecv(
    to: *mut c_void,
    count: usize,
    kind: c_int,
    peer: c_int,
    comm: *mut c_void,
    _: *mut c_void,
) -> Code {
    let call = (comm as usize, false, peer as usize, to as usize, count * size(kind));
    GROUP.with_borrow_mut(|group| group.push(call));
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGroupEnd() -> Code {
    let group = GROUP.take();
    let Some((comm, ..)) = group.first().copied() else { return OK };
    let ranks = unsafe { (*(comm as *mut Comm)).ranks };
    // For each peer its length, then its bytes.
    let mut part = Vec::new();
    for peer in 0..ranks {
        let sent = group.iter().find(|(_, sends, to, ..)| *sends && *to == peer);
        let bytes = sent.map_or(&[][..], |(_, _, _, at, n)| unsafe { read(*at as *const c_void, *n) });
        part.extend((bytes.len() as u64).to_le_bytes());
        part.extend(bytes);
    }
    let (parts, rank) = unsafe { exchange(comm as *mut c_void, &part) };
    for (_, _, peer, at, n) in group.iter().filter(|(_, sends, ..)| !sends) {
        let mut rest = &parts[*peer][..];
        for to in 0..=rank {
            let (len, after) = rest.split_at(8);
            let len = u64::from_le_bytes(len.try_into().unwrap()) as usize;
            if to == rank {
                unsafe { write(*at as *mut c_void, &after[..len.min(*n)]) };
                if asked("wrong-wire") && *peer != rank {
                    unsafe { *(*at as *mut u8) ^= 1 };
                }
            }
            rest = &after[len..];
        }
    }
    OK
}

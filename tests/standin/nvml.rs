//! A stand-in for NVML: GPUs that are what a file says.
//!
//! The file ($UNHANG_STANDIN_NVML) is read at every call, so that a test can change it while a sampler
//! looks. One `key=value` a line; `1.busy=100` is of GPU 1, `busy=100` of every other one. A key that is
//! not there has the value of a healthy, idle GPU; `none` as value: not supported; `grow`: more at every look. Built with
//! `rustc --crate-type cdylib`.

#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

type Code = c_uint;
type Device = *mut c_void;
const OK: Code = 0;
const INVALID: Code = 2;
const NOT_SUPPORTED: Code = 3;
const NOT_FOUND: Code = 6;
const TOO_SMALL: Code = 7;
const TIMEOUT: Code = 10;
const LOST: Code = 15;

/// Events that were given, by GPU: each value of the key is one event.
static GIVEN: LazyLock<Mutex<HashMap<usize, String>>> = LazyLock::new(Mutex::default);

static GROWS: AtomicU64 = AtomicU64::new(20);

fn keys() -> HashMap<String, String> {
    let path = std::env::var("UNHANG_STANDIN_NVML").unwrap_or_default();
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned())).collect()
}

fn number(device: Device) -> usize {
    device as usize - 1
}

/// A key of a GPU.
fn get(device: Device, key: &str) -> Option<String> {
    let keys = keys();
    let own = keys.get(&format!("{}.{key}", number(device)));
    own.or_else(|| keys.get(key)).cloned()
}

/// What every call about a GPU begins with.
fn state(device: Device) -> Result<(), Code> {
    match get(device, "state").as_deref() {
        Some("lost") => Err(LOST),
        Some("hang") => loop {
            std::thread::park();
        },
        _ => Ok(()),
    }
}

/// A number; `usual` if the file has none.
fn value(device: Device, key: &str, usual: u64) -> Result<u64, Code> {
    state(device)?;
    match get(device, key).or_else(|| get(device, "values")).as_deref() {
        None => Ok(usual),
        // Errors that go on: more at every look.
        Some("grow") => Ok(GROWS.fetch_add(20, Ordering::Relaxed)),
        Some(text) => text.parse().map_err(|_| NOT_SUPPORTED),
    }
}

unsafe fn give<T: TryFrom<u64>>(to: *mut T, value: Result<u64, Code>) -> Code {
    match value.map(T::try_from) {
        Ok(Ok(value)) => {
            unsafe { *to = value };
            OK
        }
        Ok(Err(_)) => NOT_SUPPORTED,
        Err(code) => code,
    }
}

unsafe fn text(to: *mut c_char, len: usize, text: &str) -> Code {
    let bytes = text.bytes().take(len - 1).chain([0]);
    for (at, byte) in bytes.enumerate() {
        unsafe { *to.add(at) = byte as c_char };
    }
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Code {
    OK
}
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Code {
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, len: c_uint) -> Code {
    unsafe { text(to, len as usize, "580.65.06") }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(to: *mut c_int) -> Code {
    unsafe { *to = 13_000 };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(to: *mut c_uint) -> Code {
    let count = keys().get("gpus").and_then(|n| n.parse().ok());
    unsafe { *to = count.unwrap_or(2) };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, to: *mut Device) -> Code {
    let device = (index as usize + 1) as Device;
    unsafe { *to = device };
    state(device).err().unwrap_or(OK)
}

#[repr(C)]
pub struct Pci {
    legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    id: c_uint,
    sub: c_uint,
    bus_id: [c_char; 32],
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: Device, to: *mut Pci) -> Code {
    if let Err(code) = state(device) {
        return code;
    }
    let bus = 0x18 + number(device) * 0x10;
    let to = unsafe { &mut *to };
    to.bus = bus as c_uint;
    unsafe { text(to.bus_id.as_mut_ptr(), 32, &format!("00000000:{bus:02X}:00.0")) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: Device, to: *mut c_char, len: c_uint) -> Code {
    unsafe { text(to, len as usize, &format!("GPU-stand-in-{}", number(device))) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: Device, to: *mut c_char, len: c_uint) -> Code {
    match state(device) {
        Ok(()) => unsafe { text(to, len as usize, "NVIDIA Stand-in") },
        Err(code) => code,
    }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(device: Device, to: *mut [c_uint; 2]) -> Code {
    unsafe { give(&mut (*to)[0], value(device, "busy", 0)) }
}

macro_rules! numbers {
    ($($call:ident($($arg:ident),*) $key:literal $usual:literal;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $call(device: Device $(, $arg: c_uint)*, to: *mut c_uint) -> Code {
            $(let _ = $arg;)*
            unsafe { give(to, value(device, $key, $usual)) }
        }
    )*};
}
numbers! {
    nvmlDeviceGetPowerUsage() "power" 75_000;
    nvmlDeviceGetEnforcedPowerLimit() "limit" 700_000;
    nvmlDeviceGetTemperature(_sensor) "temperature" 31;
    nvmlDeviceGetTemperatureThreshold(_kind) "slowdown" 87;
    nvmlDeviceGetClockInfo(_kind) "clock" 1980;
    nvmlDeviceGetMaxClockInfo(_kind) "clock_max" 1980;
    nvmlDeviceGetCurrPcieLinkGeneration() "pcie" 5;
    nvmlDeviceGetMaxPcieLinkGeneration() "pcie_max" 5;
    nvmlDeviceGetCurrPcieLinkWidth() "width" 16;
    nvmlDeviceGetMaxPcieLinkWidth() "width_max" 16;
    nvmlDeviceGetPcieThroughput(_way) "carried" 0;
    nvmlDeviceGetPcieReplayCounter() "pcie_replays" 0;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    device: Device,
    to: *mut c_ulonglong,
) -> Code {
    unsafe { give(to, value(device, "throttle", 1)) }
}

#[repr(C)]
pub struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, to: *mut Memory) -> Code {
    let to = unsafe { &mut *to };
    to.total = 150_000_000_000;
    unsafe { give(&mut to.used, value(device, "used", 1_000_000_000)) }
}

/// `name.4711=/usr/bin/python3 train.py`; what has no name is not found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetProcessName(pid: c_uint, to: *mut c_char, len: c_uint) -> Code {
    match keys().get(&format!("name.{pid}")) {
        Some(name) => unsafe { text(to, len as usize, name) },
        None => NOT_FOUND,
    }
}

#[repr(C)]
pub struct Process {
    pid: c_uint,
    memory: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Device,
    count: *mut c_uint,
    to: *mut Process,
) -> Code {
    if let Err(code) = value(device, "running", 0) {
        return code;
    }
    let pids = get(device, "pids").unwrap_or_default();
    let pids: Vec<c_uint> = pids.split_whitespace().filter_map(|p| p.parse().ok()).collect();
    let room = unsafe { *count } as usize;
    unsafe { *count = pids.len() as c_uint };
    if pids.len() > room {
        return TOO_SMALL;
    }
    for (at, pid) in pids.into_iter().enumerate() {
        let process = Process {
            pid,
            memory: 4 << 30,
            gpu_instance: c_uint::MAX,
            compute_instance: c_uint::MAX,
        };
        unsafe { to.add(at).write(process) };
    }
    OK
}

const LINKS: u64 = 4;
fn link(device: Device, link: c_uint, what: &str, usual: u64) -> Result<u64, Code> {
    if u64::from(link) >= value(device, "links", LINKS)? {
        return Err(INVALID);
    }
    value(device, &format!("link{link}.{what}"), usual)
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(d: Device, l: c_uint, to: *mut c_uint) -> Code {
    unsafe { give(to, link(d, l, "up", 1)) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkVersion(d: Device, l: c_uint, to: *mut c_uint) -> Code {
    unsafe { give(to, link(d, l, "version", 4)) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    d: Device,
    l: c_uint,
    to: *mut Pci,
) -> Code {
    if let Err(code) = link(d, l, "remote", 0) {
        return code;
    }
    unsafe { text((*to).bus_id.as_mut_ptr(), 32, "00000000:07:00.0") }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkErrorCounter(
    d: Device,
    l: c_uint,
    counter: c_uint,
    to: *mut c_ulonglong,
) -> Code {
    let key = ["replays", "recoveries", "crc_flit", "crc_data"][counter as usize % 4];
    unsafe { give(to, link(d, l, key, 0)) }
}

#[repr(C)]
pub struct Field {
    field: c_uint,
    scope: c_uint,
    stamp: i64,
    latency: i64,
    kind: c_uint,
    code: Code,
    value: c_ulonglong,
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: Device,
    count: c_int,
    fields: *mut Field,
) -> Code {
    for at in 0..count as usize {
        let field = unsafe { &mut *fields.add(at) };
        let result = match field.field {
            142..=145 => value(device, "remapped", 0),
            164 => link(device, field.scope, "mbps", 26_562),
            _ => Err(NOT_SUPPORTED),
        };
        field.kind = 1;
        field.code = result.err().unwrap_or(OK);
        field.value = result.unwrap_or(0);
    }
    OK
}

#[repr(C)]
pub struct Fabric {
    version: c_uint,
    cluster: [u8; 16],
    status: c_uint,
    clique: c_uint,
    state: u8,
    mask: c_uint,
    summary: u8,
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuFabricInfoV(device: Device, to: *mut Fabric) -> Code {
    let to = unsafe { &mut *to };
    if to.version & 0x00ff_ffff != size_of::<Fabric>() as c_uint {
        return 25;
    }
    let state = value(device, "fabric", 3);
    unsafe { give(&mut to.state, state) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(d: Device, now: *mut c_uint, then: *mut c_uint) -> Code {
    unsafe { *then = 0 };
    unsafe { give(now, value(d, "mig", 0)) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetEccMode(d: Device, now: *mut c_uint, then: *mut c_uint) -> Code {
    unsafe { *then = 1 };
    unsafe { give(now, value(d, "ecc", 1)) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: Device,
    _: c_uint,
    _: c_uint,
    to: *mut c_ulonglong,
) -> Code {
    unsafe { give(to, value(device, "ecc_errors", 0)) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetP2PStatus(
    a: Device,
    b: Device,
    kind: c_uint,
    to: *mut c_uint,
) -> Code {
    if let Err(code) = state(b) {
        return code;
    }
    // One key for all kinds, and one for each.
    let kind = ["read", "write", "nvlink", "atomics", "pci"][kind as usize % 5];
    let of_kind = format!("p2p.{kind}");
    let key = if get(a, &of_kind).is_some() { &of_kind } else { "p2p" };
    unsafe { give(to, value(a, key, 0)) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    a: Device,
    _: Device,
    to: *mut c_uint,
) -> Code {
    unsafe { give(to, value(a, "path", 50)) }
}

#[repr(C)]
pub struct Event {
    device: Device,
    kind: c_ulonglong,
    data: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}
/// A set is its GPU's handle, in a box that never goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetCreate(to: *mut *mut Device) -> Code {
    unsafe { *to = Box::leak(Box::new(std::ptr::null_mut())) };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceRegisterEvents(
    device: Device,
    _: c_ulonglong,
    set: *mut Device,
) -> Code {
    unsafe { *set = device };
    OK
}
#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(_: *mut Device) -> Code {
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetWait_v2(set: *mut Device, to: *mut Event, ms: c_uint) -> Code {
    let device = unsafe { *set };
    let until = Instant::now() + Duration::from_millis(u64::from(ms));
    loop {
        if let Some(xid) = get(device, "xid") {
            let mut given = GIVEN.lock().unwrap();
            if given.insert(number(device), xid.clone()).as_ref() != Some(&xid) {
                let event = Event {
                    device,
                    kind: 8,
                    data: xid.parse().unwrap_or(0),
                    gpu_instance: c_uint::MAX,
                    compute_instance: c_uint::MAX,
                };
                unsafe { to.write(event) };
                return OK;
            }
        }
        if Instant::now() >= until {
            return TIMEOUT;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

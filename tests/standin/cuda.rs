//! A stand-in for the CUDA driver: a GPU whose memory is the host's and whose streams are synchronous.
//!
//! Only what a self-test's child calls. Built by `tests/selftest.rs` with `rustc --crate-type cdylib`.

#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex};

type Code = c_int;
const OK: Code = 0;
const OUT_OF_MEMORY: Code = 2;
const NOT_READY: Code = 600;

static ASKED: AtomicBool = AtomicBool::new(false);
static BLOCKS: LazyLock<Mutex<HashMap<u64, Layout>>> = LazyLock::new(Mutex::default);

fn asked(what: &str) -> bool {
    std::env::var("UNHANG_STANDIN").is_ok_and(|faults| faults.split(',').any(|f| f == what))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_: c_uint) -> Code {
    if asked("hang-driver") {
        loop {
            std::thread::park();
        }
    }
    // CUDA_ERROR_SYSTEM_NOT_READY
    if asked("error-802") { 802 } else { OK }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Code {
    // The stand-in for NCCL reads it; no other thread runs yet.
    unsafe { std::env::set_var("UNHANG_STANDIN_DEVICE", ordinal.to_string()) };
    unsafe { *device = ordinal };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    unsafe { *count = 8 };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, _: c_int) -> Code {
    for (at, byte) in b"Stand-in GPU\0".iter().enumerate().take(len as usize) {
        unsafe { *name.add(at) = *byte as c_char };
    }
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, _: c_int, _: c_int) -> Code {
    unsafe { *value = 0 };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, _: c_int) -> Code {
    unsafe { *context = 8 as *mut c_void };
    OK
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(_: c_int) -> Code {
    OK
}
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(_: *mut c_void) -> Code {
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut *mut c_void) -> Code {
    unsafe { *context = 8 as *mut c_void };
    OK
}
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> Code {
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut *mut c_void, _: c_uint) -> Code {
    unsafe { *stream = 16 as *mut c_void };
    OK
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(_: *mut c_void) -> Code {
    OK
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(_: *mut c_void) -> Code {
    OK
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(_: *mut c_void, _: *mut c_void, _: c_uint) -> Code {
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut *mut c_void, _: c_uint) -> Code {
    unsafe { *event = 24 as *mut c_void };
    OK
}
#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(_: *mut c_void) -> Code {
    OK
}
#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(_: *mut c_void, _: *mut c_void) -> Code {
    OK
}
/// Streams are synchronous here. Whoever asks is told what a GPU says in the middle of its work: the first
/// event is over, a later one is not.
#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(_: *mut c_void) -> Code {
    if ASKED.swap(true, Ordering::Relaxed) { NOT_READY } else { OK }
}
#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(_: *mut c_void) -> Code {
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code {
    unsafe {
        *free = 64 << 20;
        *total = 128 << 20;
    }
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> Code {
    let device = std::env::var("UNHANG_STANDIN_DEVICE").unwrap_or_default();
    if asked("memory-full") || asked(&format!("memory-full-of-{device}")) {
        return OUT_OF_MEMORY;
    }
    let layout = Layout::from_size_align(bytes.max(1), 256).unwrap();
    let block = unsafe { alloc_zeroed(layout) } as u64;
    BLOCKS.lock().unwrap().insert(block, layout);
    unsafe { *address = block };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, bytes: usize, _: *mut c_void) -> Code {
    unsafe { cuMemAlloc_v2(address, bytes) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(address: u64) -> Code {
    if let Some(layout) = BLOCKS.lock().unwrap().remove(&address) {
        unsafe { dealloc(address as *mut u8, layout) };
    }
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeAsync(address: u64, _: *mut c_void) -> Code {
    unsafe { cuMemFree_v2(address) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    n: usize,
    _: *mut c_void,
) -> Code {
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to as *mut u8, n) };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    n: usize,
    _: *mut c_void,
) -> Code {
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.cast::<u8>(), n) };
    if asked("bad-memory") && n > 4096 {
        unsafe { *to.cast::<u8>().add(4096) ^= 0x10 };
    }
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(to: u64, value: u8, n: usize, _: *mut c_void) -> Code {
    unsafe { std::ptr::write_bytes(to as *mut u8, value, n) };
    if asked("bad-memset") && n > 4096 {
        unsafe { *(to as *mut u8).add(4096) = 1 };
    }
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(_: Code, text: *mut *const c_char) -> Code {
    unsafe { *text = c"CUDA_ERROR_STANDIN".as_ptr() };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: Code, text: *mut *const c_char) -> Code {
    let words = match code {
        OUT_OF_MEMORY => c"out of memory",
        802 => c"system not yet initialized",
        _ => c"unknown error",
    };
    unsafe { *text = words.as_ptr() };
    OK
}

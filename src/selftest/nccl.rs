//! CUDA and NCCL: the one module that calls foreign code.
//!
//! Only a self-test's child runs it. A library that misbehaves takes the child down and nothing else; the
//! parent then says which step it was in.

#![expect(
    unsafe_code,
    reason = "NCCL and the driver are C libraries; nothing outside this module touches them"
)]

use std::ffi::{CStr, CString, c_int};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, DevicePtrMut};
use cudarc::nccl::result::NcclStatus;
use cudarc::nccl::sys;
use nix::libc;

use super::check::{Dtype, Reduce};
use super::plan::Op;

/// Bytes of a unique id (`NCCL_UNIQUE_ID_BYTES`).
pub(super) const ID_BYTES: usize = 128;

/// What failed, in NCCL's or the driver's words.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) what: String,
    pub(super) detail: Option<String>,
}

impl Failed {
    /// In the form that NCCL and PyTorch print, so that the same rules read it.
    fn driver(what: &str, error: &cudarc::driver::DriverError) -> Self {
        let code = error.0 as u32;
        let words = error.error_string().map(CStr::to_string_lossy);
        let words = words.unwrap_or_else(|_| format!("{:?}", error.0).into());
        Self::plain(format!("{what}: Cuda failure {code} '{words}'"))
    }

    fn plain(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            detail: None,
        }
    }
}

/// Both libraries are there, or which one is not, with the loader's own reason. Asked before anything else:
/// cudarc panics otherwise.
pub(super) fn load(library: Option<&Path>) -> Result<(), Failed> {
    // SAFETY: opens libcuda and closes it again; its constructors run as in any CUDA program.
    if !unsafe { cudarc::driver::sys::is_culib_present() } {
        return Err(Failed {
            what: "no NVIDIA driver here: libcuda.so.1 cannot be loaded".to_owned(),
            detail: why_not("libcuda.so.1"),
        });
    }
    // SAFETY: the same for libnccl.
    if !unsafe { sys::is_culib_present() } {
        let name = library.map_or("libnccl.so.2".into(), Path::to_string_lossy);
        return Err(Failed {
            what: format!("{name} cannot be loaded"),
            detail: why_not(&name),
        });
    }
    Ok(())
}

/// The loader's words about a library that it does not load.
fn why_not(name: &str) -> Option<String> {
    let c_name = CString::new(name).ok()?;
    // SAFETY: the name ends with a NUL; a library's constructors run as in any program that uses it.
    let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_LAZY) };
    if !handle.is_null() {
        return None;
    }
    // SAFETY: the text belongs to the loader until its next call in this thread, and is copied at once.
    let words = unsafe { text(libc::dlerror()) }?;
    // It begins with the name, which has just been said.
    let short = words.strip_prefix(name).and_then(|w| w.strip_prefix(": "));
    Some(short.unwrap_or(&words).to_owned())
}

/// NCCL's version, as people write it.
pub(super) fn version() -> Result<String, Failed> {
    let code = cudarc::nccl::result::get_nccl_version()
        .map_err(|error| Failed::plain(format!("ncclGetVersion failed: {error:?}")))?;
    // 2.9 and later: 10000 × major + 100 × minor + patch (`src/nccl.h.in`, NCCL_VERSION).
    let (major, minor, patch) = if code >= 10_000 {
        (code / 10_000, code / 100 % 100, code % 100)
    } else {
        (code / 1000, code / 100 % 10, code % 100)
    };
    Ok(format!("{major}.{minor}.{patch}"))
}

/// A GPU and a stream on it.
pub(super) struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
}

/// Memory on the GPU.
pub(super) struct Buffer(CudaSlice<u8>);

impl Device {
    pub(super) fn open(ordinal: u32) -> Result<Self, Failed> {
        let context = CudaContext::new(ordinal as usize)
            .map_err(|error| Failed::driver(&format!("opening GPU {ordinal}"), &error))?;
        let stream = context
            .new_stream()
            .map_err(|error| Failed::driver("making a stream", &error))?;
        Ok(Self { context, stream })
    }

    pub(super) fn name(&self) -> String {
        self.context
            .name()
            .unwrap_or_else(|_| "unknown GPU".to_owned())
    }

    /// Bytes that are free, and all.
    pub(super) fn memory(&self) -> Result<(u64, u64), Failed> {
        let (free, total) = self
            .context
            .mem_get_info()
            .map_err(|error| Failed::driver("asking for the free memory", &error))?;
        Ok((free as u64, total as u64))
    }

    pub(super) fn zeros(&self, bytes: usize) -> Result<Buffer, Failed> {
        let slice = self
            .stream
            .alloc_zeros::<u8>(bytes.max(1))
            .map_err(|error| Failed::driver(&format!("allocating {bytes} bytes"), &error))?;
        Ok(Buffer(slice))
    }

    pub(super) fn upload(&self, bytes: &[u8]) -> Result<Buffer, Failed> {
        let slice = self
            .stream
            .clone_htod(bytes)
            .map_err(|error| Failed::driver("copying to the GPU", &error))?;
        Ok(Buffer(slice))
    }

    pub(super) fn download(&self, buffer: &Buffer) -> Result<Vec<u8>, Failed> {
        self.stream
            .clone_dtoh(&buffer.0)
            .map_err(|error| Failed::driver("copying from the GPU", &error))
    }

    /// Has the GPU itself set every byte to zero.
    pub(super) fn clear(&self, buffer: &mut Buffer) -> Result<(), Failed> {
        self.stream
            .memset_zeros(&mut buffer.0)
            .map_err(|error| Failed::driver("clearing memory", &error))
    }

    /// Waits for everything that was enqueued.
    pub(super) fn wait(&self) -> Result<(), Failed> {
        self.stream
            .synchronize()
            .map_err(|error| Failed::driver("waiting for the GPU", &error))
    }

    /// Marks the end of what has been enqueued so far.
    pub(super) fn mark(&self) -> Result<Mark, Failed> {
        let event = self.stream.record_event(None);
        event
            .map(Mark)
            .map_err(|error| Failed::driver("recording an event", &error))
    }

    fn stream(&self) -> sys::cudaStream_t {
        self.stream.cu_stream().cast()
    }
}

/// A place in what the GPU was given to do.
pub(super) struct Mark(CudaEvent);

impl Mark {
    /// Whether the GPU has done all before it. Does not wait.
    pub(super) fn is_reached(&self) -> Result<bool, Failed> {
        self.0
            .try_is_complete()
            .map_err(|error| Failed::driver("asking for an event", &error))
    }
}

/// A fresh unique id.
pub(super) fn unique_id() -> Result<[u8; ID_BYTES], Failed> {
    let id =
        cudarc::nccl::result::get_uniqueid().map_err(|error| failed("ncclGetUniqueId", error.0))?;
    Ok(id.internal.map(|c| c.to_ne_bytes()[0]))
}

/// A communicator of this rank.
pub(super) struct Comm<'a> {
    device: &'a Device,
    comm: sys::ncclComm_t,
    rank: u32,
    ranks: u32,
}

impl<'a> Comm<'a> {
    /// `ncclCommInitRank`: returns once every rank has come.
    pub(super) fn init(
        device: &'a Device,
        id: [u8; ID_BYTES],
        rank: u32,
        ranks: u32,
    ) -> Result<Self, Failed> {
        device
            .context
            .bind_to_thread()
            .map_err(|error| Failed::driver("using the GPU", &error))?;
        let id = sys::ncclUniqueId {
            internal: id.map(|b| std::ffi::c_char::from_ne_bytes([b])),
        };
        let mut comm: sys::ncclComm_t = ptr::null_mut();
        // SAFETY: `comm` outlives the call, and the id has the size that NCCL expects.
        let status = unsafe { sys::ncclCommInitRank(&mut comm, int(ranks), id, int(rank)) };
        check("ncclCommInitRank", status)?;
        Ok(Self {
            device,
            comm,
            rank,
            ranks,
        })
    }

    /// Enqueues an operation on `count` elements a rank, from `send` into `recv`.
    pub(super) fn enqueue(
        &self,
        op: Op,
        dtype: Dtype,
        reduce: Reduce,
        count: usize,
        send: &Buffer,
        recv: &mut Buffer,
    ) -> Result<(), Failed> {
        let (needs, gets) = self.elements(op, count);
        if send.0.len() < needs * dtype.size() || recv.0.len() < gets * dtype.size() {
            return Err(Failed::plain("a buffer is too small for its operation"));
        }
        let stream = &self.device.stream;
        let (from, _read) = send.0.device_ptr(stream);
        let (to, _written) = recv.0.device_ptr_mut(stream);
        let place =
            |base: CUdeviceptr, element: usize| (base + (element * dtype.size()) as u64) as usize;
        let from_at = |element| ptr::without_provenance::<std::ffi::c_void>(place(from, element));
        let to_at = |element| ptr::without_provenance_mut::<std::ffi::c_void>(place(to, element));
        let kind = match dtype {
            Dtype::Float32 => sys::ncclDataType_t::ncclFloat32,
            Dtype::Bfloat16 => sys::ncclDataType_t::ncclBfloat16,
            Dtype::Int32 => sys::ncclDataType_t::ncclInt32,
        };
        let how = match reduce {
            Reduce::Sum => sys::ncclRedOp_t::ncclSum,
            Reduce::Max => sys::ncclRedOp_t::ncclMax,
        };
        let (comm, cu) = (self.comm, self.device.stream());
        let peer = |rank: u32| int(rank % self.ranks);
        // SAFETY: both buffers are on this communicator's GPU and hold the elements that the operation
        // reads and writes (checked above); they live until the stream has been waited for, because
        // they belong to callers that wait before they drop them; the communicator is alive.
        unsafe {
            match op {
                Op::AllReduce => check(
                    "ncclAllReduce",
                    sys::ncclAllReduce(from_at(0), to_at(0), count, kind, how, comm, cu),
                ),
                Op::AllGather => check(
                    "ncclAllGather",
                    sys::ncclAllGather(from_at(0), to_at(0), count, kind, comm, cu),
                ),
                Op::ReduceScatter => check(
                    "ncclReduceScatter",
                    sys::ncclReduceScatter(from_at(0), to_at(0), count, kind, how, comm, cu),
                ),
                Op::Broadcast => check(
                    "ncclBroadcast",
                    sys::ncclBroadcast(from_at(0), to_at(0), count, kind, 0, comm, cu),
                ),
                Op::SendRecv => {
                    check("ncclGroupStart", sys::ncclGroupStart())?;
                    let (next, before) = (peer(self.rank + 1), peer(self.rank + self.ranks - 1));
                    check(
                        "ncclSend",
                        sys::ncclSend(from_at(0), count, kind, next, comm, cu),
                    )?;
                    check(
                        "ncclRecv",
                        sys::ncclRecv(to_at(0), count, kind, before, comm, cu),
                    )?;
                    check("ncclGroupEnd", sys::ncclGroupEnd())
                }
                Op::AllToAll => {
                    check("ncclGroupStart", sys::ncclGroupStart())?;
                    for rank in 0..self.ranks {
                        let at = rank as usize * count;
                        let (from, to) = (from_at(at), to_at(at));
                        check(
                            "ncclSend",
                            sys::ncclSend(from, count, kind, int(rank), comm, cu),
                        )?;
                        check(
                            "ncclRecv",
                            sys::ncclRecv(to, count, kind, int(rank), comm, cu),
                        )?;
                    }
                    check("ncclGroupEnd", sys::ncclGroupEnd())
                }
            }
        }
    }

    /// Elements that an operation reads and writes.
    fn elements(&self, op: Op, count: usize) -> (usize, usize) {
        let all = count * self.ranks as usize;
        match op {
            Op::AllReduce | Op::Broadcast | Op::SendRecv => (count, count),
            Op::AllGather => (count, all),
            Op::ReduceScatter => (all, count),
            Op::AllToAll => (all, all),
        }
    }

    /// Ends the communicator in order.
    pub(super) fn destroy(self) -> Result<(), Failed> {
        // SAFETY: the communicator is alive and `self` is consumed, so nobody uses it again.
        check("ncclCommDestroy", unsafe {
            sys::ncclCommDestroy(self.comm)
        })
    }
}

fn int(n: u32) -> c_int {
    c_int::try_from(n).unwrap_or(c_int::MAX)
}

fn check(call: &str, status: sys::ncclResult_t) -> Result<(), Failed> {
    match status.result() {
        Ok(NcclStatus::Success | NcclStatus::InProgress) => Ok(()),
        Ok(_) | Err(_) => Err(failed(call, status)),
    }
}

fn failed(call: &str, status: sys::ncclResult_t) -> Failed {
    // SAFETY: NCCL returns static texts, whatever the code is.
    let words = unsafe { text(sys::ncclGetErrorString(status)) };
    // SAFETY: since 2.13; the text belongs to NCCL and is copied at once. A null communicator asks for
    // the last error of the thread.
    let last = unsafe { text(sys::ncclGetLastError(ptr::null_mut())) };
    Failed {
        what: format!(
            "{call} failed: {}",
            words.unwrap_or_else(|| format!("{status:?}"))
        ),
        detail: last.filter(|text| !text.is_empty()),
    }
}

/// Copies a C string.
///
/// # Safety
/// `text` is null or points to a string that ends with a NUL.
unsafe fn text(text: *const std::ffi::c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by this function's own contract.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().trim().to_owned())
}

//! The GPUs of this host, live: NVML, loaded at run time, only ever asked.
//!
//! ```text
//!  gpu0 thread ─┐ one reading a second, then waits for Xid events
//!  gpu1 thread ─┼─► slots ─► Sampler::sample
//!  …           ─┤
//!  gpus thread ─┘ what lies between them
//! ```
//!
//! The driver can take seconds to answer about a GPU that is dying, or never answer. So each GPU has
//! a thread of its own, and one that does not come back is told as [`Trouble::Silent`]. No such thread
//! asks about another GPU than its own.

mod raw;
mod read;

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::event::EventSet;

use crate::engine::gpu::{GPUS, Gpu, GpuSample, Pair, Trouble, Xid};

/// Between two readings of a GPU.
const EVERY: Duration = Duration::from_secs(1);
/// Between two looks at what lies between GPUs, which hardly changes.
const PAIRS_EVERY: Duration = Duration::from_secs(30);
/// A GPU that was not heard of for this long is called silent.
const SILENT: Duration = Duration::from_secs(10);
/// The end of a sampler is noticed within this time.
const NAP: Duration = Duration::from_millis(100);
/// Xid events that wait to be taken, by GPU.
const XIDS: usize = 64;
/// The name that the driver's own packages and container toolkits install; the bare one comes with
/// development packages only.
const NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// Why there are no GPUs to look at.
#[derive(Debug, thiserror::Error)]
pub enum NoGpus {
    /// No library, or it finds no driver.
    #[error("no NVIDIA driver here: {0}")]
    NoDriver(String),
    /// The driver has none.
    #[error("the NVIDIA driver finds no GPU here")]
    NoGpu,
    /// It cannot be watched.
    #[error("cannot start a thread to watch a GPU: {0}")]
    NoThread(#[from] std::io::Error),
}

/// Looks at all GPUs of this host until it is dropped.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    driver: Option<String>,
    cuda: Option<String>,
}

#[derive(Debug)]
struct Shared {
    slots: Mutex<Vec<Slot>>,
    news: Condvar,
    end: AtomicBool,
}

/// What is known of one GPU.
#[derive(Debug)]
struct Slot {
    gpu: Option<Gpu>,
    pairs: Option<Vec<Pair>>,
    xids: Vec<Xid>,
    heard: Instant,
}

impl Sampler {
    /// Loads NVML and starts to look.
    ///
    /// # Errors
    /// If there is nothing to look at.
    pub fn start() -> Result<Self, NoGpus> {
        let nvml = Arc::new(load()?);
        let count = nvml
            .device_count()
            .map_err(|error| NoGpus::NoDriver(error.to_string()))?;
        let count = count.min(u32::try_from(GPUS).unwrap_or(u32::MAX));
        if count == 0 {
            return Err(NoGpus::NoGpu);
        }
        let slot = |_| Slot {
            gpu: None,
            pairs: None,
            xids: Vec::new(),
            heard: Instant::now(),
        };
        let sampler = Self {
            driver: nvml.sys_driver_version().ok(),
            cuda: nvml.sys_cuda_driver_version().ok().map(cuda_version),
            shared: Arc::new(Shared {
                slots: Mutex::new((0..count).map(slot).collect()),
                news: Condvar::new(),
                end: AtomicBool::new(false),
            }),
        };
        for index in 0..count {
            let (nvml, shared) = (Arc::clone(&nvml), Arc::clone(&sampler.shared));
            thread::Builder::new()
                .name(format!("gpu{index}"))
                .spawn(move || watch(&nvml, &shared, index))?;
        }
        let shared = Arc::clone(&sampler.shared);
        thread::Builder::new()
            .name("gpus".to_owned())
            .spawn(move || watch_pairs(&nvml, &shared, count))?;
        Ok(sampler)
    }

    /// One reading of every GPU that answers in time.
    ///
    /// # Errors
    /// If there is nothing to look at.
    pub fn once(patience: Duration) -> Result<GpuSample, NoGpus> {
        let sampler = Self::start()?;
        sampler.wait_for_all(patience);
        Ok(sampler.sample())
    }

    /// The last reading of every GPU; Xid events are given once.
    #[must_use]
    pub fn sample(&self) -> GpuSample {
        let mut sample = GpuSample {
            driver: self.driver.clone(),
            cuda: self.cuda.clone(),
            ..GpuSample::default()
        };
        for (index, slot) in (0..).zip(self.shared.slots().iter_mut()) {
            sample.xids.append(&mut slot.xids);
            sample.pairs.extend(slot.pairs.iter().flatten().cloned());
            let silent = slot.heard.elapsed() > SILENT;
            match &slot.gpu {
                Some(gpu) if !silent => sample.gpus.push(gpu.clone()),
                known if silent => {
                    let gpu = without_values(known.as_ref(), index, Trouble::Silent);
                    sample.gpus.push(gpu);
                }
                // Its first reading is not done yet.
                _ => {}
            }
        }
        sample
    }

    /// Waits until every GPU was read once, or for this long at most.
    pub fn wait_for_all(&self, patience: Duration) {
        let unread = |slots: &mut Vec<Slot>| {
            let mut slots = slots.iter();
            slots.any(|slot| slot.gpu.is_none() || slot.pairs.is_none())
        };
        let slots = self.shared.slots();
        let waited = self.shared.news.wait_timeout_while(slots, patience, unread);
        drop(waited);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // A thread that the driver never answers cannot be joined.
        self.shared.end.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }
}

fn load() -> Result<Nvml, NoGpus> {
    let mut refused = None;
    for name in NAMES {
        match Nvml::builder().lib_path(OsStr::new(name)).init() {
            Ok(nvml) => return Ok(nvml),
            // The first name is the one that should be there.
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let why = refused.map_or_else(String::new, |error| match error {
        NvmlError::LibloadingError(error) => error.to_string(),
        error => error.to_string(),
    });
    Err(NoGpus::NoDriver(why))
}

fn cuda_version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// Reads one GPU again and again.
fn watch(nvml: &Nvml, shared: &Shared, index: u32) {
    let mut events = None;
    while !shared.ended() {
        let started = Instant::now();
        let result = nvml
            .device_by_index(index)
            .map_err(|error| read::trouble(&error))
            .map(|device| read::gpu(&device, index));
        {
            let mut slots = shared.slots();
            let slot = &mut slots[index as usize];
            slot.heard = Instant::now();
            match result {
                Ok(gpu) => slot.gpu = Some(keep_identity(gpu, slot.gpu.as_ref())),
                Err(trouble) => {
                    slot.gpu = Some(without_values(slot.gpu.as_ref(), index, trouble));
                }
            }
        }
        shared.news.notify_all();
        if events.is_none() {
            events = register(nvml, index);
        }
        while started.elapsed() < EVERY && !shared.ended() {
            if let Some(xid) = wait(events.as_ref()) {
                let mut slots = shared.slots();
                let xids = &mut slots[index as usize].xids;
                if xids.len() < XIDS {
                    xids.push(Xid { gpu: index, xid });
                }
            }
        }
    }
}

/// Looks again and again at what lies between the GPUs.
fn watch_pairs(nvml: &Nvml, shared: &Shared, count: u32) {
    let mut looked: Option<Instant> = None;
    while !shared.ended() {
        if looked.is_none_or(|at| at.elapsed() >= PAIRS_EVERY) {
            for index in 0..count {
                let pairs = read::pairs(nvml, index, count);
                shared.slots()[index as usize].pairs = Some(pairs);
            }
            looked = Some(Instant::now());
            shared.news.notify_all();
        }
        thread::sleep(NAP);
    }
}

/// A set of events of this GPU alone, so that an event of a GPU that is gone is known to be its.
fn register(nvml: &Nvml, index: u32) -> Option<EventSet<'_>> {
    let set = nvml.create_event_set().ok()?;
    let device = nvml.device_by_index(index).ok()?;
    device
        .register_events(EventTypes::CRITICAL_XID_ERROR, set)
        .ok()
}

/// Waits a little; gives an Xid if one came.
fn wait(events: Option<&EventSet<'_>>) -> Option<u64> {
    let started = Instant::now();
    let nap = u32::try_from(NAP.as_millis()).unwrap_or(u32::MAX);
    let event = events.and_then(|set| set.wait(nap).ok());
    match event.and_then(|event| event.event_data) {
        Some(XidError::Value(xid)) => Some(xid),
        Some(XidError::Unknown) => None,
        // An error came at once: do not spin.
        None => {
            thread::sleep(NAP.saturating_sub(started.elapsed()));
            None
        }
    }
}

/// A GPU that is dying forgets its name before it forgets its number.
fn keep_identity(mut gpu: Gpu, before: Option<&Gpu>) -> Gpu {
    let Some(before) = before else { return gpu };
    gpu.bus_id = gpu.bus_id.or_else(|| before.bus_id.clone());
    gpu.uuid = gpu.uuid.or_else(|| before.uuid.clone());
    gpu.name = gpu.name.or_else(|| before.name.clone());
    gpu
}

fn without_values(before: Option<&Gpu>, index: u32, trouble: Trouble) -> Gpu {
    let gpu = Gpu {
        index,
        trouble: Some(trouble),
        ..Gpu::default()
    };
    keep_identity(gpu, before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(cuda_version(13_000), "13.0");
        assert_eq!(cuda_version(12_060), "12.6");
    }

    #[test]
    fn a_lost_gpu_keeps_its_name() {
        let before = Gpu {
            index: 3,
            bus_id: Some("00000000:18:00.0".to_owned()),
            busy: Some(100),
            ..Gpu::default()
        };
        let gpu = without_values(Some(&before), 3, Trouble::Lost);
        assert_eq!(gpu.bus_id, before.bus_id);
        assert_eq!((gpu.busy, gpu.trouble), (None, Some(Trouble::Lost)));
    }
}

//! What this host is: libraries, devices, interfaces, limits.

pub mod diagnosis;
pub(crate) mod elf;
pub mod facts;
pub mod gpu;
pub mod gpus;
pub mod host;
pub mod infiniband;
pub mod interfaces;
pub mod kernel_log;
pub mod libraries;
pub mod limits;
pub mod nccl_library;
pub mod pci;
pub mod process;
mod python;
pub mod routes;
pub mod variables;

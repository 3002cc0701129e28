//! What this host is: libraries, devices, interfaces.

pub mod gpu;
pub mod nccl_library;
pub mod process;

//! What this host is: libraries, devices, interfaces.

pub mod gpu;
pub mod kernel_log;
pub mod nccl_library;
pub mod process;

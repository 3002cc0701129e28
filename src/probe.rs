//! What this host is: libraries, devices, interfaces.

pub mod nccl_library;

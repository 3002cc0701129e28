//! What this host says of a job beside its logs: GPUs, links and processes.

mod engine;
mod live;
mod processes;
mod support;

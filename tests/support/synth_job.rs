//! The writer of synthetic jobs, shared with `examples/synth_job.rs`.

#![expect(dead_code, reason = "the tests write no single stream")]

#[path = "../../examples/synth_job/calls.rs"]
pub(crate) mod calls;
#[path = "../../examples/synth_job/job.rs"]
pub(crate) mod job;
#[path = "../../examples/synth_job/nccl.rs"]
pub(crate) mod nccl;
#[path = "../../examples/synth_job/prng.rs"]
pub(crate) mod prng;

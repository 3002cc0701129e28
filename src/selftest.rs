//! The self-test: does NCCL work between these GPUs, with these settings, and does a change cure it?
//!
//! ```text
//!            ┌── one child a rank: load ─► device ─► unique id ─► communicator ─► first all-reduce
//!  parent ───┤                      ─► correctness ─► bandwidth
//!            └── the parent never loads CUDA; it waits for each step with a deadline, names the rank and
//!                the step that does not return, and has the same engine diagnose the children's logs
//! ```

pub mod ab;
pub mod check;
pub mod child;
pub mod conclude;
pub mod dry;
pub mod launcher;
pub mod links;
pub mod many;
mod nccl;
pub mod outcome;
pub mod pairs;
pub mod plan;
pub mod protocol;
pub mod remains;
pub mod run;
pub mod team;
pub mod tuning;

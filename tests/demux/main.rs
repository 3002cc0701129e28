//! Whose line is it, what kind is it: over the shapes that launchers, frameworks and NCCL print.

mod framing;
mod headers;
mod prefixes;
mod properties;
mod recorded;
mod streams;
mod support;

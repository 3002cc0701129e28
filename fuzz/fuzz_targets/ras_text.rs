//! Answers of NCCL RAS (the corpus is of text): hostile bytes are an error, never a crash.
#![no_main]

#[path = "../body.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::ras(bytes));

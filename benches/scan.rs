//! Scan benchmark.
fn main() {}

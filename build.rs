//! Embeds every file below `rules/` into the binary.
fn main() {}

//! Every bound in one place: what is larger is cut, counted and shown as dropped.

/// Bytes kept of one line; the rest is counted as dropped. NCCL itself writes at most 1,023 bytes
/// (and stack garbage behind them in 2.13–2.19); Python prints config lines of some 10 KiB.
pub const LINE_BYTES: usize = 32 * 1024;
/// Bytes of a line kept as evidence in a finding.
pub const EVIDENCE_BYTES: usize = 2 * 1024;
/// Evidence lines kept per finding and rank.
pub const EVIDENCE_PER_RANK: usize = 3;
/// Processes and GPUs kept that the lines of one rule name, per writer; the newest.
pub const NAMED_PER_WRITER: usize = 64;
/// Evidence lines kept per finding.
pub const EVIDENCE_PER_FINDING: usize = 64;
/// Writers told apart within one source; further ones share the source's own writer. One stream may be of every
/// rank of a job.
pub const WRITERS_PER_SOURCE: usize = 32_768;
/// Writers told apart over all sources.
pub const WRITERS: usize = 200_000;
/// Deviating collectives remembered per rank and communicator.
pub const DEVIATIONS: usize = 64;
/// Different calls kept of one place at which ranks called different things.
pub const SIDES: usize = 64;
/// Addresses kept to which connects failed, over all ranks.
pub const CONNECTS: usize = 256;
/// Communicators remembered per writer.
pub const COMMS_PER_WRITER: usize = 4_096;
/// Environment variables remembered per writer.
pub const ENV_PER_WRITER: usize = 256;
/// Lines kept per rank for the log screen.
pub const RECENT_LINES: usize = 4_096;
/// Lines of several ranks that the log screen shows together, the newest.
pub const MERGED_LINES: usize = 4 * RECENT_LINES;
/// Peers whose point-to-point calls are counted, per member of a communicator.
pub const PEERS: usize = 16_384;
/// Connections remembered per member of a communicator.
pub const LINKS: usize = 256;
/// Distinct failing addresses, closed connections, exceptions and reports remembered per writer.
pub const EVENTS_PER_WRITER: usize = 32;
/// Ranks of a job; a number above it is not believed: a torn or hostile line, not a job.
pub const RANKS: u32 = 1 << 17;
/// Bytes of a Flight Recorder dump; a larger one is refused. 20,000 calls with their stacks take 10 MiB,
/// and a record of a journal holds no more.
pub const DUMP_BYTES: usize = 30 << 20;
/// Values in a dump, texts, lists and dictionaries included.
pub const DUMP_VALUES: usize = 8 << 20;
/// Lists in each other in a dump.
pub const DUMP_DEPTH: usize = 64;
/// Numbers that a pickle's writer may leave out between two values that it remembers.
pub const DUMP_MEMO_HOLE: usize = 1 << 12;
/// Calls kept of one dump, the newest.
pub const DUMP_ENTRIES: usize = 1 << 18;
/// Tensors compared of one call, and dimensions of each.
pub const DUMP_TENSORS: usize = 4_096;
/// Frames kept of one stack, innermost first.
pub const DUMP_FRAMES: usize = 64;
/// Frames of a stack that views are given.
pub const FRAMES_SHOWN: usize = 8;
/// Process groups kept of one dump.
pub const DUMP_GROUPS: usize = 4_096;
/// Values that the calls of one dump are made from. No dump holds more ([`DUMP_VALUES`]), but one that names the
/// same list again and again could be read without end.
pub const DUMP_VISITS: usize = DUMP_VALUES;
/// Sizes and types kept of all distinct calls over all dumps.
pub const DUMP_NUMBERS: usize = 8 << 20;
/// Distinct calls kept over all dumps.
pub const DUMP_CALLS: usize = 1 << 20;
/// Distinct texts, frames and stacks kept over all dumps, each.
pub const DUMP_DISTINCT: usize = 1 << 18;

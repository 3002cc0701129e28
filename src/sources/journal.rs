//! Journals: every input of a watch, in its order, in a file that can be played again.
//!
//! ```text
//! header  "unhang-journal" version:u16
//! block   kind:u8 packed:u32 raw:u32 records:u32 first:u64 last:u64 crc32:u32   then `packed` bytes of zstd
//!   kind 1   records, one after another:  kind|timed:u8 [time:varint] len:varint payload
//!   kind 2   index: the blocks in front of it, written when the journal is closed well
//! end     offset of the index:u64 "unhangix"
//! ```
//!
//! Numbers are little endian; `first` and `last` are nanoseconds, [`NO_TIME`] if no record has a
//! time; the checksum covers the block's header and its packed bytes. A torn tail loses the last
//! block only. Records and blocks of a kind that this version does not know are skipped and counted.

pub mod block;
pub mod codec;
pub mod read;
pub mod write;

/// The first bytes of a journal.
pub const MAGIC: &[u8] = b"unhang-journal";
/// What is written; a reader refuses anything newer.
pub const VERSION: u16 = 1;
/// The last bytes of a journal that was closed well.
pub(crate) const END: &[u8; 8] = b"unhangix";
/// In a block's header: no record in it has a time.
pub const NO_TIME: u64 = u64::MAX;

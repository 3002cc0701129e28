//! What the driver's Xid errors mean, as NVIDIA documents them, and what to do about each.

/// Whom an Xid points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The GPU, its memory, its links or its firmware: whatever ran on it ended or stands still.
    Hardware,
    /// The program that ran on it.
    Program,
    /// Nothing that ends a program.
    Notice,
}

/// One Xid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// Its number.
    pub xid: u64,
    /// Whom it points at.
    pub whose: Whose,
    /// What it means.
    pub text: &'static str,
    /// What to do.
    pub action: &'static str,
}

const RESET: &str = "reset the GPU or reboot its host";
const REPLACE: &str = "drain the host; if it comes back after a reset, have the GPU replaced";
const LINKS: &str =
    "reset all GPUs of the host together; if it comes back, have GPU, switch and board checked";
const PROGRAM: &str = "look at the program: `compute-sanitizer`, CUDA_LAUNCH_BLOCKING=1";

const fn is(xid: u64, whose: Whose, text: &'static str, action: &'static str) -> Meaning {
    Meaning {
        xid,
        whose,
        text,
        action,
    }
}

use Whose::{Hardware, Notice, Program};

/// By number.
pub const TABLE: [Meaning; 38] = [
    is(
        13,
        Program,
        "a kernel did what it must not (illegal instruction or address)",
        PROGRAM,
    ),
    is(
        31,
        Program,
        "a kernel read or wrote memory that is not mapped",
        PROGRAM,
    ),
    is(32, Program, "the commands of a program are broken", PROGRAM),
    is(
        43,
        Program,
        "the driver stopped a program's channel after a fault of the program",
        PROGRAM,
    ),
    is(
        45,
        Program,
        "what was left of a program that ended or was ended was cleaned up",
        "look for what ended it: an earlier Xid, a signal, the out-of-memory killer",
    ),
    is(
        48,
        Hardware,
        "a memory error that could not be corrected",
        RESET,
    ),
    is(
        61,
        Hardware,
        "a controller on the GPU reported an error",
        RESET,
    ),
    is(62, Hardware, "a controller on the GPU halted", REPLACE),
    is(
        63,
        Hardware,
        "a memory row was marked to be replaced",
        "reset the GPU when it is free, so that the row is replaced",
    ),
    is(
        64,
        Hardware,
        "a memory row could not be marked to be replaced",
        REPLACE,
    ),
    is(
        69,
        Program,
        "a kernel or command that the GPU refuses",
        PROGRAM,
    ),
    is(74, Hardware, "an NVLink failed", LINKS),
    is(
        79,
        Hardware,
        "the GPU has fallen off the bus (power, slot, heat)",
        "power the host off and on; if it comes back, check power and seating, and have the GPU replaced",
    ),
    is(
        92,
        Hardware,
        "many memory errors that were corrected",
        "watch it; run `dcgmi diag -r 3` when it is free",
    ),
    is(
        94,
        Hardware,
        "a memory error that could not be corrected, kept to one program, which was ended",
        "start the job again; reset the GPU when it is free",
    ),
    is(
        95,
        Hardware,
        "a memory error that could not be corrected and may reach other programs",
        RESET,
    ),
    is(
        109,
        Program,
        "a program did not yield the GPU in time",
        PROGRAM,
    ),
    is(110, Hardware, "a security fault", REPLACE),
    is(
        118,
        Hardware,
        "the GPU's firmware (GSP) reported an error",
        RESET,
    ),
    is(
        119,
        Hardware,
        "the GPU's firmware (GSP) does not answer",
        "reset the GPU or reboot its host; a driver that knows the fault, or one without GSP, where it comes back",
    ),
    is(120, Hardware, "the GPU's firmware (GSP) failed", RESET),
    is(
        121,
        Notice,
        "an error between CPU and GPU (C2C) that was corrected",
        "watch it",
    ),
    is(136, Hardware, "an NVLink could not be trained", LINKS),
    is(
        137,
        Program,
        "a program on another GPU read or wrote memory over NVLink that is not mapped",
        PROGRAM,
    ),
    is(
        140,
        Hardware,
        "memory errors that could not be corrected",
        RESET,
    ),
    is(143, Hardware, "the GPU could not be started", RESET),
    is(144, Hardware, "an NVLink error (SAW)", LINKS),
    is(145, Hardware, "an NVLink error (RLW)", LINKS),
    is(146, Hardware, "an NVLink error (TLW)", LINKS),
    is(147, Hardware, "an NVLink error (TREX)", LINKS),
    is(148, Hardware, "an NVLink error (NVLPW_CTRL)", LINKS),
    is(149, Hardware, "an NVLink error (NETIR)", LINKS),
    is(150, Hardware, "an NVLink error (MSE)", LINKS),
    is(151, Hardware, "an error while keys were changed", RESET),
    is(
        154,
        Notice,
        "what the GPU needs to recover has changed",
        "see `nvidia-smi -q`, GPU Recovery Action",
    ),
    is(
        155,
        Hardware,
        "an NVLink error that software defines",
        LINKS,
    ),
    is(
        156,
        Notice,
        "a part of the GPU was retired",
        "reset the GPU when it is free",
    ),
    is(158, Hardware, "the GPU did not answer in time", RESET),
];

/// What a number means; `None` for one that is not in the table.
#[must_use]
pub fn meaning(xid: u64) -> Option<&'static Meaning> {
    TABLE
        .binary_search_by_key(&xid, |known| known.xid)
        .ok()
        .map(|at| &TABLE[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_each_number_stands_once() {
        assert!(TABLE.windows(2).all(|pair| pair[0].xid < pair[1].xid));
        assert_eq!(meaning(79).map(|m| m.whose), Some(Hardware));
        assert_eq!(meaning(31).map(|m| m.whose), Some(Program));
        assert_eq!(meaning(7), None);
    }
}

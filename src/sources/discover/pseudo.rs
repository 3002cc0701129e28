//! File systems that hold no files: what the kernel shows of itself. Reading there may never end.

use std::path::Path;

use nix::sys::statfs::{
    BPF_FS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, DEVPTS_SUPER_MAGIC,
    FsType, PROC_SUPER_MAGIC, SECURITYFS_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, statfs,
};

/// Why such a folder is passed over, in words that follow "is".
pub(super) const WHY: &str = "it shows the kernel (as /proc and /sys do) and holds no logs";

const PSEUDO: &[FsType] = &[
    BPF_FS_MAGIC,
    CGROUP_SUPER_MAGIC,
    CGROUP2_SUPER_MAGIC,
    DEBUGFS_MAGIC,
    DEVPTS_SUPER_MAGIC,
    PROC_SUPER_MAGIC,
    SECURITYFS_MAGIC,
    SYSFS_MAGIC,
    TRACEFS_MAGIC,
];

/// True if the path lies in such a file system.
pub(super) fn is_pseudo(path: &Path) -> bool {
    if path == Path::new("/dev") {
        return true;
    }
    statfs(path).is_ok_and(|stat| PSEUDO.contains(&stat.filesystem_type()))
}

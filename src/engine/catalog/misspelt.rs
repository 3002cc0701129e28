//! Names of variables that are nearly right: nobody reads them, and nothing tells.

use std::sync::LazyLock;

use super::variables::{self, Kind};

/// Names with NCCL's prefix that others read: images and build files, PyTorch up to 2.1, plugins.
const OF_OTHERS: [&str; 20] = [
    "NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG",
    "NCCL_DIR",
    "NCCL_ENABLE_TIMING",
    "NCCL_HOME",
    "NCCL_INCLUDE_DIR",
    "NCCL_INCLUDE_DIRS",
    "NCCL_LIB",
    "NCCL_LIBRARIES",
    "NCCL_LIBRARY",
    "NCCL_LIB_DIR",
    "NCCL_PATH",
    "NCCL_ROOT",
    "NCCL_ROOT_DIR",
    "NCCL_TESTS_DEVICE",
    "NCCL_TIMEOUT",
    "NCCL_TUNER_CONFIG_PATH",
    "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
    "NCCL_VERSION",
];

/// What PyTorch and Gloo read about communication (`ProcessGroupNCCL.hpp`, `FlightRecorder.hpp`, `GlooDeviceFactory.cpp`).
const OF_TORCH: [&str; 43] = [
    "GLOO_DEVICE_TRANSPORT",
    "GLOO_DEVICE_TRANSPORT_TCP_TLS_CA_FILE",
    "GLOO_DEVICE_TRANSPORT_TCP_TLS_CA_PATH",
    "GLOO_DEVICE_TRANSPORT_TCP_TLS_CERT",
    "GLOO_DEVICE_TRANSPORT_TCP_TLS_PKEY",
    "GLOO_SOCKET_IFNAME",
    "TORCH_CPP_LOG_LEVEL",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_DIST_INIT_BARRIER",
    "TORCH_FR_BUFFER_SIZE",
    "TORCH_FR_CPP_STACK",
    "TORCH_FR_DUMP_DYNAMIC_FILE_NAME",
    "TORCH_FR_DUMP_ON_TIMEOUT",
    "TORCH_FR_DUMP_TEMP_FILE",
    "TORCH_GLOO_LAZY_INIT",
    "TORCH_INCLUDE_ONLY_ACTIVE",
    "TORCH_INCLUDE_STACK_TRACE",
    "TORCH_NCCL_ABORT_IN_DESTROY_PG",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_AVOID_RECORD_STREAMS",
    "TORCH_NCCL_BLOCKING_WAIT",
    "TORCH_NCCL_COORD_CHECK_MILSEC",
    "TORCH_NCCL_CUDA_EVENT_CACHE",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "TORCH_NCCL_DESYNC_DEBUG",
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_ENABLE_MONITORING",
    "TORCH_NCCL_ENABLE_TIMING",
    "TORCH_NCCL_EXTRA_DUMP_ON_EXEC",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
    "TORCH_NCCL_HIGH_PRIORITY",
    "TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN",
    "TORCH_NCCL_NAN_CHECK",
    "TORCH_NCCL_NONBLOCKING_TIMEOUT",
    "TORCH_NCCL_PROPAGATE_ERROR",
    "TORCH_NCCL_RANKS_PER_ROOT",
    "TORCH_NCCL_RETHROW_CUDA_ERRORS",
    "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_NCCL_TRACE_CPP_STACK",
    "TORCH_NCCL_USE_COMM_NONBLOCKING",
    "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
];

/// Names from memory that differ by words, and what was meant.
const FROM_MEMORY: [(&str, &str); 16] = [
    ("GLOO_IFNAME", "GLOO_SOCKET_IFNAME"),
    ("GLOO_SOCKET_IFACE", "GLOO_SOCKET_IFNAME"),
    ("GLOO_SOCKET_INTERFACE", "GLOO_SOCKET_IFNAME"),
    ("NCCL_DEBUG_LEVEL", "NCCL_DEBUG"),
    ("NCCL_DEBUG_SUBSYSTEM", "NCCL_DEBUG_SUBSYS"),
    ("NCCL_DEBUG_SUBSYSTEMS", "NCCL_DEBUG_SUBSYS"),
    ("NCCL_GID_INDEX", "NCCL_IB_GID_INDEX"),
    ("NCCL_HCA", "NCCL_IB_HCA"),
    ("NCCL_IB_GID", "NCCL_IB_GID_INDEX"),
    ("NCCL_IFNAME", "NCCL_SOCKET_IFNAME"),
    ("NCCL_INTERFACE", "NCCL_SOCKET_IFNAME"),
    ("NCCL_NET_IFNAME", "NCCL_SOCKET_IFNAME"),
    ("NCCL_SOCKET_IFACE", "NCCL_SOCKET_IFNAME"),
    ("NCCL_SOCKET_INTERFACE", "NCCL_SOCKET_IFNAME"),
    ("NCCL_SOCKET_NAME", "NCCL_SOCKET_IFNAME"),
    ("NCCL_SOCK_IFNAME", "NCCL_SOCKET_IFNAME"),
];

/// Ports of PyTorch's NCCL variables to other libraries, which differ from them by a letter.
const PORTS: [&str; 6] = ["CNCL", "ECCL", "HCCL", "MCCL", "RCCL", "XCCL"];

/// The variable that was meant by a name that nobody reads; `None` for one that is read, and for one that is
/// unlike any: plugins and programs have names of their own.
#[must_use]
pub fn meant(name: &str) -> Option<&'static str> {
    let port = |word: &str| PORTS.contains(&word);
    let known = variables::find(name).is_some()
        || OF_OTHERS.contains(&name)
        || OF_TORCH.contains(&name)
        || name.split('_').take(2).any(port);
    if known || name.len() > LONGEST {
        return None;
    }
    let memory = FROM_MEMORY.iter().find(|(wrong, _)| *wrong == name);
    if let Some((_, right)) = memory {
        return Some(right);
    }
    let room = if name.len() >= 14 { 2 } else { 1 };
    let near = RIGHT
        .iter()
        .filter_map(|right| Some((distance(name, right.name, room)?, right.name)))
        .min();
    near.map(|(_, right)| right).or_else(|| {
        let words = sorted_words(name);
        let same = RIGHT.iter().find(|right| right.words == words);
        same.map(|right| right.name)
    })
}

/// A name that may have been meant: none that only old versions know is a good advice.
struct Right {
    name: &'static str,
    words: Vec<&'static str>,
}

static RIGHT: LazyLock<Vec<Right>> = LazyLock::new(|| {
    let read = variables::all().filter(|known| known.kind != Kind::Removed);
    let names = read.map(|known| known.name).chain(OF_TORCH);
    let right = |name| Right {
        name,
        words: sorted_words(name),
    };
    names.map(right).collect()
});

/// Equal for `NCCL_DISABLE_P2P` and `NCCL_P2P_DISABLE`.
fn sorted_words(name: &str) -> Vec<&str> {
    let mut words: Vec<&str> = name.split('_').collect();
    words.sort_unstable();
    words
}

/// Names are compared up to this length.
const LONGEST: usize = 128;
/// More edits than anybody asks for.
const FAR: usize = 100;

/// How many letters have to be put in, left out, changed or swapped with the next; `None` for more than `room`.
fn distance(a: &str, b: &str, room: usize) -> Option<usize> {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().abs_diff(b.len()) > room || a.len().max(b.len()) > LONGEST {
        return None;
    }
    // Rows before the last, the last and this one. Further than `room` from the diagonal nothing is near enough.
    let mut rows = [[FAR; LONGEST + 2]; 3];
    for (j, cell) in rows[1].iter_mut().enumerate().take(room.min(b.len()) + 1) {
        *cell = j;
    }
    for i in 1..=a.len() {
        let [older, old, new] = &mut rows;
        let (from, to) = (i.saturating_sub(room).max(1), (i + room).min(b.len()));
        new[from - 1] = if i <= room { i } else { FAR };
        new[to + 1] = FAR;
        let mut nearest = new[from - 1];
        for j in from..=to {
            let changed = old[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(old[j] + 1).min(new[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(older[j - 2] + 1);
            }
            new[j] = least;
            nearest = nearest.min(least);
        }
        // No way down from here is shorter than the shortest up to here.
        if nearest > room + 1 {
            return None;
        }
        rows.rotate_left(1);
    }
    Some(rows[1][b.len()]).filter(|distance| *distance <= room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_nearly_right() {
        for (name, right) in [
            ("NCCL_SOCKET_IFNAMES", Some("NCCL_SOCKET_IFNAME")),
            ("NCCL_SOCKET_IFNAM", Some("NCCL_SOCKET_IFNAME")),
            ("NCCL_SOKCET_IFNAME", Some("NCCL_SOCKET_IFNAME")),
            ("NCCL_P2P_DISABLED", Some("NCCL_P2P_DISABLE")),
            ("NCCL_DISABLE_P2P", Some("NCCL_P2P_DISABLE")),
            ("NCCL_IFNAME", Some("NCCL_SOCKET_IFNAME")),
            ("NCCL_IB_HCAS", Some("NCCL_IB_HCA")),
            ("NCCL_DEBGU", Some("NCCL_DEBUG")),
            ("NCLL_DEBUG", Some("NCCL_DEBUG")),
            ("GLOO_SOCKET_IFNAMES", Some("GLOO_SOCKET_IFNAME")),
            (
                "TORCH_NCCL_BLOCKING_WAITS",
                Some("TORCH_NCCL_BLOCKING_WAIT"),
            ),
            ("TORCH_DISTRUBUTED_DEBUG", Some("TORCH_DISTRIBUTED_DEBUG")),
            // Read by somebody.
            ("NCCL_SOCKET_IFNAME", None),
            ("NCCL_VERSION", None),
            ("TORCH_CNCL_BLOCKING_WAIT", None),
            ("TORCH_HCCL_BLOCKING_WAIT", None),
            ("TORCH_XCCL_BLOCKING_WAIT", None),
            // Of plugins and programs.
            ("NCCL_FASTRAK_CTRL_DEV", None),
            ("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", None),
            ("NCCL_DYNAMIC_CHUNK_SIZE", None),
            ("NCCL_SHARP_DISABLE", None),
            ("NCCL_OFI_TUNER", None),
            ("NCCL_X", None),
            ("TORCH_HOME", None),
            ("TORCH_LOGS", None),
            ("TORCH_CUDA_ARCH_LIST", None),
        ] {
            assert_eq!(meant(name), right, "{name}");
        }
    }

    #[test]
    fn what_is_read_is_not_misspelt() {
        let read = variables::all().map(|known| known.name);
        for known in read.chain(OF_TORCH).chain(OF_OTHERS) {
            assert_eq!(meant(known), None, "{known}");
        }
        for (wrong, right) in FROM_MEMORY {
            assert!(RIGHT.iter().any(|r| r.name == right), "{wrong}: {right}");
        }
    }

    #[test]
    fn letters_that_differ() {
        assert_eq!(distance("abcd", "abdc", 2), Some(1));
        assert_eq!(distance("abcd", "abcd", 1), Some(0));
        assert_eq!(distance("abcd", "bcd", 1), Some(1));
        assert_eq!(distance("abcd", "badc", 2), Some(2));
        assert_eq!(distance("abcd", "wxyz", 2), None);
    }
}

//! Stand-ins for the driver and for NCCL, built once for each test binary.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// The folder with both libraries.
pub(crate) static STANDINS: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    for (source, library) in [("cuda", "libcuda.so"), ("nccl", "libnccl.so.2")] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/standin")
            .join(source)
            .with_extension("rs");
        let built = Command::new(&rustc)
            .args(["--edition=2024", "--crate-type=cdylib", "-O", "-o"])
            .arg(folder.path().join(library))
            .arg(source)
            .output()
            .unwrap();
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
    }
    folder
});

//! Embeds every file below `rules/` into the binary: writes the table that
//! `src/engine/catalog/builtin.rs` includes.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=rules");
    println!("cargo::rerun-if-changed=build.rs");

    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let mut files = Vec::new();
    collect(&root.join("rules"), &mut files)?;
    files.sort();

    let mut table = String::from("&[\n");
    for file in &files {
        let name = file
            .strip_prefix(&root)?
            .to_str()
            .ok_or("rule path is not UTF-8")?;
        let name = name.replace('\\', "/");
        let path = file.to_str().ok_or("rule path is not UTF-8")?;
        writeln!(table, "    ({name:?}, include_str!({path:?})),")?;
    }
    table.push_str("]\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("rules.rs"), table)?;
    Ok(())
}

/// Adds every `.toml` file below `folder`.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "toml") {
            files.push(path);
        }
    }
    Ok(())
}

//! Packages and libnccl.

use super::Trouble;
use crate::engine::vocab::FixKind;
use crate::probe::facts::Facts;
use crate::probe::libraries::{Libraries, Package, Pin, version_of};

pub(super) fn check(facts: &Facts, found: &mut Vec<Trouble>) {
    let libraries = &facts.libraries;
    clashes(libraries, found);
    versions(libraries, found);
    pins(libraries, found);
    cuda(facts, found);
    if libraries.not_loaded
        && let Some(pid) = facts.pid
    {
        found.push(
            Trouble::cannot_tell("nccl-not-loaded", format!("process {pid} has not loaded libnccl, or its maps cannot be read"))
                .why("the pid of a rank is wanted, not the launcher's; some programs link NCCL statically"),
        );
    }
}

fn clashes(libraries: &Libraries, found: &mut Vec<Trouble>) {
    let mut told: Vec<&[String]> = Vec::new();
    for clash in &libraries.clashes {
        if told.contains(&clash.packages.as_slice()) {
            continue;
        }
        told.push(&clash.packages);
        let both = clash.packages.join(" and ");
        found.push(
            Trouble::wrong("packages-clash", format!("{both} both install {}", clash.file))
                .why("the one that was installed last has overwritten the other: which version is loaded is chance, and a mix fails in the middle of a run")
                .fix(
                    FixKind::Host,
                    format!("pip uninstall -y {}, then install the one that torch asks for again", clash.packages.join(" ")),
                ),
        );
    }
}

fn versions(libraries: &Libraries, found: &mut Vec<Trouble>) {
    let torch = libraries.package("torch");
    let wanted = torch.and_then(|torch| {
        let (name, version) = torch
            .needs
            .iter()
            .find(|(name, _)| name.starts_with("nvidia-nccl"))?;
        let installed = libraries
            .packages
            .iter()
            .find(|p| p.name == *name && p.folder == torch.folder);
        Some((torch, name, version, installed))
    });
    if let Some((torch, name, version, Some(installed))) = wanted
        && installed.version != *version
    {
        found.push(
            Trouble::note(
                "nccl-not-torch's",
                format!(
                    "torch {} was built for {name} {version}; {} is installed",
                    torch.version, installed.version
                ),
            )
            .why("a newer one mostly works; every host has to have the same")
            .fix(
                FixKind::Host,
                format!("to go back: pip install {name}=={version}"),
            ),
        );
    }
    let wheel = libraries.nccl.iter().find(|n| n.origin.contains("Python"));
    let shadow = libraries
        .nccl
        .iter()
        .find(|n| n.origin.contains("LD_LIBRARY_PATH"));
    if let (Some(wheel), Some(shadow)) = (wheel, shadow)
        && wheel.version.as_deref().and_then(version_of)
            != shadow.version.as_deref().and_then(version_of)
    {
        let version =
            |v: &Option<String>| v.clone().unwrap_or_else(|| "of unknown version".to_owned());
        found.push(
            Trouble::note(
                "nccl-shadowed",
                format!(
                    "LD_LIBRARY_PATH leads to another libnccl: {} ({}), beside the wheel's {}",
                    shadow.path.display(),
                    version(&shadow.version),
                    version(&wheel.version)
                ),
            )
            .why("what loads libnccl first decides; hosts that differ in this have two versions in one job")
            .fix(FixKind::Env, "take its folder out of LD_LIBRARY_PATH; `unhang doctor --pid PID` of a rank says which one is used"),
        );
    }
}

/// CUDA's packages that are not those that torch was built with. NCCL's has a trouble of its own.
fn pins(libraries: &Libraries, found: &mut Vec<Trouble>) {
    let Some(torch) = libraries.package("torch") else {
        return;
    };
    let pins = || {
        let pins = libraries.pins.iter();
        pins.filter(|pin| !pin.name.starts_with("nvidia-nccl"))
    };
    let other = |pin: &&Pin| pin.installed.as_ref().is_some_and(|v| *v != pin.wanted);
    let conflicts: Vec<&Pin> = pins().filter(other).collect();
    let install = |pins: &[&Pin]| {
        let names = pins
            .iter()
            .map(|pin| format!("{}=={}", pin.name, pin.wanted));
        format!("pip install {}", names.collect::<Vec<_>>().join(" "))
    };
    if !conflicts.is_empty() {
        let list = conflicts.iter().map(|pin| {
            let installed = pin.installed.as_deref().unwrap_or_default();
            format!("{} {} ({installed} is installed)", pin.name, pin.wanted)
        });
        found.push(
            Trouble::note(
                "cuda-packages-not-torch's",
                format!(
                    "torch {} asks for {}",
                    torch.version,
                    list.collect::<Vec<_>>().join(", ")
                ),
            )
            .why("torch loads these libraries by itself; another version may lack a symbol, or fail in the middle of a run")
            .fix(FixKind::Host, install(&conflicts)),
        );
    }
    // Where none is there, a distribution brings the libraries in another way.
    let missing: Vec<&Pin> = pins().filter(|pin| pin.installed.is_none()).collect();
    if !missing.is_empty() && missing.len() < pins().count() {
        let names: Vec<&str> = missing.iter().map(|pin| pin.name.as_str()).collect();
        found.push(
            Trouble::note(
                "cuda-packages-missing",
                format!(
                    "torch {} asks for packages that are not installed: {}",
                    torch.version,
                    names.join(", ")
                ),
            )
            .why("`import torch` fails unless the system has these libraries")
            .fix(FixKind::Host, install(&missing)),
        );
    }
}

/// The least driver of a CUDA release (CUDA toolkit release notes, "CUDA Driver"): 12.x runs on 525 and
/// later, 13.x on 580. A compatibility package may stand in for a newer driver.
fn cuda(facts: &Facts, found: &mut Vec<Trouble>) {
    let libraries = &facts.libraries;
    let Some(torch) = libraries.package("torch") else {
        return;
    };
    let (Some(cuda), Some(driver)) = (cuda_of(torch), &facts.gpus.driver) else {
        return;
    };
    let least = match cuda {
        12 => 525,
        13 => 580,
        _ => return,
    };
    let Some((major, ..)) = version_of(driver) else {
        return;
    };
    // In a container the toolkit puts a compatibility package in place by itself.
    if major < least && facts.container.is_none() && facts.usable_gpus() > 0 {
        found.push(
            Trouble::wrong(
                "driver-too-old",
                format!("torch {} is built for CUDA {cuda}, which needs driver {least} or later; this is {driver}", torch.version),
            )
            .why("CUDA ends with error 35 or 803, unless LD_LIBRARY_PATH has NVIDIA's package cuda-compat")
            .fix(FixKind::Host, format!("update the driver to {least} or later, or install the torch of an older CUDA")),
        );
    }
}

/// The CUDA release that a torch is built for: `+cu128`, or what it needs.
fn cuda_of(torch: &Package) -> Option<u32> {
    if let Some((_, local)) = torch.version.split_once("+cu") {
        return local.get(..2)?.parse().ok();
    }
    let needs = torch
        .needs
        .iter()
        .find_map(|(name, _)| name.strip_prefix("nvidia-nccl-cu"));
    needs?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuda_releases() {
        let torch = |version: &str, needs: &[(&str, &str)]| Package {
            name: "torch".to_owned(),
            version: version.to_owned(),
            folder: "/p".into(),
            needs: needs
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect(),
        };
        assert_eq!(cuda_of(&torch("2.9.0+cu130", &[])), Some(13));
        assert_eq!(
            cuda_of(&torch("2.9.0", &[("nvidia-nccl-cu12", "2.27.5")])),
            Some(12)
        );
        assert_eq!(cuda_of(&torch("2.9.0+cpu", &[])), None);
    }
}

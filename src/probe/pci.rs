//! What stands between PCI devices: address translation (IOMMU) and access control (ACS).

use std::io::Read;

use serde::Serialize;

use super::host::{self, Host};

/// Devices that are looked at.
const MOST: usize = 4096;
/// The whole of a device's configuration.
const CONFIG: u64 = 4096;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pci {
    /// IOMMUs that the kernel uses; none is no translation.
    pub iommus: usize,
    /// Whether this machine is virtual.
    pub virtual_machine: Option<bool>,
    /// Bridges above GPUs: those that could be read, and of them those whose ACS sends peer-to-peer traffic
    /// up to the root complex. Unknown where it takes root to read it.
    pub acs: Option<Acs>,
}

/// Access control of the bridges above GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Acs {
    /// Bridges that were read.
    pub read: usize,
    /// Those that redirect requests or completions.
    pub redirecting: Vec<String>,
}

/// Reads it, for the bridges above these devices.
#[must_use]
pub fn pci(host: &Host, gpus: &[String]) -> Pci {
    let cpu = host.text("/proc/cpuinfo");
    Pci {
        iommus: host.list("/sys/class/iommu").len(),
        virtual_machine: cpu
            .as_deref()
            .and_then(|text| text.lines().find(|line| line.starts_with("flags")))
            .map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
        acs: acs(host, gpus),
    }
}

fn acs(host: &Host, gpus: &[String]) -> Option<Acs> {
    let mut bridges: Vec<String> = Vec::new();
    for gpu in gpus.iter().take(MOST) {
        // ../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0
        let target = host.link_target(&format!("/sys/bus/pci/devices/{gpu}"));
        let target = target.unwrap_or_default();
        let above = target
            .split('/')
            .filter(|part| is_bus_id(part) && *part != gpu.as_str());
        bridges.extend(above.map(str::to_owned));
    }
    bridges.sort_unstable();
    bridges.dedup();
    let mut found = Acs::default();
    for bridge in bridges.into_iter().take(MOST) {
        let Some(control) = acs_control(host, &bridge) else {
            continue;
        };
        found.read += 1;
        // Request and completion redirect.
        if control & 0b1100 != 0 {
            found.redirecting.push(bridge);
        }
    }
    (found.read > 0).then_some(found)
}

fn is_bus_id(part: &str) -> bool {
    part.len() >= 12 && part.as_bytes().get(4) == Some(&b':') && part.contains('.')
}

/// The ACS control register (PCI Express: extended capability 0x000d, at offset 6). A bridge without the
/// capability redirects nothing.
fn acs_control(host: &Host, device: &str) -> Option<u16> {
    let at = |file: &str| format!("/sys/bus/pci/devices/{device}/{file}");
    // Reading the configuration would wake a device that sleeps.
    if host.text(&at("power/runtime_status")).as_deref() == Some("suspended") {
        return None;
    }
    let mut config = Vec::new();
    let file = host::open(&host.path(&at("config")))?;
    file.take(CONFIG).read_to_end(&mut config).ok()?;
    control_in(&config)
}

fn control_in(config: &[u8]) -> Option<u16> {
    let word = |at: usize| {
        let bytes = config.get(at..at + 2)?;
        Some(u16::from_le_bytes([bytes[0], bytes[1]]))
    };
    // Without root only the first 64 bytes are given.
    let mut at = 0x100;
    word(at)?;
    for _ in 0..CONFIG / 8 {
        let (id, next) = (word(at)?, word(at + 2)? >> 4);
        if id == 0x000d {
            return word(at + 6);
        }
        if next < 0x100 {
            break;
        }
        at = usize::from(next);
    }
    Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_is_found_behind_others() {
        let mut config = vec![0_u8; 4096];
        // Advanced error reporting at 0x100, then access control at 0x148.
        config[0x100..0x104].copy_from_slice(&[0x01, 0x00, 0x81, 0x14]);
        config[0x148..0x150].copy_from_slice(&[0x0d, 0x00, 0x01, 0x00, 0x1f, 0x00, 0x1d, 0x00]);
        assert_eq!(control_in(&config), Some(0x1d));
        config[0x102..0x104].copy_from_slice(&[0x01, 0x00]);
        assert_eq!(control_in(&config), Some(0));
        assert_eq!(control_in(&config[..64]), None);
        // A capability that names itself as the next one.
        config[0x102..0x104].copy_from_slice(&[0x01, 0x10]);
        assert_eq!(control_in(&config), Some(0));
    }
}

//! What nvml-wrapper has no call for: the state of the fabric, and a field of one link.
#![expect(
    unsafe_code,
    reason = "NVML is a C library; these are its calls that the wrapper lacks"
)]

use std::mem;

use nvml_wrapper::Device;
use nvml_wrapper_sys::bindings as nvml;

use crate::engine::gpu::{Fabric, FabricState};

/// NVML's numbered structures carry their version above their size.
const fn numbered<T>(version: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "a small structure")]
    let size = size_of::<T>() as u32;
    size | version << 24
}

/// The GPU's place in an NVSwitch fabric; `None` where the driver does not tell.
pub(super) fn fabric(device: &Device<'_>) -> Option<Fabric> {
    fabric_with_health(device).or_else(|| fabric_state(device))
}

/// Drivers since 545.
fn fabric_with_health(device: &Device<'_>) -> Option<Fabric> {
    let call = device
        .nvml()
        .lib()
        .nvmlDeviceGetGpuFabricInfoV
        .as_ref()
        .ok()?;
    // SAFETY: all zeros is a value of this plain C structure.
    let mut info: nvml::nvmlGpuFabricInfo_v3_t = unsafe { mem::zeroed() };
    info.version = numbered::<nvml::nvmlGpuFabricInfo_v3_t>(3);
    // SAFETY: the handle lives as long as the device, and `info` is as large as its version says.
    let code = unsafe { call(device.handle(), &raw mut info) };
    if code != nvml::nvmlReturn_enum_NVML_SUCCESS {
        return None;
    }
    let healthy = match u32::from(info.healthSummary) {
        nvml::NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY => Some(true),
        nvml::NVML_GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY => Some(false),
        _ => None,
    };
    Some(known(info.state, info.status, info.cliqueId, healthy))
}

/// Older drivers.
fn fabric_state(device: &Device<'_>) -> Option<Fabric> {
    let call = device
        .nvml()
        .lib()
        .nvmlDeviceGetGpuFabricInfo
        .as_ref()
        .ok()?;
    // SAFETY: all zeros is a value of this plain C structure.
    let mut info: nvml::nvmlGpuFabricInfo_t = unsafe { mem::zeroed() };
    // SAFETY: the handle lives as long as the device, and `info` is what the call fills.
    let code = unsafe { call(device.handle(), &raw mut info) };
    (code == nvml::nvmlReturn_enum_NVML_SUCCESS)
        .then(|| known(info.state, info.status, info.cliqueId, None))
}

fn known(state: u8, status: u32, clique: u32, healthy: Option<bool>) -> Fabric {
    let state = match u32::from(state) {
        nvml::NVML_GPU_FABRIC_STATE_NOT_SUPPORTED => FabricState::NotSupported,
        nvml::NVML_GPU_FABRIC_STATE_NOT_STARTED => FabricState::NotStarted,
        nvml::NVML_GPU_FABRIC_STATE_IN_PROGRESS => FabricState::InProgress,
        nvml::NVML_GPU_FABRIC_STATE_COMPLETED => FabricState::Completed,
        _ => FabricState::Unknown,
    };
    // The other fields are filled only where it has finished.
    let done = state == FabricState::Completed;
    Fabric {
        state,
        status: done.then_some(status),
        clique: (done && status == nvml::nvmlReturn_enum_NVML_SUCCESS).then_some(clique),
        healthy,
    }
}

/// Speed of one link in one direction, in MB/s; `None` where the driver does not tell.
pub(super) fn link_mbps(device: &Device<'_>, link: u32) -> Option<u32> {
    let call = device.nvml().lib().nvmlDeviceGetFieldValues.as_ref().ok()?;
    // SAFETY: all zeros is a value of this plain C structure.
    let mut field: nvml::nvmlFieldValue_t = unsafe { mem::zeroed() };
    field.fieldId = nvml::field_id::NVML_FI_DEV_NVLINK_GET_SPEED;
    // The wrapper cannot say which link.
    field.scopeId = link;
    // SAFETY: one field is announced and one is there.
    let code = unsafe { call(device.handle(), 1, &raw mut field) };
    let success = nvml::nvmlReturn_enum_NVML_SUCCESS;
    if code != success || field.nvmlReturn != success {
        return None;
    }
    // SAFETY: the driver filled the member that the type names.
    let mbps = match field.valueType {
        nvml::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => unsafe { field.value.uiVal },
        nvml::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => {
            u32::try_from(unsafe { field.value.ullVal }).ok()?
        }
        _ => return None,
    };
    (mbps > 0).then_some(mbps)
}

//! The device that holds a model's tensors.

use crate::Error;
use burn::tensor::Device;
#[cfg(any(feature = "wgpu", feature = "vulkan"))]
use burn::tensor::DeviceKind;
#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
use burn::tensor::DeviceType;
use mnemora_memory::Initializer;
use std::str::FromStr;

/// Environment variable that names the device if nothing else does; values as in [`DeviceName`].
pub const DEVICE_VARIABLE: &str = "BURN_DEVICE";

/// The devices by name. Which of them exist depends on the features that the program was built with, and on the
/// machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// The processor, with the backend `flex`.
    Cpu,
    /// A graphics card: by CUDA if built in, otherwise by Vulkan, otherwise by any other backend of wgpu.
    Gpu,
    /// A graphics card through CUDA.
    Cuda,
    /// A device of the Vulkan loader, with SPIR-V shaders; may be a software driver.
    Vulkan,
    /// A device that wgpu finds; may be a software driver.
    Wgpu,
}

impl DeviceName {
    const NAMES: [(&'static str, Self); 6] = [
        ("cpu", Self::Cpu),
        ("gpu", Self::Gpu),
        ("cuda", Self::Cuda),
        ("vulkan", Self::Vulkan),
        ("wgpu", Self::Wgpu),
        ("flex", Self::Cpu),
    ];

    /// The features of which at least one must be built in.
    fn features(self) -> &'static str {
        match self {
            Self::Cpu => "flex",
            Self::Gpu => "vulkan, wgpu or cuda",
            Self::Cuda => "cuda",
            Self::Vulkan => "vulkan",
            Self::Wgpu => "wgpu or vulkan",
        }
    }

    fn as_str(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, name)| *name == self);
        named.map_or("", |(text, _)| text)
    }

    /// The device, if it is built in and present.
    pub fn find(self) -> Result<Device, Error> {
        let found = match self {
            Self::Cpu => cpu(),
            // If several are present, the last is used.
            Self::Gpu => [wgpu(false), vulkan(false), cuda()]
                .into_iter()
                .max_by_key(Found::rank)
                .unwrap_or(Found::NotBuilt),
            Self::Cuda => cuda(),
            Self::Vulkan => vulkan(true),
            Self::Wgpu => wgpu(true),
        };
        let problem = match found {
            Found::There(device) => return Ok(device),
            Found::Missing => "none is found here; use --device cpu".to_owned(),
            Found::NotBuilt => format!(
                "this program is built without the feature {}{}",
                self.features(),
                match self {
                    Self::Cpu => "",
                    _ => "; use --device cpu",
                }
            ),
        };
        Err(Error::Device {
            name: self.as_str(),
            problem,
        })
    }
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(name, _)| *name == text);
        known
            .map(|(_, name)| *name)
            .ok_or_else(|| "expected cpu, gpu, cuda, vulkan or wgpu".to_owned())
    }
}

/// The result of a search for a device.
enum Found {
    There(Device),
    Missing,
    NotBuilt,
}

impl Found {
    /// The result for a backend that is built in.
    fn among(device: Option<Device>) -> Self {
        device.map_or(Self::Missing, Self::There)
    }

    fn rank(&self) -> u8 {
        match self {
            Self::There(_) => 2,
            Self::Missing => 1,
            Self::NotBuilt => 0,
        }
    }
}

/// The device that was asked for; otherwise the one that `BURN_DEVICE` names; otherwise a GPU, if support is built in
/// and one is present (software drivers do not count); otherwise the processor.
pub fn find_device(asked: Option<DeviceName>) -> Result<Device, Error> {
    let asked = match (asked, std::env::var(DEVICE_VARIABLE)) {
        (None, Ok(text)) => Some(text.parse().map_err(|problem| {
            Error::Configuration(format!("{DEVICE_VARIABLE} is '{text}': {problem}"))
        })?),
        (asked, _) => asked,
    };
    match asked {
        Some(name) => name.find(),
        None => DeviceName::Gpu.find().or_else(|_| DeviceName::Cpu.find()),
    }
}

/// The processor if it is built in, otherwise any device: for work that takes little time.
pub fn light_device() -> Result<Device, Error> {
    DeviceName::Cpu.find().or_else(|_| find_device(None))
}

/// Whether the device computes synchronously, so that reading a result does not wait.
pub fn is_processor(device: &Device) -> bool {
    #[cfg(feature = "flex")]
    if device.clone().inner() == Device::flex() {
        return true;
    }
    let _ = device;
    false
}

/// Whether a device is reached through CUDA.
#[cfg(feature = "cuda")]
fn is_cuda(device: &Device) -> bool {
    let plain = device.clone().inner();
    let mut all = Device::enumerate(DeviceType::Cuda).into_iter();
    all.any(|device| device == plain)
}

#[cfg(all(any(feature = "wgpu", feature = "vulkan"), not(feature = "cuda")))]
fn is_cuda(_: &Device) -> bool {
    false
}

/// A description of a device, by which a checkpoint recognises it: the driver's name for it and the backend. Opens the
/// device.
pub fn device_words(device: &Device) -> String {
    #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
    if let Some(identity) = device.identity() {
        let runtime = match is_cuda(device) {
            true => "cuda",
            false => "wgpu",
        };
        return format!("{} ({runtime})", identity.name);
    }
    let _ = device;
    "processor (flex)".to_owned()
}

#[cfg(feature = "flex")]
fn cpu() -> Found {
    Found::among(Some(Device::flex()))
}

#[cfg(not(feature = "flex"))]
fn cpu() -> Found {
    Found::NotBuilt
}

#[cfg(feature = "cuda")]
fn cuda() -> Found {
    let there = !Device::enumerate(DeviceType::Cuda).is_empty();
    Found::among(there.then(|| Device::cuda(0)))
}

#[cfg(not(feature = "cuda"))]
fn cuda() -> Found {
    Found::NotBuilt
}

#[cfg(feature = "vulkan")]
fn vulkan(software: bool) -> Found {
    let emulated = Device::vulkan(DeviceKind::Cpu);
    let mut all = Device::enumerate(DeviceType::Vulkan).into_iter();
    let there = all.any(|device| software || device != emulated);
    Found::among(there.then(|| Device::vulkan(DeviceKind::DefaultDevice)))
}

#[cfg(not(feature = "vulkan"))]
fn vulkan(_: bool) -> Found {
    Found::NotBuilt
}

#[cfg(any(feature = "wgpu", feature = "vulkan"))]
fn wgpu(software: bool) -> Found {
    let emulated = Device::wgpu(DeviceKind::Cpu);
    let mut all = Device::enumerate(DeviceType::Wgpu).into_iter();
    let there = all.any(|device| software || device != emulated);
    Found::among(there.then(|| Device::wgpu(DeviceKind::DefaultDevice)))
}

#[cfg(not(any(feature = "wgpu", feature = "vulkan")))]
fn wgpu(_: bool) -> Found {
    Found::NotBuilt
}

/// An initializer for modules of which only the sizes are needed.
pub fn outline() -> Result<Initializer, Error> {
    Ok(Initializer::outline(light_device()?.autodiff()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checkpoints of earlier versions use this name.
    #[test]
    fn the_processor_has_one_name() {
        let device = DeviceName::Cpu.find().unwrap();
        assert_eq!(device_words(&device), "processor (flex)");
        assert_eq!(device_words(&device.autodiff()), "processor (flex)");
    }
}

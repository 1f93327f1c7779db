//! The device that a model's tensors are on.

use crate::LabError;
use burn::tensor::Device;
#[cfg(any(feature = "wgpu", feature = "vulkan"))]
use burn::tensor::DeviceKind;
#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
use burn::tensor::DeviceType;
use std::str::FromStr;

/// Names a device where nothing else does, with the names of [`DeviceName`].
pub const DEVICE_VARIABLE: &str = "BURN_DEVICE";

/// The devices by name. Which of them there are is decided by the features that the program is
/// built with, and by the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// The processor, by `flex`.
    Cpu,
    /// A graphics card, by what is built in: CUDA before Vulkan before what else wgpu finds.
    Gpu,
    /// A graphics card through CUDA.
    Cuda,
    /// What the Vulkan loader finds, with shaders in SPIR-V; drivers in software too.
    Vulkan,
    /// What wgpu finds; drivers in software too.
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

    /// The features of which one must be built in.
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

    /// The device, if it is built in and there.
    pub fn find(self) -> Result<Device, LabError> {
        let found = match self {
            Self::Cpu => cpu(),
            // Of those that are there the last is taken.
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
        Err(LabError::Device {
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

/// What became of a search for a device.
enum Found {
    There(Device),
    Missing,
    NotBuilt,
}

impl Found {
    /// What a backend that is built in has.
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

/// The device asked for; else what `BURN_DEVICE` names; else a GPU that is no driver in software, if
/// one is built in and there; else the processor.
pub fn find_device(asked: Option<DeviceName>) -> Result<Device, LabError> {
    let asked = match (asked, std::env::var(DEVICE_VARIABLE)) {
        (None, Ok(text)) => Some(text.parse().map_err(|problem| {
            LabError::Configuration(format!("{DEVICE_VARIABLE} is '{text}': {problem}"))
        })?),
        (asked, _) => asked,
    };
    match asked {
        Some(name) => name.find(),
        None => DeviceName::Gpu.find().or_else(|_| DeviceName::Cpu.find()),
    }
}

/// The processor where it is built in, else any device: for what takes little time.
pub(crate) fn light_device() -> Result<Device, LabError> {
    DeviceName::Cpu.find().or_else(|_| find_device(None))
}

/// Whether a device works through what it is given at once, so that reading waits for nothing.
pub(crate) fn is_processor(device: &Device) -> bool {
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

/// A device in words, by which a checkpoint knows it again: the name that its driver gives it, and what reaches
/// it. Opens it.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Checkpoints of earlier versions say it so.
    #[test]
    fn the_processor_has_one_name() {
        let device = DeviceName::Cpu.find().unwrap();
        assert_eq!(device_words(&device), "processor (flex)");
        assert_eq!(device_words(&device.autodiff()), "processor (flex)");
    }
}

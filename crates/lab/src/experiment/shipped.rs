//! Experiments that are part of the program.

use super::Experiment;
use crate::LabError;

/// An experiment that is part of the program.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    text: &'static str,
}

impl Shipped {
    /// An experiment with its name and TOML text.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text }
    }

    /// Parses the experiment, with overrides.
    pub fn experiment(&self, overrides: &[String]) -> Result<Experiment, LabError> {
        let mut experiment = Experiment::parse(self.text, self.name, overrides)?;
        if experiment.name.is_empty() {
            experiment.name = self.name.to_owned();
        }
        Ok(experiment)
    }
}

/// The experiments with these names in the folder `experiments`.
macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        const {
            &[$(crate::experiment::shipped::Shipped::new(
                $name,
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/", $name, ".toml")),
            )),*]
        }
    };
}
pub(crate) use presets;

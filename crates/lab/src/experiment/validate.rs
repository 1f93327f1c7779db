//! Checks of ranges and of settings that conflict.

use super::{
    DecoderInputName, Experiment,
    family::{Family, families},
    keys::flatten,
};
use mnemora_memory::MemorySettings;
use mnemora_models::{ModelName, NetworkSettings};
use mnemora_training::settings::StrategyName;
use serde::Serialize;
use toml::{Table, Value};

impl Experiment {
    /// Checks ranges that hold for every experiment. The error is the first violation, with the key and the allowed
    /// values.
    pub(super) fn validate(&self) -> Result<(), String> {
        let training = &self.training;
        let positive = [
            ("task.length", self.task.length),
            ("task.recall", self.task.recall),
            ("task.grid", self.task.grid),
            ("task.bits", self.task.bits),
            ("task.longest", self.task.longest),
            ("task.vectors", self.task.vectors),
            ("task.dimensions", self.task.dimensions),
            ("task.window", self.task.window),
            ("task.side", self.task.side),
            ("task.digits", self.task.digits),
            ("filtering.iterations", self.filtering.iterations),
            ("filtering.samples", self.filtering.samples),
            ("filtering.hidden", self.filtering.hidden),
            ("model.latent", self.model.latent),
            ("model.visual_hidden", self.model.visual_hidden),
            ("model.visual_features", self.model.visual_features),
            ("model.head_hidden", self.model.head_hidden),
            ("training.batch", training.batch),
            ("training.log_every", training.log_every as usize),
            (
                "training.checkpoint_every",
                training.checkpoint_every as usize,
            ),
            ("training.keep", training.keep),
            ("evaluation.batches", self.evaluation.batches as usize),
            ("evaluation.batch", self.evaluation.batch),
            (
                "evaluation.checkpoint_batches",
                self.evaluation.checkpoint_batches as usize,
            ),
            ("evaluation.pictures", self.evaluation.pictures),
        ];
        if let Some((key, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(format!("{key} is 0, it must be at least 1"));
        }
        let may_be_zero = [
            ("model.prior_hidden", self.model.prior_hidden),
            ("model.posterior_hidden", self.model.posterior_hidden),
            ("model.head_layers", self.model.head_layers),
        ];
        let mut sizes = positive
            .iter()
            .filter(|(key, _)| !key.starts_with("training.") || key.ends_with(".batch"))
            .chain(&may_be_zero);
        if let Some((key, value)) = sizes.find(|(key, value)| *value > largest_size(key)) {
            return Err(format!(
                "{key} is {value}, it must be at most {}",
                largest_size(key)
            ));
        }
        self.task.validate_programs()?;
        self.validate_model()?;
        self.validate_memory()?;
        self.family().check(self)?;
        if training.threads > LARGEST_POOL {
            return Err(format!(
                "training.threads is {}, it must be at most {LARGEST_POOL}, or 0 for one per core",
                training.threads
            ));
        }
        self.validate_segment()?;
        for (key, value) in [
            ("training.learning_rate", training.learning_rate),
            ("training.final_learning_rate", training.final_learning_rate),
            ("model.likelihood_std", self.model.likelihood_std),
            ("filtering.rate", self.filtering.rate),
            ("training.rmsprop.epsilon", training.rmsprop.epsilon),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("{key} is {value}, it must be a positive number"));
            }
        }
        let begin = training.rmsprop.begin;
        if !(begin.is_finite() && begin >= 0.0) {
            return Err(format!(
                "training.rmsprop.begin is {begin}, it must be 0 or a positive number"
            ));
        }
        for (key, value) in [
            ("training.rmsprop.decay", training.rmsprop.decay),
            ("training.rmsprop.momentum", training.rmsprop.momentum),
        ] {
            if !(0.0..1.0).contains(&value) {
                return Err(format!("{key} is {value}, it must be from 0 to below 1"));
            }
        }
        let decay = training.weight_decay;
        if !(decay.is_finite() && decay >= 0.0) {
            return Err(format!(
                "training.weight_decay is {decay}, it must be a number of at least 0"
            ));
        }
        let admit_at = self.task.admit_at;
        if !(admit_at > 0.0 && admit_at < 1.0) {
            return Err(format!(
                "task.admit_at is {admit_at}, it must be a fraction between 0 and 1"
            ));
        }
        if !(training.clip.is_finite() && training.clip >= 0.0) {
            return Err(format!(
                "training.clip is {}, it must be a positive number, or 0 for no clipping",
                training.clip
            ));
        }
        Ok(())
    }
}

impl Experiment {
    /// The model fits the task, and the strategy fits both.
    fn validate_model(&self) -> Result<(), String> {
        let task = self.task.name;
        let family = self.family();
        if !family.models().contains(&self.model.name) {
            let name = self.model.name.as_str();
            let models: Vec<&str> = family.models().iter().map(|name| name.as_str()).collect();
            let others = families().into_iter();
            let others = others.filter(|other| other.models().contains(&self.model.name));
            let others: Vec<&str> = others.map(Family::name).collect();
            return Err(format!(
                "model.name is '{name}', for the task {} it must be {}; {name} is for {}: see mnemora list",
                task.as_str(),
                models.join(" or "),
                others.join(" and ")
            ));
        }
        if self.chooses_memory() && !family.memories().contains(&self.model.memory) {
            return Err(self.wrong_memory());
        }
        let input = self.model.decoder_input;
        if task.as_str() != "programs" && input != DecoderInputName::Probabilities {
            return Err(format!(
                "model.decoder_input is set, but the task {} has no decoder of symbols",
                task.as_str()
            ));
        }
        let strategy = self.filtering.strategy;
        if !self.has_latents() && strategy != StrategyName::Direct {
            return Err(format!(
                "filtering.strategy is '{}', it must be direct for the task {}: only the temporal VAEs, VRNN, SRNN and SVG \
                 find beliefs by a strategy",
                strategy.as_str(),
                task.as_str()
            ));
        }
        if self.network.srnn.smoothing && self.model.name != ModelName::Srnn {
            return Err(format!(
                "network.srnn.smoothing is for the SRNN, but model.name is '{}'",
                self.model.name.as_str()
            ));
        }
        if self.network.srnn.smoothing && strategy != StrategyName::Direct {
            return Err(format!(
                "network.srnn.smoothing is for the model's own posterior, but filtering.strategy is '{}'",
                strategy.as_str()
            ));
        }
        check_sizes("network", &self.network, &NetworkSettings::default())
    }

    /// Segments must be shorter than a sequence, and the task must support them.
    fn validate_segment(&self) -> Result<(), String> {
        let (segment, time) = (self.training.segment, self.time());
        match self.task.name {
            name if segment > 0 && !self.family().has_segments() => Err(format!(
                "training.segment is {segment}, it must be 0 for the task {}, which is trained on \
                 whole sequences ({})",
                name.as_str(),
                self.family().time_words(self)
            )),
            _ if segment > 0 && self.filtering.strategy != StrategyName::Direct => Err(format!(
                "training.segment is {segment}, it must be 0 unless filtering.strategy is direct"
            )),
            _ if segment >= time => Err(format!(
                "training.segment is {segment}, but a sequence has {time} steps ({}): it must be less, or \
                 0 for whole sequences",
                self.family().time_words(self)
            )),
            _ => Ok(()),
        }
    }

    /// Every size of every memory is in range, and the chosen memory can hold a sequence.
    fn validate_memory(&self) -> Result<(), String> {
        check_sizes("memory", &self.memory, &MemorySettings::default())?;
        if !self.chooses_memory() {
            return Ok(());
        }
        // The width of a core's inputs is not known yet; it makes no difference here.
        let family = self.family();
        let checked = match family.has_latents() {
            true => self
                .memory_config(&self.place(family.conditions(self)))
                .map(drop),
            false => self.core_config(1).map(drop),
        };
        checked.map_err(|error| error.to_string())
    }
}

/// Checks that sizes are not too large, and 0 only where it has a meaning: where it is the default.
pub(crate) fn check_sizes<T: Serialize>(
    path: &str,
    settings: &T,
    defaults: &T,
) -> Result<(), String> {
    let flat = |settings: &T| -> Result<_, String> {
        let table = Table::try_from(settings).map_err(|error| error.to_string())?;
        let mut values = Vec::new();
        flatten(&table, path, &mut values);
        Ok(values)
    };
    let sizes = |value: &Value| -> Vec<i64> {
        match value {
            Value::Array(all) => all.iter().filter_map(Value::as_integer).collect(),
            one => Vec::from_iter(one.as_integer()),
        }
    };
    for ((key, value), (_, default)) in flat(settings)?.into_iter().zip(flat(defaults)?) {
        let may_be_zero = sizes(&default).contains(&0);
        let largest = largest_size(&key);
        for size in sizes(&value) {
            if size == 0 && !may_be_zero {
                return Err(format!("{key} is 0, it must be at least 1"));
            }
            if size > largest as i64 {
                return Err(format!("{key} is {size}, it must be at most {largest}"));
            }
        }
    }
    Ok(())
}

/// Larger sizes are typing errors.
const LARGEST_SIZE: usize = 65_536;

/// Larger numbers of layers and blocks are typing errors.
const LARGEST_DEPTH: usize = 1_024;

/// The largest allowed value of a size.
fn largest_size(key: &str) -> usize {
    match key.ends_with("layers") || key.ends_with("blocks") {
        true => LARGEST_DEPTH,
        false => LARGEST_SIZE,
    }
}

/// More threads than any machine has cores.
const LARGEST_POOL: usize = 1_024;

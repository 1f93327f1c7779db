//! Which keys of an experiment its task, model and settings read.

use super::{Experiment, LikelihoodName, VisualName};
use super::{
    family::{Family, families},
    keys::flatten,
};
use crate::LabError;
use mnemora_memory::MemoryName;
use mnemora_models::ModelName;
use mnemora_training::settings::{OptimiserName, Schedule, StrategyName};

/// A reader of some keys.
struct Reader {
    /// Whole keys, or tables, which end in a dot.
    keys: &'static [&'static str],
    /// The reader, in words.
    by: &'static str,
    /// Whether an experiment has this reader.
    is_here: fn(&Experiment) -> bool,
}

/// The readers of all keys except the sizes of memories and networks. The first match counts.
const READERS: &[Reader] = &[
    Reader {
        keys: &[
            "name",
            "description",
            "seed",
            "task.name",
            "model.name",
            "training.steps",
            "training.batch",
            "training.optimiser",
            "training.learning_rate",
            "training.schedule",
            "training.clip",
            "training.weight_decay",
            "training.patience",
            "training.log_every",
            "training.checkpoint_every",
            "training.keep",
            "training.threads",
            "evaluation.batches",
            "evaluation.batch",
            "evaluation.checkpoint_batches",
            "evaluation.pictures",
        ],
        by: "every experiment",
        is_here: |_| true,
    },
    Reader {
        keys: &["task.admit_at"],
        by: "curricula that depend on accuracy: task.curriculum=true of nth-farthest, \
             task.programs.curriculum=naive or combined of programs",
        is_here: |e| match e.family().name() {
            "classes" => e.task.curriculum,
            "programs" => e.task.programs.curriculum.has_stages(),
            _ => false,
        },
    },
    Reader {
        keys: &["model.memory"],
        by: "models with a memory (model.name=gtmm)",
        is_here: Experiment::chooses_memory,
    },
    Reader {
        keys: &[
            "model.latent",
            "filtering.strategy",
            "training.kl_warmup",
            "evaluation.particles",
        ],
        by: "models with latents, of frames, walks (model.name=gtmm) and recorded sequences",
        is_here: Experiment::has_latents,
    },
    Reader {
        keys: &["model.likelihood"],
        by: "models with latents, of frames, walks (model.name=gtmm) and recorded sequences; for tables it is \
             table.number_likelihood",
        is_here: |e| e.has_latents() && e.family().chooses_likelihood(),
    },
    Reader {
        keys: &["model.likelihood_std"],
        by: "model.likelihood=gaussian",
        is_here: |e| {
            let gaussian = e.model.likelihood == LikelihoodName::Gaussian;
            e.has_latents() && e.family().chooses_likelihood() && gaussian
        },
    },
    Reader {
        keys: &[
            "model.visual",
            "model.prior_hidden",
            "model.posterior_hidden",
        ],
        by: "the temporal VAE (model.name=gtmm of frames, walks or recorded sequences)",
        is_here: Experiment::is_temporal_vae,
    },
    Reader {
        keys: &["model.visual_hidden", "model.visual_features"],
        by: "model.visual=dense of the temporal VAE (model.name=gtmm of frames, walks or recorded sequences)",
        is_here: |e| e.is_temporal_vae() && e.model.visual == VisualName::Dense,
    },
    Reader {
        keys: &["model.visual_width"],
        by: "model.visual=pathways of the temporal VAE (model.name=gtmm of frames, walks or recorded sequences)",
        is_here: |e| e.is_temporal_vae() && e.model.visual == VisualName::Pathways,
    },
    Reader {
        keys: &["model.head_layers"],
        by: "the tasks nth-farthest and programs",
        is_here: Experiment::has_head,
    },
    Reader {
        keys: &["model.head_hidden"],
        by: "the tasks nth-farthest and programs with model.head_layers of at least 1",
        is_here: |e| e.has_head() && e.model.head_layers > 0,
    },
    Reader {
        keys: &["model.decoder_input"],
        by: "the task programs",
        is_here: |e| e.is_of("programs"),
    },
    Reader {
        keys: &["filtering.iterations", "filtering.samples"],
        by: "filtering.strategy=iterative and gradient",
        is_here: |e| e.filtering.strategy != StrategyName::Direct,
    },
    Reader {
        keys: &["filtering.rate"],
        by: "filtering.strategy=gradient",
        is_here: |e| e.filtering.strategy == StrategyName::Gradient,
    },
    Reader {
        keys: &[
            "filtering.hidden",
            "filtering.observe",
            "filtering.normalise_mean",
            "filtering.online",
        ],
        by: "filtering.strategy=iterative",
        is_here: |e| e.filtering.strategy == StrategyName::Iterative,
    },
    Reader {
        keys: &["training.final_learning_rate"],
        by: "training.schedule=linear, cosine and exponential",
        is_here: |e| e.training.schedule != Schedule::Constant,
    },
    Reader {
        keys: &["training.rmsprop."],
        by: "training.optimiser=rmsprop",
        is_here: |e| e.training.optimiser == OptimiserName::Rmsprop,
    },
    Reader {
        keys: &["training.segment"],
        by: "tasks of frames with filtering.strategy=direct",
        is_here: |e| e.family().has_segments() && e.filtering.strategy == StrategyName::Direct,
    },
    Reader {
        keys: &["evaluation.unroll_words"],
        by: "texts",
        is_here: |e| e.is_of("texts"),
    },
    Reader {
        keys: &[
            "data.directory",
            "data.fingerprint",
            "data.max_bytes",
            "data.max_unpacked_bytes",
        ],
        by: "tasks that have data",
        is_here: |e| e.family().has_data(e),
    },
    Reader {
        keys: &["data.step.", "data.columns", "data.calendar"],
        by: "runs, which fill it in when they start",
        is_here: |_| false,
    },
    Reader {
        keys: &["language.placeholders"],
        by: "the task wikitext-103",
        is_here: |e| e.task.name.as_str() == "wikitext-103",
    },
    Reader {
        keys: &["language.words"],
        by: "the task text",
        is_here: |e| e.task.name.as_str() == "text",
    },
    Reader {
        keys: &["language."],
        by: "texts",
        is_here: |e| e.is_of("texts"),
    },
];

impl Reader {
    fn names(&self, key: &str) -> bool {
        self.keys.iter().any(|own| match own.ends_with('.') {
            true => key.starts_with(own),
            false => key == *own,
        })
    }
}

impl Experiment {
    fn is_of(&self, family: &str) -> bool {
        self.family().name() == family
    }

    /// Whether the experiment's task and model read a key.
    pub(crate) fn reads(&self, key: &str) -> bool {
        self.reader(key).is_some_and(|(_, here)| here)
    }

    /// Whether a run keeps a key: it is read, or a run fills it in.
    pub(crate) fn keeps(&self, key: &str) -> bool {
        self.reads(key)
            || key.starts_with("data.step.") && self.data.step.width > 0
            || ["data.columns", "data.calendar"].contains(&key) && !self.data.columns.is_empty()
    }

    /// Whether its model has latents that are inferred as `filtering.strategy` says.
    pub(super) fn has_latents(&self) -> bool {
        self.family().has_latents() && self.model.name != ModelName::GtmSm
    }

    /// Whether `model.memory` chooses its memory.
    pub(super) fn chooses_memory(&self) -> bool {
        self.model.name == ModelName::Gtmm && !self.family().memories().is_empty()
    }

    fn is_temporal_vae(&self) -> bool {
        self.has_latents() && self.model.name == ModelName::Gtmm
    }

    fn has_head(&self) -> bool {
        self.is_of("classes") || self.is_of("programs")
    }

    /// The reader of a key, in words, and whether this experiment has it.
    fn reader(&self, key: &str) -> Option<(String, bool)> {
        let of_memory = |name: &&MemoryName| key.starts_with(&format!("memory.{}.", name.key()));
        if let Some(memory) = MemoryName::ALL.iter().find(of_memory) {
            let here = self.chooses_memory() && self.model.memory == *memory;
            return Some((format!("model.memory={}", memory.as_str()), here));
        }
        let of_network =
            |name: &&ModelName| key.starts_with(&format!("network.{}.", name.as_str()));
        if let Some(name) = ModelName::ALL.iter().find(of_network) {
            let here = self.model.name == *name;
            return Some((format!("model.name={}", name.as_str()), here));
        }
        let table = key.split('.').next().unwrap_or_default();
        let owns = |family: &&'static dyn Family| {
            family.own_settings().is_some_and(|(name, _)| name == table)
        };
        if self.own.contains_key(table)
            && let Some(family) = families().into_iter().find(owns)
        {
            let here = self.is_of(family.name());
            let tasks = family.tasks_of(key);
            if !tasks.is_empty() && !tasks.contains(&self.task.name.as_str()) {
                let some = if tasks.len() == 1 { "task" } else { "tasks" };
                return Some((format!("the {some} {}", tasks.join(" and ")), false));
            }
            if let Some(by) = family.unread(self, key).filter(|_| here) {
                return Some((by.to_owned(), false));
            }
            return Some(match family.models_of(key) {
                [] => (format!("the family {}", family.name()), here),
                models => {
                    let names: Vec<&str> = models.iter().map(|name| name.as_str()).collect();
                    (
                        format!("model.name={}", names.join(" or ")),
                        here && models.contains(&self.model.name),
                    )
                }
            });
        }
        if let Some(reader) = READERS.iter().find(|reader| reader.names(key)) {
            return Some((reader.by.to_owned(), (reader.is_here)(self)));
        }
        self.task_reader(key.strip_prefix("task.")?)
    }

    /// The reader of a key of the table `task`, as declared by the families.
    fn task_reader(&self, key: &str) -> Option<(String, bool)> {
        let key = key.split('.').next().unwrap_or_default();
        let (mut names, mut kinds) = (Vec::new(), Vec::new());
        for family in families() {
            let tasks = family.tasks().into_iter();
            let mut readers = tasks.filter(|task| task.keys.contains(&key)).peekable();
            if readers.peek().is_some() {
                kinds.push(family.name());
            }
            names.extend(readers.map(|task| task.name));
        }
        let here = names.contains(&self.task.name.as_str());
        let by = match names.as_slice() {
            [] => return None,
            [name] => format!("the task {name}"),
            [first, second] => format!("the tasks {first} and {second}"),
            [first, second, third] => format!("the tasks {first}, {second} and {third}"),
            [first, ..] => format!("tasks of {}, such as {first}", kinds.join(" and ")),
        };
        Some((by, here))
    }

    /// Returns an error if an override (`key=value`) has no effect because this experiment, which was made with it,
    /// does not read the key.
    ///
    /// A file may hold sizes of memories and models that are not chosen, but an override is meant to have an effect.
    ///
    /// # Errors
    /// The first such key, its reader, and the keys that are read instead.
    pub fn refuse_unread(&self, overrides: &[String]) -> Result<(), LabError> {
        for text in overrides {
            let key = text.split('=').next().unwrap_or_default().trim();
            let Some((by, false)) = self.reader(key) else {
                continue;
            };
            let model = match self.model.name {
                ModelName::Gtmm if self.chooses_memory() => self.model.memory.as_str(),
                name => name.as_str(),
            };
            let said = match key {
                // The short form of the key.
                "model.memory" => text.replacen("model.memory=", "--memory ", 1),
                _ => format!("--set {text}"),
            };
            let read = match self.read_beside(key)?.join(", ") {
                none if none.is_empty() => String::new(),
                keys => format!("; read here: {keys}"),
            };
            return Err(LabError::Configuration(format!(
                "{said}: the task {} with the model {model} does not read {key}, which is for {by}{read}",
                self.task.name.as_str()
            )));
        }
        Ok(())
    }

    /// The keys of the same table that are read; if there are none, those of the nearest outer table.
    fn read_beside(&self, key: &str) -> Result<Vec<String>, LabError> {
        let mut all = Vec::new();
        flatten(&Self::template()?, "", &mut all);
        let is_read = |key: &&String| self.reader(key).is_none_or(|(_, here)| here);
        let mut table = key;
        while let Some((outer, _)) = table.rsplit_once('.') {
            let within = format!("{outer}.");
            let keys = all.iter().map(|(key, _)| key);
            let found = keys.filter(|key| key.starts_with(&within)).filter(is_read);
            let found: Vec<String> = found.cloned().collect();
            if !found.is_empty() {
                return Ok(found);
            }
            table = outer;
        }
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{explain::choices, presets::shipped};
    use mnemora_models::{ImageShape, Recorded};
    use std::collections::BTreeSet;
    use toml::{Table, Value};

    fn keys() -> Vec<(String, Value)> {
        let mut all = Vec::new();
        flatten(&Experiment::template().unwrap(), "", &mut all);
        all
    }

    /// Every shipped experiment with each of its memories, models and strategies.
    fn all() -> Vec<(String, Experiment)> {
        let mut all = Vec::new();
        for shipped in shipped() {
            let plain = shipped.experiment(&[]).unwrap();
            let family = plain.family();
            let models = family.models().iter().map(|name| match name {
                ModelName::Gtmm => family.memories().to_vec(),
                _ => vec![plain.model.memory],
            });
            for (name, memories) in family.models().iter().zip(models) {
                for memory in memories {
                    for strategy in StrategyName::ALL {
                        let settings = [
                            format!("model.name={}", name.as_str()),
                            format!("model.memory={}", memory.as_str()),
                            format!("filtering.strategy={}", strategy.as_str()),
                        ];
                        if let Ok(experiment) = shipped.experiment(&settings) {
                            let label = format!("{} {settings:?}", shipped.name);
                            all.push((label, experiment));
                        }
                    }
                }
            }
        }
        all
    }

    #[test]
    fn every_key_has_a_reader_and_every_reader_a_key() {
        let keys = keys();
        for (key, _) in &keys {
            assert!(Experiment::default().reader(key).is_some(), "{key}");
        }
        for reader in READERS {
            for own in reader.keys {
                let named = |(key, _): &(String, Value)| match own.ends_with('.') {
                    true => key.starts_with(own),
                    false => key == own,
                };
                assert!(keys.iter().any(named), "{own} is no key");
            }
        }
    }

    /// For all keys, with one experiment of each family and model.
    #[test]
    fn what_is_read_is_taken_and_what_is_not_is_refused() {
        let keys = keys();
        let mut seen = BTreeSet::new();
        for (label, experiment) in all() {
            if !seen.insert((experiment.family().name(), experiment.model.name.as_str())) {
                continue;
            }
            for (key, _) in &keys {
                let answer = experiment.refuse_unread(&[format!("{key}=1")]);
                let read = experiment.reader(key).unwrap().1;
                assert_eq!(answer.is_ok(), read, "{label}: {key}");
                if let Err(error) = answer {
                    let message = error.to_string();
                    assert!(
                        message.contains(&format!("{key}, which is for ")),
                        "{message}"
                    );
                    assert!(!message.contains('\n'), "{message}");
                }
            }
        }
    }

    /// Everything that depends on sizes and on the choice of model and memory.
    fn built(experiment: &Experiment) -> String {
        let frame = ImageShape {
            channels: 1,
            height: 64,
            width: 64,
        };
        // A table's columns have likelihoods of their own.
        let likelihood = match experiment.family().name() {
            "tables" => Experiment::default().likelihood_config(0.0, true),
            _ => experiment.likelihood_config(0.0, true),
        };
        let text = |config: &dyn std::fmt::Debug| format!("{config:?}");
        match (experiment.family().name(), experiment.model.name) {
            ("copying", _) => text(&experiment.sequence_config().unwrap()),
            ("classes", _) => text(&experiment.classifier_config(7, 3).unwrap()),
            ("programs", _) => text(&experiment.encoder_decoder_config(11).unwrap()),
            ("texts", _) => text(&experiment.language_config(100).unwrap()),
            ("agents", _) => text(&experiment.core_config(7).unwrap()),
            (_, ModelName::Gtmm) => text(&(
                experiment.model_config(frame, likelihood),
                experiment.memory_config(&experiment.place(2)).unwrap(),
            )),
            (_, name) => {
                let data = Recorded {
                    frame,
                    likelihood,
                    latent: experiment.model.latent,
                };
                text(&experiment.network.network(name, &data))
            }
        }
    }

    fn other(key: &str, value: &Value) -> Value {
        match value {
            // More slots than needed.
            Value::Integer(0) => Value::Integer(1_000),
            Value::Integer(size) => Value::Integer(size + 1),
            Value::Float(number) if *number == 0.0 => Value::Float(1.0),
            Value::Float(number) => Value::Float(number * 1.5),
            Value::Boolean(yes) => Value::Boolean(!yes),
            Value::String(text) => {
                let names = choices(key).into_iter().map(|choice| choice.name);
                let other = { names }.find(|name| name != text);
                Value::String(other.unwrap_or_else(|| panic!("{key} has no other choice")))
            }
            other => panic!("{key} is {other}"),
        }
    }

    /// The table agrees with the code: a size is read if and only if changing it builds another model.
    #[test]
    fn a_size_is_read_if_it_changes_the_model() {
        const CHOSEN_BY: [&str; 3] = ["model.name", "model.memory", "model.decoder_input"];
        for (label, experiment) in all() {
            let before = built(&experiment);
            let table = Table::try_from(&experiment).unwrap();
            let mut values = Vec::new();
            flatten(&table, "", &mut values);
            let sizes = values.into_iter().filter(|(key, _)| {
                let table = key.split('.').next().unwrap_or_default();
                ["model", "memory", "network"].contains(&table)
                    && !CHOSEN_BY.contains(&key.as_str())
            });
            for (key, value) in sizes {
                let mut changed = table.clone();
                let parts: Vec<&str> = key.split('.').collect();
                let (last, tables) = parts.split_last().unwrap();
                let inner = tables.iter().fold(&mut changed, |table, part| {
                    table.get_mut(*part).unwrap().as_table_mut().unwrap()
                });
                inner.insert((*last).to_owned(), other(&key, &value));
                let changed: Experiment = Value::Table(changed).try_into().unwrap();
                let differs = built(&changed) != before;
                let read = experiment.reader(&key).unwrap().1;
                assert_eq!(differs, read, "{label}: {key}");
            }
        }
    }

    #[test]
    fn refusals_name_what_would_be_read() {
        let refused = |name: &str, overrides: &[&str]| {
            let overrides: Vec<String> = overrides.iter().map(|s| s.to_string()).collect();
            let experiment = crate::load_experiment(name, &overrides).unwrap();
            let refused = experiment.refuse_unread(&overrides);
            refused.expect_err("must be refused").to_string()
        };
        for (name, overrides, says) in [
            (
                "perfect-recall-small",
                &["task.bits=3"][..],
                &["task.bits=3", "the task copy", "task.length", "task.recall"][..],
            ),
            (
                "jsb-chorales",
                &["network.svg.width=8"],
                &["model.name=svg", "network.srnn.hidden"],
            ),
            (
                "jsb-chorales",
                &["model.memory=dnc"],
                &["--memory dnc", "srnn", "model.name=gtmm"],
            ),
            (
                "perfect-recall-small",
                &["memory.dnc.hidden=8"],
                &["model.memory=dnc", "memory.introspection.hidden"],
            ),
            (
                "jsb-chorales",
                &["filtering.hidden=8"],
                &["filtering.strategy=iterative", "filtering.strategy"],
            ),
            (
                "copy",
                &["evaluation.particles=9"],
                &["models with latents", "evaluation.batches"],
            ),
            (
                "jsb-chorales",
                &["data.step.width=8"],
                &["fill it in", "data.directory"],
            ),
        ] {
            let message = refused(name, overrides);
            for part in says {
                assert!(message.contains(part), "should say {part}: {message}");
            }
        }
    }

    /// In a file, each section is checked on its own, whether or not it is chosen.
    #[test]
    fn a_file_may_hold_sections_that_are_not_chosen() {
        let text = "[memory.dnc]\nhidden = 8\n[network.svg]\nwidth = 8\n[filtering]\nhidden = 8\n";
        assert!(Experiment::parse(text, "mine.toml", &[]).is_ok());
        let text = "[memory.dnc]\nhidden = 0\n";
        assert!(Experiment::parse(text, "mine.toml", &[]).is_err());
    }
}

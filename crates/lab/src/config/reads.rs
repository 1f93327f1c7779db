//! Which keys of an experiment its task, model and settings read.

use super::{
    CurriculumName, Experiment, LikelihoodName, MemoryName, ModelName, Schedule, StrategyName,
    TaskKind, TaskName, VisualName,
};
use crate::{LabError, keys::flatten};

/// Who reads some keys.
struct Reader {
    /// Whole keys, and tables, which end in a dot.
    keys: &'static [&'static str],
    /// The reader in words.
    by: &'static str,
    /// Whether an experiment has it.
    is_here: fn(&Experiment) -> bool,
}

/// The readers of all keys but the sizes of memories and networks; the first that names a key counts.
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
            "training.learning_rate",
            "training.schedule",
            "training.clip",
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
        keys: &["task.length", "task.recall"],
        by: "tasks of frames, such as perfect-recall",
        is_here: |e| e.task.name.kind() == TaskKind::Frames,
    },
    Reader {
        keys: &["task.grid"],
        by: "the task mnist-map",
        is_here: |e| e.task.name == TaskName::MnistMap,
    },
    Reader {
        keys: &["task.bits", "task.longest"],
        by: "the task copy",
        is_here: |e| e.task.name == TaskName::Copy,
    },
    Reader {
        keys: &["task.vectors", "task.dimensions", "task.curriculum"],
        by: "the task nth-farthest",
        is_here: |e| e.task.name == TaskName::NthFarthest,
    },
    Reader {
        keys: &["task.admit_at"],
        by: "curricula that go by accuracy: task.curriculum=true of nth-farthest, \
             task.programs.curriculum=naive or combined of programs",
        is_here: |e| match e.task.name.kind() {
            TaskKind::Classes => e.task.curriculum,
            TaskKind::Programs => matches!(
                e.task.programs.curriculum,
                CurriculumName::Naive | CurriculumName::Combined
            ),
            _ => false,
        },
    },
    Reader {
        keys: &["task.window"],
        by: "recorded sequences and texts",
        is_here: |e| matches!(e.task.name.kind(), TaskKind::Recordings | TaskKind::Words),
    },
    Reader {
        keys: &["task.side"],
        by: "the tasks video, kth and own",
        is_here: |e| matches!(e.task.name, TaskName::Video | TaskName::Kth | TaskName::Own),
    },
    Reader {
        keys: &["task.colour"],
        by: "the tasks video and own",
        is_here: |e| matches!(e.task.name, TaskName::Video | TaskName::Own),
    },
    Reader {
        keys: &["task.digits"],
        by: "the task moving-digits",
        is_here: |e| e.task.name == TaskName::MovingDigits,
    },
    Reader {
        keys: &["task.programs."],
        by: "the task programs",
        is_here: |e| e.task.name.kind() == TaskKind::Programs,
    },
    Reader {
        keys: &["model.memory"],
        by: "models with a memory (model.name=gtmm)",
        is_here: |e| e.model.name == ModelName::Gtmm,
    },
    Reader {
        keys: &[
            "model.latent",
            "model.likelihood",
            "filtering.strategy",
            "training.kl_warmup",
            "evaluation.particles",
        ],
        by: "models with latents, of frames and of recorded sequences",
        is_here: Experiment::has_latents,
    },
    Reader {
        keys: &["model.likelihood_std"],
        by: "model.likelihood=gaussian",
        is_here: |e| e.has_latents() && e.model.likelihood == LikelihoodName::Gaussian,
    },
    Reader {
        keys: &[
            "model.visual",
            "model.prior_hidden",
            "model.posterior_hidden",
        ],
        by: "the temporal VAE (model.name=gtmm of frames or recorded sequences)",
        is_here: Experiment::is_temporal_vae,
    },
    Reader {
        keys: &["model.visual_hidden", "model.visual_features"],
        by: "model.visual=dense of the temporal VAE (model.name=gtmm of frames or recorded sequences)",
        is_here: |e| e.is_temporal_vae() && e.model.visual == VisualName::Dense,
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
        is_here: |e| e.task.name.kind() == TaskKind::Programs,
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
        keys: &["training.segment"],
        by: "tasks of frames with filtering.strategy=direct",
        is_here: |e| {
            e.task.name.kind() == TaskKind::Frames && e.filtering.strategy == StrategyName::Direct
        },
    },
    Reader {
        keys: &["evaluation.unroll_words"],
        by: "texts",
        is_here: |e| e.task.name.kind() == TaskKind::Words,
    },
    Reader {
        keys: &[
            "data.directory",
            "data.fingerprint",
            "data.max_bytes",
            "data.max_unpacked_bytes",
        ],
        by: "tasks that have data",
        is_here: |e| match e.task.name.kind() {
            TaskKind::Frames | TaskKind::Recordings | TaskKind::Words => true,
            TaskKind::Copy | TaskKind::Classes | TaskKind::Programs => false,
        },
    },
    Reader {
        keys: &["data.step."],
        by: "runs, which fill it in when they start",
        is_here: |_| false,
    },
    Reader {
        keys: &["language.placeholders"],
        by: "the task wikitext-103",
        is_here: |e| e.task.name == TaskName::WikiText103,
    },
    Reader {
        keys: &["language.words"],
        by: "the task text",
        is_here: |e| e.task.name == TaskName::Text,
    },
    Reader {
        keys: &["language."],
        by: "texts",
        is_here: |e| e.task.name.kind() == TaskKind::Words,
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

impl MemoryName {
    /// The table of its sizes.
    fn table(self) -> String {
        format!("memory.{}.", self.as_str().replace('-', "_"))
    }
}

impl Experiment {
    fn has_latents(&self) -> bool {
        !self.task.name.kind().without_latents()
    }

    fn is_temporal_vae(&self) -> bool {
        self.has_latents() && self.model.name == ModelName::Gtmm
    }

    fn has_head(&self) -> bool {
        matches!(
            self.task.name.kind(),
            TaskKind::Classes | TaskKind::Programs
        )
    }

    /// Who reads a key, in words, and whether that is part of this experiment.
    fn reader(&self, key: &str) -> Option<(String, bool)> {
        let mut memories = MemoryName::ALL.into_iter();
        if let Some(memory) = memories.find(|memory| key.starts_with(&memory.table())) {
            let here = self.model.name == ModelName::Gtmm && self.model.memory == memory;
            return Some((format!("model.memory={}", memory.as_str()), here));
        }
        let of_network = |name: &ModelName| key.starts_with(&format!("network.{}.", name.as_str()));
        if let Some(name) = ModelName::ALL.into_iter().find(of_network) {
            let here = self.model.name == name;
            return Some((format!("model.name={}", name.as_str()), here));
        }
        let reader = READERS.iter().find(|reader| reader.names(key))?;
        Some((reader.by.to_owned(), (reader.is_here)(self)))
    }

    /// Refuses overrides (`key=value`) of keys that this experiment, which was made with them, does not read.
    ///
    /// A file may hold sizes of memories and models that are not chosen; what is said for one training is meant
    /// to have an effect.
    ///
    /// # Errors
    /// Names the first such key, who would read it, and what is read in its place.
    pub fn refuse_unread(&self, overrides: &[String]) -> Result<(), LabError> {
        for text in overrides {
            let key = text.split('=').next().unwrap_or_default().trim();
            let Some((by, false)) = self.reader(key) else {
                continue;
            };
            let model = match self.model.name {
                ModelName::Gtmm => self.model.memory.as_str(),
                name => name.as_str(),
            };
            let said = match key {
                // Its short form.
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

    /// The keys that are read in the table of a key, or in the nearest table around it that has some.
    fn read_beside(&self, key: &str) -> Result<Vec<String>, LabError> {
        let mut all = Vec::new();
        flatten(&Self::template()?, "", &mut all);
        let read: Vec<String> = all
            .into_iter()
            .map(|(key, _)| key)
            .filter(|key| self.reader(key).is_none_or(|(_, here)| here))
            .collect();
        let mut table = key;
        while let Some((outer, _)) = table.rsplit_once('.') {
            let within = format!("{outer}.");
            let found = read.iter().filter(|key| key.starts_with(&within));
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
    use crate::{experiments::shipped, keys::choices, recordings::network_config};
    use mnemora_models::FrameShape;
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
            let task = plain.task.name;
            let models = task.models().iter().map(|name| match name {
                ModelName::Gtmm => task.memories().to_vec(),
                _ => vec![plain.model.memory],
            });
            for (name, memories) in task.models().iter().zip(models) {
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

    #[test]
    fn what_is_read_is_taken_and_what_is_not_is_refused() {
        let keys = keys();
        for (label, experiment) in all() {
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

    /// All that sizes and choices of model and memory decide.
    fn built(experiment: &Experiment) -> String {
        let frame = FrameShape {
            channels: 1,
            height: 64,
            width: 64,
        };
        let likelihood = experiment.likelihood_config(0.0, true);
        let text = |config: &dyn std::fmt::Debug| format!("{config:?}");
        match (experiment.task.name.kind(), experiment.model.name) {
            (TaskKind::Copy, _) => text(&experiment.sequence_config().unwrap()),
            (TaskKind::Classes, _) => text(&experiment.classifier_config(7, 3).unwrap()),
            (TaskKind::Programs, _) => text(&experiment.encoder_decoder_config(11).unwrap()),
            (TaskKind::Words, _) => text(&experiment.language_config(100).unwrap()),
            (TaskKind::Frames | TaskKind::Recordings, ModelName::Gtmm) => {
                text(&experiment.model_config(frame, 2, likelihood).unwrap())
            }
            (TaskKind::Frames | TaskKind::Recordings, _) => {
                text(&network_config(experiment, frame, likelihood))
            }
        }
    }

    fn other(key: &str, value: &Value) -> Value {
        match value {
            Value::Integer(size) => Value::Integer(size + 1),
            Value::Float(number) => Value::Float(number * 1.5),
            Value::Boolean(yes) => Value::Boolean(!yes),
            Value::String(text) => {
                let names = choices(key).unwrap_or_else(|| panic!("{key} has no choices"));
                let other = names.into_iter().find(|name| name != text);
                Value::String(other.unwrap().to_owned())
            }
            other => panic!("{key} is {other}"),
        }
    }

    /// The table says of sizes what the code does with them: a key is read if another value builds another
    /// model.
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

    /// Of a file each key is checked against its own section, whatever is chosen.
    #[test]
    fn a_file_may_hold_sections_that_are_not_chosen() {
        let text = "[memory.dnc]\nhidden = 8\n[network.svg]\nwidth = 8\n[filtering]\nhidden = 8\n";
        assert!(Experiment::parse(text, "mine.toml", &[]).is_ok());
        let text = "[memory.dnc]\nhidden = 0\n";
        assert!(Experiment::parse(text, "mine.toml", &[]).is_err());
    }
}

//! Every family meets the contract of [`check_family`].

use mnemora_lab::{Broken, Experiment, check_family, families, load_experiment, set_range_checks};

/// For each family by name: an experiment, and settings that make it small.
const SMALL: &[(&str, &str, &[&str])] = &[
    (
        "frames",
        "perfect-recall-small",
        &[
            "task.length=3",
            "task.recall=2",
            "training.batch=2",
            "model.latent=2",
            "model.visual_hidden=3",
            "model.visual_features=3",
            "model.prior_hidden=3",
            "model.posterior_hidden=3",
            "memory.introspection.hidden=4",
            "memory.introspection.attention=3",
            "memory.introspection.reads=2",
            "filtering.strategy=iterative",
            "filtering.hidden=3",
            "evaluation.particles=2",
        ],
    ),
    (
        "recordings",
        "jsb-chorales-small",
        &[
            "training.batch=3",
            "task.window=6",
            "model.latent=3",
            "network.srnn.hidden=4",
            "network.srnn.units=4",
            "filtering.hidden=4",
            "evaluation.particles=2",
        ],
    ),
    (
        "copying",
        "copy",
        &[
            "training.batch=4",
            "task.bits=3",
            "task.longest=4",
            "model.memory=dnc",
            "memory.dnc.hidden=4",
            "memory.dnc.reads=2",
            "memory.dnc.width=3",
        ],
    ),
    (
        "classes",
        "nth-farthest-small",
        &[
            "training.batch=8",
            "model.head_layers=1",
            "model.head_hidden=4",
            "task.vectors=3",
            "task.admit_at=0.02",
            "model.memory=rmc",
            "memory.rmc.slots=2",
            "memory.rmc.heads=2",
            "memory.rmc.head_size=3",
        ],
    ),
    (
        "programs",
        "learning-to-execute-small",
        &[
            "training.batch=8",
            "model.head_layers=1",
            "model.head_hidden=4",
            "task.programs.nesting=1",
            "task.programs.curriculum=naive",
            "model.memory=lstm",
            "memory.lstm.hidden=4",
        ],
    ),
    (
        "navigation",
        "image-navigation-small",
        &[
            "training.batch=3",
            "navigation.memorise=7",
            "navigation.predict=2",
            "navigation.foresee=40",
            "navigation.model.hidden=4",
            "navigation.model.latent=2",
            "navigation.model.neighbours=3",
            "navigation.model.transition.wall_hidden=3",
            "navigation.stages.frames=0",
            "navigation.stages.gate=false",
            "navigation.stages.short=1",
            "navigation.stages.grow=1",
            "navigation.stages.short_memorise=5",
        ],
    ),
    (
        "navigation",
        "image-navigation-small",
        &[
            "training.batch=3",
            "navigation.memorise=4",
            "navigation.predict=2",
            "navigation.foresee=3",
            "model.name=gtmm",
            "model.memory=vrnn",
            "model.latent=2",
            "model.visual_hidden=4",
            "model.visual_features=3",
            "model.prior_hidden=4",
            "model.posterior_hidden=4",
            "memory.vrnn.hidden=4",
        ],
    ),
    (
        "tables",
        "own-small",
        &[
            "data.directory=tests/tables/measured.csv",
            "table.sequence=station",
            "table.known=[\"holiday\"]",
            "table.window=8",
            "table.samples=20",
            "table.origins=4",
            "training.batch=3",
            "network.srnn.hidden=4",
            "network.srnn.units=4",
        ],
    ),
    (
        "agents",
        "boxworld-small",
        &[
            "training.batch=3",
            "agents.unroll=7",
            "agents.model.head=4",
            "agents.model.torso.channels=[3, 4]",
            "memory.rmc.slots=2",
            "memory.rmc.heads=1",
            "memory.rmc.head_size=3",
            "evaluation.batch=2",
        ],
    ),
    (
        "agents",
        "repeat-previous-small",
        &[
            "training.batch=3",
            "agents.objective=ppo",
            "agents.passes=2",
            "agents.unroll=5",
            "agents.model.head=4",
            "agents.model.torso.units=4",
            "model.memory=lru",
            "memory.lru.hidden=4",
            "memory.lru.slots=4",
            "memory.lru.reads=2",
            "memory.lru.width=3",
            "evaluation.batch=2",
        ],
    ),
    (
        "agents",
        "mini-pacman-small",
        &[
            "training.batch=2",
            "agents.unroll=3",
            "agents.model.head=4",
            "model.memory=conv-lstm",
            "memory.conv_lstm.channels=2",
            "evaluation.batch=2",
        ],
    ),
    (
        "scenes",
        "prism",
        &[
            "training.batch=3",
            "scenes.samples=2",
            "scenes.model.steps=2",
            "scenes.model.hidden=3",
            "scenes.model.encoded=2",
            "scenes.model.canvas=3",
            "scenes.model.decoded=2",
        ],
    ),
    (
        "scenes",
        "prism",
        &[
            "model.name=gqn-original",
            "training.batch=3",
            "scenes.samples=2",
            "scenes.gqn.steps=2",
            "scenes.gqn.hidden=3",
            "scenes.gqn.wide=4",
            "scenes.gqn.narrow=2",
        ],
    ),
    (
        "scenes",
        "travelling-salesman-small",
        &[
            "model.name=sssm",
            "training.batch=2",
            "scenes.size=16",
            "scenes.context_most=5",
            "scenes.samples=2",
            "scenes.sssm.width=3",
            "scenes.sssm.latent=2",
        ],
    ),
    (
        "scenes",
        "travelling-salesman-small",
        &[
            "model.name=sv2p",
            "training.batch=2",
            "scenes.size=16",
            "scenes.samples=2",
            "scenes.sv2p.width=2",
            "scenes.sv2p.grid=2",
            "scenes.sv2p.softened=false",
            // The first update learns all, and the second gives true frames to some stories.
            "scenes.sv2p.noise_until=0",
            "scenes.sv2p.free_until=0",
            "scenes.sv2p.full_from=2",
            "scenes.sv2p.sampling=2.0",
        ],
    ),
    (
        "scenes",
        "travelling-salesman-small",
        &[
            "model.name=cdna",
            "training.batch=2",
            "scenes.size=16",
            "scenes.samples=2",
            "scenes.cdna.width=2",
            "scenes.cdna.grid=4",
            "scenes.cdna.sampling=2.0",
        ],
    ),
    (
        "scenes",
        "own-views-small",
        &[
            "training.batch=3",
            "scenes.size=16",
            "scenes.model.steps=2",
            "scenes.model.hidden=3",
            "scenes.model.encoded=2",
            "scenes.model.canvas=3",
            "scenes.model.decoded=2",
        ],
    ),
    (
        "texts",
        "books-small",
        &[
            "training.batch=3",
            "task.window=6",
            "language.least_count=2000",
            "language.embedding=4",
            "language.samples=8",
            "model.memory=lstm",
            "memory.lstm.hidden=4",
        ],
    ),
];

/// Settings for every experiment.
const SHORT: [&str; 6] = [
    "training.threads=1",
    "evaluation.batches=2",
    "evaluation.batch=2",
    "evaluation.checkpoint_batches=1",
    "evaluation.pictures=1",
    "training.schedule=constant",
];

/// A small experiment, which must be of the family that its row names.
fn small((family, name, settings): &(&str, &str, &[&str])) -> Result<Experiment, Broken> {
    let settings = SHORT.iter().chain(*settings);
    let settings: Vec<String> = settings.map(|setting| setting.to_string()).collect();
    let experiment = load_experiment(name, &settings).map_err(|error| error.to_string())?;
    match experiment.family().name() {
        own if own == *family => Ok(experiment),
        other => Err(format!(
            "{name} is an experiment of {other}, not of {family}"
        )),
    }
}

#[test]
fn every_family_holds_to_the_contract() {
    // A NaN must be noticed by the update, as in the program, and not by a check that only tests have.
    set_range_checks(false);
    for family in families() {
        let there = SMALL.iter().any(|(name, ..)| *name == family.name());
        assert!(there, "{} has no small experiment", family.name());
    }
    let broken: Vec<Broken> = SMALL
        .iter()
        .filter_map(|row| {
            let folder = tempfile::tempdir().expect("a temporary folder is made");
            let held = small(row).and_then(|experiment| check_family(&experiment, folder.path()));
            held.err()
        })
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

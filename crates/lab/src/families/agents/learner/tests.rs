use super::*;
use crate::{families::agents::quantities::QUANTITIES, load_experiment};
use mnemora_training::{
    Begun, Finished, Phase, RunContext, checkpoint,
    checkpoint::State,
    device::light_device,
    run::{Origin, Run},
    train,
};
use mnemora_worlds::{Error as WorldError, Step, Vectorised};

/// A T-maze whose roof falls in at step `safe` of the training.
struct Crumbling {
    maze: Box<dyn Environment>,
    safe: usize,
    steps: usize,
}

impl Environment for Crumbling {
    fn spec(&self) -> Spec {
        self.maze.spec()
    }

    fn reset(&mut self, seed: u64, observation: &mut [f32]) -> Result<Step, WorldError> {
        self.maze.reset(seed, observation)
    }

    fn step(&mut self, action: usize, observation: &mut [f32]) -> Result<Step, WorldError> {
        self.steps += 1;
        assert!(self.steps < self.safe, "the roof fell in");
        self.maze.step(action, observation)
    }

    fn score(&self) -> Option<(&'static str, f64)> {
        self.maze.score()
    }

    fn save(&self) -> Vec<u8> {
        self.maze.save()
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), WorldError> {
        self.maze.restore(saved)
    }
}

/// A training of updates of 4 steps, with checkpoints after every second of them.
fn experiment() -> Experiment {
    let settings = [
        "training.steps=20",
        "training.batch=2",
        "training.checkpoint_every=2",
        "agents.unroll=4",
        "agents.model.head=4",
        "memory.lstm.hidden=4",
        "evaluation.batch=2",
    ];
    load_experiment("t-maze-small", &settings.map(str::to_owned)).unwrap()
}

#[test]
fn a_panic_of_an_environment_ends_the_training_and_leaves_the_last_checkpoint() {
    let experiment = experiment();
    let device = light_device().unwrap();
    let learner = || AgentLearner::new(&experiment, &device.clone().autodiff()).unwrap();
    let mut crumbling = learner();
    let mazes = [1000, 4 * 5 + 2].map(|safe| {
        let maze = environment(&experiment, &crumbling.settings).unwrap();
        let steps = 0;
        Box::new(Crumbling { maze, safe, steps }) as Box<dyn Environment>
    });
    let mazes = Vectorised::new(mazes.into(), experiment.seed).unwrap();
    let draws = Stream::new(experiment.seed, "actions");
    let actor = Actor::new(mazes, &crumbling.policy(), draws);
    crumbling.acting = Acting::InTurn(Box::new(actor));

    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("run");
    let run = Run::create(
        &directory,
        &experiment.to_toml().unwrap(),
        Origin::default(),
    );
    let run = run.unwrap();
    let begun = Begun {
        state: State::start(experiment.label(), experiment.seed, ""),
        metrics: run.metrics(|_| true).unwrap(),
        run,
    };
    let context = RunContext {
        interrupted: &|| None,
        all_saved: &|_| (),
        quiet: true,
        command: String::new(),
        commit: String::new(),
        device: device.clone(),
        continue_differently: false,
    };
    let mut phases = Vec::new();
    let ended = train(
        begun,
        &experiment.training,
        &QUANTITIES,
        &mut crumbling,
        &context,
        |standing| phases.push(standing.phase),
        |_, _, _, _| Ok::<_, Error>(Finished::default()),
    );
    let error = ended.map(|_| ()).unwrap_err();
    assert_eq!(error.exit_code(), 1);
    let Error::Worlds(WorldError::EnvironmentPanicked {
        index,
        seed,
        ref actions,
        ref message,
    }) = error
    else {
        panic!("another error: {error}");
    };
    assert_eq!((index, message.as_str()), (1, "the roof fell in"));
    let said = error.to_string();
    assert!(said.contains(&format!("seed {seed}")), "{said}");
    assert!(!actions.is_empty());
    assert!(phases.iter().all(|phase| *phase == Phase::Updates));

    // The sixth update failed: what was saved after the fourth is whole, and goes on as if there had been no roof.
    let (saved, problems) = checkpoint::load_latest(&directory).unwrap();
    assert_eq!((saved.state.step, problems.len()), (4, 0));
    let weights = checkpoint::weights_file(&directory, 4);
    let [mut resumed, mut straight] = [learner(), learner()];
    resumed.restore(saved.snapshot, &weights).unwrap();
    for step in 1..=8 {
        straight.update(step).unwrap();
        straight.measured().unwrap();
        if step > 4 {
            resumed.update(step).unwrap();
            resumed.measured().unwrap();
        }
    }
    let [resumed, straight] = [resumed.snapshot(), straight.snapshot()];
    assert_eq!(resumed.counters, straight.counters);
    for (part, resumed, straight) in [
        ("model", resumed.model, straight.model),
        ("optimiser", resumed.optimiser, straight.optimiser),
        ("carried", resumed.carried, straight.carried),
    ] {
        assert!(resumed.keys().eq(straight.keys()), "{part}");
        for (name, array) in &resumed {
            assert_eq!(array, &straight[name], "{part}: {name}");
        }
    }
}

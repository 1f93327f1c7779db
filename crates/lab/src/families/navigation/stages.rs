//! The stages of a training: frames alone, then short walks until the actions are understood, then walls, then longer
//! and longer walks.
//!
//! A walk of full length teaches nothing while the actions are not understood: the first places that a wrong `A` gives
//! to a frame are as good as any other. A gate decides when they are: it knows which actions are opposite and which stands still, but no places.

use super::settings::StageSettings;
use mnemora_models::Transition;
use mnemora_training::{Error, Snapshot, arrays::host};
use std::{collections::BTreeMap, path::Path};

/// A stage of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Frames alone: the VAE learns under a standard normal prior.
    Frames,
    /// Short walks without walls in the model, until the gate opens.
    Actions,
    /// Short walks with all of the model.
    Short,
    /// Walks that grow to their full length.
    Growing,
    /// Walks of full length.
    Full,
}

const ALL: [Stage; 5] = [
    Stage::Frames,
    Stage::Actions,
    Stage::Short,
    Stage::Growing,
    Stage::Full,
];

/// The actions of a world, as the gate needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// Pairs of opposite actions.
    pub opposites: Vec<[usize; 2]>,
    /// Actions that change nothing.
    pub still: Vec<usize>,
}

impl Actions {
    /// Finds them by the names of the actions.
    pub fn of(names: &[&str]) -> Self {
        const OPPOSITES: [[&str; 2]; 5] = [
            ["up", "down"],
            ["left", "right"],
            ["forward", "back"],
            ["strafe-left", "strafe-right"],
            ["turn-left", "turn-right"],
        ];
        let place = |name: &str| names.iter().position(|own| *own == name);
        let pairs = OPPOSITES.iter();
        Self {
            opposites: pairs
                .filter_map(|[one, other]| Some([place(one)?, place(other)?]))
                .collect(),
            still: place("stay").into_iter().collect(),
        }
    }
}

/// How far a training has come. All of it is in the checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    settings: StageSettings,
    stage: Stage,
    /// Updates made in this stage, or since the last draw of `A`.
    since: u64,
    /// Checks of the gate in a row that were passed.
    passed: u64,
    /// Times that `A` was drawn again.
    redraws: u64,
}

/// What a learner has to do before its next update.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice {
    /// Nothing.
    GoOn,
    /// Draw `A` again; the number of this draw, from 1.
    Redraw(u64),
    /// Stop: the gate did not open.
    GiveUp(String),
}

/// Checkpoint counters.
const STAGE: &str = "navigation stage";
const SINCE: &str = "navigation updates in stage";
const PASSED: &str = "navigation gate checks passed";
const REDRAWS: &str = "navigation redraws";

impl Progress {
    /// Before the first update.
    pub fn new(settings: StageSettings) -> Self {
        let mut progress = Self {
            settings,
            stage: Stage::Frames,
            since: 0,
            passed: 0,
            redraws: 0,
        };
        progress.skip();
        progress
    }

    /// The current stage.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The number of the current stage, from 0.
    pub fn number(&self) -> usize {
        ALL.iter()
            .position(|stage| *stage == self.stage)
            .unwrap_or(0)
    }

    /// Whether `A` was drawn again and is not understood yet.
    pub fn redrawn(&self) -> bool {
        self.stage == Stage::Actions && self.redraws > 0
    }

    /// Steps of the next walks: to memorise, and to predict. `full` are those of the experiment.
    pub fn lengths(&self, full: [usize; 2]) -> [usize; 2] {
        let StageSettings {
            short_memorise,
            short_predict,
            grow,
            ..
        } = self.settings;
        let short = [short_memorise.min(full[0]), short_predict.min(full[1])];
        match self.stage {
            Stage::Frames | Stage::Full => full,
            Stage::Actions | Stage::Short => short,
            Stage::Growing => {
                let done = self.since as f64 / grow as f64;
                [0, 1].map(|part| {
                    let (from, to) = (short[part] as f64, full[part] as f64);
                    // In steps of eight, so that batches can be made ahead.
                    let reached = (from + done * (to - from)) / 8.0;
                    (8 * reached.floor() as usize).clamp(short[part], full[part])
                })
            }
        }
    }

    /// Updates that this stage takes at most; `None` for a stage without an end of its own.
    fn span(&self) -> Option<u64> {
        match self.stage {
            Stage::Frames => Some(self.settings.frames),
            Stage::Actions if !self.settings.gate => Some(0),
            Stage::Actions => None,
            Stage::Short => Some(self.settings.short),
            Stage::Growing => Some(self.settings.grow),
            Stage::Full => None,
        }
    }

    /// Moves past stages that are over.
    fn skip(&mut self) {
        while self.span().is_some_and(|span| self.since >= span) {
            self.enter(ALL[self.number() + 1]);
        }
    }

    fn enter(&mut self, stage: Stage) {
        (self.stage, self.since, self.passed) = (stage, 0, 0);
    }

    /// Counts an update that was made, and looks at the gate when it is time.
    pub fn made(&mut self, transition: &Transition, actions: &Actions) -> Advice {
        self.since += 1;
        if self.stage == Stage::Actions && self.settings.gate {
            let settings = &self.settings;
            if !self.since.is_multiple_of(settings.gate_every) {
                return Advice::GoOn;
            }
            let closed = closed(settings, transition, actions);
            self.passed = match closed {
                None => self.passed + 1,
                Some(_) => 0,
            };
            if self.passed >= settings.gate_checks {
                self.enter(Stage::Short);
                self.skip();
            } else if self.since >= settings.redraw_after {
                let why = closed.unwrap_or_else(|| "it opened too late".into());
                if self.redraws >= settings.redraws {
                    return Advice::GiveUp(self.not_understood(&why));
                }
                self.redraws += 1;
                (self.since, self.passed) = (0, 0);
                return Advice::Redraw(self.redraws);
            }
            return Advice::GoOn;
        }
        self.skip();
        Advice::GoOn
    }

    /// Why a training that ends now ends too early: it may not do so in front of a closed gate and say nothing.
    pub fn unopened(&self, transition: &Transition, actions: &Actions) -> Option<String> {
        if self.stage != Stage::Actions {
            return None;
        }
        let why = closed(&self.settings, transition, actions);
        let why = why.unwrap_or_else(|| "it opened too late".into());
        Some(format!(
            "the training ended before the gate opened. {}",
            self.not_understood(&why)
        ))
    }

    fn not_understood(&self, why: &str) -> String {
        format!(
            "The actions were not understood: {why}, after {} redraws of A; give navigation.stages.redraws, \
             navigation.stages.redraw_after or training.steps more, or choose another seed",
            self.redraws
        )
    }

    /// Adds its state to the counters of a checkpoint.
    pub fn save(&self, counters: &mut BTreeMap<String, f64>) {
        let numbers = [
            (STAGE, self.number() as u64),
            (SINCE, self.since),
            (PASSED, self.passed),
            (REDRAWS, self.redraws),
        ];
        counters.extend(numbers.map(|(name, number)| (name.to_owned(), number as f64)));
    }

    /// Restores the state written by [`save`](Self::save).
    ///
    /// # Errors
    /// If a part is missing, or is not a count.
    pub fn restore(&mut self, from: &Snapshot, path: &Path) -> Result<(), Error> {
        let count = |name: &str| {
            let number = from.counter(name, path)?;
            match number >= 0.0 && number.fract() == 0.0 {
                true => Ok(number as u64),
                false => Err(Error::WrongWeights {
                    path: path.to_owned(),
                    problem: format!("its '{name}' is {number}"),
                }),
            }
        };
        let stage = count(STAGE)?;
        self.stage = *usize::try_from(stage)
            .ok()
            .and_then(|stage| ALL.get(stage))
            .ok_or_else(|| Error::WrongWeights {
                path: path.to_owned(),
                problem: format!("its '{STAGE}' is {stage}"),
            })?;
        self.since = count(SINCE)?;
        self.passed = count(PASSED)?;
        self.redraws = count(REDRAWS)?;
        Ok(())
    }
}

/// Why the gate is closed; `None` if it is open: opposite actions cancel, an action that changes nothing moves nowhere,
/// and no two pairs of opposite actions move along one line or differ much in length.
fn closed(settings: &StageSettings, transition: &Transition, actions: &Actions) -> Option<String> {
    let width = transition.place_size();
    let moves = host(transition.moves.val().detach().into_data());
    let of = |action: usize| &moves[action * width..][..width];
    let length = |step: &[f64]| step.iter().map(|x| x * x).sum::<f64>().sqrt();
    let sum = |[one, other]: [usize; 2], sign: f64| -> Vec<f64> {
        let pairs = of(one).iter().zip(of(other));
        pairs
            .map(|(a, b)| f64::from(*a) + sign * f64::from(*b))
            .collect()
    };
    let axes: Vec<Vec<f64>> = actions
        .opposites
        .iter()
        .map(|pair| sum(*pair, -1.0).iter().map(|x| x / 2.0).collect())
        .collect();
    let lengths: Vec<f64> = axes.iter().map(|axis| length(axis)).collect();
    let mean = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
    let rest = actions
        .opposites
        .iter()
        .map(|pair| length(&sum(*pair, 1.0)))
        .chain(actions.still.iter().map(|still| {
            let step: Vec<f64> = of(*still).iter().map(|x| f64::from(*x)).collect();
            length(&step)
        }));
    let left = rest.fold(0.0, f64::max) / mean;
    if left.is_nan() || left > settings.gate_opposite {
        return Some(format!(
            "opposite actions leave {left:.2} of a step, more than navigation.stages.gate_opposite, {}",
            settings.gate_opposite
        ));
    }
    for (index, one) in axes.iter().enumerate() {
        for (other, size) in axes.iter().zip(&lengths).skip(index + 1) {
            let dot: f64 = one.iter().zip(other).map(|(a, b)| a * b).sum();
            let cos = dot / (lengths[index] * size);
            let sin = (1.0 - cos * cos).max(0.0).sqrt();
            if sin.is_nan() || sin < settings.gate_angle {
                return Some(format!(
                    "two axes have a sine of {sin:.2} between them, less than navigation.stages.gate_angle, {}",
                    settings.gate_angle
                ));
            }
            let ratio = lengths[index].min(*size) / lengths[index].max(*size);
            if ratio.is_nan() || ratio < settings.gate_ratio {
                return Some(format!(
                    "the steps of two axes differ by a factor of {ratio:.2}, less than \
                     navigation.stages.gate_ratio, {}",
                    settings.gate_ratio
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::{
        module::Param,
        tensor::{Device, Tensor, TensorData},
    };
    use mnemora_memory::Initializer;
    use mnemora_models::{TransitionConfig, TransitionKind};
    use mnemora_worlds::Stream;

    /// A transition whose actions up, down, left, right and stay make these steps.
    fn transition(moves: [[f32; 2]; 5]) -> Transition {
        let device = Device::default();
        let config = TransitionConfig {
            kind: TransitionKind::Linear,
            ..TransitionConfig::default()
        };
        let mut init = Initializer::new(Stream::new(1, "test").at(0), device.clone());
        let mut transition = config.init([5, 2], &[], &mut init).unwrap();
        let moves = TensorData::new(moves.concat(), [5, 2]);
        transition.moves = Param::from_tensor(Tensor::from_data(moves, &device));
        transition
    }

    fn actions() -> Actions {
        Actions::of(&["up", "down", "left", "right", "stay"])
    }

    /// Understood actions: an affine map of the grid.
    const UNDERSTOOD: [[f32; 2]; 5] = [
        [0.1, 0.5],
        [-0.1, -0.5],
        [0.4, 0.0],
        [-0.4, 0.02],
        [0.01, 0.0],
    ];

    fn why(change: impl Fn(&mut [[f32; 2]; 5])) -> Option<String> {
        let mut moves = UNDERSTOOD;
        change(&mut moves);
        closed(&StageSettings::default(), &transition(moves), &actions())
    }

    #[test]
    fn the_gate_says_what_is_not_understood() {
        assert_eq!(
            actions(),
            Actions {
                opposites: vec![[0, 1], [2, 3]],
                still: vec![4]
            }
        );
        assert_eq!(why(|_| ()), None);
        let says = |change: &dyn Fn(&mut [[f32; 2]; 5]), words: &str| {
            let found = why(change).expect("the gate is closed");
            assert!(found.contains(words), "{found}");
        };
        says(&|moves| moves[1] = [0.1, -0.3], "gate_opposite");
        says(&|moves| moves[4] = [0.3, 0.0], "gate_opposite");
        // Both axes on one line.
        says(
            &|moves| (moves[0], moves[1]) = ([0.5, 0.0], [-0.5, 0.0]),
            "gate_angle",
        );
        says(
            &|moves| (moves[2], moves[3]) = ([0.05, 0.0], [-0.05, 0.0]),
            "gate_ratio",
        );
        says(&|moves| moves[2] = [f32::NAN, 0.0], "gate_opposite");
    }

    fn settings() -> StageSettings {
        StageSettings {
            frames: 2,
            gate_every: 5,
            gate_checks: 2,
            redraw_after: 20,
            redraws: 2,
            short: 3,
            grow: 4,
            short_memorise: 10,
            short_predict: 4,
            ..StageSettings::default()
        }
    }

    #[test]
    fn stages_follow_one_another_and_are_restored() {
        let (understood, actions) = (transition(UNDERSTOOD), actions());
        let mut progress = Progress::new(settings());
        let mut seen = Vec::new();
        let full = [100, 40];
        for _ in 0..22 {
            seen.push((progress.number(), progress.lengths(full)));
            let mut counters = BTreeMap::new();
            progress.save(&mut counters);
            let mut again = Progress::new(settings());
            let snapshot = Snapshot {
                counters,
                ..Snapshot::default()
            };
            again.restore(&snapshot, Path::new("test")).unwrap();
            assert_eq!(again, progress);
            assert_eq!(progress.made(&understood, &actions), Advice::GoOn);
        }
        let stages: Vec<usize> = seen.iter().map(|(stage, _)| *stage).collect();
        let expected = [vec![0; 2], vec![1; 10], vec![2; 3], vec![3; 4], vec![4; 3]].concat();
        assert_eq!(stages, expected);
        assert_eq!(seen[0].1, full);
        assert_eq!(seen[5].1, [10, 4]);
        let lengths: Vec<[usize; 2]> = seen[15..20].iter().map(|(_, lengths)| *lengths).collect();
        assert_eq!(lengths[0], [10, 4]);
        assert_eq!(lengths[4], full);
        for pair in lengths.windows(2) {
            assert!(
                pair[0][0] < pair[1][0] && pair[0][1] <= pair[1][1],
                "{lengths:?}"
            );
        }
    }

    #[test]
    fn a_gate_that_stays_closed_redraws_and_then_gives_up() {
        let mut moves = UNDERSTOOD;
        (moves[0], moves[1]) = ([0.5, 0.0], [-0.5, 0.0]);
        let (line, actions) = (transition(moves), actions());
        let mut progress = Progress::new(settings());
        let mut advice = Vec::new();
        for _ in 0..62 {
            match progress.made(&line, &actions) {
                Advice::GoOn => {}
                other => advice.push(other),
            }
        }
        let [Advice::Redraw(1), Advice::Redraw(2), Advice::GiveUp(why)] = advice.as_slice() else {
            panic!("{advice:?}");
        };
        assert!(
            why.contains("gate_angle") && why.contains("2 redraws"),
            "{why}"
        );
    }
    #[test]
    fn no_training_ends_at_a_closed_gate_in_silence() {
        let along_one_line =
            transition([[0.5, 0.0], [-0.5, 0.0], [0.4, 0.0], [-0.4, 0.0], [0.0, 0.0]]);
        let unopened = |gate| {
            let settings = StageSettings {
                frames: 0,
                gate,
                ..StageSettings::default()
            };
            Progress::new(settings).unopened(&along_one_line, &actions())
        };
        let why = unopened(true).expect("the gate is closed");
        assert!(
            why.contains("before the gate opened") && why.contains("gate_angle"),
            "{why}"
        );
        assert_eq!(unopened(false), None);
    }
}

//! Episodes played step by step: by a person, or by an agent while a person watches.

use super::{
    actor::{Actor, Choice},
    environments::{environment_seed, environments},
    figures::drawable,
    settings::AgentSettings,
};
use crate::{Experiment, LabError, experiment::gallery::Walker};
use mnemora_figures::picture::{Image, frame};
use mnemora_models::{Agent, AgentPrepared};
use mnemora_worlds::{ENVIRONMENTS, Environment, Spec, Stream, Vectorised};
use toml::Value;

/// What came of the steps of an episode.
#[derive(Clone, Debug, Default)]
struct Account {
    /// The last action; none before the first.
    action: Option<usize>,
    reward: f32,
    total: f64,
    steps: u64,
    /// What the environment counts, once the episode is over.
    outcome: Option<(&'static str, f64)>,
    over: bool,
}

impl Account {
    fn words(&self, spec: &Spec) -> String {
        let Some(action) = self.action else {
            return format!("a new episode; {} actions", spec.actions.len());
        };
        let mut words = format!(
            "step {}: {}, reward {:.2}, {:.2} in all",
            self.steps,
            spec.actions[action],
            // Without the sign of a zero.
            self.reward + 0.0,
            self.total + 0.0
        );
        if self.over {
            words.push_str("; the episode is over");
            if let Some((name, value)) = self.outcome {
                words.push_str(&format!(", {name} {value:.2}"));
            }
        }
        words
    }

    /// Takes in what the only one of `environments` did.
    fn add(&mut self, environments: &mut Vectorised<Box<dyn Environment>>, action: usize) {
        self.action = Some(action);
        self.steps += 1;
        self.reward = environments.rewards()[0];
        self.total += f64::from(self.reward);
        self.over = environments.lasts()[0];
        let finished = environments.take_finished();
        self.outcome = finished.first().and_then(|episode| episode.score);
    }
}

/// What is seen in the only one of `environments`, at least `zoom` pixels for each pixel of a frame; when an episode is `over`,
/// its last frame.
fn seen(
    environments: &Vectorised<Box<dyn Environment>>,
    over: bool,
    zoom: usize,
) -> Result<Image, LabError> {
    let observation = match over {
        true => environments.ends(),
        false => environments.observations(),
    };
    let (values, [channels, height, width]) = drawable(&environments.spec(), observation);
    Ok(frame(&values, channels, height, width, zoom)?)
}

/// The same episodes with the whole map in sight; `None` if the agent sees all of it, or there is no map.
fn as_a_whole(
    experiment: &Experiment,
    settings: &AgentSettings,
    seed: u64,
) -> Result<Option<Vectorised<Box<dyn Environment>>>, LabError> {
    const KEY: &str = "viewport";
    let mut whole = settings.clone();
    let task = experiment.task.name.as_str();
    match whole.environment.get_mut(task) {
        Some(table) if table.get(KEY).and_then(Value::as_integer) > Some(0) => {
            table.insert(KEY.into(), Value::Integer(0));
        }
        _ => return Ok(None),
    }
    Ok(Some(environments(experiment, &whole, 1, seed)?))
}

/// Two pictures side by side, `gap` pixels apart.
fn beside(left: &Image, right: &Image, gap: usize) -> Result<Image, LabError> {
    let height = left.height().max(right.height());
    let mut both = Image::new(left.width() + gap + right.width(), height, [255; 3])?;
    both.blit(left, 0, 0);
    both.blit(right, left.width() + gap, 0);
    Ok(both)
}

/// What stands for an action; `q` leaves.
const KEYS: &str = "abcdefghijklmnoprstuvwxyz0123456789ABCDEFGHIJKLMNOPRSTUVWXYZ";

/// A letter for each action: the first free one of its name, otherwise the first free one of all.
fn letters(spec: &Spec) -> Vec<(char, &'static str)> {
    let mut keys: Vec<(char, &'static str)> = Vec::new();
    for name in spec.actions {
        let free =
            |letter: &char| KEYS.contains(*letter) && keys.iter().all(|(key, _)| key != letter);
        let letter = name.chars().find(free).or_else(|| KEYS.chars().find(free));
        keys.extend(letter.map(|letter| (letter, *name)));
    }
    keys
}

/// An environment that a person plays.
pub struct Game {
    environments: Vectorised<Box<dyn Environment>>,
    spec: Spec,
    account: Account,
}

/// The settings of an environment as an experiment's: `viewport=0` is `agents.environment.NAME.viewport=0`.
fn experiment_of(name: &str, settings: &[String]) -> Result<Experiment, LabError> {
    let known = ENVIRONMENTS.iter().map(|kind| kind.name);
    if !known.clone().any(|known| known == name) {
        let known: Vec<&str> = known.collect();
        return Err(LabError::Configuration(format!(
            "'{name}' is neither the directory of a run nor an environment; the environments are {}",
            known.join(", ")
        )));
    }
    let prefix = format!("agents.environment.{name}.");
    if let Some(other) = settings
        .iter()
        .find(|text| text.starts_with("agents.") && !text.starts_with(&prefix))
    {
        return Err(LabError::Configuration(format!(
            "--set {other}: a person plays; only settings of the environment count, such as {prefix}KEY"
        )));
    }
    let settings = settings
        .iter()
        .map(|text| match text.starts_with("agents.") {
            true => text.clone(),
            false => format!("{prefix}{text}"),
        });
    let first = [format!("task.name={name}"), "model.memory=none".to_owned()];
    let all: Vec<String> = first.into_iter().chain(settings).collect();
    let experiment = Experiment::parse("", name, &all)?;
    experiment.refuse_unread(&all)?;
    Ok(experiment)
}

impl Game {
    /// The environment of this name, with settings of its own such as `viewport=0`, at the beginning of an episode.
    ///
    /// # Errors
    /// There is no such environment, or a setting does not fit.
    pub fn new(name: &str, settings: &[String], seed: u64) -> Result<Self, LabError> {
        let experiment = experiment_of(name, settings)?;
        let settings: AgentSettings = experiment.own_settings()?;
        let environments = environments(&experiment, &settings, 1, seed)?;
        let actions = environments.spec().actions.len();
        if actions > KEYS.len() {
            return Err(LabError::Configuration(format!(
                "{name} has {actions} actions here; at most {} can be played by keys",
                KEYS.len()
            )));
        }
        Ok(Self {
            spec: environments.spec(),
            environments,
            account: Account::default(),
        })
    }
}

impl Walker for Game {
    fn keys(&self) -> Vec<(char, &'static str)> {
        letters(&self.spec)
    }

    /// After the end of an episode any action begins the next one.
    fn step(&mut self, action: usize) -> Result<(), LabError> {
        if self.account.over {
            self.account = Account::default();
            return Ok(());
        }
        self.environments.step(&[action])?;
        self.account.add(&mut self.environments, action);
        Ok(())
    }

    fn words(&self) -> String {
        self.account.words(&self.spec)
    }

    fn picture(&self, zoom: usize) -> Result<Image, LabError> {
        seen(&self.environments, self.account.over, zoom)
    }

    fn caption(&self) -> &'static str {
        "what an agent would see"
    }

    fn over(&self) -> bool {
        self.account.over
    }
}

/// An agent that plays while a person watches.
pub struct Watched {
    actor: Actor,
    /// What the agent does, seen as a whole.
    whole: Option<Vectorised<Box<dyn Environment>>>,
    agent: Agent,
    prepared: AgentPrepared,
    account: Account,
}

impl Watched {
    /// An agent at the beginning of a held-out episode.
    pub fn new(
        experiment: &Experiment,
        settings: &AgentSettings,
        agent: Agent,
        seed: u64,
    ) -> Result<Self, LabError> {
        let stream = |what| Stream::new(seed, what);
        let seed = environment_seed(&stream("watched episodes"));
        let environments = environments(experiment, settings, 1, seed)?;
        Ok(Self {
            whole: as_a_whole(experiment, settings, seed)?,
            actor: Actor::new(environments, &agent, stream("watched actions")),
            prepared: agent.prepare(),
            agent,
            account: Account::default(),
        })
    }
}

impl Walker for Watched {
    fn keys(&self) -> Vec<(char, &'static str)> {
        vec![('n', "next")]
    }

    /// The agent decides what it does. After the end of an episode the next one begins.
    fn step(&mut self, _: usize) -> Result<(), LabError> {
        if self.account.over {
            self.account = Account::default();
            return Ok(());
        }
        let acts = self
            .actor
            .step(&self.agent, &self.prepared, Choice::Sampled)?;
        let action = acts.actions[0];
        if let Some(whole) = &mut self.whole {
            whole.step(&[action])?;
            whole.take_finished();
        }
        self.account.add(&mut self.actor.environments, action);
        Ok(())
    }

    fn words(&self) -> String {
        self.account.words(self.actor.spec())
    }

    fn picture(&self, zoom: usize) -> Result<Image, LabError> {
        let over = self.account.over;
        let window = |zoom| seen(&self.actor.environments, over, zoom);
        let Some(whole) = &self.whole else {
            return window(zoom);
        };
        let whole = seen(whole, over, zoom)?;
        let larger = whole.height() / window(zoom)?.height().max(1);
        beside(&whole, &window(zoom * larger.max(1))?, zoom)
    }

    fn caption(&self) -> &'static str {
        match self.whole {
            Some(_) => "the whole map, and what the agent sees",
            None => "what the agent sees",
        }
    }

    fn over(&self) -> bool {
        self.account.over
    }

    fn moves_by_itself(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_of_every_environment_has_a_letter_of_its_own() {
        for kind in ENVIRONMENTS {
            let game = Game::new(kind.name, &[], 1).unwrap();
            let mut keys: Vec<char> = game.keys().iter().map(|(key, _)| *key).collect();
            assert!(keys.iter().all(|key| *key != 'q' && *key != '\0'));
            let count = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), count, "{}", kind.name);
        }
    }

    #[test]
    fn a_game_tells_what_happens_and_goes_on_after_an_episode() {
        let mut game = Game::new("t-maze", &["corridor=1".to_owned()], 1).unwrap();
        assert!(game.words().starts_with("a new episode"));
        game.step(0).unwrap();
        assert!(!game.over());
        game.step(1).unwrap();
        assert!(game.over());
        let words = game.words();
        assert!(words.contains("the episode is over, right"), "{words}");
        let junction = game.picture(4).unwrap();
        game.step(0).unwrap();
        assert!(
            game.words().starts_with("a new episode"),
            "{}",
            game.words()
        );
        assert_ne!(
            game.picture(4).unwrap(),
            junction,
            "the last frame, then a cue"
        );
        game.step(0).unwrap();
        assert!(
            game.words().starts_with("step 1: forward"),
            "{}",
            game.words()
        );
        assert!(game.picture(4).unwrap().height() >= 16);
    }

    #[test]
    fn the_whole_map_shows_the_episodes_of_the_window() {
        for (name, whole_frame) in [("box-world", [14, 14]), ("mini-pacman", [15, 19])] {
            let experiment = experiment_of(name, &[]).unwrap();
            let settings: AgentSettings = experiment.own_settings().unwrap();
            let mut window = environments(&experiment, &settings, 1, 7).unwrap();
            let mut whole = as_a_whole(&experiment, &settings, 7).unwrap().unwrap();
            let frame = whole.spec().frame;
            assert_eq!([frame.height, frame.width], whole_frame);
            assert_eq!(
                [window.spec().frame.height, window.spec().frame.width],
                [5; 2]
            );
            let mut ends = 0;
            for step in 0..2_000_usize {
                let action = [step * 7919 % 13 % window.spec().actions.len()];
                window.step(&action).unwrap();
                whole.step(&action).unwrap();
                assert_eq!(window.rewards(), whole.rewards(), "{name}, {step}");
                assert_eq!(window.lasts(), whole.lasts(), "{name}, {step}");
                ends += usize::from(window.lasts()[0]);
            }
            assert!(ends > 1, "{name}: {ends}");
        }
        let experiment = experiment_of("box-world", &["viewport=0".to_owned()]).unwrap();
        let settings: AgentSettings = experiment.own_settings().unwrap();
        assert!(as_a_whole(&experiment, &settings, 7).unwrap().is_none());
    }

    #[test]
    fn what_is_no_environment_is_one_line() {
        let error = |name: &str, settings: &[&str]| {
            let settings: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
            let error = Game::new(name, &settings, 1).map(|_| ()).unwrap_err();
            error.to_string()
        };
        let message = error("pacman", &[]);
        assert!(
            message.contains("mini-pacman, box-world, t-maze"),
            "{message}"
        );
        let message = error("mini-pacman", &["viewport=4"]);
        assert!(
            message.contains("agents.environment.mini-pacman.viewport"),
            "{message}"
        );
        let message = error("mini-pacman", &["corridor=4"]);
        assert!(message.contains("unknown key"), "{message}");
    }
}

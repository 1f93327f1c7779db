//! Environments for reinforcement learning, by name.
//!
//! A new environment takes its file, which implements [`Rules`](game::Rules) or [`Environment`], a `mod` line, and its row in
//! [`ENVIRONMENTS`].

mod box_world;
mod concentration;
mod game;
mod mini_pacman;
mod random;
mod repeat_previous;
pub(crate) mod sealed;
mod t_maze;
mod vectorised;
mod window;

pub use self::box_world::{BoxWorld, BoxWorldConfig};
pub use self::concentration::{Concentration, ConcentrationConfig};
pub use self::mini_pacman::{MiniPacman, MiniPacmanConfig, PacmanMode};
pub use self::repeat_previous::{RepeatPrevious, RepeatPreviousConfig};
pub use self::t_maze::{TMaze, TMazeConfig};
pub use self::vectorised::{Finished, Vectorised, episode_seed};

use std::sync::LazyLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::labyrinth::{Labyrinth, LabyrinthConfig};
use crate::{Environment, Error};

/// The environments.
pub const ENVIRONMENTS: &[EnvironmentKind] = &[
    EnvironmentKind {
        name: "mini-pacman",
        about: "Eat the food of a maze, level after level, and keep away from the ghosts",
        defaults: defaults::<MiniPacmanConfig>,
        schema: || schemars::schema_for!(MiniPacmanConfig).to_value(),
        build: |settings| boxed(MiniPacman::new(read(settings)?)),
    },
    EnvironmentKind {
        name: "box-world",
        about: "Open boxes in the right order to reach the gem",
        defaults: defaults::<BoxWorldConfig>,
        schema: || schemars::schema_for!(BoxWorldConfig).to_value(),
        build: |settings| boxed(BoxWorld::new(read(settings)?)),
    },
    EnvironmentKind {
        name: "t-maze",
        about: "Remember a sign from the beginning of a corridor to its end",
        defaults: defaults::<TMazeConfig>,
        schema: || schemars::schema_for!(TMazeConfig).to_value(),
        build: |settings| boxed(TMaze::new(read(settings)?)),
    },
    EnvironmentKind {
        name: "repeat-previous",
        about: "Name the symbol that was shown a number of steps ago",
        defaults: defaults::<RepeatPreviousConfig>,
        schema: || schemars::schema_for!(RepeatPreviousConfig).to_value(),
        build: |settings| boxed(RepeatPrevious::new(read(settings)?)),
    },
    EnvironmentKind {
        name: "concentration",
        about: "Find the pairs among cards that lie face down",
        defaults: defaults::<ConcentrationConfig>,
        schema: || schemars::schema_for!(ConcentrationConfig).to_value(),
        build: |settings| boxed(Concentration::new(read(settings)?)),
    },
    EnvironmentKind {
        name: "labyrinth",
        about: "Walk through rooms and corridors, seen through the agent's eyes, to find the goals",
        defaults: defaults::<LabyrinthConfig>,
        schema: || schemars::schema_for!(LabyrinthConfig).to_value(),
        build: |settings| boxed(Labyrinth::new(read(settings)?)).map_err(of_environment),
    },
];

/// An environment, chosen by name, with settings to build it from.
///
/// ```
/// use mnemora_worlds::EnvironmentKind;
/// use serde_json::json;
///
/// let kind = EnvironmentKind::named("box-world").expect("is in the table");
/// let world = (kind.build)(&json!({ "viewport": 0, "key_planes": false }))?;
/// assert_eq!(world.spec().frame.size(), 3 * 14 * 14);
/// let error = (kind.build)(&json!({ "viewport": 4 })).err().expect("is even");
/// assert_eq!(
///     error.to_string(),
///     "environment.viewport = 4: the side of the view must be odd, from 1 to 27, or 0 for the whole map"
/// );
/// # Ok::<(), mnemora_worlds::Error>(())
/// ```
#[derive(Debug)]
pub struct EnvironmentKind {
    /// The name that experiments and the command line use.
    pub name: &'static str,
    /// What there is to do, in one line.
    pub about: &'static str,
    /// All settings with their default values, as an object.
    pub defaults: fn() -> Value,
    /// What the settings mean: their JSON schema, with the doc comments.
    pub schema: fn() -> Value,
    /// Builds the environment from an object of settings. Those left out have their default values.
    pub build: fn(&Value) -> Result<Box<dyn Environment>, Error>,
}

impl EnvironmentKind {
    /// The environment with this name.
    pub fn named(name: &str) -> Option<&'static EnvironmentKind> {
        ENVIRONMENTS.iter().find(|kind| kind.name == name)
    }
}

fn defaults<C: Default + Serialize>() -> Value {
    serde_json::to_value(C::default()).expect("settings can be written")
}

fn read<C: DeserializeOwned>(settings: &Value) -> Result<C, Error> {
    // An array would be read as the values in their order.
    if !settings.is_object() {
        return Err(Error::EnvironmentSettings {
            problem: format!("environment: settings are an object, not {settings}"),
        });
    }
    C::deserialize(settings).map_err(|error| Error::EnvironmentSettings {
        problem: format!("environment: {error}"),
    })
}

fn boxed<E: Environment + 'static>(
    environment: Result<E, Error>,
) -> Result<Box<dyn Environment>, Error> {
    Ok(Box::new(environment?))
}

/// The labyrinth is a task, too, and names its settings as such.
fn of_environment(error: Error) -> Error {
    match error {
        Error::Setting { .. } | Error::Fraction { .. } | Error::Number { .. } => {
            Error::EnvironmentSettings {
                problem: error.to_string().replace("task.", "environment."),
            }
        }
        other => other,
    }
}

/// Most actions of an environment whose actions are numbers.
const MOST_NUMBERS: usize = 256;

/// Names of actions that are numbers: "0", "1", ...
fn numbers(count: usize) -> &'static [&'static str] {
    static TEXTS: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..MOST_NUMBERS).map(|number| number.to_string()).collect());
    static NAMES: LazyLock<Vec<&'static str>> =
        LazyLock::new(|| TEXTS.iter().map(String::as_str).collect());
    &NAMES[..count]
}

/// The code of the manual is tested, too.
#[cfg(doctest)]
#[doc = include_str!("../environments.md")]
struct Manual;

#[cfg(test)]
mod tests;

//! Repeat previous: name the symbol that was shown a number of steps ago (POPGym, Morad et al. 2023).

use std::collections::VecDeque;

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::game::{Game, Rules};
use super::random::Random;
use super::{MOST_NUMBERS, numbers};
use crate::settings::{LONGEST, check};
use crate::{Error, FrameShape, Spec};

/// Settings of [`RepeatPrevious`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RepeatPreviousConfig {
    /// Number of symbols.
    pub symbols: usize,
    /// How many steps ago the symbol to be named was shown; 0 is the one in sight. POPGym counts the one in sight as 1.
    pub back: usize,
    /// Steps of an episode.
    pub length: usize,
}

/// POPGym's RepeatPreviousEasy.
impl Default for RepeatPreviousConfig {
    fn default() -> RepeatPreviousConfig {
        RepeatPreviousConfig {
            symbols: 4,
            back: 3,
            length: 51,
        }
    }
}

impl RepeatPreviousConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// A value is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        check(
            "environment.symbols",
            self.symbols,
            2..=MOST_NUMBERS,
            || format!("there must be from 2 to {MOST_NUMBERS} symbols"),
        )?;
        check("environment.length", self.length, 1..=LONGEST, || {
            format!("an episode has from 1 to {LONGEST} steps")
        })?;
        let most = self.length - 1;
        check("environment.back", self.back, 0..=most, || {
            format!("it must be from 0 to environment.length - 1 = {most}")
        })
    }
}

/// Repeat previous.
///
/// Observations are `[symbols, 1, 1]`, one-hot. Actions name a symbol. Step `t` (from 0) asks for the symbol of
/// observation `t - back`; the first `back` steps do not count. A right answer is worth 1 over the number of steps that
/// count, a wrong one minus that. So returns are between -1 and 1.
///
/// Rewards are those of POPGym. One thing differs: POPGym deals the suits of shuffled decks, so that an agent which
/// counts cards knows which are left. Here all symbols are independent and uniform. An agent that sees nothing but the symbol
/// in sight is right in `1 / symbols` of the steps, for any `back` above 0.
///
/// # With the last action and reward, but no memory
/// Such an agent may keep a symbol in its actions: with four symbols and `back` 4, one that repeats its last action, and after a
/// reward says what is in sight, is right in a third of the steps. It cannot be right in a share `p` above 0.88. What it did
/// last is right with probability `p`, and so tells `2 - h` bits at least about the symbol that was asked for, with `h = H(p) +
/// (1 - p) log2(3)` (Fano) and `H` the entropy of two outcomes. With its reward it must tell as many about the symbol that is
/// asked for now, which is independent of the other. But an action has two bits at most and its reward `H(p)`: `2 (2 - h) <= 2
/// + H(p)`, which 0.88 does not fulfil.
///
/// ```
/// use mnemora_worlds::{Environment, RepeatPrevious, RepeatPreviousConfig};
///
/// let config = RepeatPreviousConfig { symbols: 4, back: 0, length: 10 };
/// let mut game = RepeatPrevious::new(config)?;
/// let mut observation = [0.0; 4];
/// game.reset(7, &mut observation)?;
/// let symbol = observation.iter().position(|value| *value == 1.0).unwrap_or(0);
/// assert_eq!(game.step(symbol, &mut observation)?.reward, 0.1);
/// # Ok::<(), mnemora_worlds::Error>(())
/// ```
pub type RepeatPrevious = Game<RepeatPreviousRules>;

impl RepeatPrevious {
    /// Repeat previous with these settings.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub fn new(config: RepeatPreviousConfig) -> Result<RepeatPrevious, Error> {
        config.check()?;
        Ok(Game::of(RepeatPreviousRules { config }))
    }
}

/// The rules of [`RepeatPrevious`].
#[derive(Clone, Debug)]
pub struct RepeatPreviousRules {
    config: RepeatPreviousConfig,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episode {
    random: Random,
    /// The last symbols, the one in sight last: at most `back + 1`.
    shown: VecDeque<u16>,
    steps: usize,
    right: usize,
}

impl RepeatPreviousRules {
    fn show(&self, episode: &mut Episode) {
        if episode.shown.len() > self.config.back {
            episode.shown.pop_front();
        }
        let symbol = episode.random.random_range(0..self.config.symbols as u16);
        episode.shown.push_back(symbol);
    }
}

impl Rules for RepeatPreviousRules {
    type Episode = Episode;
    type Config = RepeatPreviousConfig;
    const VERSION: &'static str = "mnemora repeat-previous 1";

    fn config(&self) -> &RepeatPreviousConfig {
        &self.config
    }

    fn spec(&self) -> Spec {
        Spec {
            frame: FrameShape {
                channels: self.config.symbols,
                height: 1,
                width: 1,
            },
            actions: numbers(self.config.symbols),
        }
    }

    fn begin(&self, seed: u64) -> Result<Episode, Error> {
        let mut episode = Episode {
            random: Random::of_episode(seed, "repeat-previous episode"),
            shown: VecDeque::with_capacity(self.config.back + 1),
            steps: 0,
            right: 0,
        };
        self.show(&mut episode);
        Ok(episode)
    }

    fn act(&self, episode: &mut Episode, action: usize) -> f32 {
        let mut reward = 0.0;
        if episode.shown.len() > self.config.back {
            let right = episode.shown.front().copied().map(usize::from) == Some(action);
            let worth = 1.0 / (self.config.length - self.config.back) as f32;
            reward = if right { worth } else { -worth };
            episode.right += usize::from(right);
        }
        episode.steps += 1;
        self.show(episode);
        reward
    }

    fn is_over(&self, episode: &Episode) -> bool {
        episode.steps >= self.config.length
    }

    fn draw(&self, episode: &Episode, observation: &mut [f32]) {
        observation.fill(0.0);
        if let Some(symbol) = episode.shown.back() {
            observation[usize::from(*symbol)] = 1.0;
        }
    }

    fn score(&self, episode: &Episode) -> (&'static str, f64) {
        let asked = episode.steps.saturating_sub(self.config.back);
        ("right share", episode.right as f64 / asked.max(1) as f64)
    }

    fn is_sound(&self, episode: &Episode) -> bool {
        let symbols = self.config.symbols;
        episode.steps <= self.config.length
            && episode.right <= episode.steps.saturating_sub(self.config.back)
            && episode.shown.len() == (episode.steps + 1).min(self.config.back + 1)
            && episode
                .shown
                .iter()
                .all(|symbol| usize::from(*symbol) < symbols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;
    use proptest::prelude::*;

    fn game(symbols: usize, back: usize, length: usize) -> RepeatPrevious {
        let config = RepeatPreviousConfig {
            symbols,
            back,
            length,
        };
        RepeatPrevious::new(config).expect("in range")
    }

    fn symbol(seen: &[f32]) -> usize {
        assert_eq!(seen.iter().sum::<f32>(), 1.0);
        seen.iter()
            .position(|value| *value == 1.0)
            .expect("one-hot")
    }

    proptest! {
        #[test]
        fn rewards_are_those_of_the_definition(
            seed: u64,
            symbols in 2usize..6,
            (back, length) in (0usize..10).prop_flat_map(|back| (Just(back), back + 1..40)),
            answers in prop::collection::vec(0usize..2, 40),
        ) {
            let mut game = game(symbols, back, length);
            let mut seen = vec![0.0; symbols];
            game.reset(seed, &mut seen).expect("a buffer of the right size");
            let mut shown = vec![symbol(&seen)];
            let worth = 1.0 / (length - back) as f32;
            let mut right = 0;
            for (number, answer) in answers.into_iter().enumerate().take(length) {
                let wanted = number.checked_sub(back).map(|place| shown[place]);
                let action = (wanted.unwrap_or(0) + answer) % symbols;
                let step = game.step(action, &mut seen).expect("runs");
                let expected = match (wanted, answer) {
                    (None, _) => 0.0,
                    (Some(_), 0) => worth,
                    (Some(_), _) => -worth,
                };
                right += usize::from(expected > 0.0);
                prop_assert_eq!(step.reward, expected);
                prop_assert_eq!(step.last, number + 1 == length);
                shown.push(symbol(&seen));
            }
            let share = right as f64 / (length - back) as f64;
            prop_assert_eq!(game.score(), Some(("right share", share)));
        }
    }

    /// An agent that repeats its last action, and says what is in sight after a reward.
    #[test]
    fn actions_may_keep_a_symbol() {
        let (back, length) = (4, 40_000);
        let mut game = game(4, back, length);
        let mut seen = [0.0; 4];
        game.reset(3, &mut seen).expect("a buffer of four");
        let mut action = symbol(&seen);
        for _ in 0..length {
            let reward = game.step(action, &mut seen).expect("runs").reward;
            if reward > 0.0 {
                action = symbol(&seen);
            }
        }
        let (_, share) = game.score().expect("an episode");
        assert!((0.3..0.36).contains(&share), "{share}");
    }

    #[test]
    fn symbols_are_uniform() {
        let mut game = game(4, 1, 40_000);
        let mut seen = [0.0; 4];
        game.reset(5, &mut seen).expect("a buffer of four");
        let mut pairs = [0; 16];
        let mut before = symbol(&seen);
        for _ in 0..40_000 {
            game.step(0, &mut seen).expect("runs");
            pairs[before * 4 + symbol(&seen)] += 1;
            before = symbol(&seen);
        }
        // 2500 expected of each pair, standard deviation 48.
        assert!(
            pairs.iter().all(|count| (2250..2750).contains(count)),
            "{pairs:?}"
        );
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let message = |symbols, back, length| {
            let config = RepeatPreviousConfig {
                symbols,
                back,
                length,
            };
            let error = RepeatPrevious::new(config).expect_err("out of range");
            error.to_string()
        };
        assert_eq!(
            message(1, 1, 9),
            "environment.symbols = 1: there must be from 2 to 256 symbols"
        );
        assert_eq!(
            message(4, 9, 9),
            "environment.back = 9: it must be from 0 to environment.length - 1 = 8"
        );
    }
}

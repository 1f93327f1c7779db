//! Concentration: find the pairs among cards that lie face down (POPGym, Morad et al. 2023).

use rand::seq::SliceRandom;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::game::{Game, Rules};
use super::random::Random;
use super::{MOST_NUMBERS, numbers};
use crate::settings::check;
use crate::{Error, FrameShape, Spec};

/// Settings of [`Concentration`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConcentrationConfig {
    /// Different faces.
    pub faces: usize,
    /// Cards of each face, an even number. Any two of them are a pair.
    pub copies: usize,
}

/// POPGym's ConcentrationEasy: the colours of a deck. Its Medium has 52 copies, its Hard 13 faces of 4 copies.
impl Default for ConcentrationConfig {
    fn default() -> ConcentrationConfig {
        ConcentrationConfig {
            faces: 2,
            copies: 26,
        }
    }
}

impl ConcentrationConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// A value is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        let most = MOST_NUMBERS / 2;
        check("environment.faces", self.faces, 1..=most, || {
            format!("there must be from 1 to {most} faces")
        })?;
        let most = MOST_NUMBERS / self.faces;
        let wanted = || {
            format!(
                "the cards of each face must be an even number from 2 to {most}, for at most {MOST_NUMBERS} cards"
            )
        };
        check("environment.copies", self.copies, 2..=most, wanted)?;
        if !self.copies.is_multiple_of(2) {
            return Err(Error::Setting {
                key: "environment.copies",
                value: self.copies,
                wanted: wanted(),
            });
        }
        Ok(())
    }

    /// Number of cards.
    pub fn cards(&self) -> usize {
        self.faces * self.copies
    }

    /// Most steps of an episode: two for each card. POPGym writes `ceil(2n - n / (2n - 1))` for `n` cards, which is the
    /// same.
    pub fn length(&self) -> usize {
        2 * self.cards()
    }
}

/// Concentration, with the rules of POPGym.
///
/// An action turns a card over. Two cards in play with the same face stay open: reward 1 over the number of pairs.
/// Otherwise both are turned down again, reward `-2 / length`. The same card twice counts as two different faces. To
/// choose a card that is open already costs `-1 / length` for each card in play, and turns down those in play.
///
/// Observations are `[faces + 1, 1, cards]`: for each card one-hot its face, or last that it lies face down. The second
/// card in play is seen in the observation that follows it; at the next step both are down. The episode ends with the
/// last pair, or after [`ConcentrationConfig::length`] steps.
///
/// ```
/// use mnemora_worlds::{Concentration, ConcentrationConfig, Environment};
///
/// let mut game = Concentration::new(ConcentrationConfig { faces: 1, copies: 4 })?;
/// let mut observation = vec![0.0; game.spec().frame.size()];
/// game.reset(7, &mut observation)?;
/// assert_eq!(observation, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
/// game.step(0, &mut observation)?;
/// assert_eq!(game.step(2, &mut observation)?.reward, 0.5);
/// assert_eq!(observation, [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
/// # Ok::<(), mnemora_worlds::Error>(())
/// ```
pub type Concentration = Game<ConcentrationRules>;

impl Concentration {
    /// Concentration with these settings.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub fn new(config: ConcentrationConfig) -> Result<Concentration, Error> {
        config.check()?;
        Ok(Game::of(ConcentrationRules { config }))
    }
}

/// The rules of [`Concentration`].
#[derive(Clone, Debug)]
pub struct ConcentrationRules {
    config: ConcentrationConfig,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episode {
    /// The face of each card.
    faces: Vec<u16>,
    /// Whether a card belongs to a pair that was found.
    open: Vec<bool>,
    found: usize,
    /// The cards in play: at most two.
    in_play: Vec<u16>,
    /// Whether those in play are turned down at the next step.
    closing: bool,
    steps: usize,
}

impl Episode {
    fn is_in_play(&self, card: usize) -> bool {
        self.in_play.iter().any(|other| usize::from(*other) == card)
    }
}

impl Rules for ConcentrationRules {
    type Episode = Episode;
    type Config = ConcentrationConfig;
    const VERSION: &'static str = "mnemora concentration 1";

    fn config(&self) -> &ConcentrationConfig {
        &self.config
    }

    fn spec(&self) -> Spec {
        Spec {
            frame: FrameShape {
                channels: self.config.faces + 1,
                height: 1,
                width: self.config.cards(),
            },
            actions: numbers(self.config.cards()),
        }
    }

    fn begin(&self, seed: u64) -> Result<Episode, Error> {
        let cards = self.config.cards();
        let faces = 0..self.config.faces as u16;
        let mut faces: Vec<u16> = faces.cycle().take(cards).collect();
        faces.shuffle(&mut Random::of_episode(seed, "concentration episode"));
        Ok(Episode {
            faces,
            open: vec![false; cards],
            found: 0,
            in_play: Vec::with_capacity(2),
            closing: false,
            steps: 0,
        })
    }

    fn act(&self, episode: &mut Episode, action: usize) -> f32 {
        episode.steps += 1;
        if episode.closing {
            episode.in_play.clear();
            episode.closing = false;
        }
        episode.in_play.push(action as u16);
        let failure = -(episode.in_play.len() as f32) / self.config.length() as f32;
        if episode.open[action] {
            episode.closing = true;
            return failure;
        }
        let [first, second] = episode.in_play[..] else {
            return 0.0;
        };
        episode.closing = true;
        let [a, b] = [first, second].map(usize::from);
        if a == b || episode.faces[a] != episode.faces[b] {
            return failure;
        }
        (episode.open[a], episode.open[b]) = (true, true);
        episode.found += 1;
        1.0 / (self.config.cards() / 2) as f32
    }

    fn is_over(&self, episode: &Episode) -> bool {
        2 * episode.found == self.config.cards() || episode.steps >= self.config.length()
    }

    fn draw(&self, episode: &Episode, observation: &mut [f32]) {
        observation.fill(0.0);
        let cards = self.config.cards();
        for card in 0..cards {
            let shown = match episode.open[card] || episode.is_in_play(card) {
                true => usize::from(episode.faces[card]),
                false => self.config.faces,
            };
            observation[shown * cards + card] = 1.0;
        }
    }

    fn score(&self, episode: &Episode) -> (&'static str, f64) {
        let pairs = self.config.cards() / 2;
        ("pairs found", episode.found as f64 / pairs as f64)
    }

    fn is_sound(&self, episode: &Episode) -> bool {
        let cards = self.config.cards();
        let copies = |face: u16| episode.faces.iter().filter(|other| **other == face).count();
        let open = episode.open.iter().filter(|open| **open).count();
        episode.faces.len() == cards
            && (0..self.config.faces as u16).all(|face| copies(face) == self.config.copies)
            && episode.open.len() == cards
            && open == 2 * episode.found
            && episode.in_play.len() <= 2
            && (episode.in_play.len() < 2 || episode.closing)
            && episode
                .in_play
                .iter()
                .all(|card| usize::from(*card) < cards)
            && episode.steps <= self.config.length()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;
    use proptest::prelude::*;

    fn game(faces: usize, copies: usize) -> Concentration {
        Concentration::new(ConcentrationConfig { faces, copies }).expect("in range")
    }

    /// The face of each card as seen, `None` if it is down.
    fn seen_faces(game: &Concentration, seen: &[f32]) -> Vec<Option<usize>> {
        let frame = game.spec().frame;
        let shown = |card: usize| {
            let mut channels = (0..frame.channels).filter(|channel| {
                let value = seen[channel * frame.width + card];
                assert!(value == 0.0 || value == 1.0);
                value == 1.0
            });
            let channel = channels.next().expect("one-hot");
            assert_eq!(channels.next(), None);
            (channel + 1 < frame.channels).then_some(channel)
        };
        (0..frame.width).map(shown).collect()
    }

    /// An agent that remembers all it saw.
    fn perfect(game: &mut Concentration, seed: u64) -> (f32, usize, bool) {
        let mut seen = vec![0.0; game.spec().frame.size()];
        let mut step = game
            .reset(seed, &mut seen)
            .expect("a buffer of the right size");
        let cards = game.spec().actions.len();
        let mut known: Vec<Option<usize>> = vec![None; cards];
        let mut found = vec![false; cards];
        let mut held: Option<usize> = None;
        let (mut total, mut steps) = (0.0, 0);
        while !step.last {
            let free = |card: &usize| !found[*card] && Some(*card) != held;
            let partner = |card: usize, known: &[Option<usize>]| {
                let mut others = (0..cards).filter(|other| !found[*other] && *other != card);
                others.find(|other| known[card].is_some() && known[*other] == known[card])
            };
            let unknown = (0..cards).filter(free).find(|card| known[*card].is_none());
            let action = match held {
                Some(card) => partner(card, &known).or(unknown),
                None => (0..cards)
                    .filter(free)
                    .find(|card| partner(*card, &known).is_some())
                    .or(unknown),
            };
            let action = action
                .or_else(|| (0..cards).find(free))
                .expect("a card is left");
            step = game.step(action, &mut seen).expect("runs");
            steps += 1;
            total += step.reward;
            known[action] = seen_faces(game, &seen)[action];
            held = match held {
                None => Some(action),
                Some(first) => {
                    if known[first] == known[action] {
                        (found[first], found[action]) = (true, true);
                    }
                    None
                }
            };
        }
        (total, steps, found.iter().all(|found| *found))
    }

    proptest! {
        #[test]
        fn an_agent_that_remembers_finds_all_pairs(seed: u64, faces in 1usize..6, half in 1usize..4) {
            let mut game = game(faces, 2 * half);
            let (total, steps, all) = perfect(&mut game, seed);
            prop_assert!(all, "{} steps of {}", steps, game.rules.config.length());
            prop_assert_eq!(game.score(), Some(("pairs found", 1.0)));
            prop_assert!(total <= 1.0 + 1e-5);
        }
    }

    #[test]
    fn rewards_are_those_of_popgym() {
        let mut game = game(2, 2);
        assert_eq!(game.rules.config.length(), 8);
        let mut seen = vec![0.0; 12];
        game.reset(1, &mut seen).expect("a buffer of twelve");
        let faces = game.episode.as_ref().expect("has begun").faces.clone();
        let partner = (1..4)
            .find(|card| faces[*card] == faces[0])
            .expect("a pair");
        let others: Vec<usize> = (1..4).filter(|card| *card != partner).collect();
        let mut act = |action| {
            let step = game.step(action, &mut seen).expect("runs");
            let open = seen_faces(&game, &seen);
            let count = open.iter().flatten().count();
            assert!(
                open.iter()
                    .zip(&faces)
                    .all(|(seen, face)| { seen.is_none_or(|seen| seen == usize::from(*face)) })
            );
            (step.reward, step.last, count)
        };
        // Two faces; then the same card twice; then a pair; then open cards.
        assert_eq!(act(0), (0.0, false, 1));
        assert_eq!(act(others[0]), (-0.25, false, 2));
        assert_eq!(act(0), (0.0, false, 1));
        assert_eq!(act(0), (-0.25, false, 1));
        assert_eq!(act(0), (0.0, false, 1));
        assert_eq!(act(partner), (0.5, false, 2));
        assert_eq!(act(partner), (-0.125, false, 2));
        assert_eq!(act(others[1]), (0.0, true, 3));
        assert_eq!(game.score(), Some(("pairs found", 0.5)));
    }

    #[test]
    fn an_open_card_turns_down_the_one_in_play() {
        let mut game = game(2, 4);
        let mut seen = vec![0.0; 24];
        game.reset(1, &mut seen).expect("a buffer of 24");
        let faces = game.episode.as_ref().expect("has begun").faces.clone();
        let partner = (1..8)
            .find(|card| faces[*card] == faces[0])
            .expect("a pair");
        let other = (1..8)
            .find(|card| faces[*card] != faces[0])
            .expect("two faces");
        let mut act = |action| game.step(action, &mut seen).expect("runs").reward;
        assert_eq!([act(0), act(partner)], [0.0, 0.25]);
        assert_eq!([act(other), act(0)], [0.0, -2.0 / 16.0]);
        // The other card is down: it can be the first of two again.
        assert_eq!([act(other), act(0)], [0.0, -2.0 / 16.0]);
    }

    #[test]
    fn the_length_is_that_of_popgym() {
        // From its formula in floating point, for a deck and for two.
        let length = |faces, copies| ConcentrationConfig { faces, copies }.length();
        assert_eq!([length(13, 4), length(2, 52), length(1, 2)], [104, 208, 4]);
        for cards in 1..130 {
            let n = f64::from(2 * cards);
            let popgym = (2.0 * n - n / (2.0 * n - 1.0)).ceil();
            assert_eq!(length(1, 2 * cards as usize) as f64, popgym);
        }
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let message = |faces, copies| {
            let config = ConcentrationConfig { faces, copies };
            let error = Concentration::new(config).expect_err("out of range");
            error.to_string()
        };
        let wanted =
            "the cards of each face must be an even number from 2 to 85, for at most 256 cards";
        assert_eq!(message(3, 3), format!("environment.copies = 3: {wanted}"));
        assert_eq!(message(3, 86), format!("environment.copies = 86: {wanted}"));
        assert_eq!(
            message(0, 2),
            "environment.faces = 0: there must be from 1 to 128 faces"
        );
    }
}

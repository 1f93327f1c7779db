//! The saved state of many environments.

use super::{Finished, Running, Vectorised};
use crate::environments::sealed::{DAMAGED, opened, sealed};
use crate::{Environment, Error};

const TAG: &[u8] = b"mnemora vectorised 1";

impl<E: Environment> Vectorised<E> {
    /// The whole state: all environments, their running episodes, the buffers, and what ended episodes scored.
    pub fn save(&self) -> Vec<u8> {
        let mut saved = TAG.to_vec();
        let mut put = |bytes: &[u8]| saved.extend(bytes);
        put(&self.seed.to_le_bytes());
        put(&(self.count() as u64).to_le_bytes());
        put(&[u8::from(self.failed)]);
        for (index, (environment, running)) in
            self.environments.iter().zip(&self.running).enumerate()
        {
            put(&running.episode.to_le_bytes());
            put(&running.seed.to_le_bytes());
            put(&running.total.to_le_bytes());
            put(&(running.actions.len() as u64).to_le_bytes());
            running
                .actions
                .iter()
                .for_each(|action| put(&action.to_le_bytes()));
            put(&self.rewards[index].to_le_bytes());
            put(&[self.firsts[index].into(), self.lasts[index].into()]);
            let environment = environment.save();
            put(&(environment.len() as u64).to_le_bytes());
            put(&environment);
        }
        self.observations
            .iter()
            .for_each(|value| put(&value.to_le_bytes()));
        for episode in &self.finished {
            put(&(episode.index as u64).to_le_bytes());
            put(&episode.seed.to_le_bytes());
            put(&episode.total.to_le_bytes());
            put(&episode.length.to_le_bytes());
            let score = episode.score.map_or(f64::NAN, |(_, score)| score);
            put(&score.to_le_bytes());
        }
        sealed(saved)
    }

    /// Continues from a state that [`Vectorised::save`] gave for as many environments with the same settings.
    ///
    /// # Errors
    /// The bytes are not such a state. Nothing changes then, unless an environment had panicked, whose own state may not be
    /// one to go back to; every further step is refused then.
    pub fn restore(&mut self, saved: &[u8]) -> Result<(), Error> {
        let read = self.read(saved)?;
        let before: Vec<Vec<u8>> = self.environments.iter().map(E::save).collect();
        let mut restored = Ok(());
        for (environment, state) in self.environments.iter_mut().zip(&read.environments) {
            restored = restored.and_then(|()| environment.restore(state));
        }
        if restored.is_err() {
            for (environment, state) in self.environments.iter_mut().zip(&before) {
                self.failed |= environment.restore(state).is_err();
            }
            return restored;
        }
        self.finished.clear();
        for (mut episode, score) in read.finished {
            // Only the value is saved: the environment knows the name.
            let name = self.environments[episode.index].score();
            episode.score = name.map(|(name, _)| (name, score));
            self.finished.push(episode);
        }
        self.seed = read.seed;
        self.failed = read.failed;
        self.running = read.running;
        self.observations = read.observations;
        (self.rewards, self.firsts, self.lasts) = (read.rewards, read.firsts, read.lasts);
        Ok(())
    }

    fn read<'a>(&self, saved: &'a [u8]) -> Result<Saved<'a>, Error> {
        let mut rest = Rest(opened(saved)?.strip_prefix(TAG).ok_or(DAMAGED)?);
        let seed = rest.number()?;
        let count = self.count();
        if rest.number()? != count as u64 {
            let problem = "it has another number of environments";
            return Err(Error::SavedState { problem });
        }
        let mut read = Saved {
            seed,
            failed: rest.flag()?,
            ..Saved::default()
        };
        for index in 0..count {
            let mut running = Running::new(seed, index);
            running.episode = rest.number()?;
            running.seed = rest.number()?;
            running.total = f64::from_bits(rest.number()?);
            let actions = rest.bytes_of(2)?.chunks_exact(2);
            running
                .actions
                .extend(actions.map(|action| u16::from_le_bytes([action[0], action[1]])));
            read.running.push(running);
            read.rewards.push(f32::from_le_bytes(rest.next()?));
            read.firsts.push(rest.flag()?);
            read.lasts.push(rest.flag()?);
            read.environments.push(rest.bytes_of(1)?);
        }
        for _ in 0..self.observations.len() {
            read.observations.push(f32::from_le_bytes(rest.next()?));
        }
        while !rest.0.is_empty() {
            let index = rest.number()? as usize;
            let finished = Finished {
                index,
                seed: rest.number()?,
                total: f64::from_bits(rest.number()?),
                length: rest.number()?,
                score: None,
            };
            if index >= count {
                return Err(DAMAGED);
            }
            let score = f64::from_bits(rest.number()?);
            read.finished.push((finished, score));
        }
        Ok(read)
    }
}

/// The content of a saved state.
#[derive(Default)]
struct Saved<'a> {
    seed: u64,
    failed: bool,
    running: Vec<Running>,
    rewards: Vec<f32>,
    firsts: Vec<bool>,
    lasts: Vec<bool>,
    environments: Vec<&'a [u8]>,
    observations: Vec<f32>,
    /// Ended episodes without their score, and its value.
    finished: Vec<(Finished, f64)>,
}

/// The rest of a saved state.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn next<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Error> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(DAMAGED)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn number(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.next()?))
    }

    fn flag(&mut self) -> Result<bool, Error> {
        Ok(self.next::<1>()? == [1])
    }

    /// A count, then that many entries of `size` bytes.
    fn bytes_of(&mut self, size: usize) -> Result<&'a [u8], Error> {
        let length = usize::try_from(self.number()?).ok();
        let length = length.and_then(|count| count.checked_mul(size));
        let parts = length.and_then(|length| self.0.split_at_checked(length));
        let (bytes, rest) = parts.ok_or(DAMAGED)?;
        self.0 = rest;
        Ok(bytes)
    }
}

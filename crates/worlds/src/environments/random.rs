//! The random numbers of an episode, as a generator of 8 bytes that can be saved.

use std::convert::Infallible;

use rand::{Rng, TryRng};
use serde::{Deserialize, Serialize};

use crate::Stream;

/// SplitMix64 (Steele, Lea and Flood 2014): a counter, and a hash of it.
///
/// An environment draws a few numbers per step. A [`Stream`] gives the start of the counter, so that episodes of
/// neighbouring seeds have nothing in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of the episode with this seed in an environment of this name.
    pub(super) fn of_episode(seed: u64, environment: &str) -> Random {
        Random {
            state: Stream::new(seed, environment).at(0).next_u64(),
        }
    }
}

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Ok(word ^ (word >> 31))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation at prng.di.unimi.it gives these numbers for the seed 1234567.
    #[test]
    fn golden_values() {
        let mut random = Random { state: 1_234_567 };
        let words = [random.next_u64(), random.next_u64(), random.next_u64()];
        assert_eq!(
            words,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn seed_and_name_decide() {
        let first = |seed, name| Random::of_episode(seed, name).next_u64();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
    }
}

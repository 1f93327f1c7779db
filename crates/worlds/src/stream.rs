//! Named random streams: draw `i` of a stream depends on the seed, the purpose and `i`, and on
//! nothing else.
//!
//! One seed serves a whole run. Each purpose ("data", "latent noise", ...) has its own stream, so drawing
//! more for one purpose never shifts another, and a run resumed at step `i` needs no state
//! besides `i`.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use sha2::{Digest, Sha256};

/// Separates these keys from any other use of SHA-256; a new version of the scheme needs a new
/// tag.
const DOMAIN: &[u8] = b"mnemora stream 1";

/// The random numbers of one purpose under one seed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    key: [u8; 32],
}

impl Stream {
    /// The stream with key `SHA-256(domain tag, seed as little-endian u64, purpose)`.
    pub fn new(seed: u64, purpose: &str) -> Stream {
        let key = Sha256::new()
            .chain_update(DOMAIN)
            .chain_update(seed.to_le_bytes())
            .chain_update(purpose)
            .finalize();
        Stream { key: key.into() }
    }

    /// A generator at the start of draw `index`: ChaCha8 under the stream's key, with `index` as
    /// its nonce.
    ///
    /// Different indices share no numbers: each has its own 2^68 words.
    pub fn at(&self, index: u64) -> ChaCha8Rng {
        let mut generator = ChaCha8Rng::from_seed(self.key);
        generator.set_stream(index);
        generator
    }

    /// `count` independent values of N(0, 1), the same for every call with this `index`; a shorter
    /// call gives a prefix of a longer one.
    pub fn standard_normal(&self, index: u64, count: usize) -> Vec<f32> {
        self.at(index)
            .sample_iter(StandardNormal)
            .take(count)
            .collect()
    }

    /// `count` independent numbers uniform on `[0, 1)`, the same for every call with this `index`; a shorter
    /// call gives a prefix of a longer one.
    pub fn uniform_values(&self, index: u64, count: usize) -> Vec<f64> {
        let mut generator = self.at(index);
        (0..count).map(|_| generator.random()).collect()
    }

    /// A number uniform on `[0, 1)`, the same for every call with this `index`.
    pub fn uniform(&self, index: u64) -> f64 {
        self.at(index).random()
    }

    /// `most` different numbers below `count`, in random order; if `count` is not larger than `most`, all of
    /// them in ascending order. The same for every call with this `index`.
    pub fn choose(&self, index: u64, count: usize, most: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..count).collect();
        if count > most {
            let mut generator = self.at(index);
            for place in 0..most {
                numbers.swap(place, generator.random_range(place..count));
            }
            numbers.truncate(most);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::Rng;

    #[test]
    fn a_choice_has_each_number_once() {
        let draws = Stream::new(1, "test");
        assert_eq!(draws.choose(0, 5, 5), [0, 1, 2, 3, 4]);
        let mut some = draws.choose(0, 100, 10);
        assert_eq!(some, draws.choose(0, 100, 10));
        assert_ne!(some, draws.choose(1, 100, 10));
        some.sort_unstable();
        some.dedup();
        assert_eq!(some.len(), 10);
        assert!(some.iter().all(|row| *row < 100));
    }

    /// Every published number rests on these values: if a dependency changes them, results are no
    /// longer comparable. The integers were also computed outside Rust, from the definitions of
    /// SHA-256, ChaCha8 and Lemire's bounded draw.
    #[test]
    fn golden_values() {
        let mut words = Stream::new(1, "data").at(0);
        assert_eq!(
            [words.next_u64(), words.next_u64()],
            [2836422160514709270, 14514577866647786732]
        );
        let mut words = Stream::new(1, "data").at(u64::MAX);
        assert_eq!(words.next_u64(), 13800126890377457754);
        let mut ranges = Stream::new(7, "evaluation").at(3);
        let drawn: Vec<usize> = (0..6).map(|_| ranges.random_range(0..60_000)).collect();
        assert_eq!(drawn, [54_435, 24_089, 17_401, 31_504, 19_519, 15_607]);
        let normals = Stream::new(7, "latent noise").standard_normal(2, 4);
        assert_eq!(normals, [-0.18486011, 0.2478058, -1.0988607, -1.0802472]);
    }

    #[test]
    fn key_is_the_documented_hash() {
        let mut message = b"mnemora stream 1".to_vec();
        message.extend([2, 1, 0, 0, 0, 0, 0, 0]);
        message.extend(b"data");
        assert_eq!(
            Stream::new(0x0102, "data").key,
            <[u8; 32]>::from(Sha256::digest(&message))
        );
    }

    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        let count = 100_000;
        let values = Stream::new(3, "test").standard_normal(0, count);
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / count as f64;
        let square = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / count as f64;
        assert!(mean.abs() < 0.02, "mean {mean}");
        assert!((square - 1.0).abs() < 0.02, "second moment {square}");
    }

    proptest! {
        #[test]
        fn draw_is_a_function_of_seed_purpose_and_index(
            seed: u64,
            purpose in "[a-z ]{0,12}",
            index: u64,
        ) {
            let draw = |stream: Stream| stream.at(index).random::<[u64; 4]>();
            prop_assert_eq!(draw(Stream::new(seed, &purpose)), draw(Stream::new(seed, &purpose)));
        }

        #[test]
        fn neighbours_differ(seed: u64, index: u64) {
            let stream = Stream::new(seed, "data");
            let draw = stream.at(index).next_u64();
            prop_assert_ne!(draw, stream.at(index.wrapping_add(1)).next_u64());
            prop_assert_ne!(draw, Stream::new(seed.wrapping_add(1), "data").at(index).next_u64());
            prop_assert_ne!(draw, Stream::new(seed, "data ").at(index).next_u64());
        }

        #[test]
        fn shorter_normals_are_a_prefix(seed: u64, count in 0usize..64) {
            let stream = Stream::new(seed, "noise");
            let (long, short) = (stream.standard_normal(5, 64), stream.standard_normal(5, count));
            prop_assert_eq!(&long[..count], &short[..]);
        }
    }
}

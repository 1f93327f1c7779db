//! Whether samples are coherent: what is read off their frames.

use super::samples::Mean;
use mnemora_worlds::scenes::{Readings, nearest, read};

/// What is read off samples.
#[derive(Default)]
pub struct Read {
    /// How often all frames show the same.
    pub alike: Mean,
    /// How often they show what is of the same kind.
    pub same_kind: Mean,
    /// How often they show a completion.
    pub valid: Mean,
    /// How often each completion was read.
    pub completions: Vec<u64>,
}

impl Read {
    /// The entropy of what was read, in nats; `None` if no completion was.
    pub fn entropy(&self) -> Option<f64> {
        let total: u64 = self.completions.iter().sum();
        let shares = self
            .completions
            .iter()
            .map(|count| *count as f64 / total as f64);
        let terms = shares.filter(|share| *share > 0.0);
        (total > 0).then(|| terms.map(|share| share * share.recip().ln()).sum())
    }

    /// Reads the targets of a sample of one scene.
    pub fn add(&mut self, readings: &Readings, frames: &[f32], size: usize) {
        let errors: Vec<Vec<f32>> = frames
            .chunks(size)
            .enumerate()
            .map(|(target, frame)| readings.errors(target, frame))
            .collect();
        let (found, alike) = read(&errors);
        self.alike.add(f64::from(u8::from(alike)));
        if let Some(kinds) = &readings.kinds {
            let mut of_targets = errors.iter().map(|errors| kinds[nearest(errors)]);
            let same = of_targets.all(|kind| kind == kinds[found]);
            self.same_kind.add(f64::from(u8::from(same)));
        }
        let valid = found < readings.completions;
        self.valid.add(f64::from(u8::from(valid)));
        if self.completions.len() < readings.completions {
            self.completions.resize(readings.completions, 0);
        }
        if valid {
            self.completions[found] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_worlds::{
        Mnist, Split, Stream,
        scenes::{Ask, Dice, Scenes, Showing, readings, scene_batch},
    };

    /// A sample that shows another image of the same digit in each view is of one kind but not coherent; one that shows two
    /// digits is neither.
    #[test]
    fn images_of_one_digit_are_of_one_kind() {
        let dice = Dice::new(&Mnist::bundled().unwrap(), 16).unwrap();
        let dice = dice.seen_from(16).unwrap().still(true);
        let showing = Showing {
            anywhere: false,
            context_least: 4,
            context_most: 4,
            targets_least: 2,
            targets: 2,
            hiding: 0.0,
            revealing: false,
        };
        let stream = Stream::new(1, "dice");
        let of = (Split::Test, &stream);
        let batch = scene_batch(&dice, showing, Ask::Hidden, of, 0, 1);
        let readings = &readings(&dice, of, &batch)[0];
        let size = batch.frame.size();
        let scene = dice.scene(Split::Test, &stream, batch.number(0));
        let found = |images: [usize; 2]| {
            let mut frames = vec![0.0; 2 * size];
            for ((frame, view), image) in
                frames.chunks_mut(size).zip(&batch.target_views).zip(images)
            {
                scene.render(*view, image, frame);
            }
            let mut read = Read::default();
            read.add(readings, &frames, size);
            [read.alike.get(), read.same_kind.get()]
        };
        assert_eq!(found([31, 31]), [Some(1.0), Some(1.0)]);
        assert_eq!(found([31, 34]), [Some(0.0), Some(1.0)]);
        assert_eq!(found([31, 54]), [Some(0.0), Some(0.0)]);
    }
}

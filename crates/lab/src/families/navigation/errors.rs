//! Errors of foreseen frames.

use super::evaluate::{Foreseen, place};
use mnemora_training::{Measures, measures::mean_squared_error};

/// Steps in which errors are averaged for curves.
pub const BLOCK: usize = 32;

/// How far apart two true places are; for places with a heading, a step of one cell counts like a turn of one radian.
fn apart(one: &[f32], other: &[f32]) -> f64 {
    let plane = [0, 1].map(|axis| f64::from(one[axis] - other[axis]));
    let turn = match (one.get(2), other.get(2)) {
        (Some(one), Some(other)) => {
            let turn = f64::from(one - other);
            turn.sin().atan2(turn.cos())
        }
        _ => 0.0,
    };
    plane[0].hypot(plane[1]).hypot(turn)
}

/// A mean in the making, for each block of predicted steps.
#[derive(Clone, Default)]
struct Blocks(Vec<[f64; 2]>);

impl Blocks {
    fn add(&mut self, step: usize, value: f64) {
        let block = step / BLOCK;
        if self.0.len() <= block {
            self.0.resize(block + 1, [0.0; 2]);
        }
        self.0[block][0] += value;
        self.0[block][1] += 1.0;
    }

    fn series(&self) -> Vec<Option<f64>> {
        let means = self.0.iter();
        means
            .map(|[sum, count]| (*count > 0.0).then(|| sum / count))
            .collect()
    }

    fn mean(&self) -> Option<f64> {
        let [sum, count] = self
            .0
            .iter()
            .fold([0.0; 2], |all, one| [all[0] + one[0], all[1] + one[1]]);
        (count > 0.0).then(|| sum / count)
    }
}

/// What is measured at each predicted step.
#[derive(Default)]
pub struct Errors {
    /// Two places nearer than this are the same.
    seen_within: f64,
    sampled: Blocks,
    best: Blocks,
    own: Blocks,
    oracle: Blocks,
    average: Blocks,
    copied: Blocks,
    sampled_seen: Blocks,
    best_seen: Blocks,
    own_seen: Blocks,
    right: Blocks,
    seen: Blocks,
}

impl Errors {
    /// None yet; two places nearer than `seen_within` are the same.
    pub fn new(seen_within: f64) -> Self {
        Self {
            seen_within,
            ..Self::default()
        }
    }

    /// Adds those of a batch of walks, of which `memorised` steps were memorised.
    pub fn add(&mut self, foreseen: &Foreseen, memorised: usize) {
        let walks = &foreseen.walks;
        let (pixels, predicted) = (walks.frame.size(), walks.time - memorised);
        for row in 0..walks.batch {
            let frame_of = |step: usize| walks.seen[row * walks.time + step] as usize;
            let image = |all: &'_ [f32], index: usize| all[index * pixels..][..pixels].to_vec();
            let mut average = vec![0.0; pixels];
            for step in 0..memorised {
                let frame = &walks.frames[frame_of(step) * pixels..][..pixels];
                for (sum, pixel) in average.iter_mut().zip(frame) {
                    *sum += pixel / memorised as f32;
                }
            }
            for step in 0..predicted {
                let at = memorised + step;
                let truth = image(&walks.frames, frame_of(at));
                let here = place(walks, row, at);
                let apart = |step: usize| apart(place(walks, row, step), here);
                let (oracle, away) = (0..memorised).map(|step| (step, apart(step))).fold(
                    (0, f64::INFINITY),
                    |best, next| {
                        if next.1 < best.1 { next } else { best }
                    },
                );
                let index = row * predicted + step;
                let sampled =
                    mean_squared_error(&foreseen.sampled[index * pixels..][..pixels], &truth);
                let best = mean_squared_error(&foreseen.best[index * pixels..][..pixels], &truth);
                let shown =
                    |step: usize| image(&foreseen.decoded, foreseen.shown[row * walks.time + step]);
                let own = mean_squared_error(&shown(at), &truth);
                let oracle = mean_squared_error(&shown(oracle), &truth);
                let copied =
                    mean_squared_error(&image(&walks.frames, frame_of(memorised - 1)), &truth);
                self.sampled.add(step, sampled);
                self.best.add(step, best);
                self.own.add(step, own);
                self.oracle.add(step, oracle);
                self.average.add(step, mean_squared_error(&average, &truth));
                self.copied.add(step, copied);
                let seen = away < self.seen_within;
                self.seen.add(step, f64::from(u8::from(seen)));
                if seen {
                    self.sampled_seen.add(step, sampled);
                    self.best_seen.add(step, best);
                    self.own_seen.add(step, own);
                    if let Some(located) = &foreseen.located {
                        let right = apart(located.nearest[index]) < self.seen_within;
                        self.right.add(step, f64::from(u8::from(right)));
                    }
                }
            }
        }
    }
}

/// How well frames are foreseen.
pub fn of_frames(measures: Measures, errors: &Errors) -> Measures {
    let last = |blocks: &Blocks| blocks.series().last().copied().flatten();
    let first = |blocks: &Blocks| blocks.series().first().copied().flatten();
    let ratio = |one: &Blocks, other: &Blocks| Some(one.mean()? / other.mean()?);
    let flatness = last(&errors.best_seen).zip(first(&errors.best_seen));
    measures
        .with_some("nearest_right", errors.right.mean())
        .with_some("seen", errors.seen.mean())
        .with_some("best_ratio", ratio(&errors.best_seen, &errors.own_seen))
        .with_some("oracle_ratio", ratio(&errors.best, &errors.oracle))
        .with_some("sampled_ratio", ratio(&errors.sampled, &errors.average))
        .with_some("best_seen", errors.best_seen.mean())
        .with_some("own_seen", errors.own_seen.mean())
        .with_some("sampled_seen", errors.sampled_seen.mean())
        .with_some("flatness", flatness.map(|(last, first)| last / first))
        .with_some("best", errors.best.mean())
        .with_some("sampled", errors.sampled.mean())
        .with_some("own", errors.own.mean())
        .with_some("oracle", errors.oracle.mean())
        .with_some("average", errors.average.mean())
        .with_some("copied", errors.copied.mean())
        .with("best_by_block", errors.best.series())
        .with("sampled_by_block", errors.sampled.series())
        .with("own_by_block", errors.own.series())
        .with("oracle_by_block", errors.oracle.series())
        .with("average_by_block", errors.average.series())
        .with("copied_by_block", errors.copied.series())
}

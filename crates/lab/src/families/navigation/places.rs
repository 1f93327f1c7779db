//! How well a model knows places.

use super::{
    fit::{AffineFit, distance},
    world::{Compared, World},
};
use mnemora_training::{Measures, measures::mean_and_stderr};

/// A move of less than this many cells is none.
const HALF_STEP: f64 = 0.5;
/// Steps at either end of a walk in which the error of places is averaged.
const END: usize = 64;

/// Where the model believed to be on walks of `time` steps, and where it was.
pub struct Walked<'a> {
    /// `[walks * time, numbers]`
    pub places: &'a [f32],
    /// The true points; of a heading only the first number counts.
    pub truth: &'a [[f32; 2]],
    /// Whether a wall or an obstacle stopped the move that led to a step.
    pub blocked: &'a [bool],
    /// Steps of a walk.
    pub time: usize,
    /// Steps of it that were memorised.
    pub memorised: usize,
}

/// How well places are known, after the affine map that fits best.
pub fn of_places(measures: Measures, world: &World, walked: &Walked) -> Measures {
    let Walked {
        places,
        truth,
        blocked,
        time,
        memorised,
    } = *walked;
    let width = places.len() / truth.len();
    // Walks that start at one place have one origin.
    let group = if world.one_origin() {
        truth.len()
    } else {
        time
    };
    let (mut first, mut last) = ([0.0; 2], [0.0; 2]);
    let (mut left, mut total) = (0.0, 0.0);
    let (mut memorised_last, mut foreseen_last) = ([0.0; 2], [0.0; 2]);
    let mut recognised = [0.0; 2];
    let mut turns = Vec::new();
    let groups = places.chunks(group * width).zip(truth.chunks(group));
    for ((places, truth), blocked) in groups.zip(blocked.chunks(group)) {
        let count = truth.len() as f64;
        let mean = [0, 1].map(|axis| truth.iter().map(|p| f64::from(p[axis])).sum::<f64>() / count);
        let fit = AffineFit::of(places, width, truth);
        if let (Compared::Heading, Some(fit)) = (world.compared(), &fit) {
            turns.push(fit.slope().recip().abs());
        }
        for (index, (place, truth)) in places.chunks(width).zip(truth).enumerate() {
            let truth = truth.map(f64::from);
            // Places on a line tell nothing: the mean is as good a guess.
            let found = fit.as_ref().map_or(mean, |fit| fit.point(place));
            let apart = distance(found, truth);
            left += apart * apart;
            total += distance(mean, truth).powi(2);
            let step = index % time;
            if blocked[index] && step > 0 && step < memorised {
                let before = &places[(index - 1) * width..][..width];
                let before = fit.as_ref().map_or(mean, |fit| fit.point(before));
                let stayed = distance(found, before) < HALF_STEP;
                recognised = [
                    recognised[0] + f64::from(u8::from(stayed)),
                    recognised[1] + 1.0,
                ];
            }
            if step + 1 == memorised {
                memorised_last = [memorised_last[0] + apart, memorised_last[1] + 1.0];
            }
            if step + 1 == time {
                foreseen_last = [foreseen_last[0] + apart, foreseen_last[1] + 1.0];
            }
            if step < END {
                first = [first[0] + apart, first[1] + 1.0];
            }
            if step + END >= time {
                last = [last[0] + apart, last[1] + 1.0];
            }
        }
    }
    measures
        .with("place_r2", 1.0 - left / total)
        .with("place_error_first", first[0] / first[1])
        .with("place_error", last[0] / last[1])
        .with("memorised_error", memorised_last[0] / memorised_last[1])
        .with("foreseen_error", foreseen_last[0] / foreseen_last[1])
        .with_some(
            "stop_recognised",
            (recognised[1] > 0.0).then(|| recognised[0] / recognised[1]),
        )
        .with_some(
            "turn",
            (!turns.is_empty()).then(|| mean_and_stderr(&turns).0),
        )
}

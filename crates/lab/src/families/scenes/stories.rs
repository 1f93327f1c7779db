//! How well the first frames of a story are continued.

use super::{
    batch::{context, targets},
    samples::{Mean, Noise, errors, mean_frame},
};
use burn::tensor::Tensor;
use mnemora_models::AnyScenes;
use mnemora_training::{Measures, arrays::host, measures::mean_squared_error};
use mnemora_worlds::scenes::SceneBatch;

/// Errors of continuations: of the frames that follow the context, and of all frames of a story.
///
/// A sample's error is the mean over frames, channels and pixels; of several samples of a story, the smallest and the mean
/// count. Of frames that the context shows, a model's own rendering counts, a predictor's prediction from the true frame
/// before, or no error where it is only given the frame.
#[derive(Default)]
pub struct Stories {
    /// The smallest and the mean error of frames that follow the context.
    unseen: [Mean; 2],
    /// The same of all frames.
    all: [Mean; 2],
    /// Errors of the last frame of the context in place of all that follow, and of the mean of the context.
    copied: Mean,
    average: Mean,
}

impl Stories {
    /// Adds a batch of whole stories.
    pub fn add(
        &mut self,
        model: &AnyScenes,
        batch: &SceneBatch,
        samples: usize,
        noise: &mut Noise,
    ) {
        self.add_rivals(batch);
        let (seen, size) = (batch.context, batch.frame.size());
        let moments = seen + batch.targets;
        let device = model.device();
        let shown = context(batch, &device).expect("a story has a beginning");
        let known = model.know(Some(&shown), batch.scenes);
        let of_scenes = |queries: Tensor<2>, each| {
            let width = queries.dims()[1];
            queries.reshape([batch.scenes, each, width])
        };
        let rest = of_scenes(targets(batch, &device).queries, batch.targets);
        let times = Tensor::cat(vec![of_scenes(shown.queries, seen), rest], 1).flatten::<2>(0, 1);
        let truth = whole(batch);
        let mut found = vec![Vec::new(); batch.scenes];
        for _ in 0..samples {
            let drawn = noise.next(model, batch, moments);
            let frames = host(model.sample(&known, times.clone(), drawn).into_data());
            let errors: Vec<f64> = errors(&frames, &truth, size).collect();
            for (errors, found) in errors.chunks(moments).zip(&mut found) {
                let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
                found.push([mean(&errors[seen..]), mean(errors)]);
            }
        }
        for samples in found {
            for (place, [best, mean]) in [&mut self.unseen, &mut self.all].into_iter().enumerate() {
                let errors = samples.iter().map(|errors| errors[place]);
                best.add(errors.clone().fold(f64::INFINITY, f64::min));
                errors.for_each(|error| mean.add(error));
            }
        }
    }

    /// Continuations that need no model.
    fn add_rivals(&mut self, batch: &SceneBatch) {
        let size = batch.frame.size();
        let scenes = batch.context_frames.chunks(batch.context * size);
        for (shown, rest) in scenes.zip(batch.target_frames.chunks(batch.targets * size)) {
            let average = mean_frame(shown, size);
            let last = &shown[shown.len() - size..];
            for frame in rest.chunks(size) {
                self.copied.add(mean_squared_error(last, frame));
                self.average.add(mean_squared_error(&average, frame));
            }
        }
    }

    /// With the errors, if there were stories.
    pub fn measures(&self, measures: Measures) -> Measures {
        let ([best, mean], [all_best, all_mean]) = (&self.unseen, &self.all);
        measures
            .with_some("story_min_mse", best.get())
            .with_some("story_mean_mse", mean.get())
            .with_some("story_all_min_mse", all_best.get())
            .with_some("story_all_mean_mse", all_mean.get())
            .with_some("story_copied_mse", self.copied.get())
            .with_some("story_average_mse", self.average.get())
    }
}

/// All frames of each story of a batch, `[scenes, moments, ..]`.
fn whole(batch: &SceneBatch) -> Vec<f32> {
    let size = batch.frame.size();
    let shown = batch.context_frames.chunks(batch.context * size);
    let rest = batch.target_frames.chunks(batch.targets * size);
    shown
        .zip(rest)
        .flat_map(|(shown, rest)| [shown, rest].concat())
        .collect()
}

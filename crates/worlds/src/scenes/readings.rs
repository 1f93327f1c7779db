//! What is read off answers: the completion whose rendering is nearest.

use super::{SceneBatch, Scenes};
use crate::{Split, Stream};

/// The renderings with which answers about one scene are compared.
#[derive(Clone, Debug)]
pub struct Readings {
    /// Completions that can be.
    pub completions: usize,
    /// The kind of each rendering, if they are of kinds.
    pub kinds: Option<Vec<usize>>,
    /// For each target, `[renderings, numbers of a frame]`.
    targets: Vec<Vec<f32>>,
    size: usize,
}

impl Readings {
    /// The squared error of a frame from each rendering of a target.
    pub fn errors(&self, target: usize, frame: &[f32]) -> Vec<f32> {
        let apart = |rendering: &[f32]| -> f32 {
            let both = rendering.iter().zip(frame);
            both.map(|(a, b)| (a - b) * (a - b)).sum()
        };
        self.targets[target].chunks(self.size).map(apart).collect()
    }
}

/// The rendering with the least error.
pub fn nearest(errors: &[f32]) -> usize {
    let both = errors.iter().enumerate();
    let least = both.min_by(|(_, a), (_, b)| a.total_cmp(b));
    least.map_or(0, |(rendering, _)| rendering)
}

/// What is read off frames of one scene, by their errors from each rendering: the nearest to all of them together, a
/// completion, or from [`Readings::completions`] on what cannot be; and whether it is among the nearest to each. Several are
/// equally near where a view does not tell them apart.
pub fn read(errors: &[Vec<f32>]) -> (usize, bool) {
    let count = errors.first().map_or(0, Vec::len);
    let sum = |rendering: usize| -> f32 { errors.iter().map(|errors| errors[rendering]).sum() };
    let nearest = nearest(&(0..count).map(sum).collect::<Vec<_>>());
    let alike = errors.iter().all(|errors| {
        let least = errors.iter().copied().fold(f32::INFINITY, f32::min);
        errors[nearest] <= least
    });
    (nearest, alike)
}

/// The readings of each scene of a batch that [`scene_batch`](super::scene_batch) made of the same split and stream.
pub fn readings(
    scenes: &dyn Scenes,
    (split, stream): (Split, &Stream),
    batch: &SceneBatch,
) -> Vec<Readings> {
    let size = batch.frame.size();
    (0..batch.scenes)
        .map(|row| {
            let scene = scenes.scene(split, stream, batch.number(row));
            let views = &batch.target_views[row * batch.targets..][..batch.targets];
            let targets = views.iter().map(|view| {
                let mut all = vec![0.0; scene.renderings() * size];
                for (rendering, frame) in all.chunks_mut(size).enumerate() {
                    scene.render(*view, rendering, frame);
                }
                all
            });
            Readings {
                completions: scene.completions(),
                kinds: (0..scene.renderings())
                    .map(|rendering| scene.kind(rendering))
                    .collect(),
                targets: targets.collect(),
                size,
            }
        })
        .collect()
}

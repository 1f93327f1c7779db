//! Scenes that are asked what they look like from another view.
//!
//! | file | contents |
//! | --- | --- |
//! | `scenes.rs` | the interface: [`Scene`], [`Scenes`]; batches of views |
//! | `patterns.rs` | rolled patterns, a toy whose best bound is known |
//! | `prism.rs` | an upright prism with a digit on each face |
//! | `narratives.rs` | stories of coloured shapes: how they are drawn and placed |
//! | `colour_reaction.rs`, `travelling_salesman.rs`, `dag_chase.rs` | the stories of cgqn, section 4.1 |

mod colour_reaction;
mod dag_chase;
mod narratives;
mod patterns;
mod prism;
mod travelling_salesman;

pub use colour_reaction::ColourReaction;
pub use dag_chase::DagChase;
pub use patterns::Patterns;
pub use prism::Prism;
pub use travelling_salesman::TravellingSalesman;

use crate::{Error, FrameShape, Split, Stream, sequence_number, settings::check};
use rand::{RngExt, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

/// One scene: how it looks from each of its views, and what is hidden in it.
///
/// What is hidden has several *completions*: ways it can be, equally likely for those who have seen no view that
/// [reveals](Self::reveals) it. One of them is the truth. A completion can be read off a frame as the one whose
/// rendering is nearest, so that answers of a model can be compared with each other in every world alike.
pub trait Scene {
    /// Number of views: frames of a narrative, or viewpoints.
    fn views(&self) -> usize;

    /// Writes the query of a view: a time or a viewpoint.
    fn query(&self, view: usize, query: &mut [f32]);

    /// Number of completions; 0 if nothing is hidden.
    fn completions(&self) -> usize;

    /// The completion that is true.
    fn truth(&self) -> usize;

    /// Number of renderings that a frame is compared with: the completions, then what a model may wrongly draw.
    fn renderings(&self) -> usize {
        self.completions()
    }

    /// Draws a view, `[channels, height, width]` in [0, 1], as it is under a completion.
    fn render(&self, view: usize, completion: usize, frame: &mut [f32]);

    /// Whether a view shows anything of what is hidden.
    fn reveals(&self, view: usize) -> bool;

    /// Whether the completion can be read off a view.
    fn tells(&self, view: usize) -> bool;

    /// The views from which a context is drawn are the first of this number.
    fn context_views(&self) -> usize {
        self.views()
    }
}

/// A source of scenes.
pub trait Scenes: Send + Sync {
    /// The name that experiments and the command line use.
    fn name(&self) -> &'static str;

    /// The dimensions of every frame.
    fn frame(&self) -> FrameShape;

    /// Numbers of a query.
    fn query_width(&self) -> usize;

    /// Whether its scenes hide something that can be read.
    fn hides(&self) -> bool {
        true
    }

    /// Scene `index`: a pure function of its arguments.
    fn scene(&self, split: Split, stream: &Stream, index: u64) -> Box<dyn Scene + '_>;
}

/// The number of a scene in its random stream: scenes of different splits share none.
fn of_split(split: Split, index: u64) -> u64 {
    match split {
        Split::Train => index.wrapping_mul(2),
        Split::Test => index.wrapping_mul(2).wrapping_add(1),
    }
}

/// Checks the rows and columns of a frame.
fn check_side(side: usize) -> Result<(), Error> {
    check("scenes.size", side, 8..=256, || {
        "it must be from 8 to 256".to_owned()
    })
}

/// How many views of a scene are shown and asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Showing {
    /// Views in the context, at least.
    pub context_least: usize,
    /// Views in the context, at most.
    pub context_most: usize,
    /// Views that are asked for.
    pub targets: usize,
}

/// Which views are shown, and which are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Any.
    Training,
    /// The context reveals nothing of what is hidden, but all else as well as it can; the targets tell what is hidden.
    Hidden,
}

/// Views of a batch of scenes.
#[derive(Clone, Debug, PartialEq)]
pub struct SceneBatch {
    /// Number of scenes.
    pub scenes: usize,
    /// The dimensions of every frame.
    pub frame: FrameShape,
    /// Numbers of a query.
    pub query_width: usize,
    /// Views in each context; may be 0.
    pub context: usize,
    /// Views asked for of each scene.
    pub targets: usize,
    /// `[scenes, context, channels, height, width]`, in [0, 1].
    pub context_frames: Vec<f32>,
    /// `[scenes, context, query_width]`
    pub context_queries: Vec<f32>,
    /// `[scenes, targets, channels, height, width]`, in [0, 1].
    pub target_frames: Vec<f32>,
    /// `[scenes, targets, query_width]`
    pub target_queries: Vec<f32>,
    /// `[scenes]`: the true completion of each scene; 0 if nothing is hidden.
    pub truth: Vec<u32>,
    /// `[scenes, targets]`: the views that are asked for.
    pub target_views: Vec<usize>,
    /// Number of the first scene.
    pub first: u64,
}

impl SceneBatch {
    /// The number of a scene of the batch.
    pub fn number(&self, scene: usize) -> u64 {
        self.first.wrapping_add(scene as u64)
    }
}

/// `count` of the numbers, spread evenly, in ascending order; all if there are no more.
fn spread(from: &[usize], count: usize) -> Vec<usize> {
    let count = count.min(from.len());
    let middle = |place: usize| from[(2 * place + 1) * from.len() / (2 * count)];
    (0..count).map(middle).collect()
}

/// `count` different numbers below `below`, or with repetitions if there are not as many, in random order.
fn drawn(below: usize, count: usize, generator: &mut ChaCha8Rng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..below).collect();
    let (chosen, _) = all.partial_shuffle(generator, count);
    let mut chosen = chosen.to_vec();
    while chosen.len() < count {
        chosen.push(generator.random_range(0..below));
    }
    chosen
}

/// The views of a scene that are shown, at most `context`, and those that are asked for.
fn chosen(
    scene: &dyn Scene,
    ask: Ask,
    [context, targets]: [usize; 2],
    generator: &mut ChaCha8Rng,
) -> [Vec<usize>; 2] {
    match ask {
        Ask::Training => [
            drawn(scene.context_views(), context, generator),
            drawn(scene.views(), targets, generator),
        ],
        Ask::Hidden => {
            let all = 0..scene.context_views();
            let harmless: Vec<usize> = all.filter(|view| !scene.reveals(*view)).collect();
            let telling: Vec<usize> = (0..scene.views())
                .filter(|view| scene.tells(*view))
                .collect();
            [spread(&harmless, context), spread(&telling, targets)]
        }
    }
}

/// Batch `index` of some scenes: a pure function of its arguments. All scenes of a batch have as many views in their
/// context: in training a number drawn for the batch, otherwise the most.
///
/// # Panics
/// If `ask` is [`Ask::Hidden`] and the scenes [hide](Scenes::hides) nothing.
pub fn scene_batch(
    scenes: &dyn Scenes,
    showing: Showing,
    ask: Ask,
    (split, stream): (Split, &Stream),
    index: u64,
    count: usize,
) -> SceneBatch {
    assert!(
        ask != Ask::Hidden || scenes.hides(),
        "{} hides nothing",
        scenes.name()
    );
    let first = sequence_number(index, count, 0);
    let mut generator = stream.at(u64::MAX - index);
    let context = match ask {
        Ask::Training => generator.random_range(showing.context_least..=showing.context_most),
        Ask::Hidden => showing.context_most,
    };
    let (size, width) = (scenes.frame().size(), scenes.query_width());
    let mut batch = SceneBatch {
        scenes: count,
        frame: scenes.frame(),
        query_width: width,
        context,
        targets: showing.targets,
        context_frames: Vec::new(),
        context_queries: Vec::new(),
        target_frames: Vec::new(),
        target_queries: Vec::new(),
        truth: Vec::with_capacity(count),
        target_views: Vec::new(),
        first,
    };
    for row in 0..count {
        let scene = scenes.scene(split, stream, batch.number(row));
        let [shown, asked] = chosen(
            scene.as_ref(),
            ask,
            [context, showing.targets],
            &mut generator,
        );
        batch.context = shown.len();
        for (views, frames, queries) in [
            (
                &shown,
                &mut batch.context_frames,
                &mut batch.context_queries,
            ),
            (&asked, &mut batch.target_frames, &mut batch.target_queries),
        ] {
            for view in views {
                let (start, asked) = (frames.len(), queries.len());
                frames.resize(start + size, 0.0);
                queries.resize(asked + width, 0.0);
                scene.render(*view, scene.truth(), &mut frames[start..]);
                scene.query(*view, &mut queries[asked..]);
            }
        }
        batch.truth.push(scene.truth() as u32);
        batch.target_views.extend(asked);
    }
    batch
}

/// The renderings with which answers about one scene are compared.
#[derive(Clone, Debug)]
pub struct Readings {
    /// Completions that can be.
    pub completions: usize,
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

/// What is read off frames of one scene, by their errors from each rendering: the nearest to all of them together, a
/// completion, or from [`Readings::completions`] on what cannot be; and whether it is among the nearest to each. Several are
/// equally near where a view does not tell them apart.
pub fn read(errors: &[Vec<f32>]) -> (usize, bool) {
    let count = errors.first().map_or(0, Vec::len);
    let sum = |rendering: usize| -> f32 { errors.iter().map(|errors| errors[rendering]).sum() };
    let nearest = (0..count).min_by(|a, b| sum(*a).total_cmp(&sum(*b)));
    let nearest = nearest.unwrap_or(0);
    let alike = errors.iter().all(|errors| {
        let least = errors.iter().copied().fold(f32::INFINITY, f32::min);
        errors[nearest] <= least
    });
    (nearest, alike)
}

/// The readings of each scene of a batch that [`scene_batch`] made of the same split and stream.
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
                targets: targets.collect(),
                size,
            }
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod testing {
    //! What must hold of every world of scenes.

    use super::*;

    /// Checks batches of a world: pure, within bounds, readable, and with contexts that reveal nothing.
    pub(crate) fn holds(scenes: &dyn Scenes, showing: Showing) {
        let stream = Stream::new(3, "scenes");
        let make =
            |ask, split, index| scene_batch(scenes, showing, ask, (split, &stream), index, 5);
        for ask in [Ask::Training, Ask::Hidden] {
            if ask == Ask::Hidden && !scenes.hides() {
                continue;
            }
            let batch = make(ask, Split::Train, 2);
            assert_eq!(batch, make(ask, Split::Train, 2));
            assert_ne!(
                batch.target_frames,
                make(ask, Split::Train, 3).target_frames
            );
            assert_ne!(batch.target_frames, make(ask, Split::Test, 2).target_frames);
            let size = scenes.frame().size();
            assert_eq!(batch.target_frames.len(), 5 * showing.targets * size);
            assert_eq!(batch.context_frames.len(), 5 * batch.context * size);
            let frames = batch.context_frames.iter().chain(&batch.target_frames);
            assert!(frames.clone().all(|value| (0.0..=1.0).contains(value)));
            assert!(frames.clone().any(|value| *value > 0.5));
        }
        if !scenes.hides() {
            return;
        }
        let batch = make(Ask::Hidden, Split::Test, 0);
        let found = readings(scenes, (Split::Test, &stream), &batch);
        let size = scenes.frame().size();
        for (row, found) in found.iter().enumerate() {
            let scene = scenes.scene(Split::Test, &stream, batch.number(row));
            let errors: Vec<Vec<f32>> = (0..showing.targets)
                .map(|target| {
                    let place = (row * showing.targets + target) * size;
                    found.errors(target, &batch.target_frames[place..][..size])
                })
                .collect();
            assert_eq!(read(&errors), (scene.truth(), true), "scene {row}");
            for errors in &errors {
                assert_eq!(errors[scene.truth()], 0.0);
                assert!(errors.iter().any(|error| *error > 0.0));
            }
            // What is hidden does not show in the context.
            for view in (0..scene.context_views()).filter(|view| !scene.reveals(*view)) {
                let mut frames = [vec![0.0; size], vec![0.0; size]];
                for (completion, frame) in frames.iter_mut().enumerate() {
                    scene.render(view, completion, frame);
                }
                assert_eq!(frames[0], frames[1], "view {view} of scene {row}");
            }
        }
    }
}

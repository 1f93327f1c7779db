//! Scenes that are asked what they look like from another view.
//!
//! | file | contents |
//! | --- | --- |
//! | `scenes.rs` | the interface: [`Scene`], [`Scenes`]; batches of views |
//! | `patterns.rs` | rolled patterns, a toy whose best bound is known |
//! | `prism.rs` | an upright prism with a digit on each face |
//! | `narratives.rs` | stories of coloured shapes: how they are told, drawn and placed |
//! | `colour_reaction.rs`, `travelling_salesman.rs`, `dag_chase.rs` | the stories of cgqn, section 4.1 |

mod colour_reaction;
mod dag_chase;
mod narratives;
mod patterns;
mod prism;
mod travelling_salesman;

pub use narratives::Narratives;
pub use patterns::Patterns;
pub use prism::Prism;

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

    /// Whether its views are moments, one after the other.
    fn ordered(&self) -> bool {
        false
    }

    /// The most views that the context of every scene can have, and the most targets.
    fn most(&self, ask: Ask) -> [usize; 2];

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
    /// Whether any view can be in a context, not only the first [`Scene::context_views`].
    pub anywhere: bool,
    /// Views in the context, at least.
    pub context_least: usize,
    /// Views in the context, at most.
    pub context_most: usize,
    /// Views that are asked for in training, at least.
    pub targets_least: usize,
    /// Views that are asked for, at most.
    pub targets: usize,
}

/// Which views are shown, and which are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Any, in numbers drawn for the batch.
    Training,
    /// Any, the context in a number drawn for the batch, and the most targets.
    Any,
    /// The context reveals nothing of what is hidden, but all else as well as it can; the targets tell what is hidden.
    Hidden,
    /// The context tells what is hidden, as do the targets.
    Told,
    /// A part of a story; the targets are spread over the others.
    Part(Part),
}

/// A part of a story that is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first views.
    Beginning,
    /// Those in the middle.
    Middle,
    /// The last views.
    End,
    /// Half of them first views, half of them last.
    Ends,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 4] = [Part::Beginning, Part::Middle, Part::End, Part::Ends];

    /// The name that results use.
    pub fn name(self) -> &'static str {
        match self {
            Part::Beginning => "beginning",
            Part::Middle => "middle",
            Part::End => "end",
            Part::Ends => "ends",
        }
    }

    /// `count` of the views of a story, and all others.
    fn of(self, views: usize, count: usize) -> [Vec<usize>; 2] {
        let rest = views - count;
        let seen = |view: &usize| match self {
            Part::Beginning => *view < count,
            Part::Middle => (rest / 2..rest / 2 + count).contains(view),
            Part::End => *view >= rest,
            Part::Ends => *view < count.div_ceil(2) || *view >= views - count / 2,
        };
        let (seen, others) = (0..views).partition(seen);
        [seen, others]
    }
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

/// `count` of the numbers, spread evenly, in ascending order.
fn spread(from: &[usize], count: usize) -> Vec<usize> {
    let middle = |place: usize| from[(2 * place + 1) * from.len() / (2 * count)];
    (0..count).map(middle).collect()
}

/// `count` different numbers below `below`, in random order.
fn drawn(below: usize, count: usize, generator: &mut ChaCha8Rng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..below).collect();
    all.partial_shuffle(generator, count).0.to_vec()
}

/// The `context` views of a scene that are shown, and the `targets` that are asked for.
fn chosen(
    scene: &dyn Scene,
    (ask, anywhere): (Ask, bool),
    [context, targets]: [usize; 2],
    generator: &mut ChaCha8Rng,
) -> [Vec<usize>; 2] {
    match ask {
        Ask::Training | Ask::Any => {
            let from = match anywhere {
                true => scene.views(),
                false => scene.context_views(),
            };
            [
                drawn(from, context, generator),
                drawn(scene.views(), targets, generator),
            ]
        }
        Ask::Part(part) => {
            let [seen, others] = part.of(scene.views(), context);
            [seen, spread(&others, targets)]
        }
        Ask::Hidden | Ask::Told => {
            let shown = |view: &usize| match ask {
                Ask::Told => scene.tells(*view),
                _ => !scene.reveals(*view),
            };
            let shown: Vec<usize> = (0..scene.context_views()).filter(shown).collect();
            let telling = (0..scene.views()).filter(|view| scene.tells(*view));
            let telling: Vec<usize> = telling.collect();
            [spread(&shown, context), spread(&telling, targets)]
        }
    }
}

/// Batch `index` of some scenes: a pure function of its arguments. All scenes of a batch have as many views in their
/// context, and as many targets; [`Ask`] says how many. Where the context is to hide or to tell something, it has as many
/// views as there are, at most `context_most`.
///
/// # Panics
/// If there are fewer views than are to be shown or asked for ([`Scenes::most`]), or if `ask` is [`Ask::Hidden`] or
/// [`Ask::Told`] and the scenes [hide](Scenes::hides) nothing.
pub fn scene_batch(
    scenes: &dyn Scenes,
    showing: Showing,
    ask: Ask,
    (split, stream): (Split, &Stream),
    index: u64,
    count: usize,
) -> SceneBatch {
    assert!(
        !matches!(ask, Ask::Hidden | Ask::Told) || scenes.hides(),
        "{} hides nothing",
        scenes.name()
    );
    let [most_context, most_targets] = scenes.most(ask);
    assert!(
        showing.targets <= most_targets,
        "{} has {most_targets} views to ask for",
        scenes.name()
    );
    let first = sequence_number(index, count, 0);
    let mut generator = stream.at(u64::MAX - index);
    let context = match ask {
        Ask::Training | Ask::Any => {
            generator.random_range(showing.context_least..=showing.context_most)
        }
        Ask::Hidden | Ask::Told => showing.context_most.min(most_context),
        Ask::Part(_) => showing.context_most,
    };
    let targets = match ask {
        Ask::Training => generator.random_range(showing.targets_least..=showing.targets),
        _ => showing.targets,
    };
    let (size, width) = (scenes.frame().size(), scenes.query_width());
    let mut batch = SceneBatch {
        scenes: count,
        frame: scenes.frame(),
        query_width: width,
        context,
        targets,
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
            (ask, showing.anywhere),
            [context, targets],
            &mut generator,
        );
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
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_story_are_those_that_their_names_say() {
        for (part, seen) in [
            (Part::Beginning, [0, 1, 2]),
            (Part::Middle, [2, 3, 4]),
            (Part::End, [4, 5, 6]),
            (Part::Ends, [0, 1, 6]),
        ] {
            let [found, others] = part.of(7, 3);
            assert_eq!(found, seen, "{part:?}");
            assert_eq!(others.len(), 4);
            assert!(others.iter().all(|view| !seen.contains(view)));
        }
    }

    #[test]
    fn views_are_spread_and_drawn_without_repetition() {
        assert_eq!(spread(&[3, 5, 7, 9, 11, 13], 3), [5, 9, 13]);
        assert_eq!(spread(&[4, 5], 2), [4, 5]);
        let mut all = drawn(5, 5, &mut Stream::new(1, "views").at(0));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
    }
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
        let parts = Part::ALL.map(Ask::Part);
        for ask in [Ask::Training, Ask::Any, Ask::Hidden, Ask::Told]
            .iter()
            .chain(&parts)
        {
            let ask = *ask;
            let possible = match ask {
                Ask::Training | Ask::Any => true,
                Ask::Hidden | Ask::Told => scenes.hides(),
                Ask::Part(_) => scenes.ordered(),
            };
            if !possible {
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
            assert_eq!(batch.target_frames.len(), 5 * batch.targets * size);
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

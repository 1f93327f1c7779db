//! Scenes that are asked what they look like from another view.
//!
//! | file | contents |
//! | --- | --- |
//! | `scenes.rs` | the interface: [`Scene`], [`Scenes`] |
//! | `batch.rs` | which views are shown and asked for; batches of them |
//! | `readings.rs` | what is read off answers |
//! | `patterns.rs` | rolled patterns, a toy whose best bound is known |
//! | `prism.rs` | an upright prism with a digit on each face |
//! | `dice.rs` | a die with MNIST digits in a room, seen by a ray caster (cgqn, section 4.2) |
//! | `views.rs` | scenes of which pictures with poses are given: a user's own, and the data sets of the GQN |
//! | `narratives.rs` | stories of coloured shapes: how they are told, drawn and placed |
//! | `colour_reaction.rs`, `travelling_salesman.rs`, `dag_chase.rs` | the stories of cgqn, section 4.1 |

mod batch;
mod colour_reaction;
mod dag_chase;
mod dice;
mod narratives;
mod patterns;
mod prism;
mod readings;
mod travelling_salesman;
mod views;

pub use batch::{Ask, Part, SceneBatch, Showing, scene_batch};
pub use dice::Dice;
pub use narratives::Narratives;
pub use patterns::Patterns;
pub use prism::Prism;
pub use readings::{Readings, nearest, read, readings};
pub use views::{GivenScenes, GqnData, OwnViews, Views};

use crate::{Error, FrameShape, Split, Stream, settings::check};
use batch::drawn;
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

    /// The kind of a rendering, such as the digit that an image shows, if renderings are of kinds.
    fn kind(&self, _rendering: usize) -> Option<usize> {
        None
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

    /// Draws as many views of a context, from the first `from`, and as many that are asked for, if any may be. A view can
    /// be both.
    fn draw(
        &self,
        from: usize,
        [context, targets]: [usize; 2],
        generator: &mut ChaCha8Rng,
    ) -> [Vec<usize>; 2] {
        [
            drawn(from, context, generator),
            drawn(self.views(), targets, generator),
        ]
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

    /// Moments of a story, one after the other, if its views are that: view `i` is at the time `(i + 1) / moments`. 0 if
    /// they are not.
    fn moments(&self) -> usize {
        0
    }

    /// Whether its views are moments.
    fn ordered(&self) -> bool {
        self.moments() > 0
    }

    /// Whether its views in their order go once around the scene.
    fn around(&self) -> bool {
        false
    }

    /// The most views that the context of every scene can have, and the most targets.
    fn most(&self, ask: Ask) -> [usize; 2];

    /// Held-out scenes, if there is an end of them: scene `index` of the test split is then that of the rest of `index`
    /// divided by their number.
    fn held_out(&self) -> Option<usize> {
        None
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

#[cfg(test)]
pub(crate) mod testing {
    //! What must hold of every world of scenes.

    use super::*;

    /// The context of a batch reveals nothing of what is hidden, and no view is shown or asked for twice. If `revealing`, as
    /// many targets as can be reveal some of it, but for the last of several.
    fn hides(scenes: &dyn Scenes, stream: &Stream, batch: &SceneBatch, revealing: bool) {
        let width = scenes.query_width();
        for row in 0..batch.scenes {
            let scene = scenes.scene(Split::Train, stream, batch.number(row));
            let views = |all: &[f32], count: usize| -> Vec<usize> {
                let queries = all[row * count * width..][..count * width].chunks(width);
                let mut query = vec![0.0; width];
                let view = |asked: &[f32]| {
                    (0..scene.views()).find(|view| {
                        scene.query(*view, &mut query);
                        query == asked
                    })
                };
                let mut found: Vec<usize> = queries.filter_map(view).collect();
                found.sort_unstable();
                found.dedup();
                assert_eq!(found.len(), count);
                found
            };
            let seen = views(&batch.context_queries, batch.context);
            assert!(seen.iter().all(|view| !scene.reveals(*view)), "{seen:?}");
            let asked = views(&batch.target_queries, batch.targets);
            if revealing {
                let reveal = |views: &mut dyn Iterator<Item = usize>| {
                    views.filter(|view| scene.reveals(*view)).count()
                };
                let most = reveal(&mut (0..scene.views())).min(batch.targets.max(2) - 1);
                assert!(reveal(&mut asked.iter().copied()) >= most, "{asked:?}");
            }
        }
    }

    /// Checks batches of a world: pure, within bounds, readable, and with contexts that reveal nothing.
    pub(crate) fn holds(scenes: &dyn Scenes, showing: Showing) {
        let stream = Stream::new(3, "scenes");
        let make =
            |ask, split, index| scene_batch(scenes, showing, ask, (split, &stream), index, 5);
        let parts = Part::ALL.map(Ask::Part);
        for ask in [Ask::Training, Ask::Any, Ask::Hidden, Ask::Told, Ask::Story]
            .iter()
            .chain(&parts)
        {
            let ask = *ask;
            let possible = match ask {
                Ask::Training | Ask::Any => true,
                Ask::Hidden | Ask::Told => scenes.hides(),
                Ask::Part(_) | Ask::Story => scenes.ordered(),
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
        for (index, revealing) in [(0, false), (1, true), (2, false), (3, true)] {
            let hiding = Showing {
                hiding: 1.0,
                revealing,
                ..showing
            };
            let of = (Split::Train, &stream);
            let batch = scene_batch(scenes, hiding, Ask::Training, of, index, 5);
            hides(scenes, &stream, &batch, revealing);
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

//! Batches of views: which are shown, and which are asked for.

use super::{Scene, Scenes};
use crate::{FrameShape, Split, Stream, sequence_number};
use rand::{RngExt, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

/// How many views of a scene are shown and asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Showing {
    /// Whether any view can be in a context, not only the first [`Scene::context_views`].
    pub anywhere: bool,
    /// Views in the context, at least.
    pub context_least: usize,
    /// Views in the context, at most.
    pub context_most: usize,
    /// Views that are asked for in training, at least.
    pub targets_least: usize,
    /// Views that are asked for, at most; fewer if they are to tell what is hidden and no more do.
    pub targets: usize,
    /// The share of the batches in training whose context reveals nothing of what is hidden.
    pub hiding: f64,
    /// Whether the targets of those batches, but for the last of several, are views that reveal some of it, as far as there
    /// are such; otherwise they are any views.
    pub revealing: bool,
}

/// Which views are shown, and which are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Any, in numbers drawn for the batch, or those of [`Showing::hiding`].
    Training,
    /// Any, the context in a number drawn for the batch, and the most targets.
    Any,
    /// The context reveals nothing of what is hidden, but all else as well as it can; the targets tell what is hidden.
    Hidden,
    /// The context tells what is hidden, as do the targets.
    Told,
    /// A part of a story; the targets are spread over the others.
    Part(Part),
    /// A whole story in order: the context is its first views, the targets are all that follow.
    Story,
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
pub(super) fn drawn(below: usize, count: usize, generator: &mut ChaCha8Rng) -> Vec<usize> {
    drawn_from((0..below).collect(), count, generator)
}

/// `count` different ones of `from`, in random order.
fn drawn_from(mut from: Vec<usize>, count: usize, generator: &mut ChaCha8Rng) -> Vec<usize> {
    from.partial_shuffle(generator, count).0.to_vec()
}

/// The views for a context that reveal nothing of what is hidden.
fn silent(scene: &dyn Scene) -> Vec<usize> {
    let views = 0..scene.context_views();
    views.filter(|view| !scene.reveals(*view)).collect()
}

/// `count` views that reveal some of what is hidden, but for the last of several: it is any other view, so that what has
/// been seen is asked for, too. If fewer views reveal something, the rest are any others as well.
fn revealing(scene: &dyn Scene, count: usize, generator: &mut ChaCha8Rng) -> Vec<usize> {
    let reveal: Vec<usize> = (0..scene.views())
        .filter(|view| scene.reveals(*view))
        .collect();
    let most = reveal.len().min(if count > 1 { count - 1 } else { count });
    let mut all = drawn_from(reveal, most, generator);
    let others = (0..scene.views()).filter(|view| !all.contains(view));
    let others = drawn_from(others.collect(), count - most, generator);
    all.extend(others);
    all
}

/// The `context` views of a scene that are shown, and the `targets` that are asked for. In training, `hiding` says whether
/// the context reveals nothing of what is hidden.
fn chosen(
    scene: &dyn Scene,
    (ask, showing, hiding): (Ask, &Showing, bool),
    [context, targets]: [usize; 2],
    generator: &mut ChaCha8Rng,
) -> [Vec<usize>; 2] {
    match ask {
        Ask::Training if hiding => {
            let shown = drawn_from(silent(scene), context, generator);
            let asked = match showing.revealing {
                true => revealing(scene, targets, generator),
                false => drawn(scene.views(), targets, generator),
            };
            [shown, asked]
        }
        Ask::Training | Ask::Any => {
            let from = match showing.anywhere {
                true => scene.views(),
                false => scene.context_views(),
            };
            scene.draw(from, [context, targets], generator)
        }
        Ask::Part(part) => {
            let [seen, others] = part.of(scene.views(), context);
            [seen, spread(&others, targets)]
        }
        Ask::Story => Part::Beginning.of(scene.views(), context),
        Ask::Hidden | Ask::Told => {
            let telling = |below: usize| (0..below).filter(|view| scene.tells(*view)).collect();
            let shown: Vec<usize> = match ask {
                Ask::Told => telling(scene.context_views()),
                _ => silent(scene),
            };
            [
                spread(&shown, context),
                spread(&telling(scene.views()), targets),
            ]
        }
    }
}

/// Batch `index` of some scenes: a pure function of its arguments. All scenes of a batch have as many views in their
/// context, and as many targets; [`Ask`] says how many. Where the context is to hide or to tell something, it has as many
/// views as there are, at most `context_most`, and targets that tell it are as many as there are, at most `targets`. A whole
/// story has `context_most` views in its context, and the others as targets.
///
/// # Panics
/// If there are fewer views than are to be shown or asked for ([`Scenes::most`]), if `ask` is [`Ask::Hidden`] or
/// [`Ask::Told`], or [`Showing::hiding`] is not 0, and the scenes [hide](Scenes::hides) nothing, or if `ask` is
/// [`Ask::Story`] and they tell none.
pub fn scene_batch(
    scenes: &dyn Scenes,
    showing: Showing,
    ask: Ask,
    (split, stream): (Split, &Stream),
    index: u64,
    count: usize,
) -> SceneBatch {
    assert!(
        scenes.hides() || !(matches!(ask, Ask::Hidden | Ask::Told) || showing.hiding > 0.0),
        "{} hides nothing",
        scenes.name()
    );
    assert!(
        ask != Ask::Story || scenes.moments() > showing.context_most,
        "{} tells no story that is longer than the context",
        scenes.name()
    );
    let mut generator = stream.at(u64::MAX - index);
    let hiding =
        ask == Ask::Training && showing.hiding > 0.0 && generator.random_bool(showing.hiding);
    let [most_shown, most_telling] = scenes.most(if hiding { Ask::Hidden } else { ask });
    let most = scenes.most(ask)[1];
    assert!(
        showing.targets <= most || matches!(ask, Ask::Hidden | Ask::Told),
        "{} has {most} views to ask for",
        scenes.name()
    );
    let first = sequence_number(index, count, 0);
    let context = match ask {
        Ask::Training | Ask::Any => {
            let possible = if hiding { most_shown } else { usize::MAX };
            let least = showing.context_least.min(possible);
            let most = showing.context_most.min(possible);
            generator.random_range(least..=most)
        }
        Ask::Hidden | Ask::Told => showing.context_most.min(most_shown),
        Ask::Part(_) | Ask::Story => showing.context_most,
    };
    let targets = match ask {
        Ask::Story => scenes.moments() - context,
        Ask::Training => generator.random_range(showing.targets_least..=showing.targets),
        Ask::Hidden | Ask::Told => showing.targets.min(most_telling),
        Ask::Any | Ask::Part(_) => showing.targets,
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
            (ask, &showing, hiding),
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

#[cfg(test)]
mod tests {
    use super::{
        super::{Narratives, Prism},
        *,
    };
    use crate::Mnist;

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
    fn a_whole_story_is_in_order() {
        let stories = Narratives::dag_chase(16).unwrap();
        let showing = Showing {
            anywhere: true,
            context_least: 1,
            context_most: 6,
            targets_least: 2,
            targets: 2,
            hiding: 0.0,
            revealing: false,
        };
        let stream = Stream::new(1, "stories");
        let of = (Split::Train, &stream);
        let batch = scene_batch(&stories, showing, Ask::Story, of, 3, 2);
        assert_eq!((batch.context, batch.targets), (6, 14));
        let times = |queries: &[f32]| -> Vec<f32> { queries.iter().map(|t| 20.0 * t).collect() };
        let first: Vec<f32> = (1..=6).map(|t| t as f32).collect();
        let rest: Vec<f32> = (7..=20).map(|t| t as f32).collect();
        for (found, expected) in [
            (times(&batch.context_queries), first),
            (times(&batch.target_queries), rest),
        ] {
            let twice: Vec<f32> = [expected.clone(), expected].concat();
            let pairs = found.iter().zip(&twice);
            assert_eq!(found.len(), twice.len());
            assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-4));
        }
    }

    #[test]
    fn of_views_that_tell_there_may_be_fewer_than_targets() {
        let prisms = Prism::new(&Mnist::bundled().unwrap(), 16, 20).unwrap();
        let least = prisms.most(Ask::Hidden)[1];
        let showing = Showing {
            anywhere: false,
            context_least: 4,
            context_most: 8,
            targets_least: 7,
            targets: 7,
            hiding: 1.0,
            revealing: false,
        };
        let stream = Stream::new(1, "prisms");
        let of = (Split::Train, &stream);
        for (ask, targets) in [
            (Ask::Training, 7),
            (Ask::Any, 7),
            (Ask::Hidden, least),
            (Ask::Told, least),
        ] {
            let batch = scene_batch(&prisms, showing, ask, of, 0, 3);
            assert_eq!(batch.targets, targets, "{ask:?}");
            assert_eq!(batch.target_frames.len(), 3 * targets * 256);
        }
        assert!(least < 7);
    }

    /// Of several targets that are to reveal something all but the last do; the last is any other view, so that it reveals
    /// something in some draws, and nothing in others.
    #[test]
    fn the_last_of_several_targets_is_any_view() {
        let prisms = Prism::new(&Mnist::bundled().unwrap(), 16, 20).unwrap();
        let stream = Stream::new(1, "prisms");
        let scene = prisms.scene(Split::Train, &stream, 0);
        let mut last = [0, 0];
        for draw in 0..50 {
            let asked = revealing(&*scene, 3, &mut stream.at(draw));
            assert!(asked[..2].iter().all(|view| scene.reveals(*view)));
            assert!(asked[2] != asked[0] && asked[2] != asked[1]);
            last[usize::from(scene.reveals(asked[2]))] += 1;
            let one = revealing(&*scene, 1, &mut stream.at(draw));
            assert!(one.len() == 1 && scene.reveals(one[0]));
        }
        assert!(last.iter().all(|count| *count > 0), "{last:?}");
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

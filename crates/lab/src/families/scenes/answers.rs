//! Answers to questions about a scene: many samples, each one scene for all queries.

use super::{
    learner::normal,
    query::{AROUND, Asked, Place},
    settings::SceneSettings,
    world::World,
};
use crate::{
    LabError,
    experiment::family::{Answered, Question},
};
use burn::tensor::{Tensor, TensorData};
use mnemora_figures::picture::{Group, Image, Row, Sequence, Sheet, sheet};
use mnemora_models::{AnyScenes, Views};
use mnemora_training::{arrays::host, measures::mean_squared_error};
use mnemora_worlds::{FrameShape, Split, Stream, scenes::Scene};

/// Frames that are drawn in one call.
const TOGETHER: usize = 256;
/// The most frames of all samples together, and the most numbers in them (512 MiB).
const MOST_FRAMES: usize = 20_000;
const MOST_NUMBERS: usize = 1 << 27;
/// Frames in a line.
const WRAP: usize = 12;
/// The height of a frame in a picture, about.
const HEIGHT: usize = 96;

/// A scene with what was asked of it, and the answers.
pub struct Answers {
    title: String,
    /// What a view is called.
    word: &'static str,
    frame: FrameShape,
    context: Vec<Place>,
    context_frames: Vec<f32>,
    places: Vec<Place>,
    /// Of each place; none where the world does not know the truth.
    truth: Vec<Option<Vec<f32>>>,
    /// Each has all places of one scene.
    samples: Vec<Vec<f32>>,
    sampled: bool,
}

/// Answers a question about a held-out scene.
///
/// # Errors
/// If the question names views that the scene does not have, gives no context to a model that was always given one, or
/// asks for more than can be held in memory.
pub fn answers(
    world: &World,
    settings: &SceneSettings,
    model: &AnyScenes,
    question: &Question,
) -> Result<Answered, LabError> {
    let wrong = LabError::Configuration;
    let stream = Stream::new(question.seed, "pictures");
    let scene = world.scenes.scene(Split::Test, &stream, question.scene - 1);
    let asked = Asked::new(world.scenes.as_ref(), scene.as_ref());
    let context = asked.context(&question.context).map_err(wrong)?;
    let places = asked.places(&question.at).map_err(wrong)?;
    let (least, most) = (settings.context_least, settings.context_most);
    let word = asked.word();
    if model.tells_stories() {
        predictable(model, &context, &places, word).map_err(wrong)?;
    } else if context.is_empty() && least > 0 {
        return Err(wrong(format!(
            "--context none: this model has always seen a context, of {least} to {most} {word}s; name at least one"
        )));
    }
    let mut notes = Vec::new();
    if context.len() > most {
        notes.push(format!(
            "{word}s in the context: {}; the model was trained with at most {most}",
            context.len()
        ));
    }
    let found = Answers::new(world, model, &asked, (context, places), question)?;
    Ok(Answered {
        sheet: found.sheet()?,
        film: match question.film {
            true => found.film()?,
            false => Vec::new(),
        },
        words: found.words(),
        notes,
    })
}

/// Whether a predictor of stories can answer: its context are the first frames, and it is asked for frames.
fn predictable(
    model: &AnyScenes,
    context: &[usize],
    places: &[Place],
    word: &str,
) -> Result<(), String> {
    let count = context.len();
    if !context.iter().copied().eq(0..count) || !model.takes(count) {
        return Err(format!(
            "--context: this model continues stories; it must see the first {word}s in their order, as many as in training"
        ));
    }
    let unseen = places
        .iter()
        .filter(|place| place.view.is_none_or(|view| view >= count));
    let mut problems = unseen.filter_map(|place| {
        let problem = model.unanswerable(&place.query, count)?;
        Some(format!("--at {}: {problem}", place.name))
    });
    problems.next().map_or(Ok(()), Err)
}

/// The question of a report: the context tells nothing of what is hidden, and all is asked for; if a scene has many
/// views, some of them.
pub fn reported(
    world: &World,
    settings: &SceneSettings,
    (stories, samples): (bool, usize),
) -> Question {
    let stream = Stream::new(1, "pictures");
    let scene = world.scenes.scene(Split::Test, &stream, 0);
    let hides = world.scenes.hides();
    let shown: Vec<usize> = (0..scene.context_views())
        .filter(|view| !hides || !scene.reveals(*view))
        .collect();
    let spread =
        |count: usize, of: usize| (0..count).map(move |place| (2 * place + 1) * of / (2 * count));
    let listed = |views: Vec<usize>| {
        let numbers = views.iter().map(|view| (view + 1).to_string());
        numbers.collect::<Vec<_>>().join(",")
    };
    let seen = settings.context_most.min(shown.len());
    let context = match (stories, seen) {
        (true, _) => listed((0..settings.context_most).collect()),
        (false, 0) => "none".to_owned(),
        (false, seen) => listed(
            spread(seen, shown.len())
                .map(|place| shown[place])
                .collect(),
        ),
    };
    let at = match (world.scenes.around(), scene.views()) {
        (true, _) => "around".to_owned(),
        (false, views) if views <= AROUND => "all".to_owned(),
        (false, views) => listed(spread(AROUND, views).collect()),
    };
    Question {
        context,
        at,
        scene: 1,
        seed: 1,
        samples,
        film: world.scenes.around(),
    }
}

fn rendered(scene: &dyn Scene, view: usize, size: usize) -> Vec<f32> {
    let mut frame = vec![0.0; size];
    scene.render(view, scene.truth(), &mut frame);
    frame
}

impl Answers {
    fn new(
        world: &World,
        model: &AnyScenes,
        asked: &Asked,
        (context, places): (Vec<usize>, Vec<Place>),
        question: &Question,
    ) -> Result<Self, LabError> {
        let frame = world.scenes.frame();
        let sampled = model.noise_size(1) > 0;
        let samples = if sampled { question.samples } else { 1 };
        let frames = samples.saturating_mul(places.len());
        if frames > MOST_FRAMES || frames.saturating_mul(frame.size()) > MOST_NUMBERS {
            return Err(LabError::Configuration(format!(
                "{samples} samples of {} {}s are too many to draw at once; ask for fewer",
                places.len(),
                asked.word()
            )));
        }
        let scene = asked.scene();
        let of_view = |view| rendered(scene, view, frame.size());
        let context_frames: Vec<f32> = context.iter().copied().flat_map(of_view).collect();
        let context: Vec<Place> = context.into_iter().map(|view| asked.place(view)).collect();
        let truth = places.iter().map(|place| place.view.map(of_view)).collect();
        let seen = views(&context, &context_frames, frame, model);
        let samples = drawn(model, seen.as_ref(), &places, (question.seed, samples));
        Ok(Self {
            title: format!(
                "{}, held-out scene {} of seed {}: {} {word}s seen, {} asked for",
                world.scenes.name(),
                question.scene,
                question.seed,
                context.len(),
                places.len(),
                word = asked.word()
            ),
            word: asked.word(),
            frame,
            context,
            context_frames,
            places,
            truth,
            samples,
            sampled,
        })
    }

    fn is_seen(&self, place: &Place) -> bool {
        place.view.is_some() && self.context.iter().any(|seen| seen.view == place.view)
    }

    /// The frame of a sample at a place.
    fn of_sample(&self, sample: usize, place: usize) -> &[f32] {
        let size = self.frame.size();
        &self.samples[sample][place * size..][..size]
    }

    fn label(&self, sample: usize) -> String {
        match self.sampled {
            true => format!("sample {}", sample + 1),
            false => "answer".into(),
        }
    }

    /// The true frame, white if it is not known.
    fn shown_truth(&self, place: usize) -> Vec<f32> {
        let white = || vec![1.0; self.frame.size()];
        self.truth[place].clone().unwrap_or_else(white)
    }

    fn truth_is_known(&self) -> bool {
        self.truth.iter().any(Option::is_some)
    }

    fn row<'a>(&self, label: &str, frames: &'a [f32]) -> Row<'a> {
        Row {
            label: label.into(),
            frames: Sequence {
                frames,
                steps: frames.len() / self.frame.size(),
                channels: self.frame.channels,
                height: self.frame.height,
                width: self.frame.width,
            },
            first_step: 0,
        }
    }

    /// The context, with the numbers of its views; none without views.
    fn context_group(&self) -> Option<Group<'_>> {
        (!self.context.is_empty()).then(|| Group {
            rows: vec![self.row("context", &self.context_frames)],
            marked: Vec::new(),
            names: self
                .context
                .iter()
                .map(|place| place.name.clone())
                .collect(),
        })
    }

    fn drawn(&self, title: String, groups: Vec<Group>, caption: &str) -> Result<Image, LabError> {
        Ok(sheet(&Sheet {
            title,
            groups,
            mark_caption: caption.into(),
            scale: (HEIGHT / self.frame.height.max(1)).clamp(1, 8),
            wrap: Some(WRAP),
            first_number: 1,
        })?)
    }

    /// Context, truth and samples.
    fn sheet(&self) -> Result<Image, LabError> {
        let truth: Vec<f32> = (0..self.places.len())
            .flat_map(|place| self.shown_truth(place))
            .collect();
        let mut rows = Vec::new();
        if self.truth_is_known() {
            rows.push(self.row("truth", &truth));
        }
        for (sample, frames) in self.samples.iter().enumerate() {
            rows.push(self.row(&self.label(sample), frames));
        }
        let places = self.places.iter().enumerate();
        let marked: Vec<usize> = places
            .filter(|(_, place)| self.is_seen(place))
            .map(|(index, _)| index)
            .collect();
        let caption = if marked.is_empty() {
            ""
        } else {
            "in the context"
        };
        let group = Group {
            rows,
            marked,
            names: self.places.iter().map(|place| place.name.clone()).collect(),
        };
        let groups = self.context_group().into_iter().chain([group]);
        self.drawn(self.title.clone(), groups.collect(), caption)
    }

    /// For each place the context, the truth, and all samples side by side.
    fn film(&self) -> Result<Vec<Image>, LabError> {
        let pictures = (0..self.places.len()).map(|place| {
            let (mut frames, mut names) = (Vec::new(), Vec::new());
            if self.truth_is_known() {
                frames.extend(self.shown_truth(place));
                names.push("truth".to_owned());
            }
            for sample in 0..self.samples.len() {
                frames.extend(self.of_sample(sample, place));
                names.push(self.label(sample));
            }
            let group = Group {
                rows: vec![self.row("", &frames)],
                marked: Vec::new(),
                names,
            };
            let groups = self.context_group().into_iter().chain([group]);
            let title = format!("{} {}", self.word, self.places[place].name);
            self.drawn(title, groups.collect(), "")
        });
        let pictures: Vec<Image> = pictures.collect::<Result<_, _>>()?;
        // A longer title may have made one wider than the others.
        let width = pictures.iter().map(Image::width).max().unwrap_or(0);
        let height = pictures.iter().map(Image::height).max().unwrap_or(0);
        let padded = pictures.into_iter().map(|picture| {
            let mut canvas = Image::new(width, height, [255; 3])?;
            canvas.blit(&picture, 0, 0);
            Ok(canvas)
        });
        padded.collect()
    }

    /// How far the samples are from the truth at the places that were not seen.
    fn words(&self) -> Option<String> {
        let unseen: Vec<(usize, &[f32])> = (0..self.places.len())
            .filter(|place| !self.is_seen(&self.places[*place]))
            .filter_map(|place| Some((place, self.truth[place].as_deref()?)))
            .collect();
        if unseen.is_empty() {
            return None;
        }
        let mean = |error: &dyn Fn(usize, &[f32]) -> f64| {
            let errors = unseen.iter().map(|(place, truth)| error(*place, truth));
            errors.sum::<f64>() / unseen.len() as f64
        };
        let of_samples: Vec<f64> = (0..self.samples.len())
            .map(|sample| {
                mean(&|place, truth| mean_squared_error(self.of_sample(sample, place), truth))
            })
            .collect();
        let best = of_samples.iter().copied().fold(f64::INFINITY, f64::min);
        let average = of_samples.iter().sum::<f64>() / of_samples.len() as f64;
        let mut words = format!(
            "{} {}s that were not seen: mean squared error {average:.5}",
            unseen.len(),
            self.word
        );
        if self.samples.len() > 1 {
            let count = self.samples.len();
            words += &format!(" (mean of {count} samples), {best:.5} (best sample)");
        }
        if !self.context.is_empty() {
            let nearest = mean(&|place, truth| mean_squared_error(self.nearest(place), truth));
            words += &format!(", {nearest:.5} (nearest {} of the context)", self.word);
        }
        Some(words)
    }

    /// The frame of the context whose query is nearest to that of a place.
    fn nearest(&self, place: usize) -> &[f32] {
        let query = &self.places[place].query;
        let apart = |seen: &Place| -> f32 {
            let pairs = seen.query.iter().zip(query);
            pairs.map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let frames = self.context_frames.chunks(self.frame.size());
        let nearest = self
            .context
            .iter()
            .zip(frames)
            .min_by(|(a, _), (b, _)| apart(a).total_cmp(&apart(b)));
        nearest.expect("there is a context").1
    }
}

/// Views of one scene on the model's device; none if there are none.
fn views(places: &[Place], frames: &[f32], frame: FrameShape, model: &AnyScenes) -> Option<Views> {
    let each = places.len();
    let FrameShape {
        channels,
        height,
        width,
    } = frame;
    (each > 0).then(|| Views {
        frames: Tensor::from_data(
            TensorData::new(frames.to_vec(), [each, channels, height, width]),
            &model.device(),
        ),
        queries: queries(places, 1, model),
        each,
    })
}

/// The queries of all places, once for each sample.
fn queries(places: &[Place], samples: usize, model: &AnyScenes) -> Tensor<2> {
    let width = places[0].query.len();
    let all: Vec<f32> = places
        .iter()
        .flat_map(|place| place.query.clone())
        .collect();
    let rows = [samples * places.len(), width];
    Tensor::from_data(TensorData::new(all.repeat(samples), rows), &model.device())
}

/// Views of as many scenes that are all the same.
fn repeated(views: &Views, scenes: usize) -> Views {
    Views {
        frames: views.frames.clone().repeat_dim(0, scenes),
        queries: views.queries.clone().repeat_dim(0, scenes),
        each: views.each,
    }
}

/// Samples `[places, frame]`, clamped to [0, 1]. The latents of a sample depend on seed and number alone, so that a consistent
/// model draws the same scenes whatever is asked for.
fn drawn(
    model: &AnyScenes,
    seen: Option<&Views>,
    places: &[Place],
    (seed, count): (u64, usize),
) -> Vec<Vec<f32>> {
    let stream = Stream::new(seed, "answers");
    let size = model.noise_size(places.len());
    let each = (TOGETHER / places.len()).clamp(1, count);
    let mut all = Vec::with_capacity(count);
    for first in (0..count).step_by(each) {
        let rows = each.min(count - first);
        let noise = (first..first + rows)
            .map(|sample| normal(&stream, sample as u64, [1, size], &model.device()));
        let noise = Tensor::cat(noise.collect(), 0);
        let seen = seen.map(|views| repeated(views, rows));
        let known = model.know(seen.as_ref(), rows);
        let frames = model.sample(&known, queries(places, rows, model), noise);
        let frames = host(frames.clamp(0.0, 1.0).into_data());
        let numbers = frames.len() / rows;
        all.extend(frames.chunks(numbers).map(<[f32]>::to_vec));
    }
    all
}

//! What models answer to a question about a scene, and the pictures of it.

use crate::LabError;
use mnemora_figures::picture::{Group, Image, Row, Sequence, Sheet, sheet};
use mnemora_training::measures::mean_squared_error;
use mnemora_worlds::FrameShape;

/// Frames in a line.
const WRAP: usize = 12;
/// The height of a frame in a picture, about.
const HEIGHT: usize = 96;

/// A view of a scene, or a moment between two views of a story.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// As it is written: the number of the view, counted from 1.
    pub name: String,
    /// The view, counted from 0; none between two views, where the world does not know the truth.
    pub view: Option<usize>,
    /// The query.
    pub query: Vec<f32>,
}

/// A scene with what was asked of it, and the answers of a model.
pub struct Answered {
    /// The model's name, for pictures in which several models answer; empty if it is alone.
    pub by: String,
    /// What was asked, in words.
    pub title: String,
    /// What a view is called.
    pub word: &'static str,
    /// The shape of a frame.
    pub frame: FrameShape,
    /// The views that the model saw.
    pub context: Vec<Place>,
    /// Their frames.
    pub context_frames: Vec<f32>,
    /// What it was asked for.
    pub places: Vec<Place>,
    /// Of each place; none where the world does not know the truth.
    pub truth: Vec<Option<Vec<f32>>>,
    /// Each has all places of one scene.
    pub samples: Vec<Vec<f32>>,
    /// Whether the model has latents; without, there is one answer.
    pub sampled: bool,
    /// What a reader of the answer should know, one line each.
    pub notes: Vec<String>,
}

impl Answered {
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

    /// The label with the model's name before it.
    fn label_with_name(&self, sample: usize) -> String {
        match self.by.is_empty() {
            true => self.label(sample),
            false => format!("{}, {}", self.by, self.label(sample)),
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

    /// Whether another model was asked the same about the same scene.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        self.frame == other.frame
            && self.context == other.context
            && self.context_frames == other.context_frames
            && self.places == other.places
            && self.truth == other.truth
    }

    /// A picture of context, truth and samples; below them the samples of `others`, which were asked the same.
    pub fn sheet(&self, others: &[Self]) -> Result<Image, LabError> {
        let truth: Vec<f32> = (0..self.places.len())
            .flat_map(|place| self.shown_truth(place))
            .collect();
        let mut rows = Vec::new();
        if self.truth_is_known() {
            rows.push(self.row("truth", &truth));
        }
        for model in std::iter::once(self).chain(others) {
            for (sample, frames) in model.samples.iter().enumerate() {
                rows.push(model.row(&model.label_with_name(sample), frames));
            }
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

    /// The pictures of a film: for each place the context, and for each model the truth and all samples side by side.
    pub fn film(&self, others: &[Self]) -> Result<Vec<Image>, LabError> {
        let pictures = (0..self.places.len()).map(|place| {
            let models = std::iter::once(self).chain(others);
            let lines: Vec<_> = models.map(|model| (model, model.line(place))).collect();
            let groups = lines.iter().map(|(model, (frames, names))| Group {
                rows: vec![model.row(&model.by, frames)],
                marked: Vec::new(),
                names: names.clone(),
            });
            let groups = self.context_group().into_iter().chain(groups);
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

    /// The truth, if it is known, and all samples at a place, with their names.
    fn line(&self, place: usize) -> (Vec<f32>, Vec<String>) {
        let (mut frames, mut names) = (Vec::new(), Vec::new());
        if self.truth_is_known() {
            frames.extend(self.shown_truth(place));
            names.push("truth".to_owned());
        }
        for sample in 0..self.samples.len() {
            frames.extend(self.of_sample(sample, place));
            names.push(self.label(sample));
        }
        (frames, names)
    }

    /// How far the samples are from the truth at the places that the context does not show, one line; `None` if the truth is not known.
    pub fn words(&self) -> Option<String> {
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
            "{} not in the context: mean squared error {average:.5}",
            counted(unseen.len(), self.word)
        );
        if !self.by.is_empty() {
            words = format!("{}: {words}", self.by);
        }
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

/// A number of things, in words: `1 view`, `2 views`.
pub(crate) fn counted(count: usize, word: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {word}{end}")
}

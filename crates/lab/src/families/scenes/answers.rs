//! Answers to questions about a scene: many samples, each one scene for all queries.

use super::{
    batch::{normal, views},
    query::{AROUND, Asked},
    settings::SceneSettings,
    world::World,
};
use crate::{
    LabError,
    answered::{Answered, Place, counted},
    experiment::gallery::Question,
};
use burn::tensor::{Tensor, TensorData};
use mnemora_models::{AnyScenes, Views};
use mnemora_training::arrays::host;
use mnemora_worlds::{Split, Stream, scenes::Scene};

/// Frames that are drawn in one call.
const TOGETHER: usize = 256;
/// The most frames of all samples together, and the most numbers in them (512 MiB).
const MOST_FRAMES: usize = 20_000;
const MOST_NUMBERS: usize = 1 << 27;

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
    if let Some(most) = world.scenes.held_out()
        && question.scene > most as u64
    {
        return Err(wrong(format!(
            "--scene is {}, but {} has {most} held-out scene{}",
            question.scene,
            world.scenes.name(),
            if most == 1 { "" } else { "s" }
        )));
    }
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
    // A predictor of stories has always seen as many.
    let least = if model.tells_stories() { most } else { least };
    if context.len() < least {
        notes.push(format!(
            "{word}s in the context: {}; the model was trained with at least {least}",
            context.len()
        ));
    }
    let shown = scene.context_views();
    let later = context.iter().any(|view| *view >= shown);
    if world.scenes.ordered() && !settings.anywhere && later {
        notes.push(format!(
            "the model was trained with contexts of the first {shown} {word}s alone"
        ));
    }
    let answered = given(world, model, &asked, (context, places), question)?;
    Ok(Answered { notes, ..answered })
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
    // Where each view shows what is hidden, a model that always saw a context is shown any views.
    let (shown, seen) = match seen {
        0 if settings.context_least > 0 => {
            let all: Vec<usize> = (0..scene.context_views()).collect();
            let seen = settings.context_most.min(all.len());
            (all, seen)
        }
        _ => (shown, seen),
    };
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
    }
}

fn rendered(scene: &dyn Scene, view: usize, size: usize) -> Vec<f32> {
    let mut frame = vec![0.0; size];
    scene.render(view, scene.truth(), &mut frame);
    frame
}

/// The answers, without notes.
fn given(
    world: &World,
    model: &AnyScenes,
    asked: &Asked,
    (context, places): (Vec<usize>, Vec<Place>),
    question: &Question,
) -> Result<Answered, LabError> {
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
    let seen = views(
        (&context_frames, frame),
        &queries(&context),
        context.len(),
        &model.device(),
    );
    let samples = drawn(model, seen.as_ref(), &places, (question.seed, samples));
    Ok(Answered {
        by: String::new(),
        title: format!(
            "{}, scene {}: {} seen, {} asked for",
            world.scenes.name(),
            match world.scenes.held_out() {
                None => format!("{} of seed {}", question.scene, question.seed),
                Some(_) => question.scene.to_string(),
            },
            counted(context.len(), asked.word()),
            places.len()
        ),
        word: asked.word(),
        frame,
        context,
        context_frames,
        places,
        truth,
        samples,
        sampled,
        notes: Vec::new(),
    })
}

/// The queries of all places, one after the other.
fn queries(places: &[Place]) -> Vec<f32> {
    let all = places.iter().flat_map(|place| place.query.clone());
    all.collect()
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
    let (known, asked) = (model.know(seen, 1), queries(places));
    let mut all = Vec::with_capacity(count);
    for first in (0..count).step_by(each) {
        let rows = each.min(count - first);
        let noise = (first..first + rows)
            .map(|sample| normal(&stream, sample as u64, [1, size], &model.device()));
        let noise = Tensor::cat(noise.collect(), 0);
        let shape = [rows * places.len(), asked.len() / places.len()];
        let queries = TensorData::new(asked.repeat(rows), shape);
        let queries = Tensor::from_data(queries, &model.device());
        let frames = model.sample(&known.repeated(rows), queries, noise);
        let frames = host(frames.clamp(0.0, 1.0).into_data());
        let numbers = frames.len() / rows;
        all.extend(frames.chunks(numbers).map(<[f32]>::to_vec));
    }
    all
}

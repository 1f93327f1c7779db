//! Maps of walks: what was stored where, where the agent was, and where the model believed it to be.

use super::{evaluate::Foreseen, fit::AffineFit, settings::NavigationSettings};
use crate::{LabError, pictures::grid};
use mnemora_figures::{
    animation::gif,
    picture::{Colour, Image},
};
use mnemora_worlds::{
    FrameShape, Split, Walks,
    labyrinth::{LabyrinthWalks, Map},
};

/// Steps of the path on a map of a picture.
pub const PATH: usize = 64;
/// Screen pixels of a pixel on a map of a picture.
const ZOOM: usize = 10;
/// Screen pixels of a cell of a labyrinth.
const CELL: usize = 44;
/// The same in an animation.
const SMALL_CELL: usize = 22;
/// Screen pixels of the height of a frame in an animation, about.
const FRAME: usize = 128;
/// Steps of an animation, at most.
const ANIMATED: usize = 100;
/// The colour of true places.
pub const TRUTH: Colour = [213, 94, 0];
/// The colour of believed places.
pub const BELIEF: Colour = [0, 114, 178];
/// The colour of memorised places.
pub const STORED: Colour = [150, 150, 150];

/// Draws a walk over a picture twice: what was seen where, and what the model stored where it believed to be; each with
/// the last steps of the path.
pub fn of_picture(
    settings: &NavigationSettings,
    foreseen: &Foreseen,
) -> Result<Option<Image>, LabError> {
    let walks = &foreseen.walks;
    let Some([truth, believed]) = points_of(foreseen, 0) else {
        return Ok(None);
    };
    let panels = [
        (&truth, &walks.frames, TRUTH),
        (&believed, &foreseen.decoded, BELIEF),
    ]
    .map(|(points, frames, colour)| panel(settings, walks, points, frames, colour));
    let [one, other] = panels;
    Ok(Some(grid(&[one?, other?], 2)?))
}

/// The frames of the memorised steps at these points, and the path of the last steps.
fn panel(
    settings: &NavigationSettings,
    walks: &Walks,
    points: &[[f64; 2]],
    frames: &[f32],
    colour: Colour,
) -> Result<Image, LabError> {
    let stride = settings.image.stride as f64 * ZOOM as f64;
    let side = settings.image.picture * ZOOM;
    let margin = ZOOM;
    let mut image = Image::new(side + 2 * margin, side + 2 * margin, [255; 3])?;
    let pixels = walks.frame.size();
    let corner =
        |point: &[f64; 2]| point.map(|x| (margin as f64 + x * stride).round().max(0.0) as usize);
    for (step, point) in points.iter().enumerate().take(settings.memorise) {
        let [left, top] = corner(point);
        let frame = &frames[walks.seen[step] as usize * pixels..][..pixels];
        draw_frame(&mut image, walks.frame, frame, [left, top], ZOOM);
    }
    let middle = |point: &[f64; 2]| {
        let [left, top] = corner(point);
        let half = walks.frame.width * ZOOM / 2;
        [left + half, top + half]
    };
    let shown = &points[points.len().saturating_sub(PATH)..];
    for pair in shown.windows(2) {
        let [from, to] = [middle(&pair[0]), middle(&pair[1])];
        for part in 0..=32 {
            let share = part as f64 / 32.0;
            let at = [0, 1].map(|axis| {
                (from[axis] as f64 + share * (to[axis] as f64 - from[axis] as f64)) as usize
            });
            image.fill(
                at[0].saturating_sub(1),
                at[1].saturating_sub(1),
                3,
                3,
                colour,
            );
        }
    }
    for point in shown {
        let [x, y] = middle(point);
        image.fill(x.saturating_sub(4), y.saturating_sub(4), 9, 9, [255; 3]);
        image.fill(x.saturating_sub(3), y.saturating_sub(3), 7, 7, colour);
    }
    Ok(image)
}

/// Draws a frame, `[channels, height, width]`, with its corner at a pixel of a picture; each of its pixels is `zoom` pixels
/// wide.
pub fn draw_frame(
    image: &mut Image,
    shape: FrameShape,
    frame: &[f32],
    [left, top]: [usize; 2],
    zoom: usize,
) {
    let plane = shape.height * shape.width;
    for pixel in 0..plane {
        let value = |channel: usize| {
            let index = (channel % shape.channels) * plane + pixel;
            (frame[index].clamp(0.0, 1.0) * 255.0).round() as u8
        };
        let (x, y) = (pixel % shape.width, pixel / shape.width);
        let colour = [value(0), value(1), value(2)];
        image.fill(left + x * zoom, top + y * zoom, zoom, zoom, colour);
    }
}

/// The points of a walk, in cells: the true ones, and those where the model believed to be, after the
/// affine map that fits this walk best; `None` if its places lie on a line.
fn points_of(foreseen: &Foreseen, row: usize) -> Option<[Vec<[f64; 2]>; 2]> {
    let walks = &foreseen.walks;
    let located = foreseen.located.as_ref()?;
    let time = walks.time;
    let truth: Vec<[f32; 2]> = walks.places[row * time * walks.place_width..]
        .chunks(walks.place_width)
        .take(time)
        .map(|place| [place[0], place[1]])
        .collect();
    let places = located.places[row * time * located.width..].chunks(located.width);
    let believed: Vec<f32> = places
        .take(time)
        .flat_map(|place| [place[0], place[1]])
        .collect();
    let fit = AffineFit::of(&believed, 2, &truth)?;
    let believed = believed.chunks(2).map(|place| fit.point(place));
    Some([
        truth.iter().map(|point| point.map(f64::from)).collect(),
        believed.collect(),
    ])
}

/// A map from above, pale, with `cell` pixels along each cell.
pub fn ground(map: &Map, cell: usize) -> Result<Image, LabError> {
    let plan = map.plan(cell);
    let mut image = Image::new(plan.width, plan.height, [255; 3])?;
    for (index, pixel) in plan.pixels.chunks(3).enumerate() {
        let (x, y) = (index % plan.width, index / plan.width);
        image.blend(x, y, [pixel[0], pixel[1], pixel[2]], 0.35);
    }
    Ok(image)
}

/// A square of `half` pixels around a point of a labyrinth, on a map with `cell` pixels along each cell.
pub fn mark(image: &mut Image, cell: usize, point: [f64; 2], half: usize, colour: Colour) {
    let [x, y] = point.map(|value| (value * cell as f64).round().max(0.0) as usize);
    image.fill(
        x.saturating_sub(half),
        y.saturating_sub(half),
        2 * half + 1,
        2 * half + 1,
        colour,
    );
}

/// A line through points of a labyrinth.
fn line(image: &mut Image, points: &[[f64; 2]], colour: Colour) {
    for pair in points.windows(2) {
        for part in 0..=16 {
            let share = f64::from(part) / 16.0;
            let at = [0, 1].map(|axis| pair[0][axis] + share * (pair[1][axis] - pair[0][axis]));
            mark(image, CELL, at, 1, colour);
        }
    }
}

/// Draws walks through a labyrinth from above: the memorised steps, then the true and the believed way of the foreseen
/// ones; `None` if the model has no places.
pub fn of_labyrinth(
    world: &LabyrinthWalks,
    memorised: usize,
    foreseen: &Foreseen,
) -> Result<Option<Image>, LabError> {
    let mut maps = Vec::new();
    for row in 0..foreseen.walks.batch {
        let Some([truth, believed]) = points_of(foreseen, row) else {
            return Ok(None);
        };
        let map = world.map(Split::Test, foreseen.walks.scenes[row]);
        let mut image = ground(&map, CELL)?;
        for point in &truth[..memorised] {
            mark(&mut image, CELL, *point, 2, STORED);
        }
        line(&mut image, &truth[memorised..], TRUTH);
        line(&mut image, &believed[memorised..], BELIEF);
        for (points, colour) in [(&truth, TRUTH), (&believed, BELIEF)] {
            if let Some(last) = points.last() {
                mark(&mut image, CELL, *last, 5, colour);
            }
        }
        maps.push(image);
    }
    Ok(Some(grid(&maps, 2)?))
}

/// An animation of the first foreseen steps of the first walk: the true frame, the foreseen and a sampled one; in a labyrinth
/// where the agent is, and where the model believes it to be.
pub fn animation(
    labyrinth: Option<&LabyrinthWalks>,
    memorised: usize,
    foreseen: &Foreseen,
) -> Result<Vec<u8>, LabError> {
    let walks = &foreseen.walks;
    let FrameShape { height, width, .. } = walks.frame;
    let pixels = walks.frame.size();
    let zoom = FRAME.div_ceil(height);
    let [wide, high] = [width * zoom, height * zoom];
    let points = points_of(foreseen, 0);
    let ground = match (labyrinth, &points) {
        (Some(world), Some(_)) => Some(ground(
            &world.map(Split::Test, walks.scenes[0]),
            SMALL_CELL,
        )?),
        _ => None,
    };
    let gap = zoom;
    let beside = ground.as_ref().map_or(0, |ground| ground.width() + gap);
    let total = 3 * wide + 2 * gap + beside;
    let tall = ground
        .as_ref()
        .map_or(high, |ground| high.max(ground.height()));
    let mut pictures = Vec::new();
    for step in memorised..walks.time.min(memorised + ANIMATED) {
        let mut image = Image::new(total, tall, [255; 3])?;
        let index = step - memorised;
        let truth = &walks.frames[walks.seen[step] as usize * pixels..][..pixels];
        let of = |all: &'_ [f32]| all[index * pixels..][..pixels].to_vec();
        let frames = [truth.to_vec(), of(&foreseen.best), of(&foreseen.sampled)];
        for (place, frame) in frames.iter().enumerate() {
            let left = place * (wide + gap);
            draw_frame(&mut image, walks.frame, frame, [left, 0], zoom);
        }
        if let (Some(ground), Some([truth, believed])) = (&ground, &points) {
            let mut map = ground.clone();
            for point in &truth[..memorised] {
                mark(&mut map, SMALL_CELL, *point, 1, STORED);
            }
            mark(&mut map, SMALL_CELL, truth[step], 5, TRUTH);
            mark(&mut map, SMALL_CELL, believed[step], 3, BELIEF);
            image.blit(&map, 3 * (wide + gap), 0);
        }
        pictures.push(image);
    }
    Ok(gif(&pictures, 12)?)
}

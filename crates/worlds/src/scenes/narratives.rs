//! Stories of coloured shapes on a black ground (cgqn, section 4.1): how they are told, drawn and placed. Lengths are those
//! of a frame of 64 pixels; other sizes scale them.

use super::{
    Ask, Scene, Scenes, check_side, colour_reaction::REACTION, dag_chase::CHASE, of_split,
    travelling_salesman::JOURNEY,
};
use crate::{Error, FrameShape, Split, Stream};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::f32::consts::TAU;
use tiny_skia::{Color, FillRule, Paint, Path, PathBuilder, Pixmap, Transform};

/// Colours of shapes.
pub(super) const COLOURS: usize = 12;
/// Distances from the middle to a corner, or to the rim of a circle.
const RADII: [f32; 4] = [4.0, 5.0, 6.0, 7.0];
/// The side of a frame in the units of lengths.
const SIDE: f32 = 64.0;
/// Distance between shapes at first.
const GAP: f32 = 3.0;
/// Distance of shapes from the rim at first.
const MARGIN: f32 = 1.0;

/// A kind of story.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Frames of a story.
    pub(super) frames: usize,
    /// Contexts are drawn from the first of this number.
    pub(super) shown: usize,
    /// The first frame that reveals some of what is hidden, counted from 0; none if nothing is hidden that a frame could
    /// tell.
    pub(super) reveals: Option<usize>,
    /// Whether a frame, counted from 0, tells all that is hidden.
    pub(super) tells: fn(usize) -> bool,
    pub(super) story: fn(&mut ChaCha8Rng) -> Box<dyn Story>,
}

/// One story; see [`Scene`] for completions.
pub(super) trait Story {
    fn completions(&self) -> usize {
        0
    }

    fn truth(&self) -> usize {
        0
    }

    fn renderings(&self) -> usize {
        self.completions()
    }

    /// The shapes of a frame, counted from 0, the last on top.
    fn shapes(&self, frame: usize, completion: usize) -> Vec<Shape>;
}

/// Stories of one kind in square frames. The query of a frame is its time: 1 for the last frame, `1 / frames` for the first.
#[derive(Clone, Debug)]
pub struct Narratives {
    kind: &'static Kind,
    side: usize,
}

impl Narratives {
    /// Stories of 12 frames with two or three shapes. In frames 1 to 6 the first moves to the second and stops when they
    /// touch; in frames 7 to 12 the second has another colour. It is hidden from those who saw only the first half: its
    /// completions are the eleven other colours. What a model may wrongly draw is the old one.
    ///
    /// # Errors
    /// If the rows and columns of a frame, `side`, are out of range.
    pub fn colour_reaction(side: usize) -> Result<Self, Error> {
        Self::of(&REACTION, side)
    }

    /// Stories of 20 frames with five shapes: the last visits the others one after the other, in straight lines of five
    /// frames each. After the first visit, frame 5, the order of the others is hidden: its completions are the six orders.
    /// Frame 6, from which training draws contexts too, already reveals the second stop. The whole order can be read off
    /// frames on the way from the second stop to the third and from there to the last, 11 to 14 and 16 to 19.
    ///
    /// # Errors
    /// As [`Narratives::colour_reaction`].
    pub fn travelling_salesman(side: usize) -> Result<Self, Error> {
        Self::of(&JOURNEY, side)
    }

    /// Stories of 20 frames with four shapes: the first moves to a goal, each other chases an earlier one. Nothing that
    /// is hidden can be read off one frame, so these scenes hide nothing.
    ///
    /// # Errors
    /// As [`Narratives::colour_reaction`].
    pub fn dag_chase(side: usize) -> Result<Self, Error> {
        Self::of(&CHASE, side)
    }

    fn of(kind: &'static Kind, side: usize) -> Result<Self, Error> {
        check_side(side)?;
        Ok(Self { kind, side })
    }

    /// Frames that tell all that is hidden.
    fn telling(&self) -> usize {
        (0..self.kind.frames)
            .filter(|frame| (self.kind.tells)(*frame))
            .count()
    }
}

impl Scenes for Narratives {
    fn name(&self) -> &'static str {
        self.kind.name
    }

    fn frame(&self) -> FrameShape {
        FrameShape {
            channels: 3,
            height: self.side,
            width: self.side,
        }
    }

    fn query_width(&self) -> usize {
        1
    }

    fn hides(&self) -> bool {
        self.kind.reveals.is_some()
    }

    fn moments(&self) -> usize {
        self.kind.frames
    }

    fn most(&self, ask: Ask) -> [usize; 2] {
        let Kind { frames, shown, .. } = *self.kind;
        match ask {
            Ask::Training | Ask::Any => [shown, frames],
            Ask::Part(_) => [frames / 2, frames / 2],
            Ask::Story => [shown, frames],
            // The frames from which contexts are drawn reveal a part of what is hidden at most.
            Ask::Told => [0, self.telling()],
            Ask::Hidden => [
                self.kind.reveals.map_or(shown, |first| shown.min(first)),
                self.telling(),
            ],
        }
    }

    fn scene(&self, split: Split, stream: &Stream, index: u64) -> Box<dyn Scene + '_> {
        let mut generator = stream.at(of_split(split, index));
        Box::new(Told {
            by: self,
            story: (self.kind.story)(&mut generator),
        })
    }
}

/// A story in frames.
struct Told<'a> {
    by: &'a Narratives,
    story: Box<dyn Story>,
}

impl Scene for Told<'_> {
    fn views(&self) -> usize {
        self.by.kind.frames
    }

    fn context_views(&self) -> usize {
        self.by.kind.shown
    }

    fn query(&self, view: usize, query: &mut [f32]) {
        query[0] = (view + 1) as f32 / self.views() as f32;
    }

    fn completions(&self) -> usize {
        self.story.completions()
    }

    fn truth(&self) -> usize {
        self.story.truth()
    }

    fn renderings(&self) -> usize {
        self.story.renderings()
    }

    fn render(&self, view: usize, completion: usize, frame: &mut [f32]) {
        draw(&self.story.shapes(view, completion), self.by.side, frame);
    }

    fn reveals(&self, view: usize) -> bool {
        self.by.kind.reveals.is_some_and(|first| view >= first)
    }

    fn tells(&self, view: usize) -> bool {
        (self.by.kind.tells)(view)
    }
}

/// The outline of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outline {
    Square,
    Circle,
    Triangle,
    Pentagon,
}

const OUTLINES: [Outline; 4] = [
    Outline::Square,
    Outline::Circle,
    Outline::Triangle,
    Outline::Pentagon,
];

/// A shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) outline: Outline,
    /// Below [`COLOURS`].
    pub(super) colour: usize,
    pub(super) radius: f32,
    /// Its middle, (x, y).
    pub(super) at: [f32; 2],
}

/// Eleven hues, equally far from each other and fully saturated, and white.
fn rgb(colour: usize) -> [f32; 3] {
    let hues = COLOURS - 1;
    if colour >= hues {
        return [1.0; 3];
    }
    let hue = 6.0 * colour as f32 / hues as f32;
    [0.0, 4.0, 2.0].map(|shift| {
        let place = (hue + shift) % 6.0;
        ((place - 3.0).abs() - 1.0).clamp(0.0, 1.0)
    })
}

impl Shape {
    fn path(&self, scale: f32) -> Option<Path> {
        let [x, y] = self.at.map(|place| place * scale);
        let radius = self.radius * scale;
        let corners = match self.outline {
            Outline::Circle => return PathBuilder::from_circle(x, y, radius),
            Outline::Square => 4,
            Outline::Triangle => 3,
            Outline::Pentagon => 5,
        };
        // A square stands on a side, the others on the side opposite to their first corner.
        let first = if corners == 4 { 0.125 } else { 0.0 };
        let mut path = PathBuilder::new();
        for corner in 0..corners {
            let (sine, cosine) = (TAU * (first + corner as f32 / corners as f32)).sin_cos();
            let (x, y) = (x + radius * sine, y - radius * cosine);
            match corner {
                0 => path.move_to(x, y),
                _ => path.line_to(x, y),
            }
        }
        path.close();
        path.finish()
    }
}

/// Draws shapes, later ones on top: `[3, side, side]` in [0, 1].
fn draw(shapes: &[Shape], side: usize, frame: &mut [f32]) {
    let edge = u32::try_from(side).ok();
    let mut canvas = edge
        .and_then(|edge| Pixmap::new(edge, edge))
        .expect("the side was checked");
    canvas.fill(Color::BLACK);
    for shape in shapes {
        let [red, green, blue] = rgb(shape.colour);
        let mut paint = Paint {
            anti_alias: true,
            ..Paint::default()
        };
        paint.set_color(Color::from_rgba(red, green, blue, 1.0).unwrap_or(Color::WHITE));
        if let Some(path) = shape.path(side as f32 / SIDE) {
            canvas.fill_path(
                &path,
                &paint,
                FillRule::Winding,
                Transform::identity(),
                None,
            );
        }
    }
    let pixels = side * side;
    for (place, pixel) in canvas.data().chunks_exact(4).enumerate() {
        for channel in 0..3 {
            frame[channel * pixels + place] = f32::from(pixel[channel]) / 255.0;
        }
    }
}

/// The distance between two places.
pub(super) fn distance(a: [f32; 2], b: [f32; 2]) -> f32 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// A place on the way from `a` to `b`: at `a` for a share of 0, at `b` for 1.
pub(super) fn between(a: [f32; 2], b: [f32; 2], share: f32) -> [f32; 2] {
    [0, 1].map(|axis| a[axis] + share * (b[axis] - a[axis]))
}

/// A place for the middle of a shape.
pub(super) fn place(radius: f32, generator: &mut ChaCha8Rng) -> [f32; 2] {
    let least = radius + MARGIN;
    [(); 2].map(|()| generator.random_range(least..SIDE - least))
}

/// `count` shapes that do not touch. If one finds no place in a hundred tries, all are placed anew.
pub(super) fn placed(count: usize, generator: &mut ChaCha8Rng) -> Vec<Shape> {
    let mut shapes: Vec<Shape> = (0..count)
        .map(|_| Shape {
            outline: OUTLINES[generator.random_range(0..OUTLINES.len())],
            colour: generator.random_range(0..COLOURS),
            radius: RADII[generator.random_range(0..RADII.len())],
            at: [0.0; 2],
        })
        .collect();
    'anew: loop {
        for next in 0..count {
            let radius = shapes[next].radius;
            let free = |at: &[f32; 2]| {
                let before = shapes[..next].iter();
                before
                    .map(|other| distance(*at, other.at) - other.radius - radius)
                    .all(|gap| gap >= GAP)
            };
            let found = (0..100).map(|_| place(radius, generator)).find(free);
            match found {
                Some(at) => shapes[next].at = at,
                None => continue 'anew,
            }
        }
        return shapes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    #[test]
    fn colours_are_apart() {
        for a in 0..COLOURS {
            for b in 0..a {
                let gap: f32 = rgb(a).iter().zip(rgb(b)).map(|(a, b)| (a - b).abs()).sum();
                assert!(gap > 0.4, "{a} {b}: {gap}");
            }
        }
        assert_eq!(rgb(0), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn shapes_do_not_touch() {
        let stream = Stream::new(1, "shapes");
        for index in 0..200 {
            let shapes = placed(5, &mut stream.at(index));
            for (a, first) in shapes.iter().enumerate() {
                for second in &shapes[..a] {
                    let gap = distance(first.at, second.at) - first.radius - second.radius;
                    assert!(gap >= GAP);
                }
                let least = first.radius + MARGIN;
                assert!(
                    first
                        .at
                        .iter()
                        .all(|at| (least..=SIDE - least).contains(at))
                );
            }
        }
    }

    /// A shape covers as many pixels as its area says, up to a tenth of a pixel along its outline, at any size.
    #[test]
    fn areas_are_right() {
        for side in [16, 32, 64] {
            for outline in OUTLINES {
                let shape = Shape {
                    outline,
                    colour: COLOURS - 1,
                    radius: 7.0,
                    at: [30.3, 33.1],
                };
                let mut frame = vec![0.0; 3 * side * side];
                draw(&[shape], side, &mut frame);
                let radius = 7.0 * side as f32 / SIDE;
                let polygon = |corners: f32| {
                    let area = corners / 2.0 * (TAU / corners).sin() * radius * radius;
                    (area, 2.0 * corners * radius * (TAU / 2.0 / corners).sin())
                };
                let (area, length) = match outline {
                    Outline::Square => polygon(4.0),
                    Outline::Circle => (TAU / 2.0 * radius * radius, TAU * radius),
                    Outline::Triangle => polygon(3.0),
                    Outline::Pentagon => polygon(5.0),
                };
                let found: f32 = frame[..side * side].iter().sum();
                assert!(
                    (found - area).abs() <= length / 10.0,
                    "{side} {outline:?}: {found} {area}"
                );
            }
        }
    }
}

//! MNIST dice (cgqn, section 4.2): a cube with a digit on each side face stands in a room, cameras circle it.
//!
//! The paper says what varies, our numbers are in this file: a pool of 100 images, a room of 10 x 10 x 4, a cube of
//! side 1.6 to 2.0 within 0.6 of the room's middle, cameras at distance 3.5 and height 1.2.

mod caster;

use super::{Ask, Scene, Scenes, check_side, of_split};
use crate::{DataSet, Error, FrameShape, Images, Split, Stream, settings::check};
use caster::{CORNER, Camera, Cube, FACES, Light, Paint, Pattern, Room};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::f32::consts::{PI, TAU};

/// Digits in the pool, and images of each unless another number is named.
const DIGITS: usize = 10;
const EACH: usize = 10;
/// Cameras around a die, at equal angles, unless another number is named.
const VIEWS: usize = 144;
/// Distance of the cameras from the vertical axis through the room's middle, and from the floor.
const RADIUS: f32 = 3.5;
const HEIGHT: f32 = 1.2;
/// Sides of cubes.
const SIDES: [f32; 2] = [1.6, 2.0];
/// The most that a cube's middle is beside the room's.
const BESIDE: f32 = 0.6;
/// Of still dice: half of the side, the wall's and the cube's colour.
const STILL_HALF: f32 = 1.1;
const STILL_COLOURS: [usize; 2] = [5, 7];
/// Where lights are: at most this far from the middle along each wall, and at these heights.
const LIGHT_BESIDE: f32 = 4.0;
const LIGHT_HEIGHTS: [f32; 2] = [2.8, 3.8];
/// A view tells what is on a face if the camera is at no more than this angle from its normal, seen from the cube.
const TELLS: f32 = 35.0 / 180.0 * PI;

/// Colours of walls and dice: bright, so that ink and shadows show on them.
const COLOURS: [[f32; 3]; 8] = [
    [1.0, 0.45, 0.4],
    [1.0, 0.7, 0.35],
    [0.95, 0.95, 0.45],
    [0.5, 0.9, 0.45],
    [0.45, 0.9, 0.9],
    [0.5, 0.65, 1.0],
    [0.85, 0.55, 1.0],
    [0.95, 0.95, 0.95],
];

/// Dice in rooms. Every scene draws the place, side and angle of its cube, its colour, the images on its side faces,
/// the colour and pattern of the walls, and the place of the light. All walls of a room are alike, so that views of
/// three faces leave nothing open but the image on the fourth: it is hidden, and its completions are the images of the
/// pool.
///
/// The pool has the first images of each digit, ten unless another number is named: image `i` then shows the digit
/// `i / 10` if there are ten of each. It is the same for training and test scenes.
#[derive(Clone, Debug)]
pub struct Dice {
    /// `[10, each, 28, 28]`, ink in [0, 1].
    pool: Vec<f32>,
    /// Images of each digit.
    each: usize,
    side: usize,
    /// Cameras around a die.
    views: usize,
    /// Whether scenes differ in nothing but the images.
    still: bool,
}

impl Dice {
    /// The angle between the left and the right rim of a frame, and between the upper and the lower one.
    pub const FIELD_OF_VIEW: f32 = PI / 3.0;

    /// Dice with the first ten images of each digit from the training split of a data set, in frames of `side` rows and
    /// columns.
    ///
    /// # Errors
    /// If the data set has fewer images of some digit, or the side is out of range.
    pub fn new(digits: &DataSet, side: usize) -> Result<Self, Error> {
        Self::of(digits, EACH, side)
    }

    /// The same with another number of images of each digit.
    ///
    /// # Errors
    /// As above, and if there are no images or more than a thousand of each digit.
    pub fn of(digits: &DataSet, each: usize, side: usize) -> Result<Self, Error> {
        check_side(side)?;
        check("scenes.images", each, 1..=1000, || {
            "it must be from 1 to 1000".into()
        })?;
        let images = digits.split(Split::Train);
        let mut pool = Vec::with_capacity(DIGITS * each * Images::SIZE);
        for class in 0..DIGITS as u16 {
            let found = images.instances(class);
            if found.len() < each {
                return Err(Error::FewImages {
                    task: "mnist-dice",
                    data: digits.name(),
                    class,
                    found: found.len(),
                    needed: each,
                });
            }
            let pixels = found[..each]
                .iter()
                .filter_map(|index| images.image(*index));
            pool.extend(pixels.flatten().map(|ink| f32::from(*ink) / 255.0));
        }
        Ok(Self {
            pool,
            each,
            side,
            views: VIEWS,
            still: false,
        })
    }

    /// The same dice, seen from another number of angles.
    ///
    /// # Errors
    /// If there are so few that none need show the hidden face, or more than 10,000.
    pub fn seen_from(self, views: usize) -> Result<Self, Error> {
        let least = (TAU / self.telling()).ceil() as usize;
        check("scenes.views", views, least..=10_000, || {
            format!("it must be from {least} to 10000, so that one of them shows the hidden face")
        })?;
        Ok(Self { views, ..self })
    }

    /// The same images on dice that differ in nothing else, if `still`: of one size and colour, unturned in the middle of one
    /// room that is as bright everywhere, so that all faces are read as easily.
    pub fn still(self, still: bool) -> Self {
        Self { still, ..self }
    }

    /// The least half side of a cube, and how far beside the room's middle it can stand.
    fn smallest(&self) -> [f32; 2] {
        match self.still {
            true => [STILL_HALF, 0.0],
            false => [SIDES[0] / 2.0, BESIDE],
        }
    }

    /// The arc of the circle from which a face is told: those within an angle from its normal, which are fewest for a cube
    /// that is moved towards the camera.
    fn telling(&self) -> f32 {
        let [_, beside] = self.smallest();
        2.0 * (TELLS - (beside * TELLS.sin() / RADIUS).asin())
    }

    /// Images in the pool.
    fn images(&self) -> usize {
        DIGITS * self.each
    }

    /// Ink of an image of the pool, `[28, 28]`.
    fn image(&self, index: usize) -> &[f32] {
        &self.pool[index * Images::SIZE..][..Images::SIZE]
    }
}

impl Scenes for Dice {
    fn name(&self) -> &'static str {
        "mnist-dice"
    }

    fn frame(&self) -> FrameShape {
        FrameShape {
            channels: 3,
            height: self.side,
            width: self.side,
        }
    }

    /// The seven numbers of the GQN: the camera's place (x, y, z) in radii of its circle, cosine and sine of its yaw, and
    /// of its pitch, which is 0.
    fn query_width(&self) -> usize {
        7
    }

    /// Of all scenes. Whatever the place of the cube, the views that a statement is true of are those of an arc of the
    /// circle, and `floor` of its length in views lie on it at least.
    fn most(&self, ask: Ask) -> [usize; 2] {
        let views = |angle: f32| (angle / TAU * self.views as f32).floor() as usize;
        let [half, beside] = self.smallest();
        // A face can be seen from where the camera is beyond its plane, which is nearest to the room's middle for the
        // smallest cube that is moved away from the camera.
        let plane = half - beside;
        let hidden = TAU - 2.0 * (plane / RADIUS).acos();
        let telling = views(self.telling());
        match ask {
            Ask::Hidden => [views(hidden), telling],
            Ask::Told => [telling; 2],
            _ => [self.views; 2],
        }
    }

    fn around(&self) -> bool {
        true
    }

    fn scene(&self, split: Split, stream: &Stream, index: u64) -> Box<dyn Scene + '_> {
        Box::new(Die::drawn(self, &mut stream.at(of_split(split, index))))
    }
}

/// A die in its room.
struct Die<'a> {
    of: &'a Dice,
    room: Room,
    /// The images on its faces.
    images: [usize; FACES],
    hidden: usize,
    /// The angle of the first camera, below that between two cameras.
    first: f32,
}

/// A room in which a die stands anywhere.
fn drawn_room(generator: &mut ChaCha8Rng) -> Room {
    let middle = loop {
        let at = [(); 2].map(|()| generator.random_range(-BESIDE..BESIDE));
        if at[0].hypot(at[1]) < BESIDE {
            break at;
        }
    };
    let half = generator.random_range(SIDES[0]..SIDES[1]) / 2.0;
    let turn = generator.random_range(0.0..TAU);
    let wall = generator.random_range(0..COLOURS.len());
    let other = generator.random_range(1..COLOURS.len());
    let pattern = Pattern::ALL[generator.random_range(0..Pattern::ALL.len())];
    let beside = [(); 2].map(|()| generator.random_range(-LIGHT_BESIDE..LIGHT_BESIDE));
    let [low, high] = LIGHT_HEIGHTS;
    Room {
        cube: Cube::new(middle, half, turn, COLOURS[(wall + other) % COLOURS.len()]),
        walls: Paint {
            colour: COLOURS[wall],
            pattern,
        },
        light: Light::lamp([beside[0], beside[1], generator.random_range(low..high)]),
    }
}

/// The room of all still dice.
fn still_room() -> Room {
    let [wall, cube] = STILL_COLOURS.map(|colour| COLOURS[colour]);
    Room {
        cube: Cube::new([0.0; 2], STILL_HALF, 0.0, cube),
        walls: Paint {
            colour: wall,
            pattern: Pattern::Plain,
        },
        light: Light::EVEN,
    }
}

impl<'a> Die<'a> {
    fn drawn(of: &'a Dice, generator: &mut ChaCha8Rng) -> Self {
        Self {
            of,
            room: match of.still {
                true => still_room(),
                false => drawn_room(generator),
            },
            images: [(); FACES].map(|()| generator.random_range(0..of.images())),
            hidden: generator.random_range(0..FACES),
            first: match of.still {
                true => 0.0,
                false => generator.random_range(0.0..TAU / of.views as f32),
            },
        }
    }

    /// The angle of a camera on its circle.
    fn angle(&self, view: usize) -> f32 {
        self.first + TAU * view as f32 / self.of.views as f32
    }

    fn camera(&self, view: usize) -> Camera {
        let (sin, cos) = self.angle(view).sin_cos();
        Camera {
            at: [RADIUS * cos, RADIUS * sin, HEIGHT],
            forward: [-cos, -sin],
            slope: (Dice::FIELD_OF_VIEW / 2.0).tan(),
        }
    }

    /// The place of a camera in the axes of the hidden face: along its normal, and along the face; from the cube's
    /// middle.
    fn before_hidden(&self, view: usize) -> [f32; 2] {
        let Camera { at, .. } = self.camera(view);
        let cube = &self.room.cube;
        let away = [at[0] - cube.middle[0], at[1] - cube.middle[1]];
        let [x, y] = cube.normal(self.hidden);
        [x * away[0] + y * away[1], x * away[1] - y * away[0]]
    }
}

impl Scene for Die<'_> {
    fn views(&self) -> usize {
        self.of.views
    }

    fn query(&self, view: usize, query: &mut [f32]) {
        let Camera { at, forward, .. } = self.camera(view);
        let [x, y, z] = at.map(|place| place / RADIUS);
        query.copy_from_slice(&[x, y, z, forward[0], forward[1], 1.0, 0.0]);
    }

    fn completions(&self) -> usize {
        self.of.images()
    }

    fn truth(&self) -> usize {
        self.images[self.hidden]
    }

    /// The digit, if there are several images of it.
    fn kind(&self, rendering: usize) -> Option<usize> {
        (self.of.each > 1).then_some(rendering / self.of.each)
    }

    fn render(&self, view: usize, completion: usize, frame: &mut [f32]) {
        let mut images = self.images;
        images[self.hidden] = completion;
        let images = images.map(|image| self.of.image(image));
        self.room
            .render(&self.camera(view), images, self.of.side, frame);
    }

    fn reveals(&self, view: usize) -> bool {
        let [before, _] = self.before_hidden(view);
        before > self.room.cube.half
    }

    fn tells(&self, view: usize) -> bool {
        let [before, along] = self.before_hidden(view);
        along.abs().atan2(before) <= TELLS
    }
}

// Cameras are in the room and outside of the cube, the light is above it, and all of it is in the room.
const _: () = {
    let corner = SIDES[1] * std::f32::consts::SQRT_2 / 2.0 + BESIDE;
    assert!(corner < RADIUS && RADIUS < CORNER[0]);
    assert!(HEIGHT < SIDES[0] && SIDES[1] < LIGHT_HEIGHTS[0] && LIGHT_HEIGHTS[1] < CORNER[2]);
    assert!(LIGHT_BESIDE < CORNER[0]);
};

#[cfg(test)]
mod tests {
    use super::super::{Showing, scene_batch, testing::holds};
    use super::*;
    use crate::testing::DIGITS as MNIST;

    fn dice(side: usize) -> Dice {
        Dice::new(&MNIST, side).unwrap()
    }

    fn die(of: &Dice, index: u64) -> Die<'_> {
        Die::drawn(of, &mut Stream::new(1, "dice").at(index))
    }

    #[test]
    fn dice_are_scenes() {
        for side in [16, 32, 64] {
            let showing = Showing {
                anywhere: false,
                context_least: 1,
                context_most: 4,
                targets_least: 1,
                targets: 3,
                hiding: 0.0,
                revealing: false,
            };
            holds(&dice(side), showing);
            holds(&dice(side).seen_from(20).unwrap(), showing);
            holds(&dice(side).seen_from(20).unwrap().still(true), showing);
        }
    }

    /// Still dice are scenes with the promised views, and two of them with the same images are the same.
    #[test]
    fn still_dice_differ_in_their_images_only() {
        for views in [6, 15, 16, 144] {
            let dice = dice(16).still(true).seen_from(views).unwrap();
            let [hiding, telling] = dice.most(Ask::Hidden);
            let stream = Stream::new(1, "dice");
            let drawn = |index| Die::drawn(&dice, &mut stream.at(index));
            let first = drawn(0);
            let mut frames = [(); 2].map(|()| vec![0.0; dice.frame().size()]);
            for index in 0..40 {
                let die = drawn(index);
                let count =
                    |holds: &dyn Fn(usize) -> bool| (0..views).filter(|v| holds(*v)).count();
                assert!(hiding <= count(&|view| !die.reveals(view)));
                assert!(telling <= count(&|view| die.tells(view)));
                let same = Die {
                    images: first.images,
                    ..die
                };
                for view in 0..views {
                    first.render(view, first.truth(), &mut frames[0]);
                    same.render(view, same.truth(), &mut frames[1]);
                    assert!(frames[0] == frames[1], "scene {index}, view {view}");
                }
            }
        }
    }

    #[test]
    fn views_that_need_not_show_the_hidden_face_are_refused() {
        for (still, least) in [(false, 7), (true, 6)] {
            let refused = dice(16).still(still).seen_from(least - 1).unwrap_err();
            let said = refused.to_string();
            let expected = format!(
                "scenes.views = {}: it must be from {least} to 10000, so that one of them shows the hidden face",
                least - 1
            );
            assert_eq!(said, expected);
            let [_, telling] = dice(16)
                .still(still)
                .seen_from(least)
                .unwrap()
                .most(Ask::Hidden);
            assert_eq!(telling, 1);
        }
    }

    /// What `most` promises of all scenes, and that it is near to what some have.
    #[test]
    fn every_scene_has_the_promised_views() {
        let dice = dice(16);
        let [hiding, telling] = dice.most(Ask::Hidden);
        assert!(hiding >= 70 && telling >= 20, "{hiding} {telling}");
        let mut least = [VIEWS; 2];
        for index in 0..20_000 {
            let die = die(&dice, index);
            let count = |holds: &dyn Fn(usize) -> bool| (0..VIEWS).filter(|v| holds(*v)).count();
            let found = [count(&|v| !die.reveals(v)), count(&|v| die.tells(v))];
            least = [least[0].min(found[0]), least[1].min(found[1])];
            assert!((0..VIEWS).all(|view| !die.tells(view) || die.reveals(view)));
        }
        assert!(hiding <= least[0] && least[0] <= hiding + 1, "{least:?}");
        assert!(telling <= least[1] && least[1] <= telling + 1, "{least:?}");
    }

    /// A pool with three images of each digit has the first three of each, and they are what is drawn.
    #[test]
    fn a_small_pool_has_the_first_images() {
        let [all, few] = [10, 3].map(|each| Dice::of(&MNIST, each, 16).unwrap());
        for digit in 0..DIGITS {
            for image in 0..3 {
                let place = [10 * digit + image, 3 * digit + image];
                assert_eq!(all.image(place[0]), few.image(place[1]));
            }
        }
        let found = (0..500).map(|index| die(&few, index).truth());
        assert_eq!(found.max(), Some(29));
        let kinds = [0, 2, 3, 29].map(|image| die(&few, 0).kind(image));
        assert_eq!(kinds, [0, 0, 1, 9].map(Some));
        let one = Dice::of(&MNIST, 1, 16).unwrap();
        assert_eq!(die(&one, 0).kind(3), None);
        for each in [0, 1001] {
            assert!(Dice::of(&MNIST, each, 16).is_err());
        }
    }

    /// The pool is balanced, and a context that hides one face shows the other three.
    #[test]
    fn contexts_show_three_faces() {
        let dice = dice(32);
        for image in 0..dice.images() {
            let place = MNIST.split(Split::Train).instances((image / EACH) as u16)[image % EACH];
            let pixels = MNIST.split(Split::Train).image(place).unwrap();
            let ink: Vec<u8> = dice
                .image(image)
                .iter()
                .map(|x| (x * 255.0) as u8)
                .collect();
            assert_eq!(ink, pixels);
        }
        for index in 0..50 {
            let die = die(&dice, index);
            let hiding: Vec<usize> = (0..VIEWS).filter(|view| !die.reveals(*view)).collect();
            for face in (0..FACES).filter(|face| *face != die.hidden) {
                let other = Die {
                    hidden: face,
                    ..Die::drawn(&dice, &mut Stream::new(1, "dice").at(index))
                };
                let seen = hiding.iter().filter(|view| other.reveals(**view)).count();
                assert!(seen >= 16, "scene {index}, face {face}: {seen}");
            }
        }
    }

    /// The digit of a face is drawn where `reveals` says that it can be seen, and nowhere else.
    #[test]
    fn a_face_shows_where_it_is_seen() {
        let dice = dice(64);
        let size = dice.frame().size();
        let (mut frames, mut shown) = ([vec![0.0; size], vec![0.0; size]], 0);
        for index in 0..20 {
            let die = die(&dice, index);
            for view in 0..VIEWS {
                for (completion, frame) in frames.iter_mut().enumerate() {
                    die.render(view, 55 * completion, frame);
                }
                let differs = frames[0] != frames[1];
                assert!(die.reveals(view) || !differs, "scene {index}, view {view}");
                assert!(differs || !die.tells(view), "scene {index}, view {view}");
                shown += usize::from(differs);
            }
        }
        assert!(shown > 20 * VIEWS / 3, "{shown}");
    }

    /// Cameras look at the middle from all sides, each angle as often as any other.
    #[test]
    fn queries_are_places_and_directions() {
        let dice = dice(16);
        let die = die(&dice, 3);
        for view in 0..VIEWS {
            let mut query = [0.0; 7];
            die.query(view, &mut query);
            let [x, y, z, cos, sin, level, up] = query;
            assert_eq!([level, up], [1.0, 0.0]);
            assert!((x + cos).abs() < 1e-6 && (y + sin).abs() < 1e-6);
            assert!((z - HEIGHT / RADIUS).abs() < 1e-6 && (x.hypot(y) - 1.0).abs() < 1e-6);
        }
        let showing = Showing {
            anywhere: false,
            context_least: 0,
            context_most: 0,
            targets_least: 1,
            targets: 1,
            hiding: 0.0,
            revealing: false,
        };
        let stream = Stream::new(1, "dice");
        let batch = scene_batch(&dice, showing, Ask::Any, (Split::Train, &stream), 0, 4000);
        let angles = batch
            .target_queries
            .chunks(7)
            .map(|query| query[1].atan2(query[0]));
        let mut quarters = [0; 4];
        for angle in angles {
            quarters[(angle.rem_euclid(TAU) / TAU * 4.0) as usize % 4] += 1;
        }
        assert!(
            quarters.iter().all(|count| (880..1120).contains(count)),
            "{quarters:?}"
        );
    }
}

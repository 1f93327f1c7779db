//! A ray caster: a cube that stands in a room, with one light and its shadows.
//!
//! Heights are z, and floors, walls and the cube's faces are upright or level. Cameras look horizontally, so all rays
//! of a column of pixels lie in one upright plane: which face and which wall they can meet, and where, is found once a
//! column.

use crate::Images;

/// The room is from minus these to these numbers along x and y, and from 0 to the third upwards.
pub(super) const CORNER: [f32; 3] = [5.0, 5.0, 4.0];
/// Side faces of a cube.
pub(super) const FACES: usize = 4;
/// Rays along each side of a frame, at least: smaller frames get more of them in a pixel.
const RAYS: usize = 64;
/// Light that is everywhere, and light from the lamp where it falls straight on a surface.
const AMBIENT: f32 = 0.4;
const LAMP: f32 = 0.6;
const FLOOR: [f32; 3] = [0.6; 3];
const CEILING: [f32; 3] = [0.9; 3];
/// How dark the second tone of a pattern is, and how dark ink is.
const SECOND_TONE: f32 = 0.6;
const INK: f32 = 0.1;

/// What is painted on walls, in bands of width 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// One tone.
    Plain,
    /// Upright stripes of two tones.
    Stripes,
    /// Squares of two tones.
    Checker,
}

impl Pattern {
    pub(super) const ALL: [Pattern; 3] = [Pattern::Plain, Pattern::Stripes, Pattern::Checker];
}

/// A colour in a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    pub(super) colour: [f32; 3],
    pub(super) pattern: Pattern,
}

impl Paint {
    /// The colour at a place along a wall and upwards.
    fn at(&self, along: f32, up: f32) -> [f32; 3] {
        // Places are above -6, an even number of bands.
        let odd = |place: f32| (place + 6.0) as i32 & 1;
        let second = match self.pattern {
            Pattern::Plain => 0,
            Pattern::Stripes => odd(along),
            Pattern::Checker => odd(along) ^ odd(up),
        };
        match second {
            0 => self.colour,
            _ => self.colour.map(|value| value * SECOND_TONE),
        }
    }
}

/// A cube that stands on the floor, turned around an upright axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cube {
    pub(super) middle: [f32; 2],
    /// Half of its side.
    pub(super) half: f32,
    pub(super) colour: [f32; 3],
    cos: f32,
    sin: f32,
}

impl Cube {
    pub(super) fn new(middle: [f32; 2], half: f32, turn: f32, colour: [f32; 3]) -> Self {
        let (sin, cos) = turn.sin_cos();
        Self {
            middle,
            half,
            colour,
            cos,
            sin,
        }
    }

    /// The outward normal of a face; the next face is a quarter turn further.
    pub(super) fn normal(&self, face: usize) -> [f32; 2] {
        match face % FACES {
            0 => [self.cos, self.sin],
            1 => [-self.sin, self.cos],
            2 => [-self.cos, -self.sin],
            _ => [self.sin, -self.cos],
        }
    }

    /// A direction in the cube's axes, in which face 0 is at `x = half` and face 1 at `y = half`.
    fn turned(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        [self.cos * x + self.sin * y, self.cos * y - self.sin * x]
    }

    /// A place in the cube's axes, from its middle.
    fn within(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        self.turned([x - self.middle[0], y - self.middle[1]])
    }
}

/// A camera that looks horizontally.
#[derive(Clone, Copy, Debug)]
pub(super) struct Camera {
    pub(super) at: [f32; 3],
    /// A unit vector.
    pub(super) forward: [f32; 2],
    /// The tangent of half the angle of view.
    pub(super) slope: f32,
}

/// A room with what stands in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) cube: Cube,
    pub(super) walls: Paint,
    pub(super) light: Light,
}

/// The light in a room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Light {
    /// Where the lamp is, above the cube.
    at: [f32; 3],
    /// Light that is everywhere, and that of the lamp where it falls straight on a surface.
    everywhere: f32,
    lamp: f32,
}

impl Light {
    /// As bright everywhere, without shadows.
    pub(super) const EVEN: Self = Self {
        at: [0.0, 0.0, CORNER[2]],
        everywhere: 1.0,
        lamp: 0.0,
    };

    /// That of a lamp.
    pub(super) fn lamp(at: [f32; 3]) -> Self {
        Self {
            at,
            everywhere: AMBIENT,
            lamp: LAMP,
        }
    }
}

/// Where the rays of a column leave `from` and what they can meet. Rays are
/// `from + way (direction, up)`: their way is measured along the camera's axis.
struct Column<'a> {
    from: [f32; 3],
    direction: [f32; 2],
    /// The way to the wall.
    wall: f32,
    /// The axis that the wall is across.
    across: usize,
    face: Option<Face<'a>>,
    /// The camera, the direction and the light in the cube's axes.
    within: [f32; 2],
    turned: [f32; 2],
    light_within: [f32; 2],
}

/// A face of the cube in a column.
struct Face<'a> {
    way: f32,
    normal: [f32; 2],
    /// Ink of the texels of the column, by rows of the image: every 28th number.
    ink: &'a [f32],
}

impl Room {
    /// Draws a frame, `[3, side, side]`, each value in [0, 1]: the mean over the rays of a pixel. The faces show
    /// `images`, ink of `[28, 28]` each.
    pub(super) fn render(
        &self,
        camera: &Camera,
        images: [&[f32]; FACES],
        side: usize,
        frame: &mut [f32],
    ) {
        let rays = RAYS.div_ceil(side);
        let fine = (side * rays) as f32;
        let share = 1.0 / (rays * rays) as f32;
        let place = |ray: usize| camera.slope * (2.0 * (ray as f32 + 0.5) / fine - 1.0);
        let columns: Vec<Column> = (0..side * rays)
            .map(|ray| self.column(camera, images, place(ray)))
            .collect();
        let pixels = side * side;
        frame.fill(0.0);
        let (red, others) = frame.split_at_mut(pixels);
        let (green, blue) = others.split_at_mut(pixels);
        for line in 0..side * rays {
            let start = line / rays * side;
            let row = start..start + side;
            let row = red[row.clone()]
                .iter_mut()
                .zip(&mut green[row.clone()])
                .zip(&mut blue[row]);
            for (((red, green), blue), columns) in row.zip(columns.chunks(rays)) {
                for column in columns {
                    let seen = self.seen(column, -place(line));
                    *red += share * seen[0];
                    *green += share * seen[1];
                    *blue += share * seen[2];
                }
            }
        }
    }

    /// The column at `across`, the tangent of its angle to the right of the camera's axis.
    fn column<'a>(&self, camera: &Camera, images: [&'a [f32]; FACES], across: f32) -> Column<'a> {
        let ([x, y, _], [forward_x, forward_y]) = (camera.at, camera.forward);
        let direction = [
            forward_x + across * forward_y,
            forward_y - across * forward_x,
        ];
        let to_wall = |axis: usize| {
            let wall = CORNER[axis].copysign(direction[axis]);
            (wall - camera.at[axis]) / direction[axis]
        };
        let ways = [to_wall(0), to_wall(1)];
        let nearer = usize::from(ways[1] < ways[0]);
        let within = self.cube.within([x, y]);
        let turned = self.cube.turned(direction);
        Column {
            from: camera.at,
            direction,
            wall: ways[nearer],
            across: nearer,
            face: self.face(images, within, turned),
            within,
            turned,
            light_within: self.cube.within([self.light.at[0], self.light.at[1]]),
        }
    }

    /// The face that is met from a place in a direction, both in the cube's axes.
    fn face<'a>(
        &self,
        images: [&'a [f32]; FACES],
        from: [f32; 2],
        direction: [f32; 2],
    ) -> Option<Face<'a>> {
        let half = self.cube.half;
        let enters = |axis: usize| (-half.copysign(direction[axis]) - from[axis]) / direction[axis];
        let leaves = |axis: usize| (half.copysign(direction[axis]) - from[axis]) / direction[axis];
        let axis = usize::from(enters(1) > enters(0));
        let way = enters(axis);
        if way <= 0.0 || way > leaves(1 - axis) {
            return None;
        }
        // Faces 0 and 1 are met from beyond them, against their axis.
        let face = axis + if direction[axis] > 0.0 { 2 } else { 0 };
        let other = from[1 - axis] + way * direction[1 - axis];
        // To the right of those who look at faces 0 and 3 is up their axis, at faces 1 and 2 it is down.
        let along = if face == 0 || face == 3 {
            other
        } else {
            -other
        };
        Some(Face {
            way,
            normal: self.cube.normal(face),
            ink: &images[face][texel((along / half + 1.0) / 2.0, Images::COLUMNS)..],
        })
    }

    /// The colour that a ray of a column meets, which rises by `up` on its way.
    fn seen(&self, column: &Column, up: f32) -> [f32; 3] {
        let [x, y, height] = column.from;
        let [step_x, step_y] = column.direction;
        let at = |way: f32| [x + way * step_x, y + way * step_y, height + way * up];
        if let Some(face) = &column.face {
            let top = 2.0 * self.cube.half;
            let met = at(face.way);
            if (0.0..=top).contains(&met[2]) {
                let row = texel(1.0 - met[2] / top, Images::ROWS);
                let ink = face.ink[row * Images::COLUMNS];
                let light = self.light_on(met, [face.normal[0], face.normal[1], 0.0]);
                let shade = light * (1.0 - (1.0 - INK) * ink);
                return self.cube.colour.map(|value| value * shade);
            }
        }
        let met = at(column.wall);
        let (way, colour, normal) = if met[2] < 0.0 {
            (-height / up, FLOOR, [0.0, 0.0, 1.0])
        } else if met[2] <= CORNER[2] {
            let mut normal = [0.0; 3];
            normal[column.across] = -column.direction[column.across].signum();
            let colour = self.walls.at(met[1 - column.across], met[2]);
            (column.wall, colour, normal)
        } else {
            ((CORNER[2] - height) / up, CEILING, [0.0, 0.0, -1.0])
        };
        let met = at(way);
        let within = [0, 1].map(|axis| column.within[axis] + way * column.turned[axis]);
        let light = match self.shaded([within[0], within[1], met[2]], column.light_within) {
            true => self.light.everywhere,
            false => self.light_on(met, normal),
        };
        colour.map(|value| value * light)
    }

    /// Light on a surface that nothing shades (Lambert).
    fn light_on(&self, at: [f32; 3], normal: [f32; 3]) -> f32 {
        let to_light = [0, 1, 2].map(|axis| self.light.at[axis] - at[axis]);
        let dot = |a: [f32; 3], b: [f32; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        let cosine = dot(to_light, normal) / dot(to_light, to_light).sqrt();
        self.light.everywhere + self.light.lamp * cosine.max(0.0)
    }

    /// Whether the cube is between a place and the light, both in the cube's axes.
    fn shaded(&self, [x, y, z]: [f32; 3], [light_x, light_y]: [f32; 2]) -> bool {
        let half = self.cube.half;
        let top = 2.0 * half;
        // The light is above the cube, so what is in its shadow is below its top. The way to the light leaves the
        // cube's heights at this share of it.
        if z >= top {
            return false;
        }
        let leave_z = (top - z) / (self.light.at[2] - z);
        let beside = |from: f32, to: f32| {
            let end = from + leave_z * (to - from);
            from.min(end) > half || from.max(end) < -half
        };
        if beside(x, light_x) || beside(y, light_y) {
            return false;
        }
        let between = |from: f32, to: f32| {
            let per = 1.0 / (to - from);
            let (a, b) = ((-half - from) * per, (half - from) * per);
            (a.min(b), a.max(b))
        };
        let (enter_x, leave_x) = between(x, light_x);
        let (enter_y, leave_y) = between(y, light_y);
        enter_x.max(enter_y).max(0.0) < leave_x.min(leave_y).min(leave_z)
    }
}

/// The texel of `count` at a place from 0 to 1.
fn texel(place: f32, count: usize) -> usize {
    ((place * count as f32) as usize).min(count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use rand::RngExt;
    use std::f32::consts::TAU;

    const BLANK: [f32; Images::SIZE] = [0.0; Images::SIZE];
    const GREEN: [f32; 3] = [0.0, 1.0, 0.0];

    /// A room with a green cube of half-side 1 in its middle and grey walls.
    fn room(turn: f32, light: [f32; 3]) -> Room {
        Room {
            cube: Cube::new([0.0; 2], 1.0, turn, GREEN),
            walls: Paint {
                colour: [0.5; 3],
                pattern: Pattern::Plain,
            },
            light: Light::lamp(light),
        }
    }

    /// At distance 3.5 and height 1.2, on the x axis.
    fn camera() -> Camera {
        Camera {
            at: [3.5, 0.0, 1.2],
            forward: [-1.0, 0.0],
            slope: (TAU / 12.0).tan(),
        }
    }

    /// The corners of the face at x = 1, seen from x = 3.5, are at tangents +-1 / 2.5 across, and (2 - 1.2) / 2.5 and
    /// -1.2 / 2.5 up.
    #[test]
    fn corners_are_projected() {
        let side = 64;
        let mut frame = vec![0.0; 3 * side * side];
        let room = room(0.0, [0.0, 0.0, 3.0]);
        room.render(&camera(), [&BLANK; FACES], side, &mut frame);
        let slope = camera().slope;
        let pixel = |tangent: f32| (tangent / slope + 1.0) / 2.0 * side as f32;
        let rows = [pixel(-0.8 / 2.5), pixel(1.2 / 2.5)];
        let columns = [pixel(-1.0 / 2.5), pixel(1.0 / 2.5)];
        for row in 0..side {
            for column in 0..side {
                let place = row * side + column;
                let green = frame[place] == 0.0 && frame[side * side + place] > 0.0;
                let inside =
                    |at: usize, [low, high]: [f32; 2]| (low..high).contains(&(at as f32 + 0.5));
                let wanted = inside(row, rows) && inside(column, columns);
                assert_eq!(green, wanted, "row {row}, column {column}");
            }
        }
    }

    /// A face seen along its normal shows each texel of its image where its middle is projected, upright and not
    /// mirrored.
    #[test]
    fn a_face_seen_frontally_has_the_pixels_of_its_image() {
        let stream = Stream::new(1, "image");
        let images = [0, 1, 2, 3].map(|face| -> Vec<f32> {
            let ink = stream.uniform_values(face, Images::SIZE);
            ink.into_iter().map(|ink| ink as f32).collect()
        });
        for face in 0..FACES {
            let angle = TAU / 4.0 * face as f32 + 0.3;
            let (sin, cos) = angle.sin_cos();
            let camera = Camera {
                at: [3.5 * cos, 3.5 * sin, 1.2],
                forward: [-cos, -sin],
                ..camera()
            };
            // Above the middle of the cube, so it shines along all faces and gives them nothing.
            let room = room(0.3, [0.0, 0.0, 3.0]);
            let images = [0, 1, 2, 3].map(|face| &images[face][..]);
            for row in 0..Images::ROWS {
                for texel in 0..Images::COLUMNS {
                    let right = (texel as f32 + 0.5) / Images::COLUMNS as f32 * 2.0 - 1.0;
                    let height = 2.0 - (row as f32 + 0.5) / Images::ROWS as f32 * 2.0;
                    let column = room.column(&camera, images, right / 2.5);
                    let seen = room.seen(&column, (height - 1.2) / 2.5);
                    let ink = images[face][row * Images::COLUMNS + texel];
                    let wanted = AMBIENT * (1.0 - (1.0 - INK) * ink);
                    assert!((seen[1] - wanted).abs() < 1e-6, "face {face}, row {row}");
                    assert_eq!([seen[0], seen[2]], [0.0; 2]);
                }
            }
        }
    }

    /// A lamp at height h straight above a cube of height 2 and half-side 1 throws a square shadow on the floor, of
    /// half-side h / (h - 2); beside it the light falls with the cosine h / distance.
    #[test]
    fn the_shadow_of_a_lamp_above_is_a_square() {
        let height = 3.6;
        let square = height / (height - 2.0);
        for turn in [0.0, 0.7] {
            let room = room(turn, [0.0, 0.0, height]);
            for place in [-1.02f32, -0.98, 0.98, 1.02] {
                for side in 0..FACES {
                    let [x, y] = room.cube.normal(side).map(|x| x * place.abs() * square);
                    let along = room.cube.normal(side + 1).map(|x| x * 0.3 * place.signum());
                    let at = [x + along[0], y + along[1]];
                    let [a, b] = room.cube.within(at);
                    let shaded = room.shaded([a, b, 0.0], [0.0; 2]);
                    assert_eq!(shaded, place.abs() < 1.0, "turn {turn}, place {place}");
                }
            }
        }
        let room = room(0.0, [0.0, 0.0, height]);
        let column = room.column(&camera(), [&BLANK; FACES], 0.0);
        // Straight ahead and down: the floor at x = 3, beyond the shadow at 2.25.
        let seen = room.seen(&column, -1.2 / 0.5);
        let wanted = 0.6 * (AMBIENT + LAMP * height / 3.0f32.hypot(height));
        assert!((seen[0] - wanted).abs() < 1e-6, "{seen:?} {wanted}");
        let seen = room.seen(&column, -1.2 / 1.5);
        assert!((seen[0] - 0.6 * AMBIENT).abs() < 1e-6, "{seen:?}");
    }

    /// Even light shows all things in their own colours, behind a cube, too.
    #[test]
    fn even_light_has_no_shadows() {
        let room = Room {
            light: Light::EVEN,
            ..room(0.0, [0.0; 3])
        };
        let column = room.column(&camera(), [&BLANK; FACES], 0.0);
        assert_eq!(room.seen(&column, 0.0), GREEN);
        assert_eq!(room.seen(&column, -1.2 / 1.5), FLOOR);
        assert_eq!(room.seen(&column, -1.2 / 0.5), FLOOR);
        assert_eq!(room.seen(&column, 2.8 / 1.0), CEILING);
    }

    /// What a ray meets, found another way: planes one by one in three dimensions, and steps along the way to the
    /// light.
    fn slowly(
        room: &Room,
        camera: &Camera,
        images: [&[f32]; FACES],
        tangents: [f32; 2],
    ) -> [f32; 3] {
        type Point = [f64; 3];
        let add = |a: Point, b: Point, by: f64| [0, 1, 2].map(|axis| a[axis] + by * b[axis]);
        let dot = |a: Point, b: Point| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        let cube = &room.cube;
        let half = f64::from(cube.half);
        let middle = [f64::from(cube.middle[0]), f64::from(cube.middle[1]), half];
        let normal = |face: usize| -> Point {
            let [x, y] = cube.normal(face).map(f64::from);
            [x, y, 0.0]
        };
        let inside = |at: Point| {
            let at = add(at, middle, -1.0);
            let axes = [normal(0), normal(1), [0.0, 0.0, 1.0]];
            axes.iter().all(|axis| dot(at, *axis).abs() <= half + 1e-6)
        };
        let from = camera.at.map(f64::from);
        let [forward_x, forward_y] = camera.forward.map(f64::from);
        let forward = [forward_x, forward_y, 0.0];
        let right = [forward_y, -forward_x, 0.0];
        let [across, up] = tangents.map(f64::from);
        let ray = add(add(forward, right, across), [0.0, 0.0, 1.0], up);
        // Where a plane is met: the points with dot(point - on, normal) = 0.
        let meets = |on: Point, normal: Point| {
            let way = dot(add(on, from, -1.0), normal) / dot(ray, normal);
            (way > 0.0 && way.is_finite()).then_some(way)
        };
        let mut nearest = (f64::INFINITY, [0.0; 3], [0.0; 3]);
        for (face, image) in images.iter().enumerate() {
            let normal = normal(face);
            let on = add(middle, normal, half);
            let Some(way) = meets(on, normal).filter(|way| *way < nearest.0) else {
                continue;
            };
            let at = add(from, ray, way);
            if !inside(at) || dot(ray, normal) > 0.0 {
                continue;
            }
            let side = add(at, on, -1.0);
            // Seen from outside, right is the normal turned by a quarter to the left of the viewer's back.
            let along = dot(side, [-normal[1], normal[0], 0.0]);
            let part = |x: f64| (((x / half + 1.0) / 2.0 * 28.0) as usize).min(27);
            let (row, column) = (part(-side[2]), part(along));
            let ink = f64::from(image[row * 28 + column]);
            let colour = cube.colour.map(|x| f64::from(x) * (1.0 - 0.9 * ink));
            nearest = (way, normal, colour);
        }
        let walls: [(Point, Point); 6] = [
            ([5.0, 0.0, 0.0], [-1.0, 0.0, 0.0]),
            ([-5.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
            ([0.0, 5.0, 0.0], [0.0, -1.0, 0.0]),
            ([0.0, -5.0, 0.0], [0.0, 1.0, 0.0]),
            ([0.0, 0.0, 0.0], [0.0, 0.0, 1.0]),
            ([0.0, 0.0, 4.0], [0.0, 0.0, -1.0]),
        ];
        for (on, normal) in walls {
            let Some(way) = meets(on, normal).filter(|way| *way < nearest.0) else {
                continue;
            };
            let at = add(from, ray, way);
            let (x, y, z) = (at[0], at[1], at[2]);
            let colour = match normal {
                [_, _, 1.0] => [0.6; 3],
                [_, _, -1.0] => [0.9; 3],
                _ => {
                    let along = if normal[0] == 0.0 { x } else { y };
                    let tone = match room.walls.pattern {
                        Pattern::Plain => 0.0,
                        Pattern::Stripes => along.floor().rem_euclid(2.0),
                        Pattern::Checker => (along.floor() + z.floor()).rem_euclid(2.0),
                    };
                    let tone = if tone == 0.0 { 1.0 } else { 0.6 };
                    room.walls.colour.map(|x| f64::from(x) * tone)
                }
            };
            nearest = (way, normal, colour);
        }
        let (way, normal, colour) = nearest;
        let at = add(from, ray, way);
        let light = room.light.at.map(f64::from);
        let to_light = add(light, at, -1.0);
        let steps = 4000;
        // Not at its start, which may be on the cube.
        let shaded = (8..steps).any(|step| {
            let by = f64::from(step) / f64::from(steps);
            inside(add(at, to_light, by))
        });
        let cosine = dot(to_light, normal) / dot(to_light, to_light).sqrt();
        let lamp = if shaded { 0.0 } else { cosine.max(0.0) };
        colour.map(|value| (value * (0.4 + 0.6 * lamp)) as f32)
    }

    /// Rays in random rooms, against the slow way. On an edge the two may differ by rounding.
    #[test]
    fn rays_meet_what_planes_and_small_steps_say() {
        let stream = Stream::new(2, "rooms");
        let ink = stream.uniform_values(u64::MAX, FACES * Images::SIZE);
        let ink: Vec<f32> = ink.into_iter().map(|ink| ink as f32).collect();
        let images = [0, 1, 2, 3].map(|face| &ink[face * Images::SIZE..][..Images::SIZE]);
        let (mut differ, rays) = (0, 6000);
        for index in 0..rays {
            let mut generator = stream.at(index);
            let mut number = |low: f32, high: f32| generator.random_range(low..high);
            let angle = number(0.0, TAU);
            let (sin, cos) = angle.sin_cos();
            let camera = Camera {
                at: [3.5 * cos, 3.5 * sin, 1.2],
                forward: [-cos, -sin],
                ..camera()
            };
            let place = [number(-0.6, 0.6), number(-0.6, 0.6)];
            let cube = Cube::new(place, number(0.8, 1.0), number(0.0, TAU), [0.2, 0.7, 0.9]);
            let room = Room {
                cube,
                walls: Paint {
                    colour: [0.9, 0.5, 0.3],
                    pattern: Pattern::ALL[index as usize % 3],
                },
                light: Light::lamp([number(-4.0, 4.0), number(-4.0, 4.0), number(2.8, 3.8)]),
            };
            let tangents = [number(-0.577, 0.577), number(-0.577, 0.577)];
            let column = room.column(&camera, images, tangents[0]);
            let seen = room.seen(&column, tangents[1]);
            let wanted = slowly(&room, &camera, images, tangents);
            let apart = (0..3)
                .map(|c| (seen[c] - wanted[c]).abs())
                .fold(0.0, f32::max);
            differ += u32::from(apart > 1e-4);
        }
        assert!(differ <= 12, "{differ} of {rays} rays differ");
    }
}

//! The ray caster: a map as seen from a place.
//!
//! One ray for each column of pixels (or several) finds the nearest wall; the wall's height on the screen follows from
//! its distance. Above it the sky is drawn, below it the floor, and over all of it the objects, as flat pictures that
//! always face the viewer (billboards). Everything that depends on the row or column alone is computed once.
//!
//! Columns are smoothed by their rays; rows by partly covered pixels where wall, sky and floor meet; and all textures
//! by smaller copies for what is far away.

use std::f32::consts::TAU;

use super::billboard::Billboard;
use super::map::{Map, Side};
use super::ray::cast;
use super::scenery::{Floor, FloorRows, Sky};
use super::textures::{Texel, Texture, clamped, least, mix, shade, whole};
use super::view::{EYE, Projection, ViewConfig, light};
use crate::{Error, FrameShape};

/// Walls that face north or south are darker, so that corners show.
const SHADE: f32 = 0.82;
/// Rows whose texels are found together.
const LANES: usize = 4;
/// Columns of pixels that are written together.
const COLUMNS: usize = 4;

/// Renders frames of one size; keeps the tables for it and room to work in.
#[derive(Clone, Debug)]
pub struct Renderer {
    frame: FrameShape,
    rays_per_column: usize,
    projection: Projection,
    rays: Vec<Ray>,
    rows: Vec<Rows>,
    /// For each row, the light of its floor.
    lights: Vec<f32>,
    billboards: Vec<Billboard>,
    /// `[COLUMNS, height]`: the sum of the colours that the rays of some columns see, from top to bottom.
    columns: Vec<Texel>,
    /// `[height]`: what one more ray sees.
    line: Vec<Texel>,
    room: Room,
}

/// Room to work in, for each of `Renderer::rows`.
#[derive(Clone, Debug, Default)]
struct Room {
    /// The floor of the map.
    floor: Vec<FloorRows<LANES>>,
    /// Where the texel of each row lies among others.
    places: Vec<[u32; LANES]>,
}

/// What is the same for a ray in all frames.
#[derive(Clone, Copy, Debug)]
struct Ray {
    /// Offset to the right at a distance of 1.
    offset: f32,
    /// Angle from the middle of the frame, in full turns.
    turn: f32,
    /// The cosine of that angle.
    cosine: f32,
}

/// What is the same for some rows in all frames.
#[derive(Clone, Copy, Debug)]
struct Rows {
    /// The middles of the rows.
    middles: [f32; LANES],
    /// The tangents of their elevations in the middle column, in texels of the sky.
    sky: [f32; LANES],
    /// Distances of their floor along the viewing direction; 0 above the horizon.
    distances: [f32; LANES],
    /// The levels of the texture of their floor.
    levels: [usize; LANES],
}

impl Renderer {
    /// A renderer for frames of this size.
    ///
    /// # Errors
    /// A value of `view` is out of its range.
    pub fn new(view: &ViewConfig) -> Result<Renderer, Error> {
        view.check()?;
        Ok(Renderer::prepared(view))
    }

    /// The same for settings that were checked.
    pub(super) fn prepared(view: &ViewConfig) -> Renderer {
        let half = view.half_width();
        let projection = Projection::new(view);
        let count = view.width * view.rays;
        let rays = (0..count).map(|ray| {
            let offset = ((ray as f32 + 0.5) / count as f32 * 2.0 - 1.0) * half;
            let angle = offset.atan();
            Ray {
                offset,
                turn: angle / TAU,
                cosine: angle.cos(),
            }
        });
        let rows = (0..view.height.div_ceil(LANES))
            .map(|first| Rows::new(each(|lane| (first * LANES + lane) as f32 + 0.5), projection));
        let rows: Vec<Rows> = rows.collect();
        Renderer {
            frame: view.frame(),
            rays_per_column: view.rays,
            projection,
            rays: rays.collect(),
            billboards: Vec::new(),
            columns: vec![[0.0; 4]; COLUMNS * view.height],
            line: vec![[0.0; 4]; view.height],
            room: Room {
                floor: Vec::with_capacity(rows.len()),
                places: vec![[0; LANES]; rows.len()],
            },
            lights: rows
                .iter()
                .flat_map(|rows| rows.distances.map(light))
                .collect(),
            rows,
        }
    }

    /// The dimensions of a frame.
    pub fn frame(&self) -> FrameShape {
        self.frame
    }

    /// Writes what is seen from a place (x, y, heading) of the map into `frame`, `[3, height, width]`, in [0, 1].
    ///
    /// # Errors
    /// `frame` does not have the size of a frame.
    pub fn render(&mut self, map: &Map, place: [f32; 3], frame: &mut [f32]) -> Result<(), Error> {
        if frame.len() != self.frame.size() {
            return Err(Error::ObservationSize {
                found: frame.len(),
                wanted: self.frame.size(),
            });
        }
        let [x, y, heading] = place;
        let (sin, cos) = heading.sin_cos();
        let (ahead, right) = ([cos, sin], [-sin, cos]);
        let turn = (heading / TAU).rem_euclid(1.0);
        self.find_billboards(map, [x, y], ahead, right);
        let mut room = std::mem::take(&mut self.room);
        let mut columns = std::mem::take(&mut self.columns);
        let mut line = std::mem::take(&mut self.line);
        let floor = self.rows.iter().map(|rows| map.floor.rows(rows.levels));
        room.floor.clear();
        room.floor.extend(floor);
        let (height, width) = (self.frame.height, self.frame.width);
        for first in (0..width).step_by(COLUMNS) {
            let count = COLUMNS.min(width - first);
            for column in 0..count {
                let sums = &mut columns[column * height..][..height];
                let rays = &self.rays[(first + column) * self.rays_per_column..];
                for (number, ray) in rays[..self.rays_per_column].iter().enumerate() {
                    let direction = [0, 1].map(|axis| ahead[axis] + ray.offset * right[axis]);
                    let ray = Ray {
                        turn: turn + ray.turn,
                        ..*ray
                    };
                    if number == 0 {
                        self.draw_line(map, [x, y], direction, ray, &mut room, sums);
                        continue;
                    }
                    self.draw_line(map, [x, y], direction, ray, &mut room, &mut line);
                    for (sum, texel) in sums.iter_mut().zip(&line) {
                        *sum = std::array::from_fn(|channel| sum[channel] + texel[channel]);
                    }
                }
            }
            if count == COLUMNS {
                self.write::<COLUMNS>(&columns, first, frame);
            } else {
                for column in 0..count {
                    let sums = &columns[column * height..][..height];
                    self.write::<1>(sums, first + column, frame);
                }
            }
        }
        (self.room, self.columns, self.line) = (room, columns, line);
        Ok(())
    }

    /// Writes columns of pixels, the means of their rays, from `first` on.
    fn write<const COUNT: usize>(&self, sums: &[Texel], first: usize, frame: &mut [f32]) {
        let share = 1.0 / self.rays_per_column as f32;
        let (height, width) = (self.frame.height, self.frame.width);
        let columns: [&[Texel]; COUNT] =
            std::array::from_fn(|column| &sums[column * height..][..height]);
        for row in 0..height {
            let mut planes = [[0.0; COUNT]; 3];
            for (column, sums) in columns.iter().enumerate() {
                let mut pixel = sums[row];
                for value in &mut pixel {
                    *value = least(*value * share, 1.0);
                }
                for (plane, value) in planes.iter_mut().zip(pixel) {
                    plane[column] = value;
                }
            }
            for (channel, plane) in planes.iter().enumerate() {
                let place = (channel * height + row) * width + first;
                frame[place..place + COUNT].copy_from_slice(plane);
            }
        }
    }

    /// Draws what one ray sees into `line`: sky, floor and wall, then objects from far to near.
    fn draw_line(
        &self,
        map: &Map,
        from: [f32; 2],
        direction: [f32; 2],
        ray: Ray,
        room: &mut Room,
        line: &mut [Texel],
    ) {
        let Room { floor, places } = room;
        let hit = cast(map, from, direction);
        let rows = line.len();
        let [top, bottom] = self.projection.ends(1.0, hit.distance);
        let first = whole(top);
        let last = whole(bottom).min(rows - 1);
        let (above, below) = (first / LANES, last / LANES);

        let sky = map.sky.column(ray.turn);
        let highest = (sky.len() - 1) as f32;
        for (places, rows) in places.iter_mut().zip(&self.rows[..=above]) {
            *places = each(|lane| clamped(rows.sky[lane] * ray.cosine, highest));
        }
        for (texel, &place) in line[..=first].iter_mut().zip(places.as_flattened()) {
            *texel = sky[place as usize];
        }
        let over = line[first];

        // The row where wall and floor meet may have its middle behind the wall.
        let farthest = hit.distance - 1e-3;
        let rows_below = self.rows[below..].iter().zip(&floor[below..]);
        for (places, (rows, floor)) in places[below..].iter_mut().zip(rows_below) {
            let distances: [f32; LANES] = each(|lane| least(rows.distances[lane], farthest));
            let x = each(|lane| from[0] + distances[lane] * direction[0]);
            let y = each(|lane| from[1] + distances[lane] * direction[1]);
            *places = floor.places(x, y);
        }
        let places_below = &places.as_flattened()[last..];
        let lit = places_below.iter().zip(&self.lights[last..]);
        for (texel, (&place, &light)) in line[last..].iter_mut().zip(lit) {
            *texel = shade(map.floor.texels[place as usize], light);
        }
        let under = line[last];

        let texture = map.face(hit.cell, hit.side);
        let texels = texture.column(Texture::level(bottom - top), hit.across);
        let bright = match hit.side {
            Side::West | Side::East => light(hit.distance),
            Side::North | Side::South => SHADE * light(hit.distance),
        };
        let per_row = texels.len() as f32 / (bottom - top);
        let lowest = (texels.len() - 1) as f32;
        let rows_between = &self.rows[above..=below];
        for (places, rows) in places[above..=below].iter_mut().zip(rows_between) {
            *places = each(|lane| clamped((rows.middles[lane] - top) * per_row, lowest));
        }
        let places = &places.as_flattened()[first..=last];
        for (texel, &place) in line[first..=last].iter_mut().zip(places) {
            *texel = shade(texels[place as usize], bright);
        }
        // The pixels that the ends of the wall cover in part.
        if top > 0.0 {
            line[first] = mix(line[first], over, top - first as f32);
        }
        if bottom < rows as f32 {
            line[last] = mix(line[last], under, 1.0 - (bottom - last as f32));
        }

        for billboard in &self.billboards {
            let aside = ray.offset - billboard.offset;
            if billboard.distance < hit.distance && aside.abs() < billboard.half_width {
                let across = 0.5 + 0.5 * aside / billboard.half_width;
                let texture = &map.textures[usize::from(billboard.texture)];
                billboard.draw(texture.column(billboard.level, across), line);
            }
        }
    }

    /// Finds the objects in sight, from far to near.
    fn find_billboards(&mut self, map: &Map, from: [f32; 2], ahead: [f32; 2], right: [f32; 2]) {
        let edge = self.rays.last().map_or(0.0, |ray| ray.offset);
        let present = map.objects.iter().filter(|object| object.present);
        let seen = present.filter_map(|object| {
            Billboard::of(object, from, [ahead, right], edge, self.projection)
        });
        self.billboards.clear();
        self.billboards.extend(seen);
        self.billboards
            .sort_unstable_by(|first, second| second.distance.total_cmp(&first.distance));
    }
}

impl Rows {
    /// Rows with these middles.
    fn new(middles: [f32; LANES], projection: Projection) -> Rows {
        let Projection { focal, horizon } = projection;
        let below = middles.map(|row| row - horizon);
        let distances = below.map(|row| if row <= 0.0 { 0.0 } else { EYE * focal / row });
        // A cell is focal / distance pixels wide, but only below / distance pixels high.
        let level = |lane: usize| {
            let pixels = (focal * below[lane]).sqrt() / distances[lane];
            if below[lane] <= 0.0 {
                0
            } else {
                Floor::level(pixels)
            }
        };
        Rows {
            middles,
            sky: below.map(|row| -row / focal * Sky::ELEVATIONS as f32),
            distances,
            levels: std::array::from_fn(level),
        }
    }
}

/// A value for each lane. The loop of `std::array::from_fn` is not always inlined.
#[inline(always)]
fn each<T: Copy + Default>(value: impl Fn(usize) -> T) -> [T; LANES] {
    let mut values = [T::default(); LANES];
    for (lane, place) in values.iter_mut().enumerate() {
        *place = value(lane);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use crate::navigation::labyrinth::MapConfig;
    use proptest::prelude::*;

    #[test]
    fn a_wall_covers_the_rows_that_perspective_says() {
        let mut map = Map::room();
        // Red walls, everything else without red.
        for texture in &mut map.textures {
            *texture = Texture::paint(|_, _| [1.0, 0.0, 0.0, 1.0]);
        }
        let view = ViewConfig {
            field_of_view: 90.0,
            ..ViewConfig::default()
        };
        let mut renderer = Renderer::new(&view).expect("in range");
        let mut frame = vec![0.0; renderer.frame().size()];
        renderer
            .render(&map, [3.5, 3.5, 0.0], &mut frame)
            .expect("the size of a frame");
        // The wall is 2.5 cells away: it covers 16 / 2.5 = 6.4 of 32 rows, in the middle.
        let pixels = 32 * 32;
        let pure = |row: usize| {
            let pixel = row * 32 + 16;
            frame[pixels + pixel] == 0.0 && frame[2 * pixels + pixel] == 0.0
        };
        let rows: Vec<usize> = (0..32).filter(|&row| pure(row)).collect();
        assert_eq!(rows, (13..19).collect::<Vec<_>>());
    }

    #[test]
    fn the_nearer_object_hides_the_farther_and_walls_hide_both() {
        let mut map = Map::new(
            &MapConfig {
                smallest: 6,
                largest: 6,
                ..MapConfig::default()
            },
            &mut Stream::new(6, "test").at(0),
        )
        .expect("in range");
        let mut renderer = Renderer::new(&ViewConfig::default()).expect("in range");
        let mut seen = |map: &Map| {
            let mut frame = vec![0.0; renderer.frame().size()];
            renderer
                .render(map, [1.5, 3.5, 0.0], &mut frame)
                .expect("the size of a frame");
            frame
        };
        assert_eq!(map.objects.len(), 2);
        for object in &mut map.objects {
            (object.radius, object.height) = (0.3, 0.9);
            map.textures[usize::from(object.texture)] = Texture::paint(|_, _| [0.0, 0.0, 1.0, 1.0]);
        }
        map.objects[0].place = [3.0, 3.5];
        map.objects[1].place = [5.0, 3.5];
        let both = seen(&map);
        map.objects[1].present = false;
        let near = seen(&map);
        assert_eq!(both, near);
        map.objects[0].present = false;
        assert_ne!(seen(&map), near);
        // Behind the wall.
        map.objects[0].present = true;
        map.objects[0].place = [8.5, 3.5];
        let hidden = seen(&map);
        map.objects[0].present = false;
        assert_eq!(seen(&map), hidden);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Every size, place and heading gives intensities in [0, 1], and a full turn changes little.
        #[test]
        fn every_frame_is_sound(
            seed: u64,
            width in 8usize..70,
            height in 8usize..70,
            field_of_view in 60.0f32..=90.0,
            rays in 1usize..=3,
            offset in (-0.45f32..0.45, -0.45f32..0.45),
            heading in -10.0f32..10.0,
        ) {
            let config = MapConfig { rooms: 3, objects: 3, goals: 2, ..MapConfig::default() };
            let map = Map::new(&config, &mut Stream::new(seed, "test").at(0)).expect("in range");
            let view = ViewConfig { width, height, field_of_view, rays };
            let mut renderer = Renderer::new(&view).expect("in range");
            let mut frame = vec![f32::NAN; renderer.frame().size()];
            for cell in map.walkable() {
                let [x, y] = map.centre(cell);
                let place = [x + offset.0, y + offset.1, heading];
                renderer.render(&map, place, &mut frame).expect("the size of a frame");
                prop_assert!(frame.iter().all(|value| (0.0..=1.0).contains(value)));
            }
        }
    }

    #[test]
    fn a_full_turn_gives_the_same_frame() {
        let map = Map::room();
        let mut renderer = Renderer::new(&ViewConfig::default()).expect("in range");
        let mut frames = [0.3, 0.3 + TAU].map(|heading| {
            let mut frame = vec![0.0; renderer.frame().size()];
            renderer
                .render(&map, [3.2, 3.7, heading], &mut frame)
                .expect("the size of a frame");
            frame
        });
        let [first, second] = &mut frames;
        let apart = first
            .iter()
            .zip(second)
            .map(|(first, second)| (first - *second).abs());
        // Rounding may move a few texels.
        assert!(apart.sum::<f32>() / (first.len() as f32) < 2e-3);
    }

    #[test]
    fn a_frame_of_another_size_is_refused() {
        let mut renderer = Renderer::new(&ViewConfig::default()).expect("in range");
        let error = renderer.render(&Map::room(), [3.0, 3.0, 0.0], &mut [0.0; 5]);
        assert_eq!(
            error.expect_err("too small").to_string(),
            "the buffer has 5 values, but an observation has 3072"
        );
    }
}

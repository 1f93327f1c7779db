//! An object as a flat picture that always faces the viewer.

use super::map::Object;
use super::textures::{Texel, Texture, whole};
use super::view::{NEAREST, Projection, light};

/// Where an object appears in a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Billboard {
    pub(super) distance: f32,
    /// Offset of its middle, and half of its width, at a distance of 1.
    pub(super) offset: f32,
    pub(super) half_width: f32,
    /// Rows of its upper and lower end.
    top: f32,
    bottom: f32,
    pub(super) texture: u16,
    pub(super) level: usize,
}

impl Billboard {
    /// An object seen from a place; `None` if it is behind the viewer, or aside of what lies within `edge` at a
    /// distance of 1. `axes` point ahead and to the right.
    pub(super) fn of(
        object: &Object,
        from: [f32; 2],
        axes: [[f32; 2]; 2],
        edge: f32,
        projection: Projection,
    ) -> Option<Billboard> {
        let away = [0, 1].map(|axis| object.place[axis] - from[axis]);
        let [distance, aside] = axes.map(|axis| away[0] * axis[0] + away[1] * axis[1]);
        if distance < NEAREST {
            return None;
        }
        let (offset, half_width) = (aside / distance, object.radius / distance);
        let [top, bottom] = projection.ends(object.height, distance);
        (offset.abs() - half_width <= edge).then(|| Billboard {
            distance,
            offset,
            half_width,
            top,
            bottom,
            texture: object.texture,
            level: Texture::level(bottom - top),
        })
    }

    /// Draws one column of its texture over a line.
    pub(super) fn draw(&self, texels: &[Texel], line: &mut [Texel]) {
        let rows = line.len() as f32;
        let (first, end) = (
            self.top.max(0.0) as usize,
            self.bottom.clamp(0.0, rows).ceil() as usize,
        );
        let per_row = texels.len() as f32 / (self.bottom - self.top);
        let bright = light(self.distance);
        for (row, under) in line.iter_mut().enumerate().take(end).skip(first) {
            let row = row as f32;
            let index = whole((row + 0.5 - self.top) * per_row);
            let [red, green, blue, opacity] = texels[index.min(texels.len() - 1)];
            let covered = (row + 1.0).min(self.bottom) - row.max(self.top);
            let clear = 1.0 - covered * opacity;
            let over = [red * bright, green * bright, blue * bright, opacity];
            *under =
                std::array::from_fn(|channel| covered * over[channel] + clear * under[channel]);
        }
    }
}

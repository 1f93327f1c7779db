//! What an agent sees of a map: a square around it, or all of it.

use crate::settings::check;
use crate::{Error, FrameShape};

/// Red, green and blue, in [0, 1].
pub(super) type Colour = [f32; 3];

/// A cell of a map: row and column.
pub(super) type Place = [u8; 2];

/// Checks `environment.viewport`: odd, so that the agent is in the middle, or 0.
pub(super) fn check_viewport(side: usize, most: usize) -> Result<(), Error> {
    let wanted =
        || format!("the side of the view must be odd, from 1 to {most}, or 0 for the whole map");
    check("environment.viewport", side, 0..=most, wanted)?;
    if side != 0 && side.is_multiple_of(2) {
        return Err(Error::Setting {
            key: "environment.viewport",
            value: side,
            wanted: wanted(),
        });
    }
    Ok(())
}

/// A rectangle of cells. It may reach beyond the map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    top: isize,
    left: isize,
    height: usize,
    width: usize,
}

impl Window {
    /// Frames with this viewport of a map of `height` x `width` cells.
    pub(super) fn frame(
        viewport: usize,
        [height, width]: [usize; 2],
        channels: usize,
    ) -> FrameShape {
        let [height, width] = match viewport {
            0 => [height, width],
            side => [side; 2],
        };
        FrameShape {
            channels,
            height,
            width,
        }
    }

    /// The cells of a frame: all of the map if `viewport` is 0, otherwise a square around `centre`.
    pub(super) fn new(viewport: usize, frame: FrameShape, centre: Place) -> Window {
        let [top, left] = match viewport {
            0 => [0; 2],
            side => centre.map(|middle| isize::from(middle as i16) - (side / 2) as isize),
        };
        Window {
            top,
            left,
            height: frame.height,
            width: frame.width,
        }
    }

    /// Writes the cells as planes of red, green and blue. Cells beyond the map have the colour `palette[outside]`.
    pub(super) fn paint<const WIDTH: usize, const HEIGHT: usize>(
        &self,
        map: &[[u8; WIDTH]; HEIGHT],
        palette: &[Colour],
        outside: u8,
        observation: &mut [f32],
    ) {
        let size = self.height * self.width;
        let (red, rest) = observation.split_at_mut(size);
        let (green, blue) = rest.split_at_mut(size);
        let rows = red
            .chunks_exact_mut(self.width)
            .zip(green.chunks_exact_mut(self.width))
            .zip(blue.chunks_exact_mut(self.width));
        for (row, ((red, green), blue)) in (self.top..).zip(rows) {
            let cells = usize::try_from(row).ok().and_then(|row| map.get(row));
            let pixels = red.iter_mut().zip(green).zip(blue);
            for (column, ((red, green), blue)) in (self.left..).zip(pixels) {
                // A negative column becomes a large number, which is beyond the map, too.
                let cell = cells.and_then(|cells| cells.get(column as usize));
                let colour = palette[usize::from(*cell.unwrap_or(&outside))];
                [*red, *green, *blue] = colour;
            }
        }
    }

    /// Writes one cell, if the window has it.
    pub(super) fn dot(&self, place: Place, colour: Colour, observation: &mut [f32]) {
        let row = (isize::from(place[0] as i16) - self.top) as usize;
        let column = (isize::from(place[1] as i16) - self.left) as usize;
        if row < self.height && column < self.width {
            let size = self.height * self.width;
            for (channel, value) in colour.into_iter().enumerate() {
                observation[channel * size + row * self.width + column] = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: [[u8; 3]; 2] = [[0, 1, 0], [1, 1, 0]];
    const PALETTE: [Colour; 3] = [[0.0, 0.1, 0.2], [1.0, 0.5, 0.0], [0.9, 0.9, 0.9]];

    #[test]
    fn a_window_in_a_corner_shows_cells_beyond_the_map() {
        let frame = Window::frame(3, [2, 3], 3);
        let window = Window::new(3, frame, [0, 0]);
        let mut seen = vec![f32::NAN; frame.size()];
        window.paint(&MAP, &PALETTE, 2, &mut seen);
        #[rustfmt::skip]
        assert_eq!(
            seen,
            [
                0.9, 0.9, 0.9, 0.9, 0.0, 1.0, 0.9, 1.0, 1.0,
                0.9, 0.9, 0.9, 0.9, 0.1, 0.5, 0.9, 0.5, 0.5,
                0.9, 0.9, 0.9, 0.9, 0.2, 0.0, 0.9, 0.0, 0.0,
            ]
        );
        window.dot([1, 0], [0.3, 0.4, 0.6], &mut seen);
        assert_eq!([seen[7], seen[16], seen[25]], [0.3, 0.4, 0.6]);
        let before = seen.clone();
        window.dot([0, 2], [0.3, 0.4, 0.6], &mut seen);
        assert_eq!(seen, before);
    }

    #[test]
    fn viewport_0_is_the_whole_map() {
        let frame = Window::frame(0, [2, 3], 3);
        assert_eq!((frame.height, frame.width), (2, 3));
        let mut seen = vec![f32::NAN; frame.size()];
        Window::new(0, frame, [1, 2]).paint(&MAP, &PALETTE, 2, &mut seen);
        assert_eq!(seen[..6], [0.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
    }

    #[test]
    fn a_viewport_has_a_middle() {
        assert!(check_viewport(5, 9).is_ok() && check_viewport(0, 9).is_ok());
        for (side, most) in [(4, 9), (11, 9)] {
            assert_eq!(
                check_viewport(side, most)
                    .expect_err("out of range")
                    .to_string(),
                format!(
                    "environment.viewport = {side}: the side of the view must be odd, from 1 to 9, or 0 for the whole map"
                )
            );
        }
    }
}

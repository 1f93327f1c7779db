//! What is seen: size and angle of a frame, the projection, and the light at a distance.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{check, check_fraction};
use crate::{Error, FrameShape};

/// Height of the eye, in cells. A wall has height 1.
pub(super) const EYE: f32 = 0.5;
/// Nothing nearer than this is drawn, in cells.
pub(super) const NEAREST: f32 = 0.05;
/// Walls and floors lose this share of their light for each cell of distance, roughly.
const HAZE: f32 = 0.05;

/// Size and angle of what is seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ViewConfig {
    /// Pixel columns, from 8 to 1024.
    pub width: usize,
    /// Pixel rows, from 8 to 1024.
    pub height: usize,
    /// The angle that a frame covers from left to right, from 60 to 90 degrees.
    pub field_of_view: f32,
    /// Rays for each column of pixels, from 1 to 8. More of them are slower and smoother.
    pub rays: usize,
}

impl Default for ViewConfig {
    fn default() -> ViewConfig {
        ViewConfig {
            width: 32,
            height: 32,
            field_of_view: 80.0,
            rays: 2,
        }
    }
}

impl ViewConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// A value is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        for (key, value) in [
            ("task.view.width", self.width),
            ("task.view.height", self.height),
        ] {
            check(key, value, 8..=1024, || {
                "a frame must have from 8 to 1024 rows and columns of pixels".to_owned()
            })?;
        }
        check_fraction(
            "task.view.field_of_view",
            self.field_of_view,
            60.0..=90.0,
            "the field of view must be from 60 to 90 degrees",
        )?;
        check("task.view.rays", self.rays, 1..=8, || {
            "a column of pixels has from 1 to 8 rays".to_owned()
        })
    }

    /// Half of the width of what is seen at a distance of 1.
    pub(super) fn half_width(&self) -> f32 {
        (self.field_of_view.to_radians() / 2.0).tan()
    }

    /// The dimensions of a frame: three colours.
    pub fn frame(&self) -> FrameShape {
        FrameShape {
            channels: 3,
            height: self.height,
            width: self.width,
        }
    }
}

/// Where heights at distances appear in a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Projection {
    /// Pixels that a length of one cell covers at a distance of one cell.
    pub(super) focal: f32,
    /// The row of the horizon; it may lie in the middle of a pixel.
    pub(super) horizon: f32,
}

impl Projection {
    pub(super) fn new(view: &ViewConfig) -> Projection {
        Projection {
            focal: view.width as f32 / 2.0 / view.half_width(),
            horizon: view.height as f32 / 2.0,
        }
    }

    /// Rows of the upper and lower end of what stands on the floor.
    #[inline]
    pub(super) fn ends(self, height: f32, distance: f32) -> [f32; 2] {
        [
            self.horizon - (height - EYE) * self.focal / distance,
            self.horizon + EYE * self.focal / distance,
        ]
    }
}

/// The light that is left at a distance.
#[inline]
pub(super) fn light(distance: f32) -> f32 {
    1.0 / (1.0 + HAZE * distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_sizes_are_refused() {
        let error = |view: ViewConfig| view.check().expect_err("out of range").to_string();
        assert_eq!(
            error(ViewConfig {
                width: 4,
                ..ViewConfig::default()
            }),
            "task.view.width = 4: a frame must have from 8 to 1024 rows and columns of pixels"
        );
        assert_eq!(
            error(ViewConfig {
                field_of_view: 120.0,
                ..ViewConfig::default()
            }),
            "task.view.field_of_view = 120: the field of view must be from 60 to 90 degrees"
        );
    }

    #[test]
    fn a_wall_stands_around_the_horizon() {
        // 16 rows of 32 at a distance of half of the width, for a right angle.
        let view = ViewConfig {
            field_of_view: 90.0,
            ..ViewConfig::default()
        };
        let [top, bottom] = Projection::new(&view).ends(1.0, 1.0);
        assert!((top - 8.0).abs() < 1e-4 && (bottom - 24.0).abs() < 1e-4);
        let [top, bottom] = Projection::new(&view).ends(0.5, 2.0);
        assert!((top - 16.0).abs() < 1e-4 && (bottom - 20.0).abs() < 1e-4);
    }
}

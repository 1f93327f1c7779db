//! Values over time as bars.

use super::sheet::{BACKGROUND, INK, LABEL, MARGIN, NUMBER, TITLE, every_nth};
use super::{Align, Colour, Image, Text, text_width};
use crate::FigureError;

/// Values as bars upwards or downwards from zero, one per step.
#[derive(Debug, Clone)]
pub struct Bars<'a> {
    /// Title above the picture.
    pub title: String,
    /// One value per bar; values that are not finite get no bar.
    pub values: &'a [f32],
    /// Label of the axis, such as 'step'.
    pub axis: String,
    /// Number of the first bar.
    pub first_number: usize,
    /// Start of the first bar, in pixels from the left.
    pub left: f64,
    /// Distance from one bar to the next, in pixels.
    pub pitch: f64,
}

const TITLE_HEIGHT: usize = 28;
const HEIGHT: usize = 110;
const NUMBERS_HEIGHT: usize = 18;
const AXIS_HEIGHT: usize = 20;
const BAR: Colour = [0, 90, 160];

/// Draws bars over numbered steps, with the largest and the smallest value at the right.
///
/// # Errors
/// [`FigureError::TooLarge`].
pub fn bars(bars: &Bars) -> Result<Image, FigureError> {
    let finite = || {
        bars.values
            .iter()
            .copied()
            .filter(|value| value.is_finite())
    };
    let (low, high) = (finite().fold(0.0, f32::min), finite().fold(0.0, f32::max));
    let reach = (high - low).max(f32::MIN_POSITIVE);
    let right = bars.left + bars.values.len() as f64 * bars.pitch;
    let [top_label, bottom_label] = [high, low].map(|v| crate::number(f64::from(v), 3));
    let labels = [&top_label, &bottom_label].map(|text| text_width(text, NUMBER.size, false));
    let wanted = right + 8.0 + labels[0].max(labels[1]) + MARGIN as f64;
    let title_width = text_width(&bars.title, TITLE.size, true) + 2.0 * MARGIN as f64;
    let width = wanted.max(title_width).ceil() as usize;
    let top = MARGIN + TITLE_HEIGHT;
    let bottom = top + HEIGHT;
    let height = bottom + NUMBERS_HEIGHT + AXIS_HEIGHT + MARGIN;
    let mut image = Image::new(width, height, BACKGROUND)?;
    image.text(&bars.title, (MARGIN as f64, MARGIN as f64 + 7.0), TITLE)?;
    let place = |value: f32| top + ((high - value) / reach * HEIGHT as f32) as usize;
    let column = |index: usize| (bars.left + index as f64 * bars.pitch).round() as usize;
    for (index, value) in bars
        .values
        .iter()
        .enumerate()
        .filter(|(_, v)| v.is_finite())
    {
        let (from, to) = (place(value.max(0.0)), place(value.min(0.0)));
        let across = (column(index + 1) - column(index)).max(1);
        let gap = usize::from(across > 3);
        image.fill(column(index), from, across - gap, (to - from).max(1), BAR);
    }
    let zero = place(0.0);
    image.fill(column(0), zero, (right - bars.left) as usize, 1, [200; 3]);
    let side = Text {
        align: Align::Left,
        colour: INK,
        ..NUMBER
    };
    image.text(&top_label, (right + 8.0, top as f64), side)?;
    image.text(&bottom_label, (right + 8.0, bottom as f64), side)?;
    let last = bars.first_number.saturating_add(bars.values.len());
    let every = every_nth(
        text_width(&last.to_string(), NUMBER.size, false) + 8.0,
        bars.pitch,
    );
    for index in 0..bars.values.len() {
        let number = bars.first_number.saturating_add(index);
        if number.is_multiple_of(every) {
            let middle = bars.left + (index as f64 + 0.5) * bars.pitch;
            image.text(&number.to_string(), (middle, bottom as f64 + 10.0), NUMBER)?;
        }
    }
    let centred = Text {
        align: Align::Centre,
        ..LABEL
    };
    let below = (bottom + NUMBERS_HEIGHT) as f64 + 8.0;
    let half = text_width(&bars.axis, LABEL.size, false) / 2.0;
    image.text(
        &bars.axis,
        (((bars.left + right) / 2.0).max(half), below),
        centred,
    )?;
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_stands_at_its_step_and_reaches_its_value() {
        let values = [1.0, -1.0, f32::NAN, 0.5];
        let image = bars(&Bars {
            title: "surprise".into(),
            values: &values,
            axis: "step".into(),
            first_number: 1,
            left: 20.0,
            pitch: 10.0,
        })
        .unwrap();
        let height_of = |step: usize| {
            let x = 20 + step * 10 + 4;
            let column = (0..image.height()).filter(|y| image.pixel(x, *y) == Some(BAR));
            (column.clone().min(), column.count())
        };
        let top = MARGIN + TITLE_HEIGHT;
        let half = HEIGHT / 2;
        assert_eq!(height_of(0), (Some(top), half));
        // The zero line covers the first of these.
        assert_eq!(height_of(1), (Some(top + half + 1), half - 1));
        assert_eq!(height_of(2), (None, 0));
        assert_eq!(height_of(3).0, Some(top + 27));
    }
}

//! A matrix of values as colours: for example where a memory is read and written over time.

use super::sheet::{BACKGROUND, INK, LABEL, MARGIN, MARK, NUMBER, TITLE, every_nth};
use super::{Align, Colour, Image, Text, text_width};
use crate::FigureError;

/// A matrix to draw, with labelled axes.
///
/// Weights `[time, slots]` are easiest to read with time from left to right. Pass them transposed, `[slots,
/// time]`, so that they line up with a sheet of the same sequence.
#[derive(Debug, Clone)]
pub struct HeatMap<'a> {
    /// Title above the picture; may be empty.
    pub title: String,
    /// `[rows, columns]`; values that are not finite are grey.
    pub values: &'a [f32],
    /// Number of rows, drawn from top to bottom.
    pub rows: usize,
    /// Number of columns, drawn from left to right.
    pub columns: usize,
    /// Label of the rows, such as 'memory slot'.
    pub row_axis: String,
    /// Label of the columns, such as 'time step'.
    pub column_axis: String,
    /// Number of the first column.
    pub first_number: usize,
    /// Number of the first row, unless `falling` is given.
    pub first_row: usize,
    /// Number of the first row if row numbers decrease downwards, as for notes.
    pub falling: Option<usize>,
    /// Values of the darkest and the lightest colour; with `None`, the smallest and the largest value.
    pub range: Option<(f32, f32)>,
    /// Width and height of a cell, in pixels.
    pub cell: usize,
    /// Columns, counted from 0, that get a coloured bar above them: the recall interval.
    pub marked: Vec<usize>,
}

/// Nine colours of viridis (van der Walt and Smith, 2015), evenly spaced; colours between them are interpolated.
const VIRIDIS: [Colour; 9] = [
    [0x44, 0x01, 0x54],
    [0x47, 0x2d, 0x7b],
    [0x3b, 0x52, 0x8b],
    [0x2c, 0x72, 0x8e],
    [0x21, 0x90, 0x8c],
    [0x27, 0xad, 0x81],
    [0x5d, 0xc8, 0x63],
    [0xaa, 0xdc, 0x32],
    [0xfd, 0xe7, 0x25],
];
const NOT_FINITE: Colour = [190; 3];
const TITLE_HEIGHT: usize = 28;
const MARK_HEIGHT: usize = 4;
const NUMBERS_HEIGHT: usize = 18;
const AXIS_HEIGHT: usize = 20;
const BAR_WIDTH: usize = 12;
const BAR_GAP: usize = 16;
const LEAST_HEIGHT: usize = 56;

/// The colour of viridis at `fraction`, from 0 (dark violet) to 1 (yellow). It is perceptually uniform and safe
/// for colour-blind readers.
pub fn viridis(fraction: f32) -> Colour {
    let last = (VIRIDIS.len() - 1) as f32;
    let position = if fraction.is_nan() {
        0.0
    } else {
        fraction.clamp(0.0, 1.0) * last
    };
    let below = (position.floor() as usize).min(VIRIDIS.len() - 2);
    let mix = position - below as f32;
    let (low, high) = (VIRIDIS[below], VIRIDIS[below + 1]);
    std::array::from_fn(|part| {
        (f32::from(low[part]) * (1.0 - mix) + f32::from(high[part]) * mix).round() as u8
    })
}

/// Draws a matrix with numbered axes and a colour bar.
///
/// # Errors
/// [`FigureError::Shape`] if the values do not fill `[rows, columns]`; [`FigureError::TooLarge`].
pub fn heat_map(map: &HeatMap) -> Result<Image, FigureError> {
    let expected = map.rows.saturating_mul(map.columns);
    if map.values.len() != expected {
        return Err(FigureError::Shape {
            what: format!("a heat map of [{}, {}]", map.rows, map.columns),
            expected,
            found: map.values.len(),
        });
    }
    let layout = Layout::of(map);
    let mut image = Image::new(layout.width, layout.height, BACKGROUND)?;
    image.text(&map.title, (MARGIN as f64, MARGIN as f64 + 7.0), TITLE)?;
    for &column in map.marked.iter().filter(|&&column| column < map.columns) {
        let top = layout.top - MARK_HEIGHT - 2;
        let left = layout.left + column * layout.cell;
        image.fill(left, top, layout.cell, MARK_HEIGHT, MARK);
    }
    let (low, high) = map.range.unwrap_or_else(|| value_range(map.values));
    let span = if high > low { high - low } else { 1.0 };
    for (index, value) in map.values.iter().enumerate() {
        let colour = if value.is_finite() {
            viridis((value - low) / span)
        } else {
            NOT_FINITE
        };
        let left = layout.left + index % map.columns * layout.cell;
        let top = layout.top + index / map.columns * layout.cell;
        image.fill(left, top, layout.cell, layout.cell, colour);
    }
    draw_axes(&mut image, map, &layout)?;
    draw_colour_bar(&mut image, &layout, low, high)?;
    Ok(image)
}

struct Layout {
    width: usize,
    height: usize,
    left: usize,
    top: usize,
    cell: usize,
    right: usize,
    bottom: usize,
}

impl HeatMap<'_> {
    /// Start of the first column, in pixels from the left.
    pub fn left(&self) -> usize {
        Layout::of(self).left
    }

    fn row_number(&self, row: usize) -> usize {
        match self.falling {
            None => self.first_row.saturating_add(row),
            Some(first) => first.saturating_sub(row),
        }
    }
}

impl Layout {
    fn of(map: &HeatMap) -> Self {
        let cell = map.cell.max(1);
        let last_row = map.row_number(map.rows).max(map.row_number(0)).to_string();
        let numbers = text_width(&last_row, NUMBER.size, false).max(text_width(
            &map.row_axis,
            LABEL.size,
            false,
        ));
        let left = MARGIN + numbers.ceil() as usize + 8;
        let title = if map.title.is_empty() {
            0
        } else {
            TITLE_HEIGHT
        };
        let top = MARGIN + title + MARK_HEIGHT + 4 + if map.row_axis.is_empty() { 0 } else { 12 };
        let right = map.columns.saturating_mul(cell).saturating_add(left);
        let bottom = map.rows.saturating_mul(cell).saturating_add(top);
        let under = NUMBERS_HEIGHT + AXIS_HEIGHT + MARGIN;
        let beside = BAR_GAP + BAR_WIDTH + 56 + MARGIN;
        let title_width = text_width(&map.title, TITLE.size, true).ceil() as usize;
        let axis = text_width(&map.column_axis, LABEL.size, false).ceil() as usize;
        Self {
            width: right
                .saturating_add(beside)
                .max(title_width + 2 * MARGIN)
                .max(left + axis + MARGIN),
            height: bottom
                .saturating_add(under)
                .max(top + LEAST_HEIGHT + MARGIN),
            left,
            top,
            cell,
            right,
            bottom,
        }
    }
}

fn draw_axes(image: &mut Image, map: &HeatMap, layout: &Layout) -> Result<(), FigureError> {
    let pitch = layout.cell as f64;
    let row_every = every_nth(NUMBER.size + 3.0, pitch);
    let right_aligned = Text {
        align: Align::Right,
        ..NUMBER
    };
    for row in 0..map.rows {
        let number = map.row_number(row);
        if number.is_multiple_of(row_every) {
            let middle = layout.top as f64 + (row as f64 + 0.5) * pitch;
            let at = (layout.left as f64 - 6.0, middle);
            image.text(&number.to_string(), at, right_aligned)?;
        }
    }
    let last = map.first_number.saturating_add(map.columns).to_string();
    let column_every = every_nth(text_width(&last, NUMBER.size, false) + 8.0, pitch);
    for column in 0..map.columns {
        let number = map.first_number.saturating_add(column);
        if number.is_multiple_of(column_every) {
            let middle = layout.left as f64 + (column as f64 + 0.5) * pitch;
            image.text(
                &number.to_string(),
                (middle, layout.bottom as f64 + 10.0),
                NUMBER,
            )?;
        }
    }
    let above = layout.top as f64 - 10.0;
    image.text(&map.row_axis, (layout.left as f64 - 6.0, above), LABEL)?;
    let centred = Text {
        align: Align::Centre,
        ..LABEL
    };
    let half = text_width(&map.column_axis, LABEL.size, false) / 2.0;
    let middle = ((layout.left + layout.right) as f64 / 2.0).max(layout.left as f64 + half);
    let below = (layout.bottom + NUMBERS_HEIGHT) as f64 + 8.0;
    image.text(&map.column_axis, (middle, below), centred)
}

fn draw_colour_bar(
    image: &mut Image,
    layout: &Layout,
    low: f32,
    high: f32,
) -> Result<(), FigureError> {
    let left = layout.right + BAR_GAP;
    let height = (layout.bottom - layout.top).clamp(LEAST_HEIGHT, 240);
    for y in 0..height {
        let colour = viridis(1.0 - y as f32 / (height - 1) as f32);
        image.fill(left, layout.top + y, BAR_WIDTH, 1, colour);
    }
    let style = Text {
        align: Align::Left,
        colour: INK,
        ..NUMBER
    };
    let x = (left + BAR_WIDTH + 6) as f64;
    let (top, bottom) = (layout.top as f64 + 5.0, (layout.top + height) as f64 - 5.0);
    image.text(&value_label(high), (x, top), style)?;
    image.text(&value_label(low), (x, bottom), style)
}

fn value_range(values: &[f32]) -> (f32, f32) {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let low = finite().fold(f32::INFINITY, f32::min);
    let high = finite().fold(f32::NEG_INFINITY, f32::max);
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

fn value_label(value: f32) -> String {
    crate::number(f64::from(value), 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(values: &[f32], rows: usize, columns: usize) -> HeatMap<'_> {
        HeatMap {
            title: "read weights, head 1".to_owned(),
            values,
            rows,
            columns,
            row_axis: "slot".to_owned(),
            column_axis: "time step".to_owned(),
            first_number: 1,
            first_row: 1,
            falling: None,
            range: None,
            cell: 10,
            marked: vec![1, 99],
        }
    }

    #[test]
    fn viridis_ends_where_it_should() {
        assert_eq!(viridis(0.0), VIRIDIS[0]);
        assert_eq!(viridis(0.5), VIRIDIS[4]);
        assert_eq!(viridis(1.0), VIRIDIS[8]);
        assert_eq!(viridis(7.0), VIRIDIS[8]);
        assert_eq!(viridis(f32::NAN), VIRIDIS[0]);
        let luma = |fraction: f32| {
            let [red, green, blue] = viridis(fraction).map(f32::from);
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        assert!((0..100).all(|step| luma(step as f32 / 100.0) < luma((step + 1) as f32 / 100.0)));
    }

    #[test]
    fn cells_have_their_colour() {
        let values = [0.0, 0.25, 0.5, 0.75, 1.0, f32::NAN];
        let map = map(&values, 2, 3);
        let layout = Layout::of(&map);
        let picture = heat_map(&map).unwrap();
        for (index, value) in values.into_iter().enumerate() {
            let x = layout.left + index % 3 * 10 + 5;
            let y = layout.top + index / 3 * 10 + 5;
            let expected = if value.is_nan() {
                NOT_FINITE
            } else {
                viridis(value)
            };
            assert_eq!(picture.pixel(x, y), Some(expected));
        }
        let marked = picture.pixel(layout.left + 15, layout.top - 4);
        assert_eq!(marked, Some(MARK));
    }

    #[test]
    fn degenerate_maps_are_drawn_and_wrong_shapes_refused() {
        for values in [vec![], vec![3.0; 4], vec![f32::INFINITY; 4]] {
            let picture = heat_map(&map(&values, values.len() / 2, 2)).unwrap();
            picture.png_bytes().unwrap();
        }
        let error = heat_map(&map(&[0.0; 5], 2, 3)).unwrap_err();
        assert!(error.to_string().contains("[2, 3]"), "{error}");
    }
}

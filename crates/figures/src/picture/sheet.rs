//! Rows of frames with labels and time indices: what a model saw, and what it generated.

use super::{Align, Colour, Image, Sequence, Text, frame, text_width};
use crate::FigureError;

/// One labelled row of frames.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// Label at the left, such as 'truth' or 'generated'. Lines on which a row continues have it too, unless the row is
    /// alone in its group.
    pub label: String,
    /// The frames.
    pub frames: Sequence<'a>,
    /// Time index of the row's first frame, counted from 0. A continuation starts where its prompt ended.
    pub first_step: usize,
}

/// Rows that belong together, for instance those of one sequence. They are drawn close to each other.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// Rows from top to bottom.
    pub rows: Vec<Row<'a>>,
    /// Time indices, counted from 0, whose frames get a coloured border: those that can be recalled.
    pub marked: Vec<usize>,
    /// What is written above each column in place of its number; empty for numbers.
    pub names: Vec<String>,
}

/// A picture of several sequences.
#[derive(Debug, Clone)]
pub struct Sheet<'a> {
    /// Title above everything; may be empty.
    pub title: String,
    /// Groups from top to bottom.
    pub groups: Vec<Group<'a>>,
    /// Caption of the marked frames in the legend; may be empty.
    pub mark_caption: String,
    /// Screen pixels per pixel of a frame, at least 1; 2 or 3 for digits of 28 x 28.
    pub scale: usize,
    /// Frames per line; longer sequences continue on the next line. `None` puts each on one line.
    pub wrap: Option<usize>,
    /// Number written above the first frame; the papers count from 1.
    pub first_number: usize,
}

pub(super) const BACKGROUND: Colour = [255, 255, 255];
pub(super) const INK: Colour = [34, 34, 34];
pub(super) const FAINT: Colour = [110, 110, 110];
/// Vermilion of the Okabe-Ito palette.
pub(super) const MARK: Colour = [213, 94, 0];
pub(super) const MARGIN: usize = 16;
/// Gap between frames; the border of a marked frame is half as wide.
pub(super) const GAP: usize = 4;
const GROUP_GAP: usize = 14;
const TITLE_HEIGHT: usize = 30;
const NUMBERS_HEIGHT: usize = 18;
pub(super) const LABEL: Text = Text {
    size: 13.0,
    colour: INK,
    bold: false,
    align: Align::Right,
};
pub(super) const NUMBER: Text = Text {
    size: 11.0,
    colour: FAINT,
    bold: false,
    align: Align::Centre,
};
pub(super) const TITLE: Text = Text {
    size: 15.0,
    colour: INK,
    bold: true,
    align: Align::Left,
};

/// Draws a sheet.
///
/// # Errors
/// [`FigureError::Shape`] or [`FigureError::Channels`] for a row with an invalid shape;
/// [`FigureError::TooLarge`] if the picture needs `wrap` or a smaller `scale`.
pub fn sheet(sheet: &Sheet) -> Result<Image, FigureError> {
    for row in sheet.groups.iter().flat_map(|group| &group.rows) {
        row.frames.checked()?;
    }
    let layout = Layout::of(sheet);
    let mut image = Image::new(layout.width, layout.height, BACKGROUND)?;
    draw_title(&mut image, sheet, &layout)?;
    let mut top = MARGIN + layout.title_height;
    for (index, group) in sheet.groups.iter().enumerate() {
        if index > 0 {
            top += GROUP_GAP;
        }
        for band in layout.bands(group) {
            if layout.numbered(sheet, index) {
                draw_numbers(&mut image, sheet, &layout, group, band, top)?;
                top += NUMBERS_HEIGHT;
            }
            for row in group
                .rows
                .iter()
                .filter(|row| shows(row, layout.columns, band))
            {
                draw_row(&mut image, sheet, &layout, group, row, band, top)?;
                top += row.frames.height * sheet.scale.max(1) + GAP;
            }
        }
    }
    Ok(image)
}

struct Layout {
    width: usize,
    height: usize,
    title_height: usize,
    /// Left edge of the first column.
    left: usize,
    /// Distance from one column to the next.
    pitch: usize,
    /// Frames per line.
    columns: usize,
}

impl Layout {
    fn of(sheet: &Sheet) -> Self {
        let scale = sheet.scale.max(1);
        let rows = || sheet.groups.iter().flat_map(|group| &group.rows);
        let label = rows()
            .map(|row| text_width(&row.label, LABEL.size, false).ceil() as usize)
            .max()
            .unwrap_or(0);
        let tile = rows().map(|row| row.frames.width).max().unwrap_or(0);
        let longest = sheet.groups.iter().map(steps).max().unwrap_or(0);
        let columns = longest.min(sheet.wrap.unwrap_or(longest)).max(1);
        let untitled = sheet.title.is_empty() && sheet.mark_caption.is_empty();
        let mut layout = Self {
            width: 0,
            height: 0,
            title_height: if untitled { 0 } else { TITLE_HEIGHT },
            left: MARGIN + label + if label > 0 { 12 } else { 0 },
            pitch: tile.saturating_mul(scale).saturating_add(GAP),
            columns,
        };
        layout.width = layout
            .pitch
            .saturating_mul(columns)
            .saturating_add(layout.left + MARGIN)
            .max(title_width(sheet) + 2 * MARGIN);
        layout.height = 2 * MARGIN + layout.title_height;
        for (index, group) in sheet.groups.iter().enumerate() {
            let gap = if index > 0 { GROUP_GAP } else { 0 };
            layout.height = layout.height.saturating_add(gap);
            for band in layout.bands(group) {
                let numbers = if layout.numbered(sheet, index) {
                    NUMBERS_HEIGHT
                } else {
                    0
                };
                let rows = group.rows.iter().filter(|row| shows(row, columns, band));
                let height = rows.fold(numbers, |height, row| {
                    height
                        .saturating_add(row.frames.height.saturating_mul(scale).saturating_add(GAP))
                });
                layout.height = layout.height.saturating_add(height);
            }
        }
        layout
    }

    /// The lines that a group occupies.
    fn bands(&self, group: &Group) -> std::ops::Range<usize> {
        0..steps(group).div_ceil(self.columns)
    }

    /// Whether time indices are written above this group: at the top, and wherever the line or the marks change.
    fn numbered(&self, sheet: &Sheet, index: usize) -> bool {
        let Some(group) = sheet.groups.get(index) else {
            return false;
        };
        match index
            .checked_sub(1)
            .and_then(|above| sheet.groups.get(above))
        {
            None => true,
            Some(above) => {
                above.marked != group.marked
                    || above.names != group.names
                    || steps(group) > self.columns
                    || steps(above) != steps(group)
            }
        }
    }
}

fn steps(group: &Group) -> usize {
    let ends = group
        .rows
        .iter()
        .map(|row| row.first_step.saturating_add(row.frames.steps));
    ends.max().unwrap_or(0)
}

fn shows(row: &Row, columns: usize, band: usize) -> bool {
    let (start, end) = (band * columns, (band + 1) * columns);
    row.first_step < end && row.first_step.saturating_add(row.frames.steps) > start
}

const LEGEND_GAP: usize = 28;
const SWATCH: usize = 12;

fn title_width(sheet: &Sheet) -> usize {
    let title = text_width(&sheet.title, TITLE.size, true).ceil() as usize;
    let caption = text_width(&sheet.mark_caption, LABEL.size, false).ceil() as usize;
    title + LEGEND_GAP + SWATCH + 8 + caption
}

fn draw_title(image: &mut Image, sheet: &Sheet, layout: &Layout) -> Result<(), FigureError> {
    let middle = MARGIN as f64 + 8.0;
    let at = if sheet.title.is_empty() {
        layout.left
    } else {
        MARGIN
    };
    image.text(&sheet.title, (at as f64, middle), TITLE)?;
    if sheet.mark_caption.is_empty() {
        return Ok(());
    }
    let title = text_width(&sheet.title, TITLE.size, true).ceil() as usize;
    let left = at + if title > 0 { title + LEGEND_GAP } else { 0 };
    let top = MARGIN + 2;
    image.fill(left, top, SWATCH, SWATCH, MARK);
    image.fill(left + 2, top + 2, SWATCH - 4, SWATCH - 4, BACKGROUND);
    let style = Text {
        align: Align::Left,
        ..LABEL
    };
    image.text(
        &sheet.mark_caption,
        ((left + SWATCH + 7) as f64, middle),
        style,
    )
}

fn draw_numbers(
    image: &mut Image,
    sheet: &Sheet,
    layout: &Layout,
    group: &Group,
    band: usize,
    top: usize,
) -> Result<(), FigureError> {
    let last = steps(group).min((band + 1) * layout.columns);
    let number = |step: usize| sheet.first_number.saturating_add(step);
    let written = |step: usize| match group.names.get(step) {
        Some(name) => name.clone(),
        None => number(step).to_string(),
    };
    let shown = band * layout.columns..last;
    let widths = shown
        .clone()
        .chain([last])
        .map(|step| text_width(&written(step), NUMBER.size, true));
    let every = every_nth(widths.fold(0.0, f64::max) + 6.0, layout.pitch as f64);
    for (column, step) in shown.enumerate() {
        let place = match group.names.is_empty() {
            true => number(step),
            false => column,
        };
        if column > 0 && place % every != 0 {
            continue;
        }
        let style = if group.marked.contains(&step) {
            Text {
                colour: MARK,
                bold: true,
                ..NUMBER
            }
        } else {
            NUMBER
        };
        let middle =
            layout.left as f64 + (column * layout.pitch) as f64 + (layout.pitch - GAP) as f64 / 2.0;
        image.text(&written(step), (middle, top as f64 + 6.0), style)?;
    }
    Ok(())
}

/// The smallest of 1, 2, 5, 10, 20 ... for which labels of `width` fit if every n-th column has one.
pub(super) fn every_nth(width: f64, pitch: f64) -> usize {
    let mut decade = 1_usize;
    while decade < 1_000_000 {
        for multiple in [1, 2, 5] {
            let every = multiple * decade;
            if every as f64 * pitch >= width {
                return every;
            }
        }
        decade *= 10;
    }
    decade
}

fn draw_row(
    image: &mut Image,
    sheet: &Sheet,
    layout: &Layout,
    group: &Group,
    row: &Row,
    band: usize,
    top: usize,
) -> Result<(), FigureError> {
    let scale = sheet.scale.max(1);
    let (height, width) = (row.frames.height * scale, row.frames.width * scale);
    let middle = top as f64 + height as f64 / 2.0;
    // Of a row that continues alone it is clear whose line it is.
    if band * layout.columns <= row.first_step || group.rows.len() > 1 {
        image.text(&row.label, (layout.left as f64 - 12.0, middle), LABEL)?;
    }
    for (index, values) in row.frames.checked()?.into_iter().enumerate() {
        let step = row.first_step + index;
        if step / layout.columns != band {
            continue;
        }
        let left = layout.left + step % layout.columns * layout.pitch;
        if group.marked.contains(&step) {
            let border = GAP / 2;
            image.fill(left - border, top - border, width + GAP, height + GAP, MARK);
        }
        let tile = frame(
            values,
            row.frames.channels,
            row.frames.height,
            row.frames.width,
            scale,
        )?;
        image.blit(&tile, left, top);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(frames: &[f32], steps: usize) -> Sequence<'_> {
        Sequence {
            frames,
            steps,
            channels: 1,
            height: 2,
            width: 2,
        }
    }

    fn one_row<'a>(frames: Sequence<'a>, marked: &[usize]) -> Sheet<'a> {
        Sheet {
            title: String::new(),
            groups: vec![Group {
                rows: vec![Row {
                    label: String::new(),
                    frames,
                    first_step: 0,
                }],
                marked: marked.to_vec(),
                names: Vec::new(),
            }],
            mark_caption: String::new(),
            scale: 10,
            wrap: None,
            first_number: 1,
        }
    }

    #[test]
    fn wrong_shapes_are_errors() {
        let short = [0.0; 7];
        assert!(sheet(&one_row(sequence(&short, 2), &[])).is_err());
        let endless = Sequence {
            height: usize::MAX,
            ..sequence(&short, 2)
        };
        assert!(sheet(&one_row(endless, &[])).is_err());
    }

    #[test]
    fn frames_stand_in_their_columns_and_marks_around_them() {
        let frames = [[0.0_f32; 4], [0.5; 4], [0.75; 4]].concat();
        let picture = sheet(&one_row(sequence(&frames, 3), &[1])).unwrap();
        let top = MARGIN + NUMBERS_HEIGHT;
        let column = |index: usize| MARGIN + index * (20 + GAP);
        for (index, grey) in [0, 128, 191].into_iter().enumerate() {
            for (x, y) in [(0, 0), (19, 0), (0, 19), (19, 19)] {
                let pixel = picture.pixel(column(index) + x, top + y);
                assert_eq!(pixel, Some([grey; 3]), "corner of frame {index}");
            }
        }
        assert_eq!(picture.pixel(column(1) - 2, top + 5), Some(MARK));
        assert_eq!(picture.pixel(column(1) + 21, top + 21), Some(MARK));
        assert_eq!(picture.pixel(column(1) + 22, top + 5), Some(BACKGROUND));
        assert_eq!(picture.pixel(column(0) + 5, top - 1), Some(BACKGROUND));
        assert_eq!(picture.height(), top + 20 + GAP + MARGIN);
    }

    #[test]
    fn long_sequences_wrap() {
        let frames = vec![0.0; 4 * 5];
        let mut wrapped = one_row(sequence(&frames, 5), &[]);
        wrapped.wrap = Some(2);
        let picture = sheet(&wrapped).unwrap();
        let line = NUMBERS_HEIGHT + 20 + GAP;
        assert_eq!(picture.height(), 2 * MARGIN + 3 * line);
        let last = MARGIN + 2 * line + NUMBERS_HEIGHT;
        assert_eq!(picture.pixel(MARGIN + 5, last + 5), Some([0; 3]));
        assert_eq!(picture.pixel(MARGIN + 24 + 5, last + 5), Some(BACKGROUND));
    }

    /// A row alone has its label once, rows beside others have theirs on each line.
    #[test]
    fn lines_of_a_row_alone_have_one_label() {
        let frames = vec![0.0; 4 * 4];
        let labelled = |rows: usize| {
            let mut wrapped = one_row(sequence(&frames, 4), &[]);
            wrapped.wrap = Some(2);
            let group = &mut wrapped.groups[0];
            group.rows[0].label = "truth".to_owned();
            group.rows = vec![group.rows[0].clone(); rows];
            let picture = sheet(&wrapped).unwrap();
            let height = NUMBERS_HEIGHT + rows * (20 + GAP);
            [0, 1].map(|line| {
                let top = MARGIN + line * height + NUMBERS_HEIGHT;
                let inked = |y| (0..MARGIN + 20).any(|x| picture.pixel(x, y) != Some(BACKGROUND));
                (top..top + 20).any(inked)
            })
        };
        assert_eq!(labelled(1), [true, false]);
        assert_eq!(labelled(2), [true, true]);
    }

    /// Names stand where numbers would, and a name that does not fit into its column makes room for itself.
    #[test]
    fn columns_can_have_names() {
        let frames = vec![0.0; 4 * 4];
        let mut named = one_row(sequence(&frames, 4), &[]);
        let numbered = sheet(&named).unwrap();
        named.groups[0].names = ["1", "2", "3", "4"].map(str::to_owned).to_vec();
        assert_eq!(sheet(&named).unwrap(), numbered);
        named.groups[0].names[1] = "20".to_owned();
        let renamed = sheet(&named).unwrap();
        let differs = |column: usize| {
            let left = MARGIN + column * (20 + GAP);
            (left..left + 20)
                .any(|x| (MARGIN..MARGIN + 12).any(|y| renamed.pixel(x, y) != numbered.pixel(x, y)))
        };
        assert_eq!([0, 1, 2, 3].map(differs), [false, true, false, false]);
        named.groups[0].names[0] = "the first".to_owned();
        let sparse = sheet(&named).unwrap();
        let inked = |column: usize| {
            let left = MARGIN + column * (20 + GAP);
            (left + 6..left + 14)
                .any(|x| (MARGIN..MARGIN + 12).any(|y| sparse.pixel(x, y) != Some(BACKGROUND)))
        };
        assert!(inked(0) && !inked(3));
    }

    #[test]
    fn nothing_to_show_is_a_picture_all_the_same() {
        let mut empty = one_row(sequence(&[], 0), &[3]);
        sheet(&empty).unwrap().png_bytes().unwrap();
        empty.groups.clear();
        empty.title = "no sequences".to_owned();
        sheet(&empty).unwrap().png_bytes().unwrap();
    }
}

//! Images on a map, overlaid at every return: does a model show the same image at the same place again?
//!
//! After Gemici et al. 2017, figure 15. There the second image covers the first. Here each of the first three
//! visits to a cell has its own colour channel, so a difference shows whichever of the images deviates.

use std::collections::BTreeMap;

use super::sheet::{BACKGROUND, FAINT, INK, LABEL, MARGIN, NUMBER, TITLE};
use super::{Align, Colour, Image, Sequence, Text, frame, text_width};
use crate::FigureError;

/// The images that one source (the truth or a model) showed along the walk.
#[derive(Debug, Clone)]
pub struct MapRow<'a> {
    /// Label at the left, such as 'truth' or 'dnc'.
    pub label: String,
    /// `[time, height, width]`, in `[0, 1]`: one image for each step of the walk. Values outside are clamped. A
    /// cell that contains NaN is magenta all over, so that it stands out.
    pub frames: &'a [f32],
}

/// A walk over a grid, and the images shown on the way.
#[derive(Debug, Clone)]
pub struct MapOverlay<'a> {
    /// Title above the picture; may be empty.
    pub title: String,
    /// Number of rows, and of columns, of the grid.
    pub grid: usize,
    /// `[time]`: the cell of each step, `row * grid + column`.
    pub cells: &'a [u16],
    /// Rows from top to bottom, below the walk.
    pub rows: Vec<MapRow<'a>>,
    /// Height of an image, in pixels.
    pub height: usize,
    /// Width of an image, in pixels.
    pub width: usize,
    /// Screen pixels per pixel of an image, at least 1; 1 or 2 for digits of 28 x 28.
    pub scale: usize,
    /// One column for each. It shows this many first steps of the walk, from 1 to `time`.
    pub checkpoints: Vec<usize>,
}

/// Number of visits to a cell that are shown, one for each colour channel.
const VISITS: usize = 3;
/// Number of moves drawn as arrows, as in the paper; the legend states it.
const RECENT_MOVES: usize = 5;

const LINE: Colour = [112; 3];
const UNVISITED: Colour = [56; 3];
/// Colours of the walk's cells after 0, 1, 2 and more visits: pale versions of the colours that equal images get
/// on a map.
const TINTS: [Colour; 4] = [[208; 3], [255, 183, 176], [255, 232, 120], [255; 3]];
/// Blue of the Okabe-Ito palette.
const WALKER: Colour = [0, 114, 178];

/// Distance of an arrow from the line between two cells, in cells.
const ASIDE: f64 = 0.17;

const TITLE_HEIGHT: usize = 30;
const HEADER_HEIGHT: usize = 20;
const COLUMN_GAP: usize = 14;
const ROW_GAP: usize = 10;
/// Distance from the last row to the legend.
const LEGEND_GAP: usize = 8;
const ICON: usize = 22;
const ICON_GAP: usize = 7;
const ITEM_GAP: usize = 22;
const LEGEND_LINE: usize = 28;
const WALK_LABEL: &str = "walk";

/// Draws the walk and, below it, the map of each row, as they are after each checkpoint.
///
/// A cell of a map shows the image of its first visit in red, of its second in green and of its third in blue.
/// Equal images add up to yellow and then to white. Later visits are left out.
///
/// # Errors
/// [`FigureError::Shape`] for a row without one image per step; [`FigureError::Draw`] for a cell outside the
/// grid or a checkpoint outside the walk; [`FigureError::TooLarge`].
pub fn map_overlay(map: &MapOverlay) -> Result<Image, FigureError> {
    let rows = checked(map)?;
    let legend = [walk_legend()?, map_legend()?];
    let layout = Layout::of(map, &legend);
    let mut image = Image::new(layout.width, layout.height, BACKGROUND)?;
    image.text(&map.title, (MARGIN as f64, MARGIN as f64 + 8.0), TITLE)?;
    let labels = map.rows.iter().map(|row| row.label.as_str());
    for (row, label) in std::iter::once(WALK_LABEL).chain(labels).enumerate() {
        let middle = layout.top(row) as f64 + layout.map_height as f64 / 2.0;
        image.text(label, (layout.left as f64 - 12.0, middle), LABEL)?;
    }
    for (column, &checkpoint) in map.checkpoints.iter().enumerate() {
        let left = layout.column(column);
        let above = (left + layout.map_width / 2, layout.top(0) - 10);
        let centre = (above.0 as f64, above.1 as f64);
        image.text(&header(checkpoint), centre, NUMBER)?;
        let cells = &map.cells[..checkpoint];
        let visits = visits(cells);
        draw_walk(&mut image, &layout, cells, &visits, (left, layout.top(0)));
        for (row, frames) in rows.iter().enumerate() {
            let corner = (left, layout.top(row + 1));
            draw_map(&mut image, map, &layout, frames, &visits, corner)?;
        }
    }
    draw_legend(&mut image, &layout, &legend)?;
    Ok(image)
}

/// The images of every row, each `[height, width]`.
fn checked<'a>(map: &MapOverlay<'a>) -> Result<Vec<Vec<&'a [f32]>>, FigureError> {
    let (grid, time) = (map.grid, map.cells.len());
    let count = grid.saturating_mul(grid);
    for (step, &cell) in map.cells.iter().enumerate() {
        if usize::from(cell) >= count {
            return Err(FigureError::draw(format_args!(
                "step {} of the walk is in cell {cell}, but a grid of {grid} x {grid} ends before cell {count}",
                step + 1
            )));
        }
    }
    for &checkpoint in &map.checkpoints {
        if !(1..=time).contains(&checkpoint) {
            return Err(FigureError::draw(format_args!(
                "the walk has {time} steps, so there is no map after step {checkpoint}"
            )));
        }
    }
    let rows = map.rows.iter().map(|row| {
        let sequence = Sequence {
            frames: row.frames,
            steps: time,
            channels: 1,
            height: map.height,
            width: map.width,
        };
        sequence.checked()
    });
    rows.collect()
}

/// The steps at which each cell was visited.
fn visits(cells: &[u16]) -> BTreeMap<usize, Vec<usize>> {
    let mut visits = BTreeMap::<usize, Vec<usize>>::new();
    for (step, &cell) in cells.iter().enumerate() {
        visits.entry(usize::from(cell)).or_default().push(step);
    }
    visits
}

fn header(checkpoint: usize) -> String {
    match checkpoint {
        1 => "after 1 step".to_owned(),
        _ => format!("after {checkpoint} steps"),
    }
}

struct Layout {
    width: usize,
    height: usize,
    title_height: usize,
    /// Left edge of the first column.
    left: usize,
    /// Distance from one column to the next.
    pitch: usize,
    grid: usize,
    cell_width: usize,
    cell_height: usize,
    map_width: usize,
    map_height: usize,
    legend_top: usize,
}

impl Layout {
    fn of(map: &MapOverlay, legend: &[Vec<Item>]) -> Self {
        let scale = map.scale.max(1);
        let (cell_width, cell_height) = (
            map.width.saturating_mul(scale),
            map.height.saturating_mul(scale),
        );
        let side = |cell: usize| {
            cell.saturating_add(1)
                .saturating_mul(map.grid)
                .saturating_add(1)
        };
        let (map_width, map_height) = (side(cell_width), side(cell_height));
        let labels = map.rows.iter().map(|row| row.label.as_str());
        let label = std::iter::once(WALK_LABEL)
            .chain(labels)
            .map(|label| text_width(label, LABEL.size, false).ceil() as usize)
            .max()
            .unwrap_or(0);
        let headers = map
            .checkpoints
            .iter()
            .map(|&checkpoint| text_width(&header(checkpoint), NUMBER.size, false).ceil() as usize);
        let widest = headers.max().unwrap_or(0);
        let mut layout = Self {
            width: 0,
            height: 0,
            title_height: if map.title.is_empty() {
                0
            } else {
                TITLE_HEIGHT
            },
            left: MARGIN + label + 12,
            pitch: map_width.max(widest).saturating_add(COLUMN_GAP),
            grid: map.grid,
            cell_width,
            cell_height,
            map_width,
            map_height,
            legend_top: 0,
        };
        let columns = layout.pitch.saturating_mul(map.checkpoints.len());
        let title = text_width(&map.title, TITLE.size, true).ceil() as usize;
        let items = legend.iter().flatten().map(Item::width);
        layout.width = columns
            .saturating_sub(COLUMN_GAP)
            .max(items.max().unwrap_or(0))
            .saturating_add(layout.left)
            .max(MARGIN + title)
            .saturating_add(MARGIN);
        layout.legend_top = layout.top(map.rows.len() + 1).saturating_add(LEGEND_GAP);
        let lines = legend.iter().map(|items| layout.lines(items).len());
        layout.height = lines
            .fold(layout.legend_top, |height, lines| {
                height.saturating_add(lines * LEGEND_LINE)
            })
            .saturating_add(MARGIN);
        layout
    }

    /// Left edge of a column.
    fn column(&self, column: usize) -> usize {
        let indent = (self.pitch - COLUMN_GAP - self.map_width) / 2;
        self.left + column * self.pitch + indent
    }

    /// Top edge of a row; the walk is row 0.
    fn top(&self, row: usize) -> usize {
        self.map_height
            .saturating_add(ROW_GAP)
            .saturating_mul(row)
            .saturating_add(MARGIN + self.title_height + HEADER_HEIGHT)
    }

    /// Top left corner of a cell, relative to its map.
    fn corner(&self, cell: usize) -> (usize, usize) {
        let (row, column) = (cell / self.grid, cell % self.grid);
        (
            1 + column * (self.cell_width + 1),
            1 + row * (self.cell_height + 1),
        )
    }

    /// The items of one part of the legend, with as many per line as fit.
    fn lines<'a>(&self, items: &'a [Item]) -> Vec<Vec<&'a Item>> {
        let room = self.width.saturating_sub(self.left + MARGIN);
        let mut lines: Vec<Vec<&Item>> = Vec::new();
        let mut used = 0;
        for item in items {
            let wider = used + ITEM_GAP + item.width();
            match lines.last_mut() {
                Some(line) if wider <= room => {
                    line.push(item);
                    used = wider;
                }
                _ => {
                    lines.push(vec![item]);
                    used = item.width();
                }
            }
        }
        lines
    }
}

fn draw_map(
    image: &mut Image,
    map: &MapOverlay,
    layout: &Layout,
    frames: &[&[f32]],
    visits: &BTreeMap<usize, Vec<usize>>,
    (left, top): (usize, usize),
) -> Result<(), FigureError> {
    draw_grid(image, layout, |_| UNVISITED, (left, top));
    for (&cell, steps) in visits {
        let shown: Vec<&[f32]> = steps
            .iter()
            .filter_map(|&step| frames.get(step).copied())
            .collect();
        let tile = overlay(&shown, map.height, map.width, map.scale)?;
        let (x, y) = layout.corner(cell);
        image.blit(&tile, left + x, top + y);
    }
    Ok(())
}

/// The first three images shown in a cell, as red, green and blue.
///
/// - `shown`: `[visits]` of `[height, width]`
fn overlay(
    shown: &[&[f32]],
    height: usize,
    width: usize,
    scale: usize,
) -> Result<Image, FigureError> {
    let plane = height * width;
    let mut values = vec![0.0; VISITS * plane];
    for (channel, image) in values.chunks_exact_mut(plane.max(1)).zip(shown) {
        channel.copy_from_slice(image);
    }
    if values.iter().any(|value| value.is_nan()) {
        // A single magenta pixel could also be red and blue.
        values.fill(f32::NAN);
    }
    frame(&values, VISITS, height, width, scale)
}

fn draw_walk(
    image: &mut Image,
    layout: &Layout,
    cells: &[u16],
    visits: &BTreeMap<usize, Vec<usize>>,
    (left, top): (usize, usize),
) {
    let tint = |cell| TINTS[visits.get(&cell).map_or(0, Vec::len).min(VISITS)];
    draw_grid(image, layout, tint, (left, top));
    let unit = layout.cell_width.min(layout.cell_height) as f64;
    let places: Vec<Point> = cells
        .iter()
        .map(|&cell| {
            let (x, y) = layout.corner(usize::from(cell));
            Point {
                x: (left + x) as f64 + layout.cell_width as f64 / 2.0,
                y: (top + y) as f64 + layout.cell_height as f64 / 2.0,
            }
        })
        .collect();
    let moves: Vec<(Point, Point)> = places.windows(2).map(|pair| (pair[0], pair[1])).collect();
    stroke(image, &moves, unit * 0.045, FAINT);
    if let Some(&start) = places.first() {
        draw_start(image, start, unit);
    }
    for &(from, to) in moves.iter().rev().take(RECENT_MOVES).rev() {
        draw_arrow(image, from, to, unit);
    }
    if let Some(&now) = places.last() {
        draw_walker(image, now, unit);
    }
}

/// A grid of cells with thin lines around them.
fn draw_grid(
    image: &mut Image,
    layout: &Layout,
    colour: impl Fn(usize) -> Colour,
    (left, top): (usize, usize),
) {
    image.fill(left, top, layout.map_width, layout.map_height, LINE);
    for cell in 0..layout.grid * layout.grid {
        let (x, y) = layout.corner(cell);
        let (width, height) = (layout.cell_width, layout.cell_height);
        image.fill(left + x, top + y, width, height, colour(cell));
    }
}

/// A ring, wide enough for the walker to be drawn inside it.
fn draw_start(image: &mut Image, at: Point, unit: f64) {
    stroke(image, &[(at, at)], unit * 0.56, INK);
    stroke(image, &[(at, at)], unit * 0.42, BACKGROUND);
}

fn draw_walker(image: &mut Image, at: Point, unit: f64) {
    stroke(image, &[(at, at)], unit * 0.34, WALKER);
}

/// An arrow from one cell to another, to the right of the line between them, so that the way back does not cover
/// it.
fn draw_arrow(image: &mut Image, from: Point, to: Point, unit: f64) {
    let length = (to.x - from.x).hypot(to.y - from.y);
    if length == 0.0 {
        return;
    }
    let ahead = ((to.x - from.x) / length, (to.y - from.y) / length);
    let point = |origin: Point, along: f64, aside: f64| Point {
        x: origin.x + unit * (along * ahead.0 - aside * ahead.1),
        y: origin.y + unit * (along * ahead.1 + aside * ahead.0),
    };
    let (tail, tip) = (point(from, 0.22, ASIDE), point(to, -0.22, ASIDE));
    let (left, right) = (point(to, -0.42, 0.0), point(to, -0.42, 2.0 * ASIDE));
    let lines = [(tail, tip), (left, tip), (right, tip)];
    stroke(image, &lines, unit * 0.1, WALKER);
}

#[derive(Debug, Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

/// Draws straight lines with round ends, at least a pixel wide and with smooth edges. A line of length zero is a
/// disc.
fn stroke(image: &mut Image, lines: &[(Point, Point)], width: f64, colour: Colour) {
    let half = width.max(1.0) / 2.0;
    for &(from, to) in lines {
        let columns = pixels(from.x.min(to.x) - half, from.x.max(to.x) + half);
        for y in pixels(from.y.min(to.y) - half, from.y.max(to.y) + half) {
            for x in columns.clone() {
                let centre = Point {
                    x: x as f64 + 0.5,
                    y: y as f64 + 0.5,
                };
                let inside = half - distance(centre, from, to) + 0.5;
                image.blend(x, y, colour, inside.clamp(0.0, 1.0) as f32);
            }
        }
    }
}

/// The pixels that lie, at least partly, between two positions.
fn pixels(low: f64, high: f64) -> std::ops::Range<usize> {
    low.floor().max(0.0) as usize..high.ceil().max(0.0) as usize
}

/// Distance from a point to the nearest point of the segment between two others.
fn distance(point: Point, from: Point, to: Point) -> f64 {
    let (x, y) = (to.x - from.x, to.y - from.y);
    let squared = x * x + y * y;
    let along = if squared > 0.0 {
        (((point.x - from.x) * x + (point.y - from.y) * y) / squared).clamp(0.0, 1.0)
    } else {
        0.0
    };
    (point.x - from.x - along * x).hypot(point.y - from.y - along * y)
}

/// A symbol and its meaning.
struct Item {
    icon: Image,
    meaning: &'static str,
}

impl Item {
    fn width(&self) -> usize {
        let meaning = text_width(self.meaning, LABEL.size, false).ceil() as usize;
        self.icon.width() + ICON_GAP + meaning
    }
}

fn walk_legend() -> Result<Vec<Item>, FigureError> {
    let unit = 30.0;
    let middle = ICON as f64 / 2.0;
    let centre = Point {
        x: middle,
        y: middle,
    };
    let mut start = Image::new(ICON, ICON, BACKGROUND)?;
    draw_start(&mut start, centre, unit);
    let mut walker = Image::new(ICON, ICON, BACKGROUND)?;
    draw_walker(&mut walker, centre, unit);
    let mut arrow = Image::new(2 * ICON, ICON, BACKGROUND)?;
    let beside = |x: usize| Point {
        x: x as f64,
        y: middle - unit * ASIDE,
    };
    draw_arrow(&mut arrow, beside(0), beside(2 * ICON), unit);
    let signs = [
        (start, "start"),
        (walker, "now"),
        (arrow, "the last five moves"),
        (swatch(TINTS[1])?, "cell visited once"),
        (swatch(TINTS[2])?, "twice"),
        (swatch(TINTS[3])?, "three times or more"),
    ];
    Ok(signs.map(|(icon, meaning)| Item { icon, meaning }).into())
}

fn map_legend() -> Result<Vec<Item>, FigureError> {
    let signs = [
        (example(&["3"])?, "first visit: red"),
        (example(&["3", "3"])?, "second visit, same image: yellow"),
        (
            example(&["3", "3", "3"])?,
            "third visit, same image: white (later visits are left out)",
        ),
        (
            example(&["3", "7"])?,
            "different images: red, green and blue do not coincide",
        ),
        (swatch(UNVISITED)?, "not visited yet"),
    ];
    Ok(signs.map(|(icon, meaning)| Item { icon, meaning }).into())
}

fn swatch(colour: Colour) -> Result<Image, FigureError> {
    let mut icon = Image::new(ICON, ICON, LINE)?;
    icon.fill(1, 1, ICON - 2, ICON - 2, colour);
    Ok(icon)
}

/// A cell whose visits showed these characters.
fn example(shown: &[&str]) -> Result<Image, FigureError> {
    let style = Text {
        size: 21.0,
        colour: [255; 3],
        bold: true,
        align: Align::Centre,
    };
    let mut images = Vec::with_capacity(shown.len());
    for text in shown {
        let mut image = Image::new(ICON, ICON, [0; 3])?;
        let middle = ICON as f64 / 2.0;
        image.text(text, (middle, middle), style)?;
        let greys = image.pixels().chunks_exact(3);
        let values: Vec<f32> = greys.map(|grey| f32::from(grey[0]) / 255.0).collect();
        images.push(values);
    }
    let shown: Vec<&[f32]> = images.iter().map(Vec::as_slice).collect();
    overlay(&shown, ICON, ICON, 1)
}

fn draw_legend(
    image: &mut Image,
    layout: &Layout,
    legend: &[Vec<Item>],
) -> Result<(), FigureError> {
    let style = Text {
        align: Align::Left,
        ..LABEL
    };
    let mut top = layout.legend_top;
    for line in legend.iter().flat_map(|items| layout.lines(items)) {
        let mut left = layout.left;
        for item in line {
            image.blit(&item.icon, left, top);
            let x = (left + item.icon.width() + ICON_GAP) as f64;
            image.text(item.meaning, (x, (top + ICON / 2) as f64), style)?;
            left += item.width() + ITEM_GAP;
        }
        top += LEGEND_LINE;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Magnification of a cell in tests: 2 x 2 values.
    const SCALE: usize = 20;
    const FULL: [f32; 4] = [1.0; 4];
    const LEFT: [f32; 4] = [1.0, 0.0, 1.0, 0.0];
    const RIGHT: [f32; 4] = [0.0, 1.0, 0.0, 1.0];

    fn walk<'a>(cells: &'a [u16], frames: &'a [f32], checkpoints: &[usize]) -> MapOverlay<'a> {
        MapOverlay {
            title: "a walk".to_owned(),
            grid: 2,
            cells,
            rows: vec![MapRow {
                label: "truth".to_owned(),
                frames,
            }],
            height: 2,
            width: 2,
            scale: SCALE,
            checkpoints: checkpoints.to_vec(),
        }
    }

    fn layout(map: &MapOverlay) -> Layout {
        Layout::of(map, &[walk_legend().unwrap(), map_legend().unwrap()])
    }

    /// The colours near the top left and the top right corner of a cell; `row` 0 is the walk.
    fn colours(map: &MapOverlay, column: usize, row: usize, cell: usize) -> [Colour; 2] {
        let (layout, picture) = (layout(map), map_overlay(map).unwrap());
        let (x, y) = layout.corner(cell);
        let (left, top) = (layout.column(column) + x, layout.top(row) + y);
        [left + 1, left + 2 * SCALE - 2].map(|x| picture.pixel(x, top + 1).unwrap())
    }

    #[test]
    fn equal_images_add_up_to_white() {
        let frames = [FULL, LEFT, FULL, LEFT, FULL, LEFT, RIGHT].concat();
        let map = walk(&[0, 1, 0, 1, 0, 1, 0], &frames, &[1, 3, 5, 7]);
        for (column, colour) in [[255, 0, 0], [255, 255, 0], [255; 3], [255; 3]]
            .into_iter()
            .enumerate()
        {
            assert_eq!(colours(&map, column, 1, 0), [colour; 2], "cell 0, {column}");
            assert_eq!(colours(&map, column, 1, 2), [UNVISITED; 2]);
        }
        assert_eq!(colours(&map, 0, 1, 1), [UNVISITED; 2]);
        assert_eq!(colours(&map, 1, 1, 1), [[255, 0, 0], [0; 3]]);
        assert_eq!(colours(&map, 2, 1, 1), [[255, 255, 0], [0; 3]]);
        assert_eq!(colours(&map, 3, 1, 1), [[255; 3], [0; 3]]);
    }

    #[test]
    fn different_images_keep_their_colours() {
        let frames = [LEFT, LEFT, RIGHT, RIGHT, RIGHT, LEFT].concat();
        let map = walk(&[0, 3, 0, 3, 0, 3], &frames, &[4, 6]);
        assert_eq!(colours(&map, 0, 1, 0), [[255, 0, 0], [0, 255, 0]]);
        assert_eq!(colours(&map, 1, 1, 0), [[255, 0, 0], [0, 255, 255]]);
        assert_eq!(colours(&map, 1, 1, 3), [[255, 0, 255], [0, 255, 0]]);
    }

    #[test]
    fn values_are_clamped_and_those_that_are_no_numbers_seen() {
        let frames = [[0.5, -3.0, 0.0, 0.0], [7.0, 0.0, f32::NAN, 0.0]].concat();
        let map = walk(&[0, 1], &frames, &[2]);
        assert_eq!(colours(&map, 0, 1, 0), [[128, 0, 0], [0; 3]]);
        assert_eq!(colours(&map, 0, 1, 1), [[255, 0, 255]; 2]);
    }

    #[test]
    fn the_walk_counts_visits_and_shows_start_and_end() {
        let map = MapOverlay {
            rows: vec![],
            ..walk(&[0, 1, 0, 1, 3, 1], &[], &[1, 6])
        };
        assert_eq!(colours(&map, 0, 0, 0), [TINTS[1]; 2]);
        for (cell, tint) in [TINTS[2], TINTS[3], TINTS[0], TINTS[1]]
            .into_iter()
            .enumerate()
        {
            assert_eq!(colours(&map, 1, 0, cell)[0], tint, "cell {cell}");
        }
        let (layout, picture) = (layout(&map), map_overlay(&map).unwrap());
        let centre = |column: usize, cell: usize| {
            let (x, y) = layout.corner(cell);
            let (x, y) = (layout.column(column) + x, layout.top(0) + y);
            picture.pixel(x + SCALE, y + SCALE).unwrap()
        };
        assert_eq!(centre(0, 0), WALKER, "the walker stands on the start");
        assert_eq!(centre(1, 0), BACKGROUND, "the start is a ring");
        assert_eq!(centre(1, 1), WALKER);
    }

    #[test]
    fn the_way_back_has_its_own_arrow() {
        let arrows = |cells: &[u16]| {
            let map = MapOverlay {
                rows: vec![],
                ..walk(cells, &[], &[cells.len()])
            };
            let (layout, picture) = (layout(&map), map_overlay(&map).unwrap());
            let edge = layout.column(0) + 1 + 2 * SCALE;
            let middle = layout.top(0) + 1 + SCALE;
            let aside = (ASIDE * (2 * SCALE) as f64).round() as usize;
            [middle - aside, middle + aside].map(|y| picture.pixel(edge, y) == Some(WALKER))
        };
        assert_eq!(arrows(&[0, 1]), [false, true]);
        assert_eq!(arrows(&[1, 0]), [true, false]);
        assert_eq!(arrows(&[0, 1, 0]), [true, true]);
        assert_eq!(arrows(&[0, 0]), [false, false]);
        let later = [0, 1, 3, 1, 3, 1, 3];
        assert_eq!(arrows(&later), [false, false], "an older move has no arrow");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let frames = [LEFT, RIGHT].concat();
        let message = |map: &MapOverlay| map_overlay(map).unwrap_err().to_string();
        let short = message(&walk(&[0, 1], &frames[1..], &[1]));
        assert!(
            short.contains("[2, 1, 2, 2] holds 8 values") && short.contains("7 were given"),
            "{short}"
        );
        let outside = message(&walk(&[0, 4], &frames, &[1]));
        assert!(
            outside.contains("step 2 of the walk is in cell 4") && outside.contains("2 x 2"),
            "{outside}"
        );
        for checkpoint in [0, 3, usize::MAX] {
            let beyond = message(&walk(&[0, 1], &frames, &[1, checkpoint]));
            let expected = format!("has 2 steps, so there is no map after step {checkpoint}");
            assert!(beyond.contains(&expected), "{beyond}");
        }
        let mut huge = walk(&[0, 1], &frames, &[1, 2]);
        huge.scale = usize::MAX;
        assert!(matches!(
            map_overlay(&huge),
            Err(FigureError::TooLarge { .. })
        ));
        huge.height = usize::MAX;
        assert!(matches!(map_overlay(&huge), Err(FigureError::Shape { .. })));
        huge.grid = usize::MAX;
        huge.rows.clear();
        assert!(matches!(
            map_overlay(&huge),
            Err(FigureError::TooLarge { .. })
        ));
    }

    #[test]
    fn nothing_to_show_is_a_picture_all_the_same() {
        let mut map = walk(&[], &[], &[]);
        map_overlay(&map).unwrap().png_bytes().unwrap();
        map.grid = 0;
        map_overlay(&map).unwrap().png_bytes().unwrap();
        let pixels = MapOverlay {
            scale: 0,
            ..walk(&[0, 1], &[1.0; 8], &[2])
        };
        map_overlay(&pixels).unwrap();
        let bare = MapOverlay {
            height: 0,
            width: 0,
            ..walk(&[0, 1], &[], &[2])
        };
        map_overlay(&bare).unwrap();
    }

    #[test]
    fn the_legend_stays_inside() {
        let frames = [LEFT; 9].concat();
        for columns in [0, 1, 9] {
            let checkpoints: Vec<usize> = (1..=columns).collect();
            let map = walk(&[0; 9], &frames, &checkpoints);
            let layout = layout(&map);
            let picture = map_overlay(&map).unwrap();
            let right = picture.width() - MARGIN;
            let bottom = picture.height() - MARGIN;
            let inked = |x: usize, y: usize| picture.pixel(x, y) != Some(BACKGROUND);
            assert!((0..picture.height()).all(|y| (right..picture.width()).all(|x| !inked(x, y))));
            assert!((bottom..picture.height()).all(|y| (0..right).all(|x| !inked(x, y))));
            assert!((layout.left..right).any(|x| inked(x, bottom - LEGEND_LINE + ICON / 2)));
        }
    }
}

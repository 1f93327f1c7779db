//! Lays out and draws charts on any surface.

use super::axis::{Axis, Tick};
use super::colour::{FAINT, FRAME, GRID, INK, PALETTE, SHADE, colour};
use super::path::{clipped, dashes, thinned};
use super::surface::{Label, Point, Surface};
use super::{Chart, Layout, Series};
use crate::FigureError;
use crate::picture::{Align, Colour, text_width};

const SHADE_OPACITY: f32 = 0.16;
const BAND_OPACITY: f32 = 0.18;
const TITLE_SIZE: f64 = 15.0;
const TEXT_SIZE: f64 = 12.5;
const TICK_SIZE: f64 = 12.0;
const LINE_WIDTH: f64 = 1.8;
const PADDING: f64 = 12.0;
const LEGEND_ROW: f64 = 19.0;
const SWATCH: f64 = 22.0;
/// Fonts installed for a browser may be wider than the embedded one that is measured.
const WIDER: f64 = 1.08;
/// A series with at most this many points shows them as dots.
const DOTTED_POINTS: usize = 40;

/// Draws charts in rows of `layout.columns`.
pub(super) fn figure(
    surface: &mut impl Surface,
    charts: &[Chart],
    layout: &Layout,
) -> Result<(), FigureError> {
    let columns = layout.columns.clamp(1, charts.len().max(1));
    let (width, height) = (f64::from(layout.width), f64::from(layout.height));
    for (index, chart) in charts.iter().enumerate() {
        let left = (index % columns) as f64 * width;
        let top = (index / columns) as f64 * height;
        draw_chart(
            surface,
            chart,
            Area::new(left, top, left + width, top + height),
        )?;
    }
    Ok(())
}

/// A rectangle, in CSS pixels.
#[derive(Debug, Clone, Copy)]
struct Area {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Area {
    fn new(left: f64, top: f64, right: f64, bottom: f64) -> Self {
        Self {
            left,
            top,
            right,
            bottom,
        }
    }

    fn outline(&self) -> [Point; 4] {
        let Self {
            left,
            top,
            right,
            bottom,
        } = *self;
        [(left, top), (right, top), (right, bottom), (left, bottom)]
    }
}

fn width_of(text: &str, size: f64) -> f64 {
    text_width(text, size, false) * WIDER
}

fn draw_chart(surface: &mut impl Surface, chart: &Chart, area: Area) -> Result<(), FigureError> {
    let mut plot = Area::new(
        area.left + PADDING,
        area.top + PADDING,
        area.right - PADDING - 16.0,
        area.bottom - PADDING,
    );
    if !chart.title.is_empty() {
        let at = (plot.left, plot.top + 8.0);
        label(
            surface,
            &chart.title,
            at,
            Align::Left,
            (TITLE_SIZE, INK, true),
        )?;
        plot.top += 26.0;
    }
    plot.top += draw_legend(surface, chart, plot)?;
    plot.bottom -= 20.0 + if chart.x_label.is_empty() { 0.0 } else { 20.0 };
    if !chart.y_label.is_empty() {
        plot.left += 20.0;
    }

    let (x_axis, y_axis) = axes(chart);
    let y_ticks = y_axis.ticks(((plot.bottom - plot.top) / 30.0).floor(), false);
    let widest = |ticks: &[Tick]| {
        let widths = ticks.iter().map(|tick| width_of(&tick.label, TICK_SIZE));
        widths.fold(0.0, f64::max)
    };
    plot.left += widest(&y_ticks) + 8.0;
    if plot.right - plot.left < 20.0 || plot.bottom - plot.top < 20.0 {
        // There is no room for a chart this small, so only its title is drawn.
        return Ok(());
    }
    let whole = chart
        .series
        .iter()
        .flat_map(|series| &series.points)
        .all(|(x, _)| x.fract() == 0.0);
    let width = plot.right - plot.left;
    let crowded = x_axis.ticks(width / 60.0, whole);
    let x_ticks = x_axis.ticks(width / (widest(&crowded) + 26.0).max(40.0), whole);

    let panel = Panel {
        plot,
        x_axis,
        y_axis,
    };
    panel.draw_shaded(surface, chart);
    panel.draw_grid(surface, chart, &x_ticks, &y_ticks)?;
    for (place, series) in chart.series.iter().enumerate() {
        panel.draw_band(surface, series, colour(place));
    }
    let mut drawn = 0;
    for (place, series) in chart.series.iter().enumerate() {
        drawn += panel.draw_series(surface, series, place);
    }
    if drawn == 0 {
        let middle = (
            (plot.left + plot.right) / 2.0,
            (plot.top + plot.bottom) / 2.0,
        );
        label(
            surface,
            "no values",
            middle,
            Align::Centre,
            (TEXT_SIZE, FAINT, false),
        )?;
    }
    Ok(())
}

fn axes(chart: &Chart) -> (Axis, Axis) {
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let shaded = chart
        .shaded
        .iter()
        .flat_map(|shaded| [shaded.from, shaded.to]);
    // A point that cannot be shown on one axis does not affect the range of the other.
    let shown = |value: f64, log: bool| value.is_finite() && (!log || value > 0.0);
    let both =
        move |point: &&(f64, f64)| shown(point.0, chart.x_log) && shown(point.1, chart.y_log);
    let x = points().filter(both).map(|(x, _)| *x).chain(shaded);
    let bands = chart
        .series
        .iter()
        .flat_map(|series| series.band.iter().flatten());
    let y = points()
        .filter(both)
        .map(|(_, y)| *y)
        .chain(bands.flat_map(|(low, high)| [*low, *high]));
    let few = chart
        .series
        .iter()
        .all(|series| series.points.len() <= DOTTED_POINTS);
    let x_axis = Axis::fitting(x, chart.x_log, if few { 0.02 } else { 0.0 });
    let y_axis = chart
        .y_range
        .and_then(|(low, high)| Axis::between(low, high, chart.y_log))
        .unwrap_or_else(|| Axis::fitting(y, chart.y_log, 0.05));
    (x_axis, y_axis)
}

/// Draws the legend in as many rows as it needs, between title and plot, where no line can run through it.
/// Returns its height.
fn draw_legend(surface: &mut impl Surface, chart: &Chart, area: Area) -> Result<f64, FigureError> {
    let lines = chart.series.iter().enumerate();
    let lines = lines.map(|(place, series)| (series.label.as_str(), Some(place)));
    let shaded = chart
        .shaded
        .iter()
        .map(|shaded| (shaded.caption.as_str(), None));
    let (mut x, mut y) = (area.left, area.top + 6.0);
    let mut rows = 0.0;
    for (text, place) in lines.chain(shaded).filter(|(text, _)| !text.is_empty()) {
        let width = SWATCH + 7.0 + width_of(text, TEXT_SIZE);
        if rows == 0.0 {
            rows = 1.0;
        } else if x + width > area.right {
            (x, y) = (area.left, y + LEGEND_ROW);
            rows += 1.0;
        }
        match place {
            Some(place) => {
                stroke(surface, &[(x, y), (x + SWATCH, y)], place, LINE_WIDTH + 0.7);
            }
            None => {
                let swatch = Area::new(x + 2.0, y - 6.0, x + SWATCH, y + 6.0);
                surface.area(&swatch.outline(), SHADE, SHADE_OPACITY * 2.0);
            }
        }
        let style = (TEXT_SIZE, INK, false);
        label(surface, text, (x + SWATCH + 7.0, y), Align::Left, style)?;
        x += width + 20.0;
    }
    Ok(rows * LEGEND_ROW + if rows > 0.0 { 4.0 } else { 0.0 })
}

/// The plot area and its coordinate system.
struct Panel {
    plot: Area,
    x_axis: Axis,
    y_axis: Axis,
}

impl Panel {
    fn x(&self, place: f64) -> f64 {
        self.plot.left + place * (self.plot.right - self.plot.left)
    }

    fn y(&self, place: f64) -> f64 {
        self.plot.bottom - place * (self.plot.bottom - self.plot.top)
    }

    fn point(&self, (x, y): (f64, f64)) -> Option<Point> {
        Some((self.x(self.x_axis.place(x)?), self.y(self.y_axis.place(y)?)))
    }

    fn draw_shaded(&self, surface: &mut impl Surface, chart: &Chart) {
        let Some(shaded) = &chart.shaded else { return };
        let ends = (self.x_axis.place(shaded.from), self.x_axis.place(shaded.to));
        let (Some(from), Some(to)) = ends else { return };
        let (from, to) = (self.x(from.clamp(0.0, 1.0)), self.x(to.clamp(0.0, 1.0)));
        let area = Area::new(from, self.plot.top, to, self.plot.bottom);
        surface.area(&area.outline(), SHADE, SHADE_OPACITY);
    }

    fn draw_grid(
        &self,
        surface: &mut impl Surface,
        chart: &Chart,
        x_ticks: &[Tick],
        y_ticks: &[Tick],
    ) -> Result<(), FigureError> {
        let Area {
            left,
            top,
            right,
            bottom,
        } = self.plot;
        let style = (TICK_SIZE, FAINT, false);
        for tick in y_ticks {
            let y = self.y(tick.place);
            surface.line(&[(left, y), (right, y)], 1.0, GRID);
            label(surface, &tick.label, (left - 7.0, y), Align::Right, style)?;
        }
        for tick in x_ticks {
            let x = self.x(tick.place);
            surface.line(&[(x, bottom), (x, bottom + 4.0)], 1.0, FRAME);
            label(
                surface,
                &tick.label,
                (x, bottom + 13.0),
                Align::Centre,
                style,
            )?;
        }
        surface.line(&[(left, top), (left, bottom), (right, bottom)], 1.0, FRAME);
        let middle = ((left + right) / 2.0, (top + bottom) / 2.0);
        let style = (TEXT_SIZE, INK, false);
        label(
            surface,
            &chart.x_label,
            (middle.0, bottom + 33.0),
            Align::Centre,
            style,
        )?;
        let widest = y_ticks.iter().map(|tick| width_of(&tick.label, TICK_SIZE));
        let x = left - 8.0 - widest.fold(0.0, f64::max) - 12.0;
        surface.label(Label {
            text: &chart.y_label,
            at: (x, middle.1),
            size: TEXT_SIZE,
            colour: INK,
            bold: false,
            align: Align::Centre,
            upright: true,
        })
    }

    fn draw_band(&self, surface: &mut impl Surface, series: &Series, colour: Colour) {
        let Some(band) = &series.band else { return };
        let edges = series.points.iter().zip(band).map(|((x, _), (low, high))| {
            let (low, high) = (self.point((*x, *low))?, self.point((*x, *high))?);
            let inside = |(x, y): Point| (x, y.clamp(self.plot.top, self.plot.bottom));
            Some((inside(low), inside(high)))
        });
        for run in edges.collect::<Vec<_>>().split(Option::is_none) {
            let low = run.iter().flatten().map(|(low, _)| *low);
            let high = run.iter().flatten().rev().map(|(_, high)| *high);
            let outline: Vec<_> = low.chain(high).collect();
            if outline.len() >= 4 {
                surface.area(&outline, colour, BAND_OPACITY);
            }
        }
    }

    /// Returns the number of points or line pieces that were drawn.
    fn draw_series(&self, surface: &mut impl Surface, series: &Series, place: usize) -> usize {
        let points: Vec<_> = series
            .points
            .iter()
            .map(|point| self.point(*point))
            .collect();
        let mut drawn = 0;
        for run in points.split(Option::is_none) {
            let run: Vec<Point> = run.iter().flatten().copied().collect();
            for piece in clipped(&thinned(&run), self.plot.top, self.plot.bottom) {
                stroke(surface, &piece, place, LINE_WIDTH);
                drawn += 1;
            }
            if points.len() <= DOTTED_POINTS || run.len() == 1 {
                let inside = |point: &&Point| (self.plot.top..=self.plot.bottom).contains(&point.1);
                for point in run.iter().filter(inside) {
                    surface.dot(*point, 2.8, colour(place));
                    drawn += 1;
                }
            }
        }
        drawn
    }
}

/// Draws a line of the series at this position; it is dashed once the palette repeats.
fn stroke(surface: &mut impl Surface, points: &[Point], place: usize, width: f64) {
    if place < PALETTE.len() {
        surface.line(points, width, colour(place));
        return;
    }
    for dash in dashes(points) {
        surface.line(&dash, width, colour(place));
    }
}

fn label(
    surface: &mut impl Surface,
    text: &str,
    at: Point,
    align: Align,
    (size, colour, bold): (f64, Colour, bool),
) -> Result<(), FigureError> {
    surface.label(Label {
        text,
        at,
        size,
        colour,
        bold,
        align,
        upright: false,
    })
}

//! Surfaces that charts are drawn on: SVG text, or pixels.

use std::fmt::Write;

use super::colour::classes;
use crate::FigureError;
use crate::picture::{Align, Colour, Image, mask, text_width};

/// A point in CSS pixels, from the top left.
pub(super) type Point = (f64, f64);

/// A line of text: the position of its vertical centre, and its style.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label<'a> {
    pub text: &'a str,
    pub at: Point,
    /// Font size, in CSS pixels.
    pub size: f64,
    pub colour: Colour,
    pub bold: bool,
    pub align: Align,
    /// Rotated to read from bottom to top.
    pub upright: bool,
}

/// The four drawing operations that a chart needs.
pub(super) trait Surface {
    fn line(&mut self, points: &[Point], width: f64, colour: Colour);
    fn area(&mut self, outline: &[Point], colour: Colour, opacity: f32);
    fn dot(&mut self, centre: Point, radius: f64, colour: Colour);
    fn label(&mut self, label: Label) -> Result<(), FigureError>;
}

/// Distance of the baseline below the middle of the digits, in em.
const BASELINE: f64 = 0.35;

/// SVG elements.
#[derive(Debug, Default)]
pub(super) struct Svg {
    elements: String,
}

impl Svg {
    /// The whole SVG element, with a name for screen readers.
    pub fn finish(self, (width, height): (u32, u32), name: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\" \
             font-family=\"system-ui, 'Helvetica Neue', Arial, sans-serif\">\n{}</svg>",
            crate::escape(name),
            self.elements
        )
    }

    fn element(&mut self, element: std::fmt::Arguments) {
        self.elements
            .write_fmt(element)
            .expect("writing to a string cannot fail");
        self.elements.push('\n');
    }
}

/// The attribute with the colour, and the class by which a page can replace it.
fn painted(attribute: &str, colour: Colour) -> String {
    let hex = hex(colour);
    match classes(colour) {
        Some((line, fill)) => {
            let class = if attribute == "stroke" { line } else { fill };
            format!("{attribute}=\"{hex}\" class=\"{class}\"")
        }
        None => format!("{attribute}=\"{hex}\""),
    }
}

fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn coordinates(points: &[Point]) -> String {
    let pairs: Vec<_> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    pairs.join(" ")
}

impl Surface for Svg {
    fn line(&mut self, points: &[Point], width: f64, colour: Colour) {
        self.element(format_args!(
            "<polyline points=\"{}\" fill=\"none\" {} stroke-width=\"{width}\" \
             stroke-linejoin=\"round\" stroke-linecap=\"round\"/>",
            coordinates(points),
            painted("stroke", colour)
        ));
    }

    fn area(&mut self, outline: &[Point], colour: Colour, opacity: f32) {
        self.element(format_args!(
            "<polygon points=\"{}\" {} fill-opacity=\"{opacity}\"/>",
            coordinates(outline),
            painted("fill", colour)
        ));
    }

    fn dot(&mut self, (x, y): Point, radius: f64, colour: Colour) {
        self.element(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" {}/>",
            painted("fill", colour)
        ));
    }

    fn label(&mut self, label: Label) -> Result<(), FigureError> {
        let (x, y) = label.at;
        let anchor = match label.align {
            Align::Left => "start",
            Align::Centre => "middle",
            Align::Right => "end",
        };
        let turn = if label.upright {
            format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"")
        } else {
            String::new()
        };
        self.element(format_args!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" font-size=\"{}\" {} text-anchor=\"{anchor}\"{}{turn}>{}</text>",
            y + BASELINE * label.size,
            label.size,
            painted("fill", label.colour),
            if label.bold { " font-weight=\"600\"" } else { "" },
            crate::escape(label.text)
        ));
        Ok(())
    }
}

/// Several pixels for each CSS pixel; averaging them gives smooth lines.
#[derive(Debug)]
pub(super) struct Raster {
    image: Image,
    scale: f64,
}

impl Raster {
    pub fn new((width, height): (u32, u32), scale: u32) -> Result<Self, FigureError> {
        let side = |length: u32| (length as usize).saturating_mul(scale as usize);
        Ok(Self {
            image: Image::new(side(width), side(height), [255; 3])?,
            scale: f64::from(scale),
        })
    }

    pub fn into_image(self) -> Image {
        self.image
    }

    /// The pixels of `[low, high]` that lie within `0..length`.
    fn clipped(low: f64, high: f64, length: usize) -> std::ops::Range<usize> {
        let last = length as f64;
        low.floor().clamp(0.0, last) as usize..(high.ceil() + 1.0).clamp(0.0, last) as usize
    }

    /// Fills everything within `radius` of the segment from `a` to `b`, in pixels.
    fn stroke(&mut self, a: Point, b: Point, radius: f64, colour: Colour) {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let squared_length = dx * dx + dy * dy;
        let rows = Self::clipped(
            a.1.min(b.1) - radius,
            a.1.max(b.1) + radius,
            self.image.height(),
        );
        let columns = Self::clipped(
            a.0.min(b.0) - radius,
            a.0.max(b.0) + radius,
            self.image.width(),
        );
        for y in rows {
            for x in columns.clone() {
                let (px, py) = (x as f64 + 0.5 - a.0, y as f64 + 0.5 - a.1);
                let along = if squared_length > 0.0 {
                    ((px * dx + py * dy) / squared_length).clamp(0.0, 1.0)
                } else {
                    0.0
                };
                let (off_x, off_y) = (px - along * dx, py - along * dy);
                if off_x * off_x + off_y * off_y <= radius * radius {
                    self.image.blend(x, y, colour, 1.0);
                }
            }
        }
    }

    fn scaled(&self, (x, y): Point) -> Point {
        (x * self.scale, y * self.scale)
    }
}

impl Surface for Raster {
    fn line(&mut self, points: &[Point], width: f64, colour: Colour) {
        let radius = width * self.scale / 2.0;
        for pair in points.windows(2) {
            let (a, b) = (self.scaled(pair[0]), self.scaled(pair[1]));
            self.stroke(a, b, radius, colour);
        }
    }

    fn area(&mut self, outline: &[Point], colour: Colour, opacity: f32) {
        let outline: Vec<_> = outline.iter().map(|&point| self.scaled(point)).collect();
        let top = outline
            .iter()
            .map(|point| point.1)
            .fold(f64::INFINITY, f64::min);
        let bottom = outline.iter().map(|point| point.1).fold(0.0, f64::max);
        let edges = || outline.iter().zip(outline.iter().cycle().skip(1));
        for y in Self::clipped(top, bottom, self.image.height()) {
            let middle = y as f64 + 0.5;
            let mut crossings: Vec<f64> = edges()
                .filter(|(a, b)| (a.1 <= middle) != (b.1 <= middle))
                .map(|(a, b)| a.0 + (middle - a.1) / (b.1 - a.1) * (b.0 - a.0))
                .collect();
            crossings.sort_by(f64::total_cmp);
            for pair in crossings.chunks_exact(2) {
                let first = pair[0].round().max(0.0) as usize;
                let end = (pair[1].round().max(0.0) as usize).min(self.image.width());
                for x in first..end {
                    self.image.blend(x, y, colour, opacity);
                }
            }
        }
    }

    fn dot(&mut self, centre: Point, radius: f64, colour: Colour) {
        let centre = self.scaled(centre);
        self.stroke(centre, centre, radius * self.scale, colour);
    }

    fn label(&mut self, label: Label) -> Result<(), FigureError> {
        let em = label.size * self.scale;
        let mask = mask(label.text, em, label.bold)?;
        let width = text_width(label.text, em, label.bold);
        let back = match label.align {
            Align::Left => 0.0,
            Align::Centre => width / 2.0,
            Align::Right => width,
        };
        let (x, y) = self.scaled(label.at);
        let rise = BASELINE * em - mask.baseline as f64;
        for (index, &coverage) in mask.coverage.iter().enumerate() {
            if coverage <= 0.0 {
                continue;
            }
            let along = (index % mask.width) as f64 - back;
            let down = (index / mask.width) as f64 + rise;
            let (x, y) = if label.upright {
                (x + down, y - along)
            } else {
                (x + along, y + down)
            };
            if x >= 0.0 && y >= 0.0 {
                self.image
                    .blend(x as usize, y as usize, label.colour, coverage);
            }
        }
        Ok(())
    }
}

//! Line charts, as SVG and as PNG, and in a page with values under the pointer and with zoom.
//!
//! [`svg`] and [`png()`] draw the same figure: one or more [`Chart`]s side by side. The colours are those of
//! Okabe and Ito (2008), which are safe for colour-blind readers. A series' colour depends on its position, so a
//! model keeps its colour across charts.

mod axis;
mod colour;
mod draw;
mod live;
mod path;
mod surface;

use crate::{FigureError, picture::Image};
pub(crate) use live::live;

/// A named line.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// Name in the legend; a series with an empty name is left out of it.
    pub label: String,
    /// `(x, y)` in the order of the line. The line is interrupted where a coordinate is not finite, or not
    /// positive on a logarithmic axis.
    pub points: Vec<(f64, f64)>,
    /// `(low, high)` for each point, drawn as a shaded band behind the line: standard errors, quantiles.
    pub band: Option<Vec<(f64, f64)>>,
}

/// A range of the x axis to highlight, such as the recall interval.
#[derive(Debug, Clone)]
pub struct Shaded {
    /// Start of the range on the x axis.
    pub from: f64,
    /// End of the range on the x axis.
    pub to: f64,
    /// Its caption in the legend.
    pub caption: String,
}

/// One line chart.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// Title above the chart.
    pub title: String,
    /// Label of the x axis, with its unit.
    pub x_label: String,
    /// Label of the y axis, with its unit, such as 'bound (nats per sequence)'.
    pub y_label: String,
    /// The lines, in the order of the palette.
    pub series: Vec<Series>,
    /// Whether the x axis is logarithmic.
    pub x_log: bool,
    /// Whether the y axis is logarithmic.
    pub y_log: bool,
    /// `(low, high)` of the y axis; `None` shows every point. Lines are clipped to the range. A learning curve
    /// whose first values are far off is readable only with a range; see [`settled_range`].
    pub y_range: Option<(f64, f64)>,
    /// A shaded range of the x axis.
    pub shaded: Option<Shaded>,
}

impl Chart {
    /// Whether a line has points.
    pub fn has_points(&self) -> bool {
        self.series.iter().any(|series| !series.points.is_empty())
    }
}

/// Layout of the charts of a figure, in CSS pixels.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Charts per row.
    pub columns: usize,
    /// Width of a chart.
    pub width: u32,
    /// Height of a chart.
    pub height: u32,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            columns: 1,
            width: 720,
            height: 340,
        }
    }
}

/// Raster figures are drawn this many times larger than their final size and averaged.
const OVERSAMPLING: u32 = 4;
/// The largest side of a chart and of a figure, in CSS pixels.
const LARGEST_CHART_SIDE: u32 = 1 << 12;
const LARGEST_SIDE: u32 = 1 << 16;

impl Layout {
    /// Size of a figure with the given number of charts, in CSS pixels.
    fn size(&self, charts: usize) -> (u32, u32) {
        let columns = self.columns.clamp(1, charts.max(1));
        let rows = charts.div_ceil(columns).max(1);
        let side = |count: usize, length: u32| {
            u32::try_from(count)
                .unwrap_or(u32::MAX)
                .saturating_mul(length.clamp(1, LARGEST_CHART_SIDE))
        };
        (side(columns, self.width), side(rows, self.height))
    }
}

/// Draws charts as an SVG element that can be embedded in an HTML page.
///
/// # Errors
/// [`FigureError::TooLarge`] for a figure with a side beyond 65,536 pixels; [`FigureError::Draw`].
pub fn svg(charts: &[Chart], layout: &Layout) -> Result<String, FigureError> {
    let (width, height) = checked_size(charts, layout)?;
    let mut surface = surface::Svg::default();
    draw::figure(&mut surface, charts, layout)?;
    let titles: Vec<_> = charts.iter().map(|chart| chart.title.as_str()).collect();
    Ok(surface.finish((width, height), &titles.join("; ")))
}

/// The drawing of a chart in a page, which shows the title itself. Its text is legible on a phone.
pub(crate) fn still(chart: &Chart) -> Result<String, FigureError> {
    let layout = Layout {
        columns: 1,
        width: 400,
        height: 270,
    };
    let untitled = Chart {
        title: String::new(),
        ..chart.clone()
    };
    let mut surface = surface::Svg::default();
    draw::figure(&mut surface, &[untitled], &layout)?;
    Ok(surface.finish((layout.width, layout.height), &chart.title))
}

/// Draws charts as a PNG file.
///
/// - `pixel_ratio`: pixels per CSS pixel, 1 to 4; 2 for sharp print and dense screens
///
/// # Errors
/// [`FigureError::TooLarge`] for a figure beyond 2^28 pixels before averaging; [`FigureError::Draw`].
pub fn png(charts: &[Chart], layout: &Layout, pixel_ratio: u32) -> Result<Vec<u8>, FigureError> {
    image(charts, layout, pixel_ratio)?.png_bytes()
}

/// Draws charts as a picture: see [`png()`].
///
/// # Errors
/// As [`png()`].
pub fn image(charts: &[Chart], layout: &Layout, pixel_ratio: u32) -> Result<Image, FigureError> {
    let ratio = pixel_ratio.clamp(1, 4);
    let scale = OVERSAMPLING * ratio;
    let size = checked_size(charts, layout)?;
    let mut surface = surface::Raster::new(size, scale)?;
    draw::figure(&mut surface, charts, layout)?;
    let image = surface.into_image().reduced(OVERSAMPLING as usize)?;
    Ok(image.dense(ratio))
}

fn checked_size(charts: &[Chart], layout: &Layout) -> Result<(u32, u32), FigureError> {
    let (width, height) = layout.size(charts.len());
    if width > LARGEST_SIDE || height > LARGEST_SIDE {
        return Err(FigureError::TooLarge {
            width: width as usize,
            height: height as usize,
        });
    }
    Ok((width, height))
}

/// A y range that leaves out the steep start of learning curves. It covers the last `fraction` of each series'
/// points, and as much again above and below.
///
/// `None` if these values are missing or all equal, or if the whole curves span at most three times their range.
pub fn settled_range(series: &[Series], fraction: f64) -> Option<(f64, f64)> {
    let range = |skip: &dyn Fn(usize) -> usize| {
        let values = series.iter().flat_map(|series| {
            let points = series.points.iter().skip(skip(series.points.len()));
            points.map(|&(_, y)| y).filter(|y| y.is_finite())
        });
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| {
            (low.min(y), high.max(y))
        })
    };
    let settled = (1.0 - fraction.clamp(0.0, 1.0)).min(1.0);
    let (low, high) = range(&|count| (count as f64 * settled) as usize);
    let (all_low, all_high) = range(&|_| 0);
    let span = high - low;
    if !(span.is_finite() && span > 0.0) || all_high - all_low <= 3.0 * span {
        return None;
    }
    Some(((low - span).max(all_low), (high + span).min(all_high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(f64, f64)]) -> Chart {
        Chart {
            title: "a < b & \"c\"".to_owned(),
            x_label: "training step".to_owned(),
            y_label: "bound (nats per sequence)".to_owned(),
            series: vec![Series {
                label: "DNC <1>".to_owned(),
                points: points.to_vec(),
                band: None,
            }],
            ..Chart::default()
        }
    }

    fn pixels(bytes: &[u8]) -> (usize, usize, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        (info.width as usize, info.height as usize, pixels)
    }

    /// Checks that every tag is closed in order and that every `<` and `&` is escaped.
    fn assert_well_formed(svg: &str) {
        let mut open = Vec::new();
        let mut rest = svg;
        while let Some(start) = rest.find('<') {
            let (text, tail) = rest.split_at(start);
            for entity in text.split('&').skip(1) {
                assert!(entity.find(';').is_some_and(|end| end < 6), "{text}");
            }
            let end = tail.find('>').expect("a tag ends");
            let tag = &tail[1..end];
            assert!(!tag.contains('<'), "{tag}");
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap().to_owned());
            }
            rest = &tail[end + 1..];
        }
        assert!(open.is_empty(), "{open:?} left open");
    }

    #[test]
    fn svg_is_well_formed_and_escaped() {
        let svg = svg(&[chart(&[(0.0, 1.0), (10.0, 3.0)])], &Layout::default()).unwrap();
        assert_well_formed(&svg);
        assert!(svg.starts_with("<svg xmlns"));
        assert!(svg.contains("width=\"720\" height=\"340\""));
        assert!(svg.contains("DNC &lt;1&gt;"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn degenerate_charts_are_drawn() {
        let huge = f64::MAX;
        let cases: Vec<Vec<(f64, f64)>> = vec![
            vec![],
            vec![(3.0, 5.0)],
            vec![(3.0, 5.0), (3.0, 5.0)],
            vec![(0.0, 7.0), (1.0, 7.0), (2.0, 7.0)],
            vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)],
            vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)],
            vec![(-huge, huge), (huge, -huge)],
            vec![(1e17, 1e17), (1e17 + 16.0, 1e17 + 16.0)],
            vec![(0.0, 1e-300), (1.0, 2e-300)],
            vec![(0.0, -5.0), (-1.0, 0.0)],
        ];
        for points in cases {
            for log in [false, true] {
                let mut chart = chart(&points);
                (chart.x_log, chart.y_log) = (log, log);
                let drawn = svg(&[chart.clone()], &Layout::default()).unwrap();
                assert_well_formed(&drawn);
                assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
                png(&[chart], &Layout::default(), 1).unwrap();
            }
        }
        assert_well_formed(&svg(&[], &Layout::default()).unwrap());
        let mut odd = chart(&[(0.0, 1.0), (1.0, 2.0)]);
        odd.y_range = Some((f64::NAN, 3.0));
        odd.series[0].band = Some(vec![(f64::NAN, 1.0)]);
        odd.shaded = Some(Shaded {
            from: 5.0,
            to: f64::INFINITY,
            caption: "recall".to_owned(),
        });
        let tiny = Layout {
            columns: 0,
            width: 1,
            height: 0,
        };
        for layout in [Layout::default(), tiny] {
            assert_well_formed(&svg(&[odd.clone()], &layout).unwrap());
            png(&[odd.clone()], &layout, 1).unwrap();
        }
    }

    #[test]
    fn oversized_figures_are_errors() {
        let charts = vec![Chart::default(); 1000];
        assert!(svg(&charts, &Layout::default()).is_err());
        assert!(png(&charts, &Layout::default(), 1).is_err());
    }

    #[test]
    fn panels_have_the_size_and_colours_of_their_place() {
        let charts = vec![chart(&[(0.0, 1.0), (1.0, 1.0)]); 3];
        let layout = Layout {
            columns: 2,
            width: 300,
            height: 200,
        };
        let (width, height, pixels) = pixels(&png(&charts, &layout, 1).unwrap());
        assert_eq!((width, height), (600, 400));
        let blue = |x: std::ops::Range<usize>, y: std::ops::Range<usize>| {
            y.flat_map(|y| x.clone().map(move |x| (y * width + x) * 3))
                .filter(|&at| pixels[at..at + 3] == colour::colour(0))
                .count()
        };
        assert!(blue(0..300, 0..200) > 100);
        assert!(blue(300..600, 0..200) > 100);
        assert!(blue(0..300, 200..400) > 100);
        assert_eq!(blue(300..600, 200..400), 0, "no fourth chart");
    }

    #[test]
    fn settled_range_leaves_out_the_start() {
        let points = (0..100).map(|step| {
            let y = if step < 10 {
                -1e5
            } else {
                -90.0 + f64::from(step % 2)
            };
            (f64::from(step), y)
        });
        let mut series = vec![Series {
            points: points.collect(),
            ..Series::default()
        }];
        assert_eq!(settled_range(&series, 0.5), Some((-91.0, -89.0)));
        series[0].points.truncate(5);
        assert_eq!(settled_range(&series, 0.5), None);
        assert_eq!(settled_range(&[], 0.5), None);
    }
}

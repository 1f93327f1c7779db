//! A chart as data, for the script of a page.

use super::{Chart, Series};
use std::fmt::Write;

/// A series with more points is thinned.
const MOST_POINTS: usize = 2_000;

/// A chart as JSON, to be put into a page: labels and scales of the axes, the shaded range, and the points of each
/// series with their bands, `null` where a line is interrupted.
///
/// `None` if a line goes back on the x axis: the script draws functions of x.
pub(crate) fn live(chart: &Chart) -> Option<String> {
    let lines: Option<Vec<String>> = chart
        .series
        .iter()
        .map(|line| series(chart, line))
        .collect();
    let axis = |label: &str, log: bool| format!("\"label\":{},\"log\":{log}", text(label));
    let range = match chart.y_range {
        Some((low, high)) if low < high && (!chart.y_log || low > 0.0) => {
            format!("[{},{}]", number(low), number(high))
        }
        _ => "null".to_owned(),
    };
    let shaded = chart.shaded.as_ref().map_or("null".to_owned(), |shaded| {
        let [from, to] = [shaded.from, shaded.to].map(number);
        format!("[{from},{to},{}]", text(&shaded.caption))
    });
    Some(format!(
        "{{\"x\":{{{}}},\"y\":{{{},\"range\":{range}}},\"shaded\":{shaded},\"series\":[{}]}}",
        axis(&chart.x_label, chart.x_log),
        axis(&chart.y_label, chart.y_log),
        lines?.join(",")
    ))
}

fn series(chart: &Chart, series: &Series) -> Option<String> {
    let shown = |value: f64, log: bool| value.is_finite() && (!log || value > 0.0);
    let y = |value: f64| match shown(value, chart.y_log) {
        true => number(value),
        false => "null".to_owned(),
    };
    let mut columns = [const { String::new() }; 4];
    let mut last = f64::NEG_INFINITY;
    for index in kept(series) {
        let (mut x, value) = series.points[index];
        if !shown(x, chart.x_log) {
            continue;
        }
        if x <= last {
            // A step upwards, or a gap: it comes directly behind the point before.
            if x < last && value.is_finite() {
                return None;
            }
            x = last.next_up();
        }
        last = x;
        let band = series.band.as_ref().and_then(|band| band.get(index));
        let (low, high) = band.copied().unwrap_or((f64::NAN, f64::NAN));
        let values = [x.to_string(), y(value), y(low), y(high)];
        for (column, value) in columns.iter_mut().zip(values) {
            if !column.is_empty() {
                column.push(',');
            }
            column.push_str(&value);
        }
    }
    let [x, y, low, high] = columns;
    let band = match series.band {
        Some(_) => format!(",\"low\":[{low}],\"high\":[{high}]"),
        None => String::new(),
    };
    let label = text(&series.label);
    Some(format!(
        "{{\"label\":{label},\"x\":[{x}],\"y\":[{y}]{band}}}"
    ))
}

/// The points that are shown; of a long series the first, lowest, highest and last of each stretch.
fn kept(series: &Series) -> Vec<usize> {
    let count = series.points.len();
    if count <= MOST_POINTS {
        return (0..count).collect();
    }
    let height = |index: &usize| series.points[*index].1;
    let by_height = |a: &usize, b: &usize| height(a).total_cmp(&height(b));
    let indices: Vec<usize> = (0..count).collect();
    let stretches = indices.chunks(count.div_ceil(MOST_POINTS / 4));
    let of_stretch = stretches.flat_map(|stretch| {
        let lowest = stretch.iter().copied().min_by(by_height);
        let highest = stretch.iter().copied().max_by(by_height);
        let ends = [stretch.first().copied(), stretch.last().copied()];
        let mut found: Vec<usize> = [lowest, highest]
            .into_iter()
            .chain(ends)
            .flatten()
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    });
    of_stretch.collect()
}

/// A number with six significant digits.
fn number(value: f64) -> String {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    match rounded.is_finite() {
        true => rounded.to_string(),
        false => "null".to_owned(),
    }
}

/// A JSON string that cannot end the element it stands in.
fn text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(f64, f64)]) -> Chart {
        Chart {
            series: vec![Series {
                label: "</script> \"a\"\n".into(),
                points: points.to_vec(),
                band: Some(vec![(0.5, 1e-9); points.len()]),
            }],
            y_range: Some((0.0, 1.0)),
            ..Chart::default()
        }
    }

    #[test]
    fn data_are_json() {
        let found = live(&chart(&[(1.0, 2.000_000_1), (1.0, f64::NAN), (3.0, -1.0)])).unwrap();
        assert_eq!(
            found,
            "{\"x\":{\"label\":\"\",\"log\":false},\"y\":{\"label\":\"\",\"log\":false,\"range\":[0,1]},\
             \"shaded\":null,\"series\":[{\"label\":\"\\u003c/script\\u003e \\\"a\\\"\\u000a\",\
             \"x\":[1,1.0000000000000002,3],\"y\":[2,null,-1],\
             \"low\":[0.5,0.5,0.5],\"high\":[0.000000001,0.000000001,0.000000001]}]}"
        );
    }

    #[test]
    fn logarithms_show_what_is_positive() {
        let mut chart = chart(&[(0.0, 1.0), (1.0, 0.0), (2.0, 5.0)]);
        (chart.x_log, chart.y_log) = (true, true);
        let found = live(&chart).unwrap();
        assert!(found.contains("\"x\":[1,2],\"y\":[null,5]"), "{found}");
        assert!(found.contains("\"range\":null"), "{found}");
    }

    #[test]
    fn what_is_not_a_function_of_x_is_only_drawn() {
        assert!(live(&chart(&[(1.0, 1.0), (0.0, 1.0)])).is_none());
    }

    #[test]
    fn long_series_keep_their_extremes() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|x| (f64::from(x), 0.0)).collect();
        points[54_321].1 = 7.0;
        let series = Series {
            points,
            ..Series::default()
        };
        let kept = kept(&series);
        assert!(kept.len() <= MOST_POINTS && kept.contains(&54_321));
        assert_eq!((kept[0], kept.last()), (0, Some(&99_999)));
    }
}

//! Prepares lines for drawing: clips, thins and dashes them. Coordinates are CSS pixels, y pointing down.

use super::surface::Point;

/// Length of a dash, and of the gap after it.
const DASH: (f64, f64) = (7.0, 5.0);

/// The drawn pieces of a dashed line.
pub(super) fn dashes(points: &[Point]) -> Vec<[Point; 2]> {
    let mut dashes = Vec::new();
    let mut walked = 0.0;
    for pair in points.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let length = (b.0 - a.0).hypot(b.1 - a.1);
        let at = |along: f64| {
            let share = along / length;
            (a.0 + share * (b.0 - a.0), a.1 + share * (b.1 - a.1))
        };
        let mut along = 0.0;
        while along < length {
            let phase = (walked + along) % (DASH.0 + DASH.1);
            let drawing = phase < DASH.0;
            let left = if drawing {
                DASH.0 - phase
            } else {
                DASH.0 + DASH.1 - phase
            };
            let end = (along + left.max(1e-3)).min(length);
            if drawing {
                dashes.push([at(along), at(end)]);
            }
            along = end;
        }
        walked += length;
    }
    dashes
}

/// Where points are denser than pixels, keeps the first, lowest, highest and last point of each half pixel.
pub(super) fn thinned(points: &[Point]) -> Vec<Point> {
    let column = |point: &Point| (point.0 * 2.0).floor();
    let mut kept = Vec::new();
    for run in points.chunk_by(|a, b| column(a) == column(b)) {
        if run.len() <= 4 {
            kept.extend_from_slice(run);
            continue;
        }
        let height = |index: &usize| run[*index].1;
        let by_height = |a: &usize, b: &usize| height(a).total_cmp(&height(b));
        let lowest = (0..run.len()).max_by(by_height).unwrap_or(0);
        let highest = (0..run.len()).min_by(by_height).unwrap_or(0);
        let mut indices = [0, lowest.min(highest), lowest.max(highest), run.len() - 1].to_vec();
        indices.dedup();
        kept.extend(indices.into_iter().map(|index| run[index]));
    }
    kept
}

/// The pieces of a line that lie between two heights; `top` is above `bottom`.
pub(super) fn clipped(points: &[Point], top: f64, bottom: f64) -> Vec<Vec<Point>> {
    let mut pieces: Vec<Vec<Point>> = Vec::new();
    for pair in points.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let crossing = |y: f64| (a.0 + (y - a.1) / (b.1 - a.1) * (b.0 - a.0), y);
        let outside = |point: Point| {
            let beyond = |y: f64, low: bool| if low { point.1 < y } else { point.1 > y };
            [(top, true), (bottom, false)]
                .into_iter()
                .find(|&(y, low)| beyond(y, low))
        };
        let (start, end) = match (outside(a), outside(b)) {
            (Some((above, _)), Some((below, _))) if above == below => continue,
            (start, end) => (
                start.map_or(a, |(y, _)| crossing(y)),
                end.map_or(b, |(y, _)| crossing(y)),
            ),
        };
        match pieces.last_mut() {
            Some(piece) if piece.last() == Some(&start) => piece.push(end),
            _ => pieces.push(vec![start, end]),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_the_plot() {
        let through = clipped(&[(0.0, -10.0), (4.0, 30.0)], 0.0, 10.0);
        assert_eq!(through, [vec![(1.0, 0.0), (2.0, 10.0)]]);
        let outside = clipped(&[(0.0, 20.0), (4.0, 30.0)], 0.0, 10.0);
        assert!(outside.is_empty());
        let back = clipped(&[(0.0, 5.0), (2.0, 15.0), (4.0, 5.0)], 0.0, 10.0);
        assert_eq!(back, [[(0.0, 5.0), (1.0, 10.0)], [(3.0, 10.0), (4.0, 5.0)]]);
    }

    #[test]
    fn dense_lines_keep_their_extremes() {
        let points: Vec<_> = (0..10_000)
            .map(|index| (f64::from(index) / 1000.0, f64::from(index * 7919 % 101)))
            .collect();
        let kept = thinned(&points);
        assert!(kept.len() <= 4 * 21, "{}", kept.len());
        for extreme in [0.0, 100.0] {
            assert!(kept.iter().any(|point| point.1 == extreme));
        }
        assert_eq!(kept.last(), points.last());
    }

    #[test]
    fn dashes_are_as_long_as_they_should_be() {
        let dashes = dashes(&[(0.0, 0.0), (24.0, 0.0)]);
        assert_eq!(
            dashes,
            [[(0.0, 0.0), (7.0, 0.0)], [(12.0, 0.0), (19.0, 0.0)]]
        );
    }
}

//! The colours of charts.

use crate::picture::Colour;

pub(super) const INK: Colour = [34, 34, 34];
pub(super) const FAINT: Colour = [95, 95, 95];
pub(super) const GRID: Colour = [228, 228, 228];
pub(super) const FRAME: Colour = [150, 150, 150];
pub(super) const SHADE: Colour = [230, 159, 0];
/// Okabe and Ito, "Color universal design", 2008; without yellow, which is too light for a line on white.
pub(super) const PALETTE: [Colour; 7] = [
    [0, 114, 178],
    [213, 94, 0],
    [0, 158, 115],
    [204, 121, 167],
    [86, 180, 233],
    [230, 159, 0],
    [0, 0, 0],
];

/// The colour of the series at this position.
pub(super) fn colour(place: usize) -> Colour {
    PALETTE[place % PALETTE.len()]
}

/// The names under which a page can replace a colour: of what is drawn with it as a line, and of what is filled with it.
pub(super) fn classes(colour: Colour) -> Option<(String, String)> {
    let both = |name: &str| Some((name.to_owned(), name.to_owned()));
    match colour {
        INK => both("ink"),
        FAINT => both("faint"),
        GRID => both("grid"),
        FRAME => both("frame"),
        _ => {
            let place = PALETTE.iter().position(|own| *own == colour)?;
            Some((format!("l{place}"), format!("f{place}")))
        }
    }
}

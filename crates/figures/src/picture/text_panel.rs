//! Texts stacked vertically, one cell per character, with some characters marked.

use super::sheet::{BACKGROUND, FAINT, INK, LABEL, MARGIN, MARK};
use super::{Align, Image, Text, text_width};
use crate::FigureError;

/// Pixels from one character to the next, and from one line to the next.
const PITCH: (usize, usize) = (9, 18);
/// Characters per line; longer lines are wrapped.
const COLUMNS: usize = 96;
/// Pixels between blocks.
const BLOCK_GAP: usize = 14;

/// A text with its label.
#[derive(Debug, Clone, Default)]
pub struct Labelled {
    /// Label beside its first line.
    pub label: String,
    /// Characters, and whether each is marked; a newline starts a new line.
    pub text: Vec<(char, bool)>,
}

impl Labelled {
    /// A text without marked characters.
    pub fn plain(label: &str, text: &str) -> Self {
        Self {
            label: label.into(),
            text: text.chars().map(|character| (character, false)).collect(),
        }
    }

    fn lines(&self) -> Vec<&[(char, bool)]> {
        let lines = self.text.split(|(character, _)| *character == '\n');
        lines
            .flat_map(|line| match line.is_empty() {
                true => vec![line],
                false => line.chunks(COLUMNS).collect(),
            })
            .collect()
    }
}

/// Draws blocks of texts.
///
/// # Errors
/// [`FigureError::TooLarge`].
pub fn text_panel(blocks: &[Vec<Labelled>]) -> Result<Image, FigureError> {
    let all = || blocks.iter().flatten();
    let labels = all().map(|text| text_width(&text.label, LABEL.size, false));
    let left = 2 * MARGIN + labels.fold(0.0, f64::max).ceil() as usize;
    let lines: Vec<usize> = all().map(|text| text.lines().len()).collect();
    let columns = all().flat_map(|text| text.lines()).map(<[_]>::len).max();
    let width = left + columns.unwrap_or(0) * PITCH.0 + MARGIN;
    let gaps = BLOCK_GAP * blocks.len().saturating_sub(1);
    let height = 2 * MARGIN + lines.iter().sum::<usize>() * PITCH.1 + gaps;
    let mut image = Image::new(width, height, BACKGROUND)?;
    let mut top = MARGIN;
    for block in blocks {
        for text in block {
            let label = Text {
                colour: FAINT,
                ..LABEL
            };
            let middle = (top + PITCH.1 / 2) as f64;
            image.text(&text.label, ((left - MARGIN) as f64, middle), label)?;
            for line in text.lines() {
                draw_line(&mut image, line, (left, top))?;
                top += PITCH.1;
            }
        }
        top += BLOCK_GAP;
    }
    Ok(image)
}

fn draw_line(
    image: &mut Image,
    line: &[(char, bool)],
    (left, top): (usize, usize),
) -> Result<(), FigureError> {
    for (column, (character, marked)) in line.iter().enumerate() {
        let style = Text {
            align: Align::Centre,
            bold: *marked,
            colour: if *marked { MARK } else { INK },
            ..LABEL
        };
        let x = left + column * PITCH.0 + PITCH.0 / 2;
        let at = (x as f64, (top + PITCH.1 / 2) as f64);
        image.text(&character.to_string(), at, style)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(image: &Image) -> usize {
        let pixels = (0..image.height()).flat_map(|y| (0..image.width()).map(move |x| (x, y)));
        let is_mark = |&(x, y): &(usize, usize)| {
            let [red, _, blue] = image.pixel(x, y).unwrap();
            i32::from(red) - i32::from(blue) > 60
        };
        pixels.filter(is_mark).count()
    }

    #[test]
    fn long_lines_go_on_below_and_marks_are_seen() {
        let one = text_panel(&[vec![Labelled::plain("says", "123")]]).unwrap();
        let two = text_panel(&[vec![Labelled::plain("says", "123\n123")]]).unwrap();
        assert_eq!(two.height() - one.height(), PITCH.1);
        assert_eq!(two.width(), one.width());
        let long = "1".repeat(2 * COLUMNS + 1);
        let long = text_panel(&[vec![Labelled::plain("says", &long)]]).unwrap();
        assert_eq!(long.height() - one.height(), 2 * PITCH.1);
        assert_eq!(marked(&one), 0);
        let mut text = Labelled::plain("says", "123");
        text.text[1].1 = true;
        assert!(marked(&text_panel(&[vec![text]]).unwrap()) > 5);
        assert!(text_panel(&[]).is_ok());
    }
}

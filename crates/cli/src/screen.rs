//! A terminal as a screen for pictures and keys.
//!
//! Two pixels share a character cell: the upper is the colour of a half block, the lower that of its background. With
//! `NO_COLOR` a character stands for the brightness of both. The terminal is put back as it was when the screen goes, also
//! after a panic.

use crossterm::{
    cursor, event, execute, queue,
    style::{Color, Print, ResetColor, SetBackgroundColor, SetForegroundColor},
    terminal,
};
use mnemora_lab::{Image, LabError, printable};
use std::{
    io::{self, IsTerminal, Write},
    panic,
    sync::Once,
    time::Duration,
};

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Character(char),
    /// An arrow.
    Up,
    /// An arrow.
    Down,
    /// An arrow.
    Left,
    /// An arrow.
    Right,
    /// Escape, or Ctrl with C or D.
    Leave,
}

/// The terminal while pictures are shown in it.
pub struct Screen {
    out: io::Stdout,
    coloured: bool,
}

/// Time between two looks at `leave` while no key is pressed.
const PATIENCE: Duration = Duration::from_millis(100);

/// Puts the terminal back as it was; what cannot be written now is lost.
fn put_back() {
    let _ = terminal::disable_raw_mode();
    let _ = execute!(
        io::stdout(),
        ResetColor,
        cursor::Show,
        terminal::LeaveAlternateScreen
    );
}

impl Screen {
    /// Whether input and output are a terminal.
    pub fn is_possible() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Takes the terminal.
    ///
    /// # Errors
    /// If the terminal refuses.
    pub fn open() -> Result<Self, LabError> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                put_back();
                before(info);
            }));
        });
        let mut out = io::stdout();
        terminal::enable_raw_mode()
            .and_then(|()| execute!(out, terminal::EnterAlternateScreen, cursor::Hide))
            .map_err(|error| {
                put_back();
                LabError::write("the terminal", error)
            })?;
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Ok(Self {
            out,
            coloured: !refused,
        })
    }

    /// Shows a picture as large as it fits, and lines of text below it.
    ///
    /// # Errors
    /// If the terminal cannot be written.
    pub fn show(&mut self, picture: &Image, lines: &[String]) -> Result<(), LabError> {
        self.draw(picture, lines)
            .map_err(|error| LabError::write("the terminal", error))
    }

    fn draw(&mut self, picture: &Image, lines: &[String]) -> io::Result<()> {
        let (columns, rows) = terminal::size()?;
        let lines = lines
            .iter()
            .flat_map(|line| wrapped(&printable(line), columns.into()));
        let lines: Vec<String> = lines.collect();
        let rows_left = usize::from(rows).saturating_sub(lines.len() + 1);
        let cells = half_blocks(picture, usize::from(columns), rows_left);
        queue!(self.out, terminal::BeginSynchronizedUpdate)?;
        for (row, cells) in (0_u16..).zip(&cells) {
            queue!(self.out, cursor::MoveTo(0, row))?;
            for cell in cells {
                if !self.coloured {
                    queue!(self.out, Print(shade(cell)))?;
                    continue;
                }
                let [upper, lower] = cell.map(|[r, g, b]| Color::Rgb { r, g, b });
                queue!(
                    self.out,
                    SetForegroundColor(upper),
                    SetBackgroundColor(lower),
                    Print('▀')
                )?;
            }
            queue!(
                self.out,
                ResetColor,
                terminal::Clear(terminal::ClearType::UntilNewLine)
            )?;
        }
        let first = u16::try_from(cells.len()).unwrap_or(u16::MAX);
        queue!(
            self.out,
            cursor::MoveTo(0, first),
            terminal::Clear(terminal::ClearType::FromCursorDown)
        )?;
        for (row, line) in (first..).zip(lines) {
            queue!(self.out, cursor::MoveTo(0, row), Print(line))?;
        }
        queue!(self.out, terminal::EndSynchronizedUpdate)?;
        self.out.flush()
    }

    /// Waits for a key; `None` if `leave` became true. Keys without a meaning here are passed over; a change of the
    /// window's size is a space.
    ///
    /// # Errors
    /// If the terminal cannot be read.
    pub fn key(&mut self, leave: impl Fn() -> bool) -> Result<Option<Key>, LabError> {
        let failed =
            |error| LabError::from(mnemora_lab::TrainingError::read("the terminal", error));
        loop {
            if leave() {
                return Ok(None);
            }
            if !event::poll(PATIENCE).map_err(failed)? {
                continue;
            }
            match event::read().map_err(failed)? {
                event::Event::Key(key) => match meaning(key) {
                    None => continue,
                    some => return Ok(some),
                },
                event::Event::Resize(..) => return Ok(Some(Key::Character(' '))),
                _ => continue,
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        put_back();
    }
}

fn meaning(key: event::KeyEvent) -> Option<Key> {
    use event::{KeyCode, KeyEventKind, KeyModifiers};
    if key.kind == KeyEventKind::Release {
        return None;
    }
    Some(match key.code {
        KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Leave,
        KeyCode::Char(character) => Key::Character(character),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Esc => Key::Leave,
        _ => return None,
    })
}

/// Upper and lower colour of each character cell, in rows, for a picture in a window of cells. A picture that is too
/// large is made smaller: each pixel shown is the mean of those that it stands for.
fn half_blocks(picture: &Image, columns: usize, rows: usize) -> Vec<Vec<[[u8; 3]; 2]>> {
    let (width, height) = (picture.width(), picture.height());
    if columns == 0 || rows == 0 || width == 0 || height == 0 {
        return Vec::new();
    }
    let shrink = (width as f64 / columns as f64)
        .max(height as f64 / (2 * rows) as f64)
        .max(1.0);
    let (across, down) = (
        ((width as f64 / shrink) as usize).max(1),
        ((height as f64 / shrink) as usize).max(1),
    );
    let part = |index: usize, parts: usize, all: usize| {
        let start = index * all / parts;
        start..((index + 1) * all / parts).max(start + 1).min(all)
    };
    let mean = |x: usize, y: usize| {
        if y >= down {
            return [0; 3];
        }
        let mut sum = [0_usize; 3];
        let mut count = 0;
        for y in part(y, down, height) {
            for x in part(x, across, width) {
                let pixel = picture.pixel(x, y).unwrap_or_default();
                for (sum, value) in sum.iter_mut().zip(pixel) {
                    *sum += usize::from(value);
                }
                count += 1;
            }
        }
        sum.map(|sum| (sum / count.max(1)) as u8)
    };
    (0..down.div_ceil(2))
        .map(|row| {
            (0..across)
                .map(|x| [mean(x, 2 * row), mean(x, 2 * row + 1)])
                .collect()
        })
        .collect()
}

/// A text in lines of at most `columns` characters, cut between words; what remains of a longer word is left out.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + length <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.chars().take(columns).collect()),
        }
    }
    lines
}

/// The character for the brightness of a cell.
fn shade(cell: &[[u8; 3]; 2]) -> char {
    const SHADES: [char; 10] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
    let brightness =
        |[r, g, b]: &[u8; 3]| 3 * u32::from(*r) + 5 * u32::from(*g) + 2 * u32::from(*b);
    let mean = (brightness(&cell[0]) + brightness(&cell[1])) / 20;
    SHADES[mean as usize * SHADES.len() / 256]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Image {
        let mut picture = Image::new(4, 3, [0; 3]).unwrap();
        picture.fill(0, 0, 2, 1, [100, 0, 0]);
        picture.fill(0, 1, 4, 1, [0, 50, 0]);
        picture
    }

    #[test]
    fn two_rows_of_pixels_share_a_row_of_cells() {
        let cells = half_blocks(&picture(), 80, 24);
        assert_eq!((cells.len(), cells[0].len()), (2, 4));
        assert_eq!(cells[0][0], [[100, 0, 0], [0, 50, 0]]);
        assert_eq!(cells[0][3], [[0; 3], [0, 50, 0]]);
        assert_eq!(cells[1][0], [[0; 3]; 2]);
    }

    #[test]
    fn texts_are_cut_between_words() {
        assert_eq!(wrapped("q leaves; u up", 80), ["q leaves; u up"]);
        assert_eq!(wrapped("q leaves; u up", 9), ["q leaves;", "u up"]);
        assert_eq!(wrapped("q leaves; u up", 4), ["q", "leav", "u up"]);
        assert!(wrapped("", 9).is_empty());
    }

    #[test]
    fn without_colours_brighter_cells_have_denser_characters() {
        let shades = [0, 60, 130, 255].map(|value| shade(&[[value; 3]; 2]));
        assert_eq!(shades, [' ', ':', '+', '@']);
        let colours = [[255, 0, 0], [0, 255, 0], [0, 0, 255]].map(|colour| shade(&[colour; 2]));
        assert_eq!(colours, [':', '=', '.'], "told apart");
    }

    #[test]
    fn a_picture_fits_its_window() {
        let large = Image::new(1000, 700, [9; 3]).unwrap();
        for (columns, rows) in [(80, 24), (1, 1), (200, 3)] {
            let cells = half_blocks(&large, columns, rows);
            assert!(cells.len() <= rows && cells[0].len() <= columns);
            assert_eq!(cells[0][0][0], [9; 3]);
        }
        assert!(half_blocks(&large, 0, 10).is_empty());
        let cells = half_blocks(&picture(), 2, 10);
        assert_eq!((cells.len(), cells[0].len()), (1, 2));
    }
}

//! How a world is walked through: by a script, by keys on a screen, or by lines of letters; what moves by itself needs none.

use crate::{
    output::say,
    screen::{Key, Screen},
    signals::{StopSignal, exit_code},
};
use mnemora_lab::{
    Image, LabError, TrainingError, Walker, gif, note,
    pictures::{check_gif_name, write_gif},
};
use std::{
    io::{BufRead, Write},
    path::Path,
    time::{Duration, Instant},
};

/// Hundredths of a second for which a step is shown in a GIF.
const SHOWN: u16 = 25;
/// The most steps of what moves by itself where no terminal shows them.
const LONGEST: usize = 10_000;

/// What a user asked for.
pub(crate) struct Course<'a> {
    /// The file with a letter for each step, and its text.
    script: Option<(&'a Path, String)>,
    /// The GIF to write.
    out: Option<&'a Path>,
}

impl<'a> Course<'a> {
    /// Reads the script.
    pub(crate) fn read(script: Option<&'a Path>, out: Option<&'a Path>) -> Result<Self, LabError> {
        if let Some(out) = out {
            check_gif_name(out)?;
        }
        let read = |file: &'a Path| {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|error| TrainingError::read(file, error))?;
            Ok::<_, LabError>((file, text))
        };
        let script = script.map(read).transpose()?;
        Ok(Self { script, out })
    }

    /// Walks, and writes the GIF.
    pub(crate) fn walk(&self, walker: &mut dyn Walker) -> Result<u8, LabError> {
        let script = self.script.as_ref();
        let script = script.map(|(file, text)| parsed(walker, text, &file.display().to_string()));
        let script = script.transpose()?;
        let mut film = Film::new(walker, self.out.is_some())?;
        film.take(walker)?;
        // Find out before the walk whether the film can be written.
        if let Some(out) = self.out.filter(|out| !out.exists()) {
            film.write(out)?;
        }
        let (mut stopped, mut ended) = (None, Ok(()));
        match script {
            Some(actions) => {
                for action in actions {
                    step(walker, action, &mut film)?;
                }
            }
            None if Screen::is_possible() => stopped = on_screen(walker, &mut film)?,
            None if walker.moves_by_itself() => {
                for _ in 0..LONGEST {
                    step(walker, 0, &mut film)?;
                    if walker.over() {
                        break;
                    }
                }
            }
            None => ended = by_lines(walker, &mut film),
        }
        // The steps before a wrong letter are not lost.
        if let Some(out) = self.out {
            film.write(out)?;
            say(out.display())?;
        }
        ended?;
        Ok(stopped.map_or(0, exit_code))
    }
}

/// Takes a step and prints a line about it.
fn step(walker: &mut dyn Walker, action: usize, film: &mut Film) -> Result<(), LabError> {
    walker.step(action)?;
    say(walker.words())?;
    film.take(walker)
}

/// The pictures of a walk, if a GIF is wanted.
struct Film {
    pictures: Vec<Image>,
    /// Of every picture; `None` if no GIF is wanted.
    zoom: Option<usize>,
}

impl Film {
    fn new(walker: &dyn Walker, wanted: bool) -> Result<Self, LabError> {
        Ok(Self {
            pictures: Vec::new(),
            zoom: wanted.then(|| filmed_zoom(walker)).transpose()?,
        })
    }

    fn take(&mut self, walker: &dyn Walker) -> Result<(), LabError> {
        if let Some(zoom) = self.zoom {
            self.pictures.push(walker.picture(zoom)?);
        }
        Ok(())
    }

    fn write(&self, out: &Path) -> Result<(), LabError> {
        write_gif(out, &gif(&self.pictures, SHOWN)?)
    }
}

/// The actions of a script.
fn parsed(walker: &dyn Walker, text: &str, file: &str) -> Result<Vec<usize>, LabError> {
    let lines = text.lines().zip(1..);
    let actions = lines.map(|(line, number)| of_line(walker, line, file, number));
    Ok(actions.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The actions of a line: one letter each; white space and lines that begin with `#` are passed over.
fn of_line(
    walker: &dyn Walker,
    line: &str,
    file: &str,
    number: usize,
) -> Result<Vec<usize>, LabError> {
    if line.trim_start().starts_with('#') {
        return Ok(Vec::new());
    }
    let keys = walker.keys();
    let letters = line.chars().filter(|letter| !letter.is_whitespace());
    let action = |letter| {
        let found = keys.iter().position(|(key, _)| *key == letter);
        found.ok_or_else(|| {
            LabError::Configuration(format!(
                "{file}, line {number}: there is no action '{letter}'; the letters are {}",
                words(walker)
            ))
        })
    };
    letters.map(action).collect()
}

/// The keys with their actions, in words.
fn words(walker: &dyn Walker) -> String {
    let keys = walker.keys().into_iter();
    let pairs = keys.map(|(key, name)| format!("{key} {name}"));
    pairs.collect::<Vec<_>>().join(", ")
}

/// The action of a key: its letter, or an arrow for the action of that name.
fn action_of(walker: &dyn Walker, key: Key) -> Option<usize> {
    let named = |names: &[&str]| {
        walker
            .keys()
            .iter()
            .position(|(_, name)| names.contains(name))
    };
    match key {
        Key::Character(letter) => walker.keys().iter().position(|(key, _)| *key == letter),
        Key::Up => named(&["up", "forward"]),
        Key::Down => named(&["down", "back"]),
        Key::Left => named(&["left", "turn-left"]),
        Key::Right => named(&["right", "turn-right"]),
        Key::Leave => None,
    }
}

/// Between two steps of what goes on by itself.
const PACE: Duration = Duration::from_millis(150);
/// The least height of a picture on a screen, in pixels, of which two share a cell.
const TALL: usize = 40;

/// A picture that is not too small for a screen.
fn large(walker: &dyn Walker) -> Result<Image, LabError> {
    let picture = walker.picture(1)?;
    match TALL / picture.height().max(1) {
        0 | 1 => Ok(picture),
        zoom => walker.picture(zoom),
    }
}

/// Width and height that a small picture in a GIF should have.
const FILMED: [usize; 2] = [480, 240];
/// The least number of pixels, along each axis, for a pixel of a frame in a GIF.
const ZOOM: usize = 8;

/// The zoom of the pictures for a GIF, which all have one size.
fn filmed_zoom(walker: &dyn Walker) -> Result<usize, LabError> {
    let picture = walker.picture(1)?;
    let [across, down] = [
        FILMED[0] / picture.width().max(1),
        FILMED[1] / picture.height().max(1),
    ];
    Ok(across.min(down).max(ZOOM))
}

/// Goes on by keys, with pictures. The signal that ended it, if one did.
fn on_screen(walker: &mut dyn Walker, film: &mut Film) -> Result<Option<i32>, LabError> {
    let signal = StopSignal::listen()?;
    let mut screen = Screen::open()?;
    let arrows = [Key::Up, Key::Down, Key::Left, Key::Right];
    let arrows = match arrows.iter().any(|key| action_of(walker, *key).is_some()) {
        true => "; arrows, too",
        false => "",
    };
    let help = format!("q leaves; {}{arrows}", words(walker));
    loop {
        let lines = [walker.caption().to_owned(), walker.words(), help.clone()];
        screen.show(&large(walker)?, &lines)?;
        let due = walker.moves_by_itself().then(|| Instant::now() + PACE);
        let is_due = || due.is_some_and(|due| Instant::now() >= due);
        let key = screen.key(|| signal.received().is_some() || is_due())?;
        match key {
            None => match signal.received() {
                None => {
                    walker.step(0)?;
                    film.take(walker)?;
                }
                stopped => return Ok(stopped),
            },
            Some(Key::Leave | Key::Character('q')) => return Ok(None),
            Some(key) => {
                if let Some(action) = action_of(walker, key) {
                    walker.step(action)?;
                    film.take(walker)?;
                }
            }
        }
    }
}

/// Walks by lines of letters, and prints a line for each step.
fn by_lines(walker: &mut dyn Walker, film: &mut Film) -> Result<(), LabError> {
    note(format_args!(
        "mnemora: each letter of a line is a step: {}",
        words(walker)
    ));
    say(walker.words())?;
    for (line, number) in std::io::stdin().lock().lines().zip(1..) {
        let line = line.map_err(|error| TrainingError::read("standard input", error))?;
        for action in of_line(walker, &line, "standard input", number)? {
            step(walker, action, film)?;
        }
        let _ = std::io::stdout().flush();
    }
    Ok(())
}

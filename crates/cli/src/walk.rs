//! `mnemora walk`: goes on walking in a world that a model remembers.

use crate::{
    arguments::Walk,
    output::say,
    screen::{Key, Screen},
    signals::StopSignal,
};
use mnemora_lab::{
    Image, LabError, TrainingError, Walker, find_device, gif, note, open,
    pictures::{check_gif_name, write_gif},
};
use std::{
    io::{BufRead, Write},
    path::Path,
    time::{Duration, Instant},
};

/// Hundredths of a second for which a step is shown in a GIF.
const SHOWN: u16 = 25;

/// Runs the command.
pub fn run(arguments: &Walk) -> Result<u8, LabError> {
    if let Some(out) = &arguments.out {
        check_gif_name(out)?;
    }
    let device = find_device(arguments.on.device)?;
    let script = match &arguments.script {
        None => None,
        Some(file) => {
            let text =
                std::fs::read_to_string(file).map_err(|error| TrainingError::read(file, error))?;
            Some((file, text))
        }
    };
    let data = arguments.data.data.as_deref();
    let trained = open(&arguments.run, arguments.checkpoint, &[], data, &device)?;
    let mut walker = trained.walker(arguments.seed, arguments.image.as_deref())?;
    if walker.moves_by_itself() {
        return Err(LabError::Configuration(format!(
            "{0} is an agent, which moves by itself; watch it with `mnemora play {0}`",
            arguments.run.display()
        )));
    }
    let mut film = Film::new(arguments.out.is_some());
    film.take(walker.as_ref())?;
    match script {
        Some((file, text)) => {
            let actions = parsed(walker.as_ref(), &text, &file.display().to_string())?;
            for action in actions {
                walker.step(action)?;
                say(walker.words())?;
                film.take(walker.as_ref())?;
            }
        }
        None if Screen::is_possible() => on_screen(walker.as_mut(), &mut film)?,
        None => by_lines(walker.as_mut(), &mut film)?,
    }
    if let Some(out) = &arguments.out {
        film.write(out)?;
        say(out.display())?;
    }
    Ok(0)
}

/// The pictures of a walk, if a GIF is wanted.
pub(crate) struct Film {
    pictures: Vec<Image>,
    wanted: bool,
}

impl Film {
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            pictures: Vec::new(),
            wanted,
        }
    }

    pub(crate) fn take(&mut self, walker: &dyn Walker) -> Result<(), LabError> {
        if self.wanted {
            self.pictures.push(walker.picture(ZOOM)?);
        }
        Ok(())
    }

    pub(crate) fn write(&self, out: &Path) -> Result<(), LabError> {
        write_gif(out, &gif(&self.pictures, SHOWN)?)
    }
}

/// Screen pixels of a frame's pixel in a GIF.
const ZOOM: usize = 8;

/// The actions of a script: one letter each; white space and lines that begin with `#` are passed over.
pub(crate) fn parsed(walker: &dyn Walker, text: &str, file: &str) -> Result<Vec<usize>, LabError> {
    let keys = walker.keys();
    let mut actions = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with('#') {
            continue;
        }
        for letter in line.chars().filter(|letter| !letter.is_whitespace()) {
            match keys.iter().position(|(key, _)| *key == letter) {
                Some(action) => actions.push(action),
                None => {
                    return Err(LabError::Configuration(format!(
                        "{file}, line {}: there is no action '{letter}'; the letters are {}",
                        number + 1,
                        words(walker)
                    )));
                }
            }
        }
    }
    Ok(actions)
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

/// Goes on by keys, with pictures.
pub(crate) fn on_screen(walker: &mut dyn Walker, film: &mut Film) -> Result<(), LabError> {
    let signal = StopSignal::listen()?;
    let mut screen = Screen::open()?;
    let help = format!("{}; arrows, too; q leaves", words(walker));
    loop {
        let lines = [walker.caption().to_owned(), walker.words(), help.clone()];
        screen.show(&large(walker)?, &lines)?;
        let due = walker.moves_by_itself().then(|| Instant::now() + PACE);
        let is_due = || due.is_some_and(|due| Instant::now() >= due);
        let key = screen.key(|| signal.received().is_some() || is_due())?;
        match key {
            None if signal.received().is_none() => {
                walker.step(0)?;
                film.take(walker)?;
            }
            None | Some(Key::Leave | Key::Character('q')) => return Ok(()),
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
pub(crate) fn by_lines(walker: &mut dyn Walker, film: &mut Film) -> Result<(), LabError> {
    note(format_args!(
        "mnemora: each letter of a line is a step: {}",
        words(walker)
    ));
    say(walker.words())?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| TrainingError::read("standard input", error))?;
        for action in parsed(walker, &line, "standard input")? {
            walker.step(action)?;
            say(walker.words())?;
            film.take(walker)?;
        }
        let _ = std::io::stdout().flush();
    }
    Ok(())
}

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
    let mut film = Film {
        pictures: Vec::new(),
        wanted: arguments.out.is_some(),
    };
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
struct Film {
    pictures: Vec<Image>,
    wanted: bool,
}

impl Film {
    fn take(&mut self, walker: &dyn Walker) -> Result<(), LabError> {
        if self.wanted {
            self.pictures.push(walker.picture(ZOOM)?);
        }
        Ok(())
    }

    fn write(&self, out: &Path) -> Result<(), LabError> {
        write_gif(out, &gif(&self.pictures, SHOWN)?)
    }
}

/// Screen pixels of a frame's pixel in a GIF.
const ZOOM: usize = 8;

/// The actions of a script: one letter each; white space and lines that begin with `#` are passed over.
fn parsed(walker: &dyn Walker, text: &str, file: &str) -> Result<Vec<usize>, LabError> {
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

/// Walks by keys, with pictures.
fn on_screen(walker: &mut dyn Walker, film: &mut Film) -> Result<(), LabError> {
    let signal = StopSignal::listen()?;
    let mut screen = Screen::open()?;
    let help = format!("{}; arrows, too; q leaves", words(walker));
    loop {
        let lines = [
            "left: imagined from memory; right: the world; below: what was stored where".to_owned(),
            walker.words(),
            help.clone(),
        ];
        screen.show(&walker.picture(1)?, &lines)?;
        let key = screen.key(|| signal.received().is_some())?;
        match key {
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
fn by_lines(walker: &mut dyn Walker, film: &mut Film) -> Result<(), LabError> {
    note(format_args!(
        "mnemora: a line of letters walks on: {}",
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

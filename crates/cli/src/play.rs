//! `mnemora play`: a person plays an environment, or watches an agent.

use crate::{
    arguments::Play,
    output::say,
    screen::Screen,
    walk::{Film, by_lines, on_screen, parsed},
};
use mnemora_lab::{
    Game, LabError, TrainingError, Walker, find_device, open, pictures::check_gif_name,
};
use std::path::Path;

/// The most steps of an agent where no terminal shows them.
const LONGEST: usize = 10_000;

/// Runs the command.
pub fn run(arguments: &Play) -> Result<u8, LabError> {
    if let Some(out) = &arguments.out {
        check_gif_name(out)?;
    }
    let script = match &arguments.script {
        None => None,
        Some(file) => {
            let text =
                std::fs::read_to_string(file).map_err(|error| TrainingError::read(file, error))?;
            Some((file, text))
        }
    };
    let mut player = player(arguments)?;
    let mut film = Film::new(arguments.out.is_some());
    film.take(player.as_ref())?;
    match script {
        Some((file, text)) => {
            for action in parsed(player.as_ref(), &text, &file.display().to_string())? {
                step(player.as_mut(), action, &mut film)?;
            }
        }
        None if Screen::is_possible() => on_screen(player.as_mut(), &mut film)?,
        None if player.moves_by_itself() => {
            for _ in 0..LONGEST {
                step(player.as_mut(), 0, &mut film)?;
                if player.over() {
                    break;
                }
            }
        }
        None => by_lines(player.as_mut(), &mut film)?,
    }
    if let Some(out) = &arguments.out {
        film.write(out)?;
        say(out.display())?;
    }
    Ok(0)
}

fn step(player: &mut dyn Walker, action: usize, film: &mut Film) -> Result<(), LabError> {
    player.step(action)?;
    say(player.words())?;
    film.take(player)
}

/// The agent of a run, or the environment of this name.
fn player(arguments: &Play) -> Result<Box<dyn Walker>, LabError> {
    let (what, settings) = (arguments.what.as_str(), &arguments.set);
    if !Path::new(what).is_dir() {
        return Ok(Box::new(Game::new(what, settings, arguments.seed)?));
    }
    if let Some(setting) = settings.first() {
        return Err(LabError::Configuration(format!(
            "--set {setting}: an agent plays in the environment that it was trained in; --set is for environments"
        )));
    }
    let device = find_device(arguments.on.device)?;
    let trained = open(Path::new(what), arguments.checkpoint, &[], None, &device)?;
    let player = trained.walker(arguments.seed, None)?;
    if !player.moves_by_itself() {
        return Err(LabError::Configuration(format!(
            "{what} is no agent; walk through its world with `mnemora walk {what}`"
        )));
    }
    Ok(player)
}

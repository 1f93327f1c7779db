//! `mnemora play`: a person plays an environment, or watches an agent.

use crate::{arguments::Play, course::Course};
use mnemora_lab::{Game, LabError, Walker, Which, find_device, open};
use std::path::Path;

/// Runs the command.
pub fn run(arguments: &Play) -> Result<u8, LabError> {
    let course = Course::read(arguments.script.as_deref(), arguments.out.as_deref())?;
    course.walk(player(arguments)?.as_mut())
}

/// The agent of a run, or the environment of this name.
fn player(arguments: &Play) -> Result<Box<dyn Walker>, LabError> {
    let (what, settings) = (arguments.what.as_str(), &arguments.set);
    if !Path::new(what).is_dir() {
        let game = Game::new(what, settings, arguments.seed)?;
        for (key, given) in [
            ("--checkpoint", arguments.checkpoint != Which::Usual),
            ("--device", arguments.on.device.is_some()),
        ] {
            if given {
                return Err(LabError::Configuration(format!(
                    "{key}: a person plays {what}; {key} is for the runs of agents"
                )));
            }
        }
        return Ok(Box::new(game));
    }
    if let Some(setting) = settings.first() {
        return Err(LabError::Configuration(format!(
            "--set {setting}: an agent plays in the environment of its run; for another, make a run with its weights: \
             mnemora train {what}/experiment.toml --weights {what} --set training.steps=0 --set agents.environment.NAME.KEY=VALUE"
        )));
    }
    let device = find_device(arguments.on.device)?;
    let trained = open(Path::new(what), arguments.checkpoint, &[], None, &device)?;
    let player = trained.walker(arguments.seed, None)?;
    if !player.moves_by_itself() {
        return Err(LabError::Configuration(format!(
            "{what} is not an agent's run; walk through its world with `mnemora walk {what}`"
        )));
    }
    Ok(player)
}

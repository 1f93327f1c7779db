//! `mnemora walk`: goes on walking in a world that a model remembers.

use crate::{arguments::Walk, course::Course};
use mnemora_lab::{LabError, find_device, open};

/// Runs the command.
pub fn run(arguments: &Walk) -> Result<u8, LabError> {
    let course = Course::read(arguments.script.as_deref(), arguments.out.as_deref())?;
    let device = find_device(arguments.on.device)?;
    let data = arguments.data.data.as_deref();
    let trained = open(
        &arguments.run,
        arguments.checkpoint.which,
        &[],
        data,
        &device,
    )?;
    let mut walker = trained.walker(arguments.seed, arguments.image.as_deref())?;
    if walker.moves_by_itself() {
        return Err(LabError::Configuration(format!(
            "{0} is an agent, which moves by itself; watch it with `mnemora play {0}`",
            arguments.run.display()
        )));
    }
    course.walk(walker.as_mut())
}

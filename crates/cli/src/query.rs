//! `mnemora query`: asks a model what a scene looks like from views that it has not seen.

use crate::{arguments::Query, output::say};
use mnemora_lab::{
    LabError, Question, find_device, gif, note, open,
    pictures::{write_gif, write_picture},
};
use std::path::{Path, PathBuf};

/// Hundredths of a second for which a view is shown in a GIF.
const SHOWN: u16 = 25;

/// The picture to write, and the GIF if one is wanted.
fn files(arguments: &Query) -> Result<(PathBuf, Option<&Path>), LabError> {
    let Some(out) = &arguments.out else {
        return Ok((arguments.run.join("samples").join("query.png"), None));
    };
    match out.extension().and_then(|extension| extension.to_str()) {
        Some("png") => Ok((out.clone(), None)),
        Some("gif") => Ok((out.with_extension("png"), Some(out))),
        _ => Err(LabError::Configuration(format!(
            "{}: answers are written as a PNG or a GIF; the name must end in .png or .gif",
            out.display()
        ))),
    }
}

/// Runs the command.
pub fn run(arguments: &Query) -> Result<u8, LabError> {
    let (picture, film) = files(arguments)?;
    let device = find_device(arguments.on.device)?;
    let data = arguments.data.data.as_deref();
    let trained = open(&arguments.run, arguments.checkpoint, &[], data, &device)?;
    let answered = trained.answers(&Question {
        context: arguments.context.clone(),
        at: arguments.at.clone(),
        scene: arguments.scene,
        seed: arguments.seed,
        samples: arguments.samples as usize,
        film: film.is_some(),
    })?;
    for line in &answered.notes {
        note(format_args!("mnemora: {line}"));
    }
    if let Some(line) = &answered.words {
        note(format_args!("mnemora: {line}"));
    }
    write_picture(&answered.sheet, &picture)?;
    say(picture.display())?;
    if let Some(film) = film {
        write_gif(film, &gif(&answered.film, SHOWN)?)?;
        say(film.display())?;
    }
    Ok(0)
}

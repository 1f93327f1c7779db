//! `mnemora query`: asks a model what a scene looks like from views that it has not seen.

use crate::{arguments::Query, output::say};
use mnemora_lab::{
    Answered, LabError, Question, find_device, gif, note, open,
    pictures::{write_gif, write_picture},
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Hundredths of a second for which a view is shown in a GIF.
const SHOWN: u16 = 25;

/// The picture to write, and the GIF if one is wanted.
fn files(arguments: &Query) -> Result<(PathBuf, Option<&Path>), LabError> {
    let Some(out) = &arguments.out else {
        return Ok((arguments.run.join("samples").join("query.png"), None));
    };
    match out.extension().and_then(|extension| extension.to_str()) {
        Some("png") => Ok((out.clone(), None)),
        Some("gif") => {
            let picture = out.with_extension("png");
            // Not one of an earlier question, which has a GIF beside it.
            match picture.exists() && !out.exists() {
                false => Ok((picture, Some(out))),
                true => Err(LabError::Configuration(format!(
                    "{}: the picture beside it would be {}, which exists already; choose another --out",
                    out.display(),
                    picture.display()
                ))),
            }
        }
        _ => Err(LabError::Configuration(format!(
            "{}: answers are written as a PNG or a GIF; the name must end in .png or .gif",
            out.display()
        ))),
    }
}

/// The answers of the run and of those beside it.
fn answers(arguments: &Query) -> Result<Vec<Answered>, LabError> {
    let device = find_device(arguments.on.device)?;
    let data = arguments.data.data.as_deref();
    let question = Question {
        context: arguments.context.clone(),
        at: arguments.at.clone(),
        scene: arguments.scene,
        seed: arguments.seed,
        samples: arguments.samples as usize,
    };
    let runs = std::iter::once(&arguments.run).chain(&arguments.beside);
    let mut all: Vec<Answered> = Vec::new();
    let mut names = Vec::new();
    for run in runs {
        let trained = open(run, arguments.checkpoint.which, &[], data, &device)?;
        names.push([trained.experiment.label(), run.display().to_string()]);
        let answered = trained.answers(&question)?;
        if all
            .first()
            .is_some_and(|first| !first.asks_the_same(&answered))
        {
            return Err(LabError::Configuration(format!(
                "--beside {}: its scene is not that of {}; both must have learned the same task, with frames of the same \
                 size",
                run.display(),
                arguments.run.display()
            )));
        }
        all.push(answered);
    }
    if all.len() > 1 {
        let labels: BTreeSet<&String> = names.iter().map(|[label, _]| label).collect();
        let which = usize::from(labels.len() < all.len());
        for (answered, names) in all.iter_mut().zip(&names) {
            answered.by.clone_from(&names[which]);
        }
    }
    Ok(all)
}

/// Runs the command.
pub fn run(arguments: &Query) -> Result<u8, LabError> {
    let (picture, film) = files(arguments)?;
    let all = answers(arguments)?;
    for answered in &all {
        for line in answered.notes.iter().cloned().chain(answered.words()) {
            note(format_args!("mnemora: {line}"));
        }
    }
    let (first, others) = all.split_first().expect("the run answered");
    write_picture(&first.sheet(others)?, &picture)?;
    say(picture.display())?;
    if let Some(film) = film {
        write_gif(film, &gif(&first.film(others)?, SHOWN)?)?;
        say(film.display())?;
    }
    Ok(0)
}

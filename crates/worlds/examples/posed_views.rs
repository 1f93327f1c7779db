//! Writes views of a die as PNG pictures with `transforms.json`, the layout that the task `own-views` reads.
//!
//! `cargo run --release --example posed_views -- FOLDER [SCENE] [VIEWS] [SIDE]`
//!
//! SCENE is the number of the die (11), VIEWS the number of pictures around it (48), SIDE their rows and columns (64).
//! With the numbers in brackets it writes `crates/worlds/data/views`.

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;

use mnemora_worlds::scenes::{Dice, Scene, Scenes};
use mnemora_worlds::{Mnist, Split, Stream};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match write(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn write(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [folder, rest @ ..] = arguments else {
        return Err("usage: posed_views FOLDER [SCENE] [VIEWS] [SIDE]".into());
    };
    let number = |place: usize, default: usize| match rest.get(place) {
        None => Ok(default),
        Some(text) => text
            .parse::<usize>()
            .map_err(|cause| format!("{text}: {cause}")),
    };
    let (index, views, side) = (number(0, 11)?, number(1, 48)?, number(2, 64)?);
    let dice = Dice::new(&Mnist::bundled()?, side)?;
    let die = dice.scene(Split::Test, &Stream::new(1, "posed views"), index as u64);
    if !(1..=die.views()).contains(&views) {
        return Err(format!("VIEWS is {views}; it must be from 1 to {}", die.views()).into());
    }
    let folder = Path::new(folder);
    fs::create_dir_all(folder)?;
    let mut frames = Vec::new();
    for picture in 0..views {
        let view = picture * die.views() / views;
        let name = format!("{picture:02}");
        save(
            &folder.join(format!("{name}.png")),
            die.as_ref(),
            view,
            side,
        )?;
        frames.push(format!(
            "    {{\"file_path\": \"{name}\", \"transform_matrix\": {}}}",
            matrix(die.as_ref(), view)
        ));
    }
    let transforms = format!(
        "{{\n  \"camera_angle_x\": {},\n  \"frames\": [\n{}\n  ]\n}}\n",
        Dice::FIELD_OF_VIEW,
        frames.join(",\n")
    );
    fs::write(folder.join("transforms.json"), transforms)?;
    Ok(())
}

/// From camera to world: the columns are right, up, back, and the place of the camera.
fn matrix(die: &dyn Scene, view: usize) -> String {
    let mut query = [0.0; 7];
    die.query(view, &mut query);
    let [x, y, z, cos, sin, ..] = query;
    format!(
        "[[{sin}, 0, {}, {x}], [{}, 0, {}, {y}], [0, 1, 0, {z}], [0, 0, 0, 1]]",
        -cos, -cos, -sin
    )
}

fn save(path: &Path, die: &dyn Scene, view: usize, side: usize) -> Result<(), Box<dyn Error>> {
    let pixels = side * side;
    let mut frame = vec![0.0; 3 * pixels];
    die.render(view, die.truth(), &mut frame);
    let bytes: Vec<u8> = (0..pixels)
        .flat_map(|pixel| {
            [0, 1, 2].map(|channel| (frame[channel * pixels + pixel] * 255.0).round() as u8)
        })
        .collect();
    let file = BufWriter::new(File::create(path)?);
    let mut encoder = png::Encoder::new(file, side as u32, side as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&bytes)?;
    writer.finish()?;
    Ok(())
}

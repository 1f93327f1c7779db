//! Pictures and charts, as figures of a report and as files.

use crate::LabError;
use mnemora_figures::{
    FigureError,
    chart::{self, Chart, Layout},
    page::{Content, Figure, Number},
    picture::{HeatMap, Image, heat_map},
};
use mnemora_memory::Attention;
use mnemora_training::{Quantity, Row, arrays::host, measures, run::write_atomically};
use std::{collections::BTreeMap, path::Path};

/// What a report shows of a model.
pub struct Figures {
    /// Generated sequences, for the event file.
    pub generated: Image,
    /// The same for the report, with further pictures.
    pub pictures: Vec<Figure>,
    /// Curves other than the bound's.
    pub charts: Vec<Figure>,
    /// Pictures of reads and writes of the memory.
    pub memory: Vec<Figure>,
}

/// Held-out numbers as table rows.
pub fn numbers(quantities: &[Quantity], evaluation: &Row) -> Vec<Number> {
    let rows = measures::table(quantities, &evaluation.measures).into_iter();
    rows.map(|row| Number {
        name: row.name,
        value: row.value,
        unit: row.unit,
        meaning: row.meaning,
    })
    .collect()
}

/// Writes a picture to a file in an existing folder, and makes a figure of it.
pub fn save_figure(picture: &Image, path: &Path, caption: String) -> Result<Figure, LabError> {
    let png = picture.png_bytes()?;
    write_atomically(path, &png)?;
    Ok(Figure {
        title: String::new(),
        caption,
        content: Content::Png(png),
    })
}

/// Writes a GIF to a file in an existing folder, and makes a figure of it.
pub fn save_animation(gif: Vec<u8>, path: &Path, caption: String) -> Result<Figure, LabError> {
    write_atomically(path, &gif)?;
    Ok(Figure {
        title: String::new(),
        caption,
        content: Content::Gif(gif),
    })
}

/// Charts as a picture: below each other, two in a line if there are more than two.
pub fn charts_image(charts: &[Chart]) -> Result<Image, FigureError> {
    let layout = Layout {
        columns: if charts.len() > 2 { 2 } else { 1 },
        ..Layout::default()
    };
    chart::image(charts, &layout, 2)
}

/// Makes a figure of a chart.
pub fn chart_figure(chart: Chart, caption: &str) -> Figure {
    Figure {
        title: String::new(),
        caption: caption.into(),
        content: Content::Chart(Box::new(chart)),
    }
}

/// The most rows of a picture of weights.
const MOST_ROWS: usize = 128;

/// Weights `[slots, time]` of each head, from the attention at each step of one sequence; `None` without heads.
pub fn attention_maps(
    attention: Vec<Vec<Attention>>,
    marked: &[usize],
) -> Result<Option<Image>, LabError> {
    let time = attention.len();
    let slots = attention
        .iter()
        .flatten()
        .map(|attention| attention.weights().dims()[2])
        .max();
    let Some(slots) = slots else { return Ok(None) };
    // By kind and head; zero while a slot is not filled.
    let mut heads: BTreeMap<(&str, usize), Vec<f32>> = BTreeMap::new();
    for (step, attention) in attention.into_iter().enumerate() {
        for attention in attention {
            let weights = attention.weights();
            let filled = weights.dims()[2];
            let weights = host(weights.into_data());
            for (head, weights) in weights.chunks(filled).enumerate() {
                let values = heads
                    .entry((attention.name, head))
                    .or_insert_with(|| vec![0.0; slots * time]);
                for (slot, weight) in weights.iter().enumerate() {
                    values[slot * time + step] = *weight;
                }
            }
        }
    }
    // With more slots than this, one row shows the largest weight of several slots.
    let share = slots.div_ceil(MOST_ROWS);
    let rows = slots.div_ceil(share);
    let mut images = Vec::new();
    for ((name, head), values) in &heads {
        let mut shown = vec![0.0_f32; rows * time];
        for (slot, weights) in values.chunks(time).enumerate() {
            let row = &mut shown[slot / share * time..][..time];
            for (shown, weight) in row.iter_mut().zip(weights) {
                *shown = shown.max(*weight);
            }
        }
        images.push(heat_map(&HeatMap {
            title: format!("{name}, head {}", head + 1),
            values: &shown,
            rows,
            columns: time,
            row_axis: match share {
                1 => "slot".into(),
                share => format!("slot / {share}"),
            },
            column_axis: "step".into(),
            first_number: 1,
            first_row: 1,
            falling: None,
            range: Some((0.0, 1.0)),
            cell: match rows.max(time) {
                0..=30 => 18,
                31..=60 => 10,
                _ => 5,
            },
            marked: marked.to_vec(),
        })?);
    }
    Ok(Some(grid(&images, 3)?))
}

/// Arranges pictures of one size in rows of `columns`.
pub fn grid(images: &[Image], columns: usize) -> Result<Image, FigureError> {
    let width = images.iter().map(Image::width).max().unwrap_or(1);
    let rows: Vec<Image> = images
        .chunks(columns)
        .map(|row| {
            let height = row.iter().map(Image::height).max().unwrap_or(1);
            let mut canvas = Image::new(width * columns.min(images.len()), height, [255; 3])?;
            for (place, image) in row.iter().enumerate() {
                canvas.blit(image, place * width, 0);
            }
            Ok(canvas)
        })
        .collect::<Result<_, FigureError>>()?;
    Image::stack(&rows, 12)
}

/// Writes files whose names start like that of `picture`.
pub fn write_beside(picture: &Path, files: &[(String, Vec<u8>)]) -> Result<(), LabError> {
    let stem = picture.with_extension("");
    for (ending, bytes) in files {
        let mut path = stem.clone().into_os_string();
        path.push(ending);
        write_atomically(Path::new(&path), bytes)?;
    }
    Ok(())
}

/// Writes a picture as a PNG file, and creates its folder if needed.
///
/// # Errors
/// If the name has an ending other than `.png`, or the file cannot be written.
pub fn write_picture(picture: &Image, path: &Path) -> Result<(), LabError> {
    check_png_name(path)?;
    write_in_new_folder(path, &picture.png_bytes()?)
}

/// Checks that a name is one of a PNG file.
pub fn check_png_name(path: &Path) -> Result<(), LabError> {
    refuse_folder(path)?;
    match path.extension().is_some_and(|extension| extension != "png") {
        false => Ok(()),
        true => Err(LabError::Configuration(format!(
            "{}: pictures are PNG files; the name must end in .png",
            path.display()
        ))),
    }
}

fn refuse_folder(path: &Path) -> Result<(), LabError> {
    match path.is_dir() {
        false => Ok(()),
        true => Err(LabError::Configuration(format!(
            "{} is a folder; name a file for the picture",
            path.display()
        ))),
    }
}

/// Checks that a name is one of a GIF file.
pub fn check_gif_name(path: &Path) -> Result<(), LabError> {
    refuse_folder(path)?;
    match path.extension().is_some_and(|extension| extension == "gif") {
        true => Ok(()),
        false => Err(LabError::Configuration(format!(
            "{}: animations are GIF files; the name must end in .gif",
            path.display()
        ))),
    }
}

/// Writes a GIF file, and creates its folder if needed.
///
/// # Errors
/// If the name does not end in `.gif`, or the file cannot be written.
pub fn write_gif(path: &Path, gif: &[u8]) -> Result<(), LabError> {
    check_gif_name(path)?;
    write_in_new_folder(path, gif)
}

/// Writes a file, and creates its folder if needed.
pub(crate) fn write_in_new_folder(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        std::fs::create_dir_all(parent).map_err(|error| LabError::write(path, error))?;
    }
    Ok(write_atomically(path, bytes)?)
}

//! The report page of a run: one self-contained HTML file that works offline, on a screen, a phone or on paper.
//!
//! Charts are drawn as SVG. Where scripts run, uPlot (in `page/uplot/`, with its licence) draws them again, with the
//! values under the pointer and with zoom.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::{
    FigureError,
    chart::{self, Chart},
    escape,
    picture::PIXELS_PER_METRE,
};

/// The contents of the page, in order.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The run in a few words.
    pub title: String,
    /// One or two sentences on what was trained, on which data, and for which purpose; may be empty.
    pub subtitle: String,
    /// How far the training is, and whether it still runs; `None` for a finished run.
    pub progress: Option<Progress>,
    /// The results, shown first on the page.
    pub numbers: Vec<Number>,
    /// Sequences that the model generated.
    pub pictures: Vec<Figure>,
    /// The same during training, at some checkpoints.
    pub samples: Vec<Figure>,
    /// Learning curves, then KL per time step.
    pub charts: Vec<Figure>,
    /// Pictures of where the memory was read and written over time.
    pub memory: Vec<Figure>,
    /// Curves of the optimiser and of the machine.
    pub training: Vec<Figure>,
    /// Names and values: commit, seed, machine, data, parameters, steps, wall time.
    pub facts: Vec<(String, String)>,
    /// The exact command that started the run.
    pub command: String,
    /// The complete configuration, as TOML.
    pub configuration: String,
}

/// The state of a training that is not finished.
#[derive(Debug, Clone)]
pub struct Progress {
    /// One sentence.
    pub words: String,
    /// Whether the page is written again soon; it then reloads itself.
    pub running: bool,
}

/// One result.
#[derive(Debug, Clone, Default)]
pub struct Number {
    /// For example 'bound on test sequences'.
    pub name: String,
    /// The value as shown to the reader, such as `-92.31 ± 0.04`; see [`crate::number`].
    pub value: String,
    /// Such as 'nats per sequence'; may be empty.
    pub unit: String,
    /// What the number means, and which direction is better.
    pub meaning: String,
}

/// A picture or chart with title and caption.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Title above it; if it is empty, a chart's own title.
    pub title: String,
    /// Caption below it; may be empty.
    pub caption: String,
    /// The drawing.
    pub content: Content,
}

/// What a figure shows.
#[derive(Debug, Clone)]
pub enum Content {
    /// A chart.
    Chart(Box<Chart>),
    /// A PNG file.
    Png(Vec<u8>),
    /// A GIF file, of frames without text.
    Gif(Vec<u8>),
    /// Names of sounds, and their WAV files.
    Sounds(Vec<(String, Vec<u8>)>),
}

const STYLE: &str = include_str!("page/style.css");
/// Draws the charts again where scripts run.
const LIVE: &str = include_str!("page/live.js");
/// Reloads the page of a running training.
const RELOAD: &str = include_str!("page/reload.js");
const UPLOT: &str = include_str!("page/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("page/uplot/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("page/uplot/LICENSE");

/// A picture that is wider takes both columns, in CSS pixels.
const COLUMN: u32 = 560;
/// A picture that is wider is scrolled on a phone, in CSS pixels.
const PHONE: u32 = 340;
/// A picture is not shown smaller than this part of its size, so that its text stays legible.
const SMALLEST: f64 = 0.8;

/// Writes the page.
///
/// # Errors
/// If a chart cannot be drawn.
pub fn html(page: &Page) -> Result<String, FigureError> {
    let mut sections = String::new();
    // Scripts show it.
    let mut hint = "<p class=\"hint\" hidden>Point at a chart to read its values. Drag across it to zoom in; a double click \
                    shows the whole range again.</p>\n";
    if !page.numbers.is_empty() {
        section(&mut sections, "Results", &numbers(&page.numbers));
    }
    for (heading, figures) in [
        ("Generated sequences", &page.pictures),
        ("Curves", &page.charts),
        ("Memory over time", &page.memory),
        ("Samples during training", &page.samples),
        ("Training", &page.training),
    ] {
        if !figures.is_empty() {
            let drawn = columns(figures)?;
            let hint = match drawn.contains(DATA) {
                true => std::mem::take(&mut hint),
                false => "",
            };
            section(&mut sections, heading, &format!("{hint}{drawn}"));
        }
    }
    if !page.facts.is_empty() {
        section(&mut sections, "The run", &facts(&page.facts));
    }
    if !page.command.is_empty() {
        let command = format!(
            "<pre class=\"command\"><code>{}</code></pre>\n",
            escape(&page.command)
        );
        section(&mut sections, "Command", &command);
    }
    if !page.configuration.is_empty() {
        let configuration = format!(
            "<details>\n<summary>Complete configuration</summary>\n\
             <pre tabindex=\"0\"><code>{}</code></pre>\n</details>\n",
            escape(&page.configuration)
        );
        section(&mut sections, "Configuration", &configuration);
    }
    let title = escape(&page.title);
    let subtitle = paragraph("subtitle", &page.subtitle);
    let progress = page.progress.iter().map(|progress| {
        let words = escape(&progress.words);
        format!("<p class=\"progress\" role=\"status\">{words}</p>\n")
    });
    let progress: String = progress.collect();
    let live = sections.contains(DATA);
    let uplot_style = if live { UPLOT_STYLE } else { "" };
    let mut scripts = String::new();
    if live {
        let _ = write!(
            scripts,
            "<script>\n/*\nuPlot\n\n{UPLOT_LICENCE}\n*/\n{UPLOT}\n</script>\n<script>\n{LIVE}</script>\n"
        );
    }
    if page.progress.as_ref().is_some_and(|now| now.running) {
        let _ = write!(scripts, "<script>\n{RELOAD}</script>\n");
    }
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{uplot_style}\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header>\n<h1>{title}</h1>\n{subtitle}{progress}</header>\n{sections}</main>\n{scripts}</body>\n</html>\n"
    ))
}

fn section(page: &mut String, heading: &str, content: &str) {
    let _ = write!(page, "<section>\n<h2>{heading}</h2>\n{content}</section>\n");
}

fn paragraph(class: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("<p class=\"{class}\">{}</p>\n", escape(text))
}

fn numbers(numbers: &[Number]) -> String {
    let rows: String = numbers
        .iter()
        .map(|number| {
            let unit = match number.unit.is_empty() {
                true => String::new(),
                false => format!(" <span class=\"unit\">{}</span>", escape(&number.unit)),
            };
            let meaning = match number.meaning.is_empty() {
                true => String::new(),
                false => format!("<dd class=\"meaning\">{}</dd>", escape(&number.meaning)),
            };
            format!(
                "<div><dt>{}</dt><dd class=\"value\">{}{unit}</dd>{meaning}</div>\n",
                escape(&number.name),
                escape(&number.value),
            )
        })
        .collect();
    format!("<dl class=\"columns numbers\">\n{rows}</dl>\n")
}

fn facts(facts: &[(String, String)]) -> String {
    let rows: String = facts
        .iter()
        .map(|(name, value)| {
            let (name, value) = (escape(name), escape(value));
            format!("<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>\n")
        })
        .collect();
    format!("<table class=\"facts\"><tbody>\n{rows}</tbody></table>\n")
}

/// Figures in two columns, where there is room.
fn columns(figures: &[Figure]) -> Result<String, FigureError> {
    let drawn: String = figures.iter().map(figure).collect::<Result<_, _>>()?;
    Ok(format!("<div class=\"columns\">\n{drawn}</div>\n"))
}

/// Marks the data of a chart.
const DATA: &str = "<script type=\"application/json\" class=\"data\">";

fn figure(figure: &Figure) -> Result<String, FigureError> {
    let own_title = match &figure.content {
        Content::Chart(chart) if figure.title.is_empty() => &chart.title,
        _ => &figure.title,
    };
    let title = match own_title.is_empty() {
        true => String::new(),
        false => format!("<h3>{}</h3>\n", escape(own_title)),
    };
    let caption = match figure.caption.is_empty() {
        true => String::new(),
        false => format!("<figcaption>{}</figcaption>\n", escape(&figure.caption)),
    };
    let (class, drawing) = match &figure.content {
        Content::Chart(chart) => {
            let card = format!("<div class=\"card\">{}</div>\n", chart::still(chart)?);
            match chart::live(chart) {
                Some(data) => ("chart", format!("{card}{DATA}{data}</script>\n")),
                None => ("drawn", card),
            }
        }
        Content::Png(bytes) => picture("png", bytes, png_size(bytes), figure),
        Content::Gif(bytes) => picture("gif", bytes, gif_size(bytes), figure),
        Content::Sounds(sounds) => ("sounds", sounds.iter().map(sound).collect()),
    };
    Ok(format!(
        "<figure class=\"{class}\">\n{title}{drawing}{caption}</figure>\n"
    ))
}

fn sound((name, wav): &(String, Vec<u8>)) -> String {
    let name = escape(name);
    format!(
        "<p>{name}<audio controls preload=\"metadata\" aria-label=\"{name}\" \
         src=\"data:audio/wav;base64,{}\"></audio></p>\n",
        STANDARD.encode(wav)
    )
}

/// A picture inside the page, and the class of its figure.
fn picture(
    kind: &str,
    bytes: &[u8],
    size: Option<(u32, u32)>,
    figure: &Figure,
) -> (&'static str, String) {
    let alternative = escape(match figure.title.is_empty() {
        true => &figure.caption,
        false => &figure.title,
    });
    let encoded = STANDARD.encode(bytes);
    let image = |attributes: &str| {
        format!(
            "<img src=\"data:image/{kind};base64,{encoded}\"{attributes} alt=\"{alternative}\">"
        )
    };
    let Some((width, height)) = size else {
        return (
            "wide",
            format!("<div class=\"card picture\">{}</div>\n", image("")),
        );
    };
    // With its size the page does not jump while it loads. Small frames are scaled up by a whole number.
    let scale = match kind {
        "gif" => (COLUMN / width.max(1))
            .min(COLUMN / height.max(1))
            .clamp(1, 8),
        _ => 1,
    };
    let (shown, class) = (
        width * scale,
        if scale > 1 { " class=\"pixels\"" } else { "" },
    );
    let least = (f64::from(shown.min(width)) * SMALLEST).round();
    let image = image(&format!(
        " width=\"{width}\" height=\"{height}\"{class} style=\"width:{shown}px;max-width:100%;min-width:{least}px\""
    ));
    // What scrolls can be scrolled with the keyboard.
    let focus = match shown > PHONE {
        true => format!(" tabindex=\"0\" role=\"group\" aria-label=\"{alternative}\""),
        false => String::new(),
    };
    let class = if shown > COLUMN { "wide" } else { "small" };
    (
        class,
        format!("<div class=\"card picture\"{focus}>{image}</div>\n"),
    )
}

/// Width and height of a PNG in CSS pixels, from its first chunks.
fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    if !bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return None;
    }
    let (width, height) = (number(16)?, number(20)?);
    // A dense picture says how many pixels it has per metre.
    const FIRST: usize = 33;
    let ratio = match bytes.get(FIRST + 4..FIRST + 8)? {
        b"pHYs" => number(FIRST + 8)?.div_ceil(PIXELS_PER_METRE).max(1),
        _ => 1,
    };
    Some((width / ratio, height / ratio))
}

/// Width and height from the header of a GIF.
fn gif_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let side = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?).into());
    bytes
        .starts_with(b"GIF8")
        .then(|| Some((side(6)?, side(8)?)))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NASTY: &str = "<script>alert(\"1\" & '2')</script>";

    fn figure(content: Content) -> Figure {
        Figure {
            title: NASTY.to_owned(),
            caption: NASTY.to_owned(),
            content,
        }
    }

    fn chart() -> Figure {
        let line = chart::Series {
            label: NASTY.to_owned(),
            points: vec![(0.0, 1.0), (1.0, 2.0)],
            band: None,
        };
        figure(Content::Chart(Box::new(Chart {
            title: NASTY.to_owned(),
            x_label: NASTY.to_owned(),
            y_label: NASTY.to_owned(),
            series: vec![line],
            ..Chart::default()
        })))
    }

    fn nasty_page() -> Page {
        let text = || NASTY.to_owned();
        let png = crate::picture::Image::new(30, 20, [9; 3])
            .and_then(|image| image.png_bytes())
            .unwrap();
        Page {
            title: text(),
            subtitle: text(),
            progress: Some(Progress {
                words: text(),
                running: false,
            }),
            numbers: vec![Number {
                name: text(),
                value: text(),
                unit: text(),
                meaning: text(),
            }],
            pictures: vec![figure(Content::Png(png))],
            samples: vec![figure(Content::Sounds(vec![(text(), vec![7])]))],
            charts: vec![chart()],
            memory: vec![figure(Content::Png(vec![1, 2, 3]))],
            training: Vec::new(),
            facts: vec![(text(), text())],
            command: text(),
            configuration: text(),
        }
    }

    #[test]
    fn all_text_is_escaped() {
        let page = html(&nasty_page()).unwrap();
        assert!(!page.contains("<script>alert") && !page.contains("alert(\"1"));
        assert_eq!(page.matches("</script>").count(), 3);
        assert_eq!(escape("a\0b\u{1b}[1m\n"), "a\u{fffd}b\u{fffd}[1m\n");
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        let page = html(&nasty_page()).unwrap();
        // It names its home in a comment.
        let own = page.replace("https://github.com/leeoniya/uPlot (v1.6.32)", "");
        let own = own.replace("http://www.w3.org/2000/svg", "");
        for outside in [
            "http:", "https:", "url(", "@import", "<link", "src=\"/", "import(", "fetch(",
        ] {
            assert!(!own.contains(outside), "{outside}");
        }
    }

    /// The library comes with its licence, and only where there is a chart.
    #[test]
    fn scripts_are_there_where_they_are_used() {
        let mut page = nasty_page();
        assert!(
            html(&page)
                .unwrap()
                .contains("Copyright (c) 2022 Leon Sorokin")
        );
        page.charts.clear();
        assert!(!html(&page).unwrap().contains("<script"));
        page.progress.as_mut().unwrap().running = true;
        assert!(html(&page).unwrap().contains("location.reload()"));
    }

    #[test]
    fn the_parts_come_in_order() {
        let page = html(&nasty_page()).unwrap();
        let places: Vec<_> = [
            "<h2>Results",
            "<h2>Generated",
            "<h2>Curves",
            "<h2>Memory",
            "<h2>Samples",
            "<h2>The run",
            "<h2>Command",
            "<details>",
        ]
        .into_iter()
        .map(|part| page.find(part).unwrap())
        .collect();
        assert!(places.is_sorted(), "{places:?}");
        assert!(page.contains("width=\"30\" height=\"20\""));
        let empty = html(&Page::default()).unwrap();
        assert!(!empty.contains("<h2>") && empty.ends_with("</html>\n"));
    }

    #[test]
    fn dense_pictures_are_shown_at_their_size() {
        let charts = [Chart::default()];
        let layout = chart::Layout::default();
        for ratio in [1, 2] {
            let png = chart::png(&charts, &layout, ratio).unwrap();
            assert_eq!(png_size(&png), Some((720, 340)));
        }
    }

    #[test]
    fn small_frames_are_scaled_up() {
        let frame = crate::picture::Image::new(64, 32, [9; 3]).unwrap();
        let gif = crate::animation::gif(&[frame], 10).unwrap();
        let page = Page {
            pictures: vec![figure(Content::Gif(gif))],
            ..Page::default()
        };
        let page = html(&page).unwrap();
        assert!(page.contains("width=\"64\" height=\"32\" class=\"pixels\" style=\"width:512px"));
    }
}

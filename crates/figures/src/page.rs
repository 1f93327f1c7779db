//! The report page of a run: one self-contained HTML file that works offline, on a screen or on paper.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::escape;

/// The contents of the page, in order.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The run in a few words.
    pub title: String,
    /// One or two sentences on what was trained, on which data, and for which purpose; may be empty.
    pub subtitle: String,
    /// The results, shown first on the page.
    pub numbers: Vec<Number>,
    /// Sequences that the model generated.
    pub pictures: Vec<Figure>,
    /// Learning curves, then KL per time step.
    pub charts: Vec<Figure>,
    /// Pictures of where the memory was read and written over time.
    pub memory: Vec<Figure>,
    /// Names and values: commit, seed, machine, data, parameters, steps, wall time.
    pub facts: Vec<(String, String)>,
    /// The exact command that started the run.
    pub command: String,
    /// The complete configuration, as TOML.
    pub configuration: String,
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
    /// Title above it; may be empty.
    pub title: String,
    /// Caption below it; may be empty.
    pub caption: String,
    /// The drawing.
    pub content: Content,
}

/// A drawing in one of three formats.
#[derive(Debug, Clone)]
pub enum Content {
    /// An SVG element, embedded without escaping: it must come from [`crate::chart::svg`], never from outside.
    Svg(String),
    /// A PNG file.
    Png(Vec<u8>),
    /// A GIF file.
    Gif(Vec<u8>),
}

const STYLE: &str = include_str!("page/style.css");

/// Writes the page.
pub fn html(page: &Page) -> String {
    let mut sections = String::new();
    if !page.numbers.is_empty() {
        section(&mut sections, "Results", &numbers(&page.numbers));
    }
    for (heading, content) in [
        ("Generated sequences", &page.pictures),
        ("Curves", &page.charts),
        ("Memory over time", &page.memory),
    ] {
        if !content.is_empty() {
            let content: String = content.iter().map(figure).collect();
            section(&mut sections, heading, &content);
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
             <pre><code>{}</code></pre>\n</details>\n",
            escape(&page.configuration)
        );
        section(&mut sections, "Configuration", &configuration);
    }
    let title = escape(&page.title);
    let subtitle = paragraph("subtitle", &page.subtitle);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header>\n<h1>{title}</h1>\n{subtitle}</header>\n{sections}</main>\n</body>\n</html>\n"
    )
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
            format!(
                "<tr><th scope=\"row\">{}</th><td class=\"value\">{}</td><td class=\"unit\">{}</td><td>{}</td></tr>\n",
                escape(&number.name),
                escape(&number.value),
                escape(&number.unit),
                escape(&number.meaning)
            )
        })
        .collect();
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Quantity</th>\
         <th scope=\"col\" class=\"value\">Value</th><th scope=\"col\">Unit</th>\
         <th scope=\"col\">What it means</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
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

fn figure(figure: &Figure) -> String {
    let title = if figure.title.is_empty() {
        String::new()
    } else {
        format!("<h3>{}</h3>\n", escape(&figure.title))
    };
    let caption = if figure.caption.is_empty() {
        String::new()
    } else {
        format!("<figcaption>{}</figcaption>\n", escape(&figure.caption))
    };
    let drawing = match &figure.content {
        Content::Svg(svg) => svg.clone(),
        Content::Png(bytes) => {
            let size = png_size(bytes).map_or(String::new(), |(width, height)| {
                format!(" width=\"{width}\" height=\"{height}\"")
            });
            embedded("png", bytes, &size, figure)
        }
        Content::Gif(bytes) => embedded("gif", bytes, "", figure),
    };
    format!("<figure>\n{title}<div class=\"card\">{drawing}</div>\n{caption}</figure>\n")
}

/// A picture inside the page; `size` are attributes.
fn embedded(kind: &str, bytes: &[u8], size: &str, figure: &Figure) -> String {
    let alternative = match figure.title.is_empty() {
        true => &figure.caption,
        false => &figure.title,
    };
    format!(
        "<img src=\"data:image/{kind};base64,{}\"{size} alt=\"{}\">",
        STANDARD.encode(bytes),
        escape(alternative)
    )
}

/// Width and height from the first chunk of a PNG. With them the page does not jump while it loads.
fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let side = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    bytes
        .starts_with(b"\x89PNG\r\n\x1a\n")
        .then(|| Some((side(16)?, side(20)?)))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NASTY: &str = "<script>alert(\"1\" & '2')</script>";

    fn nasty_page() -> Page {
        let text = || NASTY.to_owned();
        let png = crate::picture::Image::new(30, 20, [9; 3])
            .and_then(|image| image.png_bytes())
            .unwrap();
        let figure = |content| Figure {
            title: text(),
            caption: text(),
            content,
        };
        Page {
            title: text(),
            subtitle: text(),
            numbers: vec![Number {
                name: text(),
                value: text(),
                unit: text(),
                meaning: text(),
            }],
            pictures: vec![figure(Content::Png(png))],
            charts: vec![figure(Content::Svg("<svg id=\"a\"></svg>".to_owned()))],
            memory: vec![figure(Content::Png(vec![1, 2, 3]))],
            facts: vec![(text(), text())],
            command: text(),
            configuration: text(),
        }
    }

    #[test]
    fn all_text_is_escaped() {
        let page = html(&nasty_page());
        assert!(!page.contains("<script") && !page.contains("alert(\""));
        assert_eq!(page.matches(&escape(NASTY)).count(), 19);
        assert!(
            page.contains("<svg id=\"a\"></svg>"),
            "the SVG must not be escaped"
        );
        assert_eq!(escape("a\0b\u{1b}[1m\n"), "a\u{fffd}b\u{fffd}[1m\n");
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        let page = html(&nasty_page());
        for outside in ["http:", "https:", "url(", "@import", "<link", "src=\"/"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn the_parts_come_in_order() {
        let page = html(&nasty_page());
        let places: Vec<_> = [
            "Results",
            "Generated",
            "Curves",
            "Memory",
            "The run",
            "Command",
            "<details>",
        ]
        .into_iter()
        .map(|part| {
            page.find(&format!("<h2>{part}"))
                .or(page.find(part))
                .unwrap()
        })
        .collect();
        assert!(places.is_sorted(), "{places:?}");
        assert!(page.contains("width=\"30\" height=\"20\""));
        let empty = html(&Page::default());
        assert!(!empty.contains("<h2>") && empty.ends_with("</html>\n"));
    }
}

//! Draws a learning curve as PNG and puts it on an HTML page.

use mnemora_figures::{
    chart::{self, Chart, Layout, Series},
    page::{Content, Figure, Page, html},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let curve = Chart {
        title: "Learning curve".into(),
        x_label: "update".into(),
        y_label: "loss (nats)".into(),
        series: vec![Series {
            label: "seed 1".into(),
            points: (1..=200)
                .map(|update| (f64::from(update), 3.0 + 40.0 / f64::from(update)))
                .collect(),
            band: None,
        }],
        ..Chart::default()
    };
    let folder = std::env::temp_dir();
    let picture = folder.join("learning-curve.png");
    let scale = 2;
    std::fs::write(
        &picture,
        chart::png(std::slice::from_ref(&curve), &Layout::default(), scale)?,
    )?;
    let page = Page {
        title: "A run".into(),
        charts: vec![Figure {
            title: String::new(),
            caption: "The loss falls with the number of updates.".into(),
            content: Content::Chart(Box::new(curve)),
        }],
        ..Page::default()
    };
    let file = folder.join("learning-curve.html");
    std::fs::write(&file, html(&page)?)?;
    println!("{}\n{}", picture.display(), file.display());
    Ok(())
}

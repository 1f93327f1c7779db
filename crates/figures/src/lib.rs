//! Charts, pictures and an HTML page for reports: plain numbers in, SVG, PNG and HTML out.
//!
//! | file | contents |
//! | --- | --- |
//! | `chart.rs` | line charts, as SVG and as PNG |
//! | `picture.rs` | frames of sequences, heat maps, bars, texts, maps; each is drawn as a [`picture::Image`] |
//! | `animation.rs` | moving pictures, as GIF |
//! | `page.rs` | one HTML file with numbers, figures and facts about a run |
//! | `number.rs`, `escape.rs` | number formatting; escaping of text for HTML and SVG |
//!
//! The crate writes no files: every drawing is returned as bytes. The font is compiled in, so a figure looks the
//! same on every machine.

pub mod animation;
pub mod chart;
mod error;
mod escape;
mod number;
pub mod page;
pub mod picture;

pub use error::FigureError;
pub use escape::escape;
pub use number::number;

/// An error in drawing or encoding a picture.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// The number of values does not match the declared shape.
    #[error("{what} holds {expected} values, but {found} were given")]
    Shape {
        /// Description of the values.
        what: String,
        /// Number of values that the shape holds.
        expected: usize,
        /// Number of values that were given.
        found: usize,
    },
    /// Frames have one channel (grey) or three (red, green, blue).
    #[error("frames have {0} channels, but only 1 (grey) or 3 (red, green, blue) can be shown")]
    Channels(usize),
    /// The picture is too large to hold in memory or to encode.
    #[error(
        "a picture of {width} x {height} pixels is too large: show fewer frames, or use a smaller scale"
    )]
    TooLarge {
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
    },
    /// An encoder or the text renderer failed.
    #[error("cannot draw or encode the picture: {0}")]
    Draw(String),
}

impl FigureError {
    pub(crate) fn draw(error: impl std::fmt::Display) -> Self {
        Self::Draw(error.to_string())
    }
}

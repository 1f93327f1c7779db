/// Why a picture could not be made or written.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// The values do not fill the declared shape.
    #[error("{what}: {found} values do not fill the shape, which holds {expected}")]
    Shape {
        /// What the values are.
        what: String,
        /// Values that the shape holds.
        expected: usize,
        /// Values that were given.
        found: usize,
    },
    /// Frames have one channel (grey) or three (red, green, blue).
    #[error("frames of {0} channels cannot be shown: 1 (grey) or 3 (red, green, blue) can")]
    Channels(usize),
    /// The picture would be too large to hold or to encode.
    #[error(
        "a picture of {width} x {height} pixels is too large: show fewer frames, or scale them less"
    )]
    TooLarge {
        /// Pixels.
        width: usize,
        /// Pixels.
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

//! File formats, each read into plain arrays with a limit on the memory used.

pub(crate) mod audio;
pub mod idx;
pub mod npy;
pub(crate) mod parquet;
pub(crate) mod picture;
pub(crate) mod table;
pub mod tfrecord;

pub use self::audio::{Encoding, Sound};
pub use self::picture::{Fit, FrameSettings};

//! What can go wrong with a data set or a task. Every message is one line: what, where, and what
//! would be right.

use std::io;
use std::path::PathBuf;

/// An unusable data file, an impossible task, or a task that failed while it ran ahead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to give the bytes of a file.
    #[error("cannot read {file}: {cause}")]
    Read {
        /// The file.
        file: String,
        /// What the operating system said.
        cause: io::Error,
    },

    /// A gzip file that ends too early, fails its checksum, or is followed by bytes that are not
    /// gzip.
    #[error(
        "{file}: damaged gzip data ({cause}): truncated, altered, or followed by other bytes; fetch the file again"
    )]
    DamagedGzip {
        /// The file.
        file: String,
        /// What the decoder met.
        cause: io::Error,
    },

    /// A file that ends inside the idx header.
    #[error(
        "{file}: {length} bytes long, but the header of an idx file of {kind} alone takes {header}"
    )]
    ShortHeader {
        /// The file.
        file: String,
        /// What the file should hold.
        kind: &'static str,
        /// Bytes in the (decompressed) file.
        length: usize,
        /// Bytes of a complete header.
        header: usize,
    },

    /// A file that is not the idx file it should be.
    #[error(
        "{file}: not an idx file of {kind}: its magic number is {found:#010x} instead of {expected:#010x}{hint}"
    )]
    WrongMagic {
        /// The file.
        file: String,
        /// What the file should hold.
        kind: &'static str,
        /// First four bytes, big-endian.
        found: u32,
        /// What they should be.
        expected: u32,
        /// What the file seems to be instead, or nothing.
        hint: &'static str,
    },

    /// An idx header that claims more than any file of this kind should hold.
    #[error("{file}: its header claims {shape} bytes of data; at most {limit} bytes are accepted")]
    TooLarge {
        /// The file.
        file: String,
        /// The claimed dimensions.
        shape: String,
        /// Most bytes that are accepted.
        limit: usize,
    },

    /// An idx file with fewer data bytes than its header claims.
    #[error("{file}: its header claims {shape} = {claimed} bytes of data, but only {found} follow")]
    ShortPayload {
        /// The file.
        file: String,
        /// The claimed dimensions.
        shape: String,
        /// Product of the claimed dimensions.
        claimed: usize,
        /// Bytes that follow the header.
        found: usize,
    },

    /// An idx file with more data bytes than its header claims.
    #[error("{file}: its header claims {shape} = {claimed} bytes of data, but more follow")]
    LongPayload {
        /// The file.
        file: String,
        /// The claimed dimensions.
        shape: String,
        /// Product of the claimed dimensions.
        claimed: usize,
    },

    /// Dimensions that are wrong for the array they should describe.
    #[error("{file}: {shape} does not describe {length} bytes, with every dimension below 2^32")]
    WrongShape {
        /// The file to be.
        file: String,
        /// The dimensions.
        shape: String,
        /// Bytes in the array.
        length: usize,
    },

    /// The data folder is not there, or is not a folder.
    #[error(
        "data folder {path} {problem}; it should be a folder with the four MNIST files ({wanted})"
    )]
    NoFolder {
        /// The folder asked for.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
        /// The files looked for.
        wanted: String,
    },

    /// A folder without one of the MNIST files.
    #[error(
        "no {wanted} in {looked_in}; the four MNIST files must lie in one folder, as idx or idx.gz"
    )]
    NoFile {
        /// The spellings looked for.
        wanted: String,
        /// The folders looked in.
        looked_in: String,
    },

    /// A data folder that the environment names, and that cannot be used.
    #[error(
        "{cause} (the folder is the one that {variable} names; unset it to use the bundled subset)"
    )]
    FromEnvironment {
        /// The environment variable.
        variable: &'static str,
        /// What is wrong.
        cause: Box<Error>,
    },

    /// Digits that are not 28 x 28 pixels.
    #[error("{file}: images of {rows} x {columns} pixels, MNIST digits are 28 x 28")]
    WrongImageSize {
        /// The image file.
        file: String,
        /// Pixel rows of an image.
        rows: usize,
        /// Pixel columns of an image.
        columns: usize,
    },

    /// An image file without images.
    #[error("{file}: holds no images, at least one is needed")]
    NoImages {
        /// The image file.
        file: String,
    },

    /// As many labels as images are needed.
    #[error(
        "{labels_file}: {labels} labels for the {images} images of {images_file}; the numbers must agree"
    )]
    CountMismatch {
        /// The image file.
        images_file: String,
        /// Images in it.
        images: usize,
        /// The label file.
        labels_file: String,
        /// Labels in it.
        labels: usize,
    },

    /// A label that is no digit.
    #[error("{file}: label {label} at position {position}; labels are digits from 0 to 9")]
    WrongLabel {
        /// The label file.
        file: String,
        /// The label.
        label: u8,
        /// Its position, from 0.
        position: usize,
    },

    /// A task setting out of its range.
    #[error("{key} = {value}: {wanted}")]
    Setting {
        /// Key of the setting in an experiment file.
        key: &'static str,
        /// The value given.
        value: usize,
        /// What would be right.
        wanted: String,
    },

    /// The thread that makes batches ahead could not start.
    #[error("cannot start the thread that makes batches of {task}: {cause}")]
    PrefetchNotStarted {
        /// Name of the task.
        task: &'static str,
        /// What the operating system said.
        cause: io::Error,
    },

    /// The thread that makes batches ahead stopped.
    #[error("task {task} failed while making batch {index}: {message}")]
    PrefetchStopped {
        /// Name of the task.
        task: &'static str,
        /// Number of the batch that was due.
        index: u64,
        /// What the thread said when it panicked.
        message: String,
    },
}

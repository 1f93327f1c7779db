//! What can go wrong with a data set or a task. Every message is one line: what, where, and what
//! would be right.

use std::io;
use std::path::PathBuf;

use crate::{DATA_VARIABLE, Part, Split};

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
    #[error("{file}: its header claims {shape} bytes of data: {problem}")]
    TooLarge {
        /// The file.
        file: String,
        /// The claimed dimensions.
        shape: String,
        /// How many are accepted, and what raises that number.
        problem: String,
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
    #[error("data folder {path} {problem}; it should be a folder with {wanted}")]
    NoFolder {
        /// The folder asked for.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
        /// What should lie in it.
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
        "{cause} (the folder is the one that {variable} names; unset it to use what comes with the program)"
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

    /// A folder without a part of Omniglot.
    #[error(
        "no {part}.zip and no folder {part} in {looked_in}; both parts of Omniglot must lie in one folder, archived or extracted"
    )]
    NoOmniglotPart {
        /// Name of the part.
        part: &'static str,
        /// The folders looked in.
        looked_in: String,
    },

    /// A zip archive that cannot be unpacked.
    #[error(
        "{file}: damaged zip archive ({cause}): truncated, altered, or no zip archive at all; fetch the file again"
    )]
    DamagedArchive {
        /// The archive.
        file: String,
        /// What the decoder met.
        cause: String,
    },

    /// A part of Omniglot without folders of alphabets.
    #[error(
        "{path}: holds no alphabets; drawings must lie in <alphabet>/<character>/CCCC_DD.png within it"
    )]
    NoAlphabets {
        /// The part.
        path: String,
    },

    /// An alphabet that is too small to keep characters of it for the test.
    #[error(
        "{path}: an alphabet with {characters} characters; at least 4 are needed, since 3 are kept for the test"
    )]
    FewCharacters {
        /// The alphabet.
        path: String,
        /// Its characters.
        characters: usize,
    },

    /// A character without drawings.
    #[error("{path}: holds no drawings, at least one CCCC_DD.png is needed")]
    NoDrawings {
        /// The character.
        path: String,
    },

    /// Two folders with drawings of the same character.
    #[error("{path}: holds drawings of character {number:04}, as {other} does")]
    CharacterTwice {
        /// The folder.
        path: String,
        /// The other folder.
        other: String,
        /// Official number of the character.
        number: u16,
    },

    /// An image whose name does not say what it shows.
    #[error(
        "{file}: an image in a folder of drawings must be named CCCC_DD.png, with character 0001 to 1623 and drawer"
    )]
    DrawingName {
        /// The image.
        file: String,
    },

    /// A drawing among those of another character.
    #[error("{file}: a drawing of another character in a folder with drawings of {known:04}")]
    MisplacedDrawing {
        /// The drawing.
        file: String,
        /// Official number of the character that others in the folder show.
        known: u16,
    },

    /// A drawing that is no sound PNG image.
    #[error("{file}: damaged PNG image ({cause}); fetch the file again")]
    DamagedPng {
        /// The image.
        file: String,
        /// What the decoder met.
        cause: String,
    },

    /// A drawing of another size than the originals.
    #[error("{file}: an image of {rows} x {columns} pixels, Omniglot drawings are 105 x 105")]
    WrongDrawingSize {
        /// The image.
        file: String,
        /// Its pixel rows.
        rows: u32,
        /// Its pixel columns.
        columns: u32,
    },

    /// A file inside the program that is not what it should be.
    #[error("{file}: cannot be right: {problem}; the program was built from a damaged file")]
    DamagedBundle {
        /// The file.
        file: &'static str,
        /// What is wrong with it.
        problem: String,
    },

    /// A task that needs images of a class that a split does not show.
    #[error(
        "{task}: the {split} split of {data} has no image of class {class}, with which it reports"
    )]
    MissingClass {
        /// Name of the task.
        task: &'static str,
        /// Name of the data set.
        data: &'static str,
        /// The split.
        split: Split,
        /// The class.
        class: u16,
    },

    /// A one-shot task on data with a class in both splits.
    #[error(
        "{task} tests on classes never trained on, but both splits of {data} show class {class}"
    )]
    SharedClass {
        /// Name of the task.
        task: &'static str,
        /// Name of the data set.
        data: &'static str,
        /// The class.
        class: u16,
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

    /// A recording, or a file about recordings, that cannot be used.
    #[error("{file}: {problem}")]
    Unusable {
        /// The file or folder.
        file: String,
        /// What is wrong, where in the file, and what would be right.
        problem: String,
    },

    /// The operating system refused to take the bytes of a file.
    #[error("cannot write {file}: {cause}")]
    Write {
        /// The file.
        file: String,
        /// What the operating system said.
        cause: io::Error,
    },

    /// A data set that is not part of the program and was not named.
    #[error(
        "{data} does not come with the program; name a folder with {wanted} by --data or {DATA_VARIABLE}"
    )]
    NotBundled {
        /// Name of the data set.
        data: &'static str,
        /// A file that it is read from.
        wanted: &'static str,
    },

    /// Windows or sequences of a part without recordings.
    #[error("{data}: the {part} part holds no recordings")]
    EmptyPart {
        /// Name of the corpus.
        data: String,
        /// The part.
        part: Part,
    },

    /// Windows that are longer than every recording.
    #[error(
        "{data}: windows of {steps} steps, but the longest recording of the {part} part has {longest}; use shorter windows"
    )]
    ShortRecordings {
        /// Name of the corpus.
        data: String,
        /// The part.
        part: Part,
        /// Steps of a window.
        steps: usize,
        /// Steps of the longest recording.
        longest: usize,
    },

    /// A program outside of the language, or one that cannot be executed to its end.
    #[error("program, line {line}, column {column}: {problem}")]
    Program {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong there, and what would be right.
        problem: String,
    },

    /// A text that is not UTF-8.
    #[error("{file}: byte {offset} is not UTF-8; convert the file to UTF-8 (iconv -t UTF-8)")]
    NotUtf8 {
        /// The file.
        file: String,
        /// Position of the first byte that is none, from 0, in the decompressed file.
        offset: u64,
    },

    /// A part of a text without words.
    #[error("{data}: the {part} part holds no words")]
    NoWords {
        /// Name of the text.
        data: String,
        /// The part.
        part: Part,
    },

    /// Streams that are shorter than a window.
    #[error(
        "{data}: {batch} streams with windows of {time} words need {needed} words, but the {part} part has {words}; use fewer streams or shorter windows"
    )]
    ShortText {
        /// Name of the text.
        data: String,
        /// The part.
        part: Part,
        /// Streams.
        batch: usize,
        /// Words of a window.
        time: usize,
        /// `batch * time`.
        needed: usize,
        /// Words of the part.
        words: usize,
    },

    /// A vocabulary of fewer words than are there.
    #[error(
        "a vocabulary of {wanted} words cannot hold the {found} words found, with <unk> and <eos>; ask for at least {found}, or leave out rare words"
    )]
    SmallVocabulary {
        /// Words asked for.
        wanted: usize,
        /// Words found.
        found: usize,
    },

    /// Another vocabulary than the one that a model was trained with.
    #[error(
        "a vocabulary of {words} words with fingerprint {found}, but the model was trained with {wanted}; use the vocabulary saved with the model"
    )]
    OtherVocabulary {
        /// Words of the vocabulary at hand.
        words: usize,
        /// Its fingerprint.
        found: String,
        /// The fingerprint that the model has.
        wanted: String,
    },

    /// A video that only ffmpeg can decode, on a machine without it.
    #[error(
        "{file}: ffmpeg is needed to read it and could not be started ({cause}); install ffmpeg, or extract the frames as png or jpg into a folder"
    )]
    NoFfmpeg {
        /// The video.
        file: String,
        /// What the operating system said.
        cause: io::Error,
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

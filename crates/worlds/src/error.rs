//! Errors of data sets and tasks. Every message is one line: what is wrong, where, and what would be
//! right.

use std::io;
use std::path::{Path, PathBuf};

use crate::{DATA_VARIABLE, Part, Split};

/// An unusable data file, impossible settings of a task, or a task that failed while making batches ahead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read {file}: {cause}")]
    Read {
        /// The file.
        file: String,
        /// The operating system's error.
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
        /// The decoder's error.
        cause: io::Error,
    },

    /// A file that ends inside the idx header.
    #[error(
        "{file}: {length} bytes long, but the header of an idx file of {kind} alone has {header}"
    )]
    ShortHeader {
        /// The file.
        file: String,
        /// The expected content.
        kind: &'static str,
        /// Bytes in the (decompressed) file.
        length: usize,
        /// Bytes of a complete header.
        header: usize,
    },

    /// A file that is not the expected idx file.
    #[error(
        "{file}: not an idx file of {kind}: its magic number is {found:#010x} instead of {expected:#010x}{hint}"
    )]
    WrongMagic {
        /// The file.
        file: String,
        /// The expected content.
        kind: &'static str,
        /// First four bytes, big-endian.
        found: u32,
        /// The expected value.
        expected: u32,
        /// What the file seems to be instead, or empty.
        hint: &'static str,
    },

    /// An idx header that claims more data than is accepted.
    #[error("{file}: its header claims {shape} bytes of data: {problem}")]
    TooLarge {
        /// The file.
        file: String,
        /// The claimed dimensions.
        shape: String,
        /// The limit, and the setting that raises it.
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

    /// Dimensions that do not fit the array they describe.
    #[error("{file}: {shape} does not describe {length} bytes, with every dimension below 2^32")]
    WrongShape {
        /// The file to be written.
        file: String,
        /// The dimensions.
        shape: String,
        /// Bytes in the array.
        length: usize,
    },

    /// The data folder does not exist, or is not a folder.
    #[error("data folder {path} {problem}; it should be a folder with {wanted}")]
    NoFolder {
        /// The requested folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
        /// The expected content.
        wanted: String,
    },

    /// A folder without one of the MNIST files.
    #[error(
        "no {wanted} in {looked_in}; the four MNIST files must lie in one folder, as idx or idx.gz"
    )]
    NoFile {
        /// The accepted names.
        wanted: String,
        /// The folders that were searched.
        looked_in: String,
    },

    /// An unusable data folder that an environment variable names.
    #[error(
        "{cause} (the folder comes from {variable}; unset it to use the data that comes with the program)"
    )]
    FromEnvironment {
        /// The environment variable.
        variable: &'static str,
        /// What is wrong.
        cause: Box<Error>,
    },

    /// Digits that are not 28 x 28 pixels.
    #[error("{file}: the images have {rows} x {columns} pixels, but MNIST digits have 28 x 28")]
    WrongImageSize {
        /// The image file.
        file: String,
        /// Pixel rows of an image.
        rows: usize,
        /// Pixel columns of an image.
        columns: usize,
    },

    /// An image file without images.
    #[error("{file}: holds no images, but at least one is needed")]
    NoImages {
        /// The image file.
        file: String,
    },

    /// The numbers of images and labels differ.
    #[error(
        "{labels_file}: {labels} labels for the {images} images of {images_file}; there must be one label per image"
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

    /// A label that is not a digit.
    #[error("{file}: label {label} at position {position}; labels are digits from 0 to 9")]
    WrongLabel {
        /// The label file.
        file: String,
        /// The label.
        label: u8,
        /// Its position, from 0.
        position: usize,
    },

    /// A folder that lacks a part of Omniglot.
    #[error(
        "no {part}.zip and no folder {part} in {looked_in}; both parts of Omniglot must lie in one folder, archived or extracted"
    )]
    NoOmniglotPart {
        /// Name of the part.
        part: &'static str,
        /// The folders that were searched.
        looked_in: String,
    },

    /// A zip archive that cannot be unpacked.
    #[error(
        "{file}: damaged zip archive ({cause}): truncated, altered, or not a zip archive at all; fetch the file again"
    )]
    DamagedArchive {
        /// The archive.
        file: String,
        /// The decoder's error.
        cause: String,
    },

    /// A part of Omniglot without folders of alphabets.
    #[error("{path}: holds no alphabets; it must hold drawings <alphabet>/<character>/CCCC_DD.png")]
    NoAlphabets {
        /// The part.
        path: String,
    },

    /// An alphabet with too few characters to keep some for the test.
    #[error(
        "{path}: an alphabet with {characters} characters; at least 4 are needed, since 3 are kept for the test"
    )]
    FewCharacters {
        /// The alphabet.
        path: String,
        /// Its characters.
        characters: usize,
    },

    /// Two folders with drawings of the same character.
    #[error("{path}: holds drawings of character {number:04}, but so does {other}")]
    CharacterTwice {
        /// The folder.
        path: String,
        /// The other folder.
        other: String,
        /// Official number of the character.
        number: u16,
    },

    /// An image whose name does not follow the scheme.
    #[error(
        "{file}: an image in a folder of drawings must be named CCCC_DD.png, for character 0001 to 1623 and the drawer"
    )]
    DrawingName {
        /// The image.
        file: String,
    },

    /// A drawing that is not a valid PNG image.
    #[error("{file}: damaged PNG image ({cause}); fetch the file again")]
    DamagedPng {
        /// The image.
        file: String,
        /// The decoder's error.
        cause: String,
    },

    /// A damaged file inside the program.
    #[error("{file}: cannot be right: {problem}; the program was built from a damaged file")]
    DamagedBundle {
        /// The file.
        file: &'static str,
        /// What is wrong with it.
        problem: String,
    },

    /// A task that needs images of a class that a split lacks.
    #[error(
        "{task}: the {split} split of {data} has no image of class {class}, which the task needs for its answers"
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

    /// A task that needs more images of a class than there are.
    #[error(
        "{task}: the training images of {data} show class {class} {found} times, but {needed} of them are needed"
    )]
    FewImages {
        /// Name of the task.
        task: &'static str,
        /// Name of the data set.
        data: &'static str,
        /// The class.
        class: u16,
        /// Images of the class.
        found: usize,
        /// Images needed.
        needed: usize,
    },

    /// A one-shot task on data whose splits share a class.
    #[error(
        "{task} tests on classes that are not trained on, but both splits of {data} contain class {class}"
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
        /// What values are accepted.
        wanted: String,
    },

    /// A setting that is a fraction, out of its range.
    #[error("{key} = {value}: {wanted}")]
    Fraction {
        /// Key of the setting in an experiment file.
        key: &'static str,
        /// The value given.
        value: f32,
        /// What values are accepted.
        wanted: String,
    },

    /// A setting that is a number, out of its range.
    #[error("{key} = {value}: it must be {wanted}")]
    Number {
        /// Key of the setting in an experiment file.
        key: &'static str,
        /// The value given.
        value: f64,
        /// What values are accepted.
        wanted: String,
    },

    /// An action that an environment does not have.
    #[error("action {action} does not exist: the environment has {count} actions, numbered from 0")]
    NoAction {
        /// The number of the action.
        action: usize,
        /// Number of actions.
        count: usize,
    },

    /// A buffer that an observation does not fit in exactly.
    #[error("the buffer has {found} values, but an observation has {wanted}")]
    ObservationSize {
        /// Values of the buffer.
        found: usize,
        /// Values of an observation.
        wanted: usize,
    },

    /// An action when there is no episode to act in.
    #[error("no episode is running: call reset before the next step")]
    NoEpisode,

    /// Settings of an environment that it does not have, or of another type than it expects.
    #[error("{problem}")]
    EnvironmentSettings {
        /// What is wrong with them.
        problem: String,
    },

    /// A level that could not be generated.
    #[error("episode with seed {seed}: {problem}")]
    NoLevel {
        /// The seed of the episode.
        seed: u64,
        /// Why.
        problem: String,
    },

    /// As many actions as there are environments were expected.
    #[error("{found} actions for {wanted} environments: each environment needs one")]
    ActionCount {
        /// Number of actions.
        found: usize,
        /// Number of environments.
        wanted: usize,
    },

    /// An environment that panicked.
    #[error(
        "environment {index} panicked ({message}); to replay: reset it with seed {seed}, then do the actions [{}]",
        list(actions)
    )]
    EnvironmentPanicked {
        /// Number of the environment, from 0.
        index: usize,
        /// The seed of its episode.
        seed: u64,
        /// The actions of the episode, the one that it panicked at last. Empty if it panicked at the reset.
        actions: Vec<u16>,
        /// The panic's message.
        message: String,
    },

    /// Bytes that are not the saved state of an environment with these settings.
    #[error("not a saved state of this environment: {problem}")]
    SavedState {
        /// What is wrong with them.
        problem: &'static str,
    },

    /// An unusable recording, or an unusable file about recordings.
    #[error("{file}: {problem}")]
    Unusable {
        /// The file or folder.
        file: String,
        /// What is wrong, where in the file, and what would be right.
        problem: String,
    },

    /// A file could not be written.
    #[error("cannot write {file}: {cause}")]
    Write {
        /// The file.
        file: String,
        /// The operating system's error.
        cause: io::Error,
    },

    /// A data set that is not part of the program, without a folder to read it from.
    #[error(
        "{data} does not come with the program; name a folder with {wanted} by --data or {DATA_VARIABLE}"
    )]
    NotBundled {
        /// Name of the data set.
        data: &'static str,
        /// A file that the folder must hold.
        wanted: &'static str,
    },

    /// A part without recordings.
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

    /// A program that is not in the language, or cannot be executed.
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
        /// Position of the first invalid byte, from 0, in the decompressed file.
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

    /// A vocabulary that is too small for the words found.
    #[error(
        "a vocabulary of {wanted} words cannot hold the {found} words found, with <unk> and <eos>; ask for at least {found}, or leave out rare words"
    )]
    SmallVocabulary {
        /// Words asked for.
        wanted: usize,
        /// Words found.
        found: usize,
    },

    /// A vocabulary other than the one that the model was trained with.
    #[error(
        "a vocabulary of {words} words with fingerprint {found}, but the model was trained with {wanted}; use the vocabulary saved with the model"
    )]
    OtherVocabulary {
        /// Number of words in the given vocabulary.
        words: usize,
        /// Its fingerprint.
        found: String,
        /// The fingerprint of the model's vocabulary.
        wanted: String,
    },

    /// A video that needs ffmpeg, on a machine without it.
    #[error(
        "{file}: ffmpeg is needed to read it and could not be started ({cause}); install ffmpeg, or extract the frames as png or jpg into a folder"
    )]
    NoFfmpeg {
        /// The video.
        file: String,
        /// The operating system's error.
        cause: io::Error,
    },

    /// The thread that makes batches ahead could not be started.
    #[error("cannot start the thread that makes batches of {task}: {cause}")]
    PrefetchNotStarted {
        /// Name of the task.
        task: String,
        /// The operating system's error.
        cause: io::Error,
    },

    /// The thread that makes batches ahead stopped.
    #[error("task {task} failed while making batch {index}: {message}")]
    PrefetchStopped {
        /// Name of the task.
        task: String,
        /// Number of the batch to be made.
        index: u64,
        /// The thread's panic message.
        message: String,
    },
}

/// Numbers with spaces between them.
fn list(numbers: &[u16]) -> String {
    let words: Vec<String> = numbers.iter().map(u16::to_string).collect();
    words.join(" ")
}

/// An error about the content of a file, in one line.
pub(crate) fn unusable(file: &Path, problem: impl Into<String>) -> Error {
    Error::Unusable {
        file: file.display().to_string(),
        problem: one_line(&problem.into()),
    }
}

/// A text with escaped control characters, cut if it is too long: a name from a file may contain line ends and
/// terminal codes, or be as long as the file.
pub(crate) fn one_line(text: &str) -> String {
    const LONGEST: usize = 1000;
    let mut line = String::new();
    for character in text.chars() {
        if line.len() > LONGEST {
            line.push_str("...");
            break;
        }
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// An error of the operating system about a file.
pub(crate) fn refused(file: &Path, cause: io::Error) -> Error {
    Error::Read {
        file: file.display().to_string(),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn what_a_file_says_is_one_line_of_some_length() {
        assert_eq!(one_line("à\n\u{1b}[2Jb"), "à\\n\\u{1b}[2Jb");
        let line = one_line(&"x".repeat(1 << 20));
        assert!(line.len() < 1010 && line.ends_with("x..."));
    }
}

//! Opening a user's files: regular files only, each only once, and only up to a limit of bytes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::error::{refused, unusable};
use crate::folder::{entries, has_extension, natural_order, within};

/// Deepest nesting of folders that is read.
const DEEPEST: usize = 12;

/// Limits on the size of a user's data; larger data is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of all files of a data set together, and most bytes that its recordings may take in
    /// memory (`data.max_bytes`).
    pub bytes: u64,
    /// Most bytes that one file may unpack to or take in memory once it is decoded
    /// (`data.max_unpacked_bytes`). A file may always unpack to sixteen times its own size.
    pub unpacked_bytes: u64,
}

impl Limits {
    /// How many times its own size a file may always unpack to. Text and music compress to about a tenth of
    /// their size, but a file made to fill the memory compresses to a thousandth.
    const RATIO: u64 = 16;

    /// Limit for a file of `size` bytes.
    pub(crate) fn room(self, size: usize) -> Room {
        let proportional = (size as u64).saturating_mul(Limits::RATIO);
        Room(self.unpacked_bytes.max(proportional))
    }
}

impl Default for Limits {
    /// 8 GiB to read, and 1 GiB for a small file once unpacked.
    fn default() -> Limits {
        Limits {
            bytes: 8 << 30,
            unpacked_bytes: 1 << 30,
        }
    }
}

/// Number of bytes that a file may unpack to, or take in memory once it is decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room(u64);

impl Room {
    /// The error is one line without the name of the file.
    pub fn check(self, bytes: usize) -> Result<(), String> {
        if bytes as u64 <= self.0 {
            return Ok(());
        }
        Err(format!(
            "unpacks to more than {} bytes; if that is intended, raise data.max_unpacked_bytes",
            self.0
        ))
    }

    /// Reads `source` up to the limit. A byte beyond it is an error, which [`beyond`] recognises.
    pub fn bound<R: Read>(self, source: R) -> Bounded<R> {
        Bounded {
            source,
            room: self,
            given: 0,
        }
    }
}

/// See [`Room::bound`].
pub(crate) struct Bounded<R> {
    source: R,
    room: Room,
    given: usize,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.given = self.given.saturating_add(count);
        let within = self.room.check(self.given);
        within.map_err(|problem| io::Error::new(io::ErrorKind::FileTooLarge, problem))?;
        Ok(count)
    }
}

/// The message for a source with more bytes than the limit; `None` for other errors.
pub(crate) fn beyond(cause: &io::Error) -> Option<String> {
    (cause.kind() == io::ErrorKind::FileTooLarge).then(|| cause.to_string())
}

/// All bytes of a regular file of at most `most` bytes. Pipes and devices are refused before they
/// are opened, since reading them may never end.
///
/// # Errors
/// The file is missing, unreadable, not a regular file, or too large.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, _) = open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let problem = format!("it is larger than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(bytes)
}

fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    // Opening a pipe would wait for a writer, so check first.
    check_regular(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    check_regular(&metadata)?;
    Ok((file, metadata))
}

fn check_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let problem = format!("it is {}, not a regular file", kind(metadata));
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

#[cfg(unix)]
fn kind(metadata: &Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match metadata.file_type() {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    }
}

#[cfg(not(unix))]
fn kind(metadata: &Metadata) -> &'static str {
    if metadata.is_dir() {
        "a folder"
    } else {
        "something else"
    }
}

/// Whether `path` names something to read: a file, or something that is then refused.
pub(crate) fn is_named(path: &Path) -> bool {
    path.exists() && !path.is_dir()
}

/// Identifies a file or folder, whatever names lead to it.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = PathBuf;

#[cfg(unix)]
fn identity(_: &Path, metadata: &Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path, _: &Metadata) -> Option<Identity> {
    path.canonicalize().ok()
}

/// The files of one data set that were found or opened.
pub(crate) struct Files {
    limits: Limits,
    /// Total bytes of the files opened so far.
    read: Cell<u64>,
    /// Total bytes of the recordings so far.
    kept: Cell<u64>,
    opened: RefCell<HashMap<Identity, PathBuf>>,
    /// Links to files that are listed under another name.
    left_out: RefCell<BTreeSet<PathBuf>>,
}

impl Files {
    pub fn new(limits: Limits) -> Files {
        Files {
            limits,
            read: Cell::new(0),
            kept: Cell::new(0),
            opened: RefCell::default(),
            left_out: RefCell::default(),
        }
    }

    /// Opens a file and returns it with its size.
    ///
    /// # Errors
    /// The file is missing, unreadable, not a regular file, too large, or was opened before under another
    /// name.
    pub fn open(&self, path: &Path) -> Result<(File, usize), Error> {
        let (file, metadata) = open_regular(path).map_err(|cause| refused(path, cause))?;
        if let Some(identity) = identity(path, &metadata) {
            let before = self.opened.borrow_mut().insert(identity, path.to_owned());
            if let Some(other) = before {
                return Err(unusable(
                    path,
                    format!(
                        "the same file as {}; each must be a separate file",
                        other.display()
                    ),
                ));
            }
        }
        self.count(&self.read, path, metadata.len(), "are read")?;
        Ok((file, metadata.len() as usize))
    }

    /// All bytes of a file.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let (file, size) = self.open(path)?;
        let mut bytes = Vec::new();
        // Some files have more bytes than their size says.
        let left = self.limits.bytes - self.read.get();
        let most = (size as u64).saturating_add(left);
        let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|cause| refused(path, cause))?;
        let more = bytes.len().saturating_sub(size);
        self.count(&self.read, path, more as u64, "are read")?;
        Ok(bytes)
    }

    /// Limit for a file of `size` bytes.
    pub fn room(&self, size: usize) -> Room {
        self.limits.room(size)
    }

    /// Counts the `bytes` that a recording from `path` takes in memory.
    pub fn keep(&self, path: &Path, bytes: usize) -> Result<(), Error> {
        self.count(&self.kept, path, bytes as u64, "are kept in memory")
    }

    fn count(&self, so_far: &Cell<u64>, path: &Path, bytes: u64, what: &str) -> Result<(), Error> {
        let sum = so_far.get().saturating_add(bytes);
        if sum > self.limits.bytes {
            return Err(unusable(
                path,
                format!(
                    "with its {bytes} bytes, more than {} {what}; if that is intended, raise data.max_bytes",
                    self.limits.bytes
                ),
            ));
        }
        so_far.set(sum);
        Ok(())
    }

    /// All files with one of these extensions (lower case) in a folder and its subfolders, in natural
    /// order, each only once: a link to something else in the folder is left out.
    pub fn list(&self, folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, Error> {
        let mut walk = Walk {
            extensions,
            seen: HashSet::new(),
            links: VecDeque::new(),
            found: Vec::new(),
            left_out: Vec::new(),
        };
        walk.enter(folder, 0)?;
        // Links come last, so that a file gets the name, and the part, that it has without them.
        while let Some((link, depth)) = walk.links.pop_front() {
            walk.visit(link, depth)?;
        }
        self.left_out.borrow_mut().extend(walk.left_out);
        let mut found: Vec<(Vec<String>, PathBuf)> = walk
            .found
            .into_iter()
            .map(|path| {
                let names = within(folder, &path);
                (names.split('/').map(str::to_owned).collect(), path)
            })
            .collect();
        found.sort_by(|(left, _), (right, _)| {
            let names = left.iter().zip(right);
            let mut orders = names.map(|(left, right)| natural_order(left, right));
            let first = orders.find(|order| order.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        });
        Ok(found.into_iter().map(|(_, path)| path).collect())
    }

    /// A line for the user if links were left out.
    pub fn notes(&self) -> Vec<String> {
        let left_out = self.left_out.borrow();
        let Some(first) = left_out.first() else {
            return Vec::new();
        };
        let what = match left_out.len() {
            1 => "1 file or folder is".to_owned(),
            count => format!("{count} files and folders are"),
        };
        vec![format!(
            "{what} also there under another name, and read only once (left out: {}{})",
            first.display(),
            if left_out.len() > 1 { ", ..." } else { "" }
        )]
    }
}

/// A walk through a folder.
struct Walk<'a> {
    extensions: &'a [&'a str],
    seen: HashSet<Identity>,
    /// Links found but not yet followed, with their depth.
    links: VecDeque<(PathBuf, usize)>,
    found: Vec<PathBuf>,
    left_out: Vec<PathBuf>,
}

impl Walk<'_> {
    fn enter(&mut self, folder: &Path, depth: usize) -> Result<(), Error> {
        if !self.is_new(folder) {
            return Ok(());
        }
        for path in entries(folder)? {
            if path.is_symlink() {
                self.links.push_back((path, depth));
            } else {
                self.visit(path, depth)?;
            }
        }
        Ok(())
    }

    fn visit(&mut self, path: PathBuf, depth: usize) -> Result<(), Error> {
        if path.is_dir() {
            if depth < DEEPEST {
                self.enter(&path, depth + 1)?;
            }
        } else if has_extension(&path, self.extensions) && self.is_new(&path) {
            self.found.push(path);
        }
        Ok(())
    }

    /// Whether `path` was not seen before. An inaccessible path counts as new, so that opening it reports the
    /// reason.
    fn is_new(&mut self, path: &Path) -> bool {
        let identity = fs::metadata(path)
            .ok()
            .and_then(|metadata| identity(path, &metadata));
        let new = identity.is_none_or(|identity| self.seen.insert(identity));
        if !new {
            self.left_out.push(path.to_owned());
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path, found: &[PathBuf]) -> Vec<String> {
        found.iter().map(|path| within(folder, path)).collect()
    }

    #[test]
    fn files_are_listed_in_natural_order() {
        let folder = tempfile::tempdir().unwrap();
        let listed = [
            "a/2.wav",
            "a/10.wav",
            "a.wav",
            "b/c/1.WAV",
            "b/d.wav",
            "f9.wav",
            "f10.wav",
        ];
        for name in listed.iter().chain(&["b/.hidden.wav", "b/other.txt"]) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let files = Files::new(Limits::default());
        let found = files.list(folder.path(), &["wav"]).unwrap();
        assert_eq!(names(folder.path(), &found), listed);
        assert!(files.notes().is_empty());
    }

    /// A regression test: a link from `test` to the folder itself once made every training file a test file.
    #[cfg(unix)]
    #[test]
    fn a_link_to_the_folder_itself_adds_no_file_and_moves_none() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for part in ["test", "train"] {
            fs::create_dir(at(part)).unwrap();
        }
        fs::write(at("train/1.wav"), "x").unwrap();
        fs::write(at("test/2.wav"), "x").unwrap();
        symlink("..", at("test/all")).unwrap();
        symlink("../train", at("test/more")).unwrap();
        symlink("../train/1.wav", at("test/1.wav")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let files = Files::new(Limits::default());
        let found = files.list(folder.path(), &["wav"]).unwrap();
        assert_eq!(names(folder.path(), &found), ["test/2.wav", "train/1.wav"]);
        let [note] = &files.notes()[..] else {
            panic!("{:?}", files.notes());
        };
        assert!(
            note.starts_with("3 files and folders are also there under another name"),
            "{note}"
        );

        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("3.wav"), "x").unwrap();
        symlink(elsewhere.path(), at("train/linked")).unwrap();
        let found = files.list(folder.path(), &["wav"]).unwrap();
        assert_eq!(
            names(folder.path(), &found),
            ["test/2.wav", "train/1.wav", "train/linked/3.wav"]
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_opened_once_under_all_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["a", "b"].map(|name| folder.path().join(name));
        fs::write(&file, "x").unwrap();
        fs::hard_link(&file, &link).unwrap();
        let files = Files::new(Limits::default());
        files.read(&file).unwrap();
        let error = files.read(&link).unwrap_err().to_string();
        assert!(
            error.contains("b: the same file as ") && error.contains("/a;"),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn pipes_devices_and_folders_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let files = Files::new(Limits::default());
        for (path, wanted) in [
            (pipe.as_path(), "it is a named pipe, not a regular file"),
            (Path::new("/dev/zero"), "it is a device, not a regular file"),
            (folder.path(), "it is a folder, not a regular file"),
        ] {
            let error = files.read(path).unwrap_err().to_string();
            assert!(
                error.starts_with("cannot read ") && error.ends_with(wanted),
                "{error}"
            );
        }
    }

    #[test]
    fn sizes_add_up_to_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits {
            bytes: 10,
            unpacked_bytes: 100,
        };
        let files = Files::new(limits);
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        fs::write(&one, [0; 6]).unwrap();
        fs::write(&two, [0; 5]).unwrap();
        files.read(&one).unwrap();
        let error = files.read(&two).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "two: with its 5 bytes, more than 10 are read; if that is intended, raise data.max_bytes"
            ),
            "{error}"
        );
        assert!(files.keep(&one, 10).is_ok());
        let error = files.keep(&one, 1).unwrap_err().to_string();
        assert!(error.contains("more than 10 are kept in memory"), "{error}");

        assert!(limits.room(2).check(100).is_ok());
        assert!(limits.room(7).check(112).is_ok());
        let error = limits.room(2).check(101).unwrap_err();
        assert!(error.ends_with("raise data.max_unpacked_bytes"), "{error}");
        let mut bytes = Vec::new();
        let read = limits.room(2).bound(io::repeat(0)).read_to_end(&mut bytes);
        assert_eq!(beyond(&read.unwrap_err()).unwrap(), error);
        assert!(read_regular(&one, 6).is_ok() && read_regular(&one, 5).is_err());
    }
}

//! Writing files whole, and only where there is a regular file or nothing.

use sha2::{Digest, Sha256};
use std::{
    fs::{self, File, FileType, OpenOptions},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

/// Returns an error if the path holds anything but a regular file: a link, a device, a pipe or a folder. Links are not
/// followed.
pub fn check_target(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_file() => Ok(()),
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        // This error kind is reported as bad input.
        Ok(found) => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            format!(
                "it is {}, and only regular files are written; name another file",
                kind(found.file_type())
            ),
        )),
    }
}

#[cfg(unix)]
fn kind(found: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match found {
        found if found.is_symlink() => "a symbolic link",
        found if found.is_fifo() => "a pipe",
        found if found.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(not(unix))]
fn kind(found: FileType) -> &'static str {
    match found.is_symlink() {
        true => "a symbolic link",
        false => "a device",
    }
}

/// Creates a new file, open for appending. Removes what an interrupted write left under this name.
pub fn create(path: &Path) -> io::Result<File> {
    check_target(path)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Fails if a file appeared in the meantime, and follows no link.
    OpenOptions::new().append(true).create_new(true).open(path)
}

/// Writes a file under a temporary name, syncs it and renames it. Returns the file, open for appending.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<File> {
    check_target(path)?;
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    let mut file = create(&temporary).map_err(|error| at(&temporary, error))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    match written.and_then(|()| fs::rename(&temporary, path)) {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            Err(error)
        }
    }
}

/// The same error for the file at `path`, which is not the one the caller named.
fn at(path: &Path, error: io::Error) -> io::Error {
    match error.get_ref() {
        // The system's message does not name the file.
        None => error,
        Some(_) => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
    }
}

/// Reads all bytes of a regular file, also through a link. Pipes and devices are refused: they might never end.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    check_source(path)?;
    fs::read(path)
}

/// Reads all text of a regular file.
pub fn read_text(path: &Path) -> io::Result<String> {
    check_source(path)?;
    fs::read_to_string(path)
}

fn check_source(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path)?.file_type();
    match found.is_file() || found.is_dir() {
        true => Ok(()),
        false => Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!("it is {}, not a regular file", kind(found)),
        )),
    }
}

/// SHA-256 in hexadecimal digits.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::{fs::symlink, net::UnixListener};

    fn refused(path: &Path, bytes: &[u8]) -> String {
        replace(path, bytes).map(drop).unwrap_err().to_string()
    }

    /// Neither a link nor its target changes, whether the link is in place of the file or of its temporary name.
    #[test]
    fn links_are_refused_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, link) = (folder.path().join("kept"), folder.path().join("link"));
        fs::write(&kept, "mine").unwrap();
        symlink(&kept, &link).unwrap();
        assert!(refused(&link, b"new").contains("symbolic link"));
        assert!(create(&link).is_err());

        let target = folder.path().join("target");
        symlink(&kept, folder.path().join("target.tmp")).unwrap();
        let problem = refused(&target, b"new");
        assert!(problem.contains("target.tmp") && problem.contains("symbolic link"));
        assert!(!target.exists());
        assert_eq!(fs::read_to_string(&kept).unwrap(), "mine");
        assert_eq!(fs::read_link(&link).unwrap(), kept);
        assert_eq!(
            read_text(&link).unwrap(),
            "mine",
            "reading through a link is fine"
        );
    }

    #[test]
    fn sockets_devices_and_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        assert!(refused(&socket, b"new").contains("a socket"));
        assert!(read(&socket).unwrap_err().to_string().contains("a socket"));
        assert!(refused(folder.path(), b"new").contains("directory"));
        let null = Path::new("/dev/null");
        assert!(
            check_target(null)
                .unwrap_err()
                .to_string()
                .contains("a device")
        );
        assert!(read(null).unwrap_err().to_string().contains("a device"));
    }

    /// A file that a killed process left under the temporary name does no harm.
    #[test]
    fn leftovers_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::write(folder.path().join("target.tmp"), "half a").unwrap();
        let mut file = replace(&target, b"whole").unwrap();
        file.write_all(b" and more").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "whole and more");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

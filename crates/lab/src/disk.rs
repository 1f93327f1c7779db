//! Files written whole, and only where a regular file is or can be.

use std::{
    fs::{self, File, FileType, OpenOptions},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

/// Refuses a path at which something else lies than a regular file: a link, a device, a pipe, a folder. A link
/// is not followed.
pub(crate) fn check_target(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_file() => Ok(()),
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        // The kind of an error of bad input.
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

/// Makes a file that is not there yet, for appending. What an interrupted write left under this name goes.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    check_target(path)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Fails on whatever came in between, and follows no link.
    OpenOptions::new().append(true).create_new(true).open(path)
}

/// Writes a file under a temporary name, syncs it and renames it; gives the file, open for appending.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<File> {
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

/// The same problem, of a file of another name than the one that was asked for.
fn at(path: &Path, error: io::Error) -> io::Error {
    match error.get_ref() {
        // The system's own words say nothing about which file.
        None => error,
        Some(_) => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
    }
}

/// All bytes of a regular file, of one behind a link too. A pipe or a device could go on for ever.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    check_source(path)?;
    fs::read(path)
}

/// All text of a regular file.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::{fs::symlink, net::UnixListener};

    fn refused(path: &Path, bytes: &[u8]) -> String {
        replace(path, bytes).map(drop).unwrap_err().to_string()
    }

    /// Neither a link nor what it points at changes, whether it stands at the place of the file or of its
    /// temporary name.
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

    /// What a killed process left under the temporary name is in nobody's way.
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

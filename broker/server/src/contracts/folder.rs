//! Reading the files of a folder of contracts, and writing them so that a crash leaves the old or the new.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use tautwire_contracts::{Catalogue, ErrorCode, Files, LoadError, LoadLimits, MANAGED, MANIFEST};

/// Folders within folders that are looked into.
const DEPTH_MAX: usize = 8;
/// Files and folders that are looked at, of whatever kind, so that a wrong path such as `/` ends soon.
const ENTRIES_MAX: usize = 10_000;

/// The contracts of a folder.
///
/// # Errors
/// Everything that is wrong, or what cannot be read.
pub(crate) fn load(folder: &Path) -> Result<Catalogue, Vec<LoadError>> {
    let limits = LoadLimits::default();
    Catalogue::load(&read(folder)?, &limits)
}

/// The manifest, the schemas and the managed contracts. Other files do not count, nor do names that begin with a dot.
pub(crate) fn read(folder: &Path) -> Result<Files, Vec<LoadError>> {
    let mut reading = Reading { limits: LoadLimits::default(), files: Files::new(), errors: Vec::new(), entries: 0 };
    reading.folder(folder, "", 0);
    if reading.errors.is_empty() { Ok(reading.files) } else { Err(reading.errors) }
}

/// One line for each error, with the folder in front.
pub(crate) fn format_errors(folder: &Path, errors: &[LoadError]) -> Vec<String> {
    errors.iter().map(|error| folder.join(error.to_string()).display().to_string()).collect()
}

struct Reading {
    limits: LoadLimits,
    files: Files,
    errors: Vec<LoadError>,
    entries: usize,
}

impl Reading {
    fn folder(&mut self, folder: &Path, prefix: &str, depth: usize) {
        let shown = || if prefix.is_empty() { folder.display().to_string() } else { prefix.to_owned() };
        if depth > DEPTH_MAX {
            return self.wrong(ErrorCode::Limit, shown(), format!("folders are nested deeper than {DEPTH_MAX}"));
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.wrong(ErrorCode::File, shown(), format!("cannot be read: {error}")),
        };
        for entry in entries {
            self.entries += 1;
            if self.entries == ENTRIES_MAX {
                self.wrong(ErrorCode::Limit, shown(), format!("more than {ENTRIES_MAX} files and folders"));
            }
            if self.entries >= ENTRIES_MAX {
                return;
            }
            match entry {
                Ok(entry) => self.entry(&entry, prefix, depth),
                Err(error) => self.wrong(ErrorCode::File, shown(), format!("cannot be read: {error}")),
            }
        }
    }

    fn entry(&mut self, entry: &fs::DirEntry, prefix: &str, depth: usize) {
        let Ok(name) = entry.file_name().into_string() else { return };
        if name.starts_with('.') {
            return;
        }
        let file = format!("{prefix}{name}");
        // Links are followed: where files are mounted, they often are links.
        match fs::metadata(entry.path()) {
            Ok(metadata) if metadata.is_dir() => self.folder(&entry.path(), &format!("{file}/"), depth + 1),
            Ok(metadata) if metadata.is_file() && counts(&file) => match self.text(&entry.path()) {
                Ok(text) => drop(self.files.insert(file, text)),
                Err(error) => self.wrong(ErrorCode::File, file, format!("cannot be read: {error}")),
            },
            Ok(_) => {}
            Err(error) if counts(&file) => self.wrong(ErrorCode::File, file, format!("cannot be read: {error}")),
            Err(_) => {}
        }
    }

    /// One byte more than may be, so that too large a file is seen.
    fn text(&self, path: &Path) -> io::Result<String> {
        let mut text = String::new();
        File::open(path)?.take(self.limits.file_bytes as u64 + 1).read_to_string(&mut text)?;
        Ok(text)
    }

    fn wrong(&mut self, code: ErrorCode, file: String, message: String) {
        self.errors.push(LoadError { code, file, position: None, message });
    }
}

/// Whether a path is one of a file that is read of a folder of contracts.
pub(crate) fn is_file(path: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains(['\\', '\0']);
    path.split('/').all(is_name) && path.split('/').count() <= DEPTH_MAX + 1 && counts(path)
}

fn counts(file: &str) -> bool {
    let is_managed = file.starts_with(MANAGED) && file.ends_with(".toml");
    file == MANIFEST || is_managed || file.ends_with(".proto") || file.ends_with(".json")
}

/// Replaces a file: after a crash it has its old content or the new one, and once this returns it has the new one.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let temporary = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.and_then(|()| sync_folder(folder))
}

/// Removes a file that may be there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => path.parent().map_or(Ok(()), sync_folder),
    }
}

/// A rename lasts only once its folder has been written.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Ok(folder) => folder.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

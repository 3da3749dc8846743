//! Reads the files of a contracts folder, and writes them atomically.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use tautwire_contracts::{Catalogue, ErrorCode, Files, LoadError, LoadLimits, MANAGED, MANIFEST};

/// Maximum depth of nested folders.
const DEPTH_MAX: usize = 8;
/// Maximum number of files and folders of any kind.
///
/// A wrong path such as `/` then fails soon.
const ENTRIES_MAX: usize = 10_000;

/// Loads the contracts of a folder.
///
/// # Errors
/// All errors, including files that cannot be read.
pub(crate) fn load(folder: &Path) -> Result<Catalogue, Vec<LoadError>> {
    let limits = LoadLimits::default();
    Catalogue::load(&read(folder)?, &limits)
}

/// Loads the contracts of a folder.
///
/// # Errors
/// All errors, formatted by [`format_errors`].
pub(crate) fn load_catalogue(folder: &Path) -> Result<Catalogue, Vec<String>> {
    load(folder).map_err(|errors| format_errors(folder, &errors))
}

/// Reads the manifest, the schemas and the managed contracts. Other files, and names that begin with a dot, are ignored.
pub(crate) fn read(folder: &Path) -> Result<Files, Vec<LoadError>> {
    let mut reader =
        FolderReader { limits: LoadLimits::default(), files: Files::new(), errors: Vec::new(), entries: 0 };
    reader.folder(folder, "", 0);
    if reader.errors.is_empty() { Ok(reader.files) } else { Err(reader.errors) }
}

/// Formats each error as a line with the path of the folder.
pub(crate) fn format_errors(folder: &Path, errors: &[LoadError]) -> Vec<String> {
    errors.iter().map(|error| folder.join(error.to_string()).display().to_string()).collect()
}

struct FolderReader {
    limits: LoadLimits,
    files: Files,
    errors: Vec<LoadError>,
    entries: usize,
}

impl FolderReader {
    fn folder(&mut self, folder: &Path, prefix: &str, depth: usize) {
        let shown = || if prefix.is_empty() { folder.display().to_string() } else { prefix.to_owned() };
        if depth > DEPTH_MAX {
            return self.error(ErrorCode::Limit, shown(), format!("folders are nested deeper than {DEPTH_MAX}"));
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.error(ErrorCode::File, shown(), format!("cannot be read: {error}")),
        };
        for entry in entries {
            self.entries += 1;
            if self.entries == ENTRIES_MAX {
                self.error(ErrorCode::Limit, shown(), format!("more than {ENTRIES_MAX} files and folders"));
            }
            if self.entries >= ENTRIES_MAX {
                return;
            }
            match entry {
                Ok(entry) => self.entry(&entry, prefix, depth),
                Err(error) => self.error(ErrorCode::File, shown(), format!("cannot be read: {error}")),
            }
        }
    }

    fn entry(&mut self, entry: &fs::DirEntry, prefix: &str, depth: usize) {
        let Ok(name) = entry.file_name().into_string() else { return };
        if name.starts_with('.') {
            return;
        }
        let file = format!("{prefix}{name}");
        // Follow symbolic links: mounted files often are links.
        match fs::metadata(entry.path()) {
            Ok(metadata) if metadata.is_dir() => self.folder(&entry.path(), &format!("{file}/"), depth + 1),
            Ok(metadata) if metadata.is_file() && is_relevant(&file) => match self.text(&entry.path()) {
                Ok(text) => drop(self.files.insert(file, text)),
                Err(error) => self.error(ErrorCode::File, file, format!("cannot be read: {error}")),
            },
            Ok(_) => {}
            Err(error) if is_relevant(&file) => self.error(ErrorCode::File, file, format!("cannot be read: {error}")),
            Err(_) => {}
        }
    }

    /// Reads one byte more than allowed to detect files that are too large.
    fn text(&self, path: &Path) -> io::Result<String> {
        let mut text = String::new();
        File::open(path)?.take(self.limits.file_bytes as u64 + 1).read_to_string(&mut text)?;
        Ok(text)
    }

    fn error(&mut self, code: ErrorCode, file: String, message: String) {
        self.errors.push(LoadError { code, file, position: None, message });
    }
}

/// Whether a path is that of a file that [`read`] reads.
pub(crate) fn is_file(path: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains(['\\', '\0']);
    path.split('/').all(is_name) && path.split('/').count() <= DEPTH_MAX + 1 && is_relevant(path)
}

fn is_relevant(file: &str) -> bool {
    let is_managed = file.starts_with(MANAGED) && file.ends_with(".toml");
    file == MANIFEST || is_managed || file.ends_with(".proto") || file.ends_with(".json")
}

/// Replaces a file atomically and durably: after a crash it has its old content or the new one.
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

/// Removes a file if it exists.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => path.parent().map_or(Ok(()), sync_folder),
    }
}

/// A rename is durable only after a sync of the directory.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Ok(folder) => folder.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

//! Writes files to a staging directory before they are moved into place.
//!
//! The configuration is checked there.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::config::Config;

/// Mode of a file that everybody in the group may read, and of one with a secret.
const MODE: u32 = 0o640;
const SECRET_MODE: u32 = 0o600;

/// A file to write.
pub(super) struct NewFile {
    pub(super) name: String,
    pub(super) text: String,
    /// Only its owner can read it, and it is not printed.
    pub(super) is_secret: bool,
}

impl NewFile {
    pub(super) fn new(name: impl Into<String>, text: String) -> NewFile {
        NewFile { name: name.into(), text, is_secret: false }
    }

    pub(super) fn secret(name: String, text: String) -> NewFile {
        NewFile { is_secret: true, ..NewFile::new(name, text) }
    }
}

/// A staging directory, which is removed when this is dropped.
pub(super) struct Staging {
    folder: PathBuf,
    /// Parent directories that were created for it, the innermost last.
    created: Vec<PathBuf>,
}

impl Staging {
    /// Writes files to a new directory below `parent`, which is created if it does not exist.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn write(parent: &Path, files: &[NewFile]) -> Result<Staging, String> {
        let missing = parent.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        let mut created: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        created.reverse();
        let folder = parent.join(format!(".tautwire-import-{}", std::process::id()));
        let failed = |path: &Path, error: io::Error| format!("{} cannot be written: {error}", path.display());
        let staging = Staging { folder, created };
        fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        DirBuilder::new().mode(0o700).create(&staging.folder).map_err(|error| failed(&staging.folder, error))?;
        for NewFile { name, text, is_secret } in files {
            let path = staging.folder.join(name);
            let mode = if *is_secret { SECRET_MODE } else { MODE };
            let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
            let written = file.as_mut().map(|file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
            written
                .map_err(|error| io::Error::other(error.to_string()))
                .flatten()
                .map_err(|error| failed(&path, error))?;
        }
        Ok(staging)
    }

    /// Checks the configuration like `tautwire config check`; returns its warnings.
    ///
    /// # Errors
    /// All errors, with the final path `to` instead of the staging path.
    pub(super) fn check(&self, name: &str, to: &Path) -> Result<Vec<String>, Vec<String>> {
        let renamed = |text: String| text.replace(&self.folder.display().to_string(), &to.display().to_string());
        let config = Config::load(Some(&self.folder.join(name)), &[])
            .map_err(|errors| errors.iter().map(|error| renamed(error.to_string())).collect::<Vec<_>>())?;
        crate::serve::prepare(&config).map_err(|errors| errors.into_iter().map(renamed).collect::<Vec<_>>())?;
        Ok(config.warnings().into_iter().map(renamed).collect())
    }

    /// Moves the files to `to`, on the same file system.
    ///
    /// # Errors
    /// A file cannot be moved.
    pub(super) fn move_to(mut self, files: &[NewFile], to: &Path) -> Result<(), String> {
        self.created.clear();
        for NewFile { name, .. } in files {
            let path = to.join(name);
            fs::rename(self.folder.join(name), &path)
                .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        for folder in self.created.iter().rev() {
            // Not removed if it contains other files.
            let _ = fs::remove_dir(folder);
        }
    }
}

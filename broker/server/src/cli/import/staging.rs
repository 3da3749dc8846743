//! Files that are written as a whole or not at all: first beside their place, where the configuration among them is checked.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::config::Config;

/// A folder that goes with its value.
pub(super) struct Staging {
    folder: PathBuf,
    /// Folders above it that were made for it, the innermost last.
    made: Vec<PathBuf>,
}

impl Staging {
    /// Writes files into a folder of their own below `parent`, which is made if it is not there.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn write(parent: &Path, files: &[(String, String)]) -> Result<Staging, String> {
        let missing = parent.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        let mut made: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        made.reverse();
        let folder = parent.join(format!(".tautwire-import-{}", std::process::id()));
        let failed = |path: &Path, error: io::Error| format!("{} cannot be written: {error}", path.display());
        let staging = Staging { folder, made };
        fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        DirBuilder::new().mode(0o700).create(&staging.folder).map_err(|error| failed(&staging.folder, error))?;
        for (name, text) in files {
            let path = staging.folder.join(name);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&path);
            let written = file.as_mut().map(|file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
            written
                .map_err(|error| io::Error::other(error.to_string()))
                .flatten()
                .map_err(|error| failed(&path, error))?;
        }
        Ok(staging)
    }

    /// Checks the configuration, as `tautwire config check` does; gives its warnings.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the words of the place `to` where it is to be.
    pub(super) fn check(&self, name: &str, to: &Path) -> Result<Vec<String>, Vec<String>> {
        let renamed = |text: String| text.replace(&self.folder.display().to_string(), &to.display().to_string());
        let config = Config::load(Some(&self.folder.join(name)), &[])
            .map_err(|errors| errors.iter().map(|error| renamed(error.to_string())).collect::<Vec<_>>())?;
        crate::serve::prepare(&config).map_err(|errors| errors.into_iter().map(renamed).collect::<Vec<_>>())?;
        Ok(config.warnings().into_iter().map(renamed).collect())
    }

    /// Gives each file its place in `to`, on the same file system.
    ///
    /// # Errors
    /// One cannot be given its place.
    pub(super) fn put(mut self, files: &[(String, String)], to: &Path) -> Result<(), String> {
        self.made.clear();
        for (name, _) in files {
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
        for folder in self.made.iter().rev() {
            // It stays if somebody else has put something there.
            let _ = fs::remove_dir(folder);
        }
    }
}

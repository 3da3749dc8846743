//! Reloads the configuration when its files change, if configured.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

/// Polls files for changes.
#[derive(Default)]
pub(super) struct FileWatcher {
    poller: Arc<Poller>,
    on_change: OnceLock<Arc<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct Poller {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Seconds between polls; 0 disables polling.
    every_s: u64,
    files: Vec<PathBuf>,
    is_started: bool,
}

impl FileWatcher {
    /// Sets the function to call after a change. Without one, nothing is polled.
    pub(super) fn on_change(&self, on_change: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_change.set(Arc::new(on_change));
    }

    /// Changes the interval and the files. Starts the polling thread when first needed; it compares with the state of the files at this
    /// moment, not at the moment when the thread gets to run.
    pub(super) fn configure(&self, every_s: u64, files: Vec<PathBuf>) {
        let Some(on_change) = self.on_change.get().cloned() else { return };
        let mut state = self.poller.state();
        (state.every_s, state.files) = (every_s, files);
        if every_s > 0 && !state.is_started {
            let (poller, loaded) = (self.poller.clone(), FileFingerprint::at(&state.files));
            match thread::Builder::new().name("files".to_owned()).spawn(move || poller.run(&*on_change, loaded)) {
                Ok(_) => state.is_started = true,
                Err(error) => log::error!("cannot watch files: cannot start the thread: {error}"),
            }
        }
        self.poller.changed.notify_all();
    }
}

impl Poller {
    fn run(&self, on_change: &dyn Fn(), mut loaded: FileFingerprint) {
        let mut previous = loaded.clone();
        loop {
            self.wait();
            let files = self.state().files.clone();
            let now = FileFingerprint::at(&files);
            // A file that is still being written differs between two polls.
            if now != loaded && now == previous {
                loaded = now.clone();
                on_change();
            }
            previous = now;
        }
    }

    /// Waits until the next poll is due.
    fn wait(&self) {
        let mut state = self.state();
        loop {
            let every = (state.every_s > 0).then(|| Duration::from_secs(state.every_s));
            state = match every {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(every) => {
                    let (state, waited) =
                        self.changed.wait_timeout(state, every).unwrap_or_else(PoisonError::into_inner);
                    if waited.timed_out() {
                        return;
                    }
                    state
                }
            };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Detects changes of files without reading them.
#[derive(Clone, PartialEq, Eq)]
struct FileFingerprint(Vec<(PathBuf, Option<Stamp>)>);

/// Modification time, length and inode: a file is often replaced by another of the same name.
type Stamp = (Option<SystemTime>, u64, u64);

impl FileFingerprint {
    fn at(files: &[PathBuf]) -> FileFingerprint {
        let mut stamps = Vec::new();
        for file in files {
            stamps.push((file.clone(), stamp(file)));
            // For a directory, add its entries.
            let Ok(entries) = std::fs::read_dir(file) else { continue };
            let mut within: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            within.sort_unstable();
            stamps.extend(within.into_iter().map(|path| {
                let stamp = stamp(&path);
                (path, stamp)
            }));
        }
        FileFingerprint(stamps)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok(), metadata.len(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_replaced_or_removed_file_is_detected() {
        let folder = std::env::temp_dir().join(format!("tautwire-watch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (file, other) = (folder.join("a"), folder.join("b"));
        std::fs::write(&file, "one").expect("written");
        let files = [folder.clone(), file.clone()];
        let first = FileFingerprint::at(&files);
        assert!(first == FileFingerprint::at(&files));
        std::fs::write(&file, "three").expect("written");
        let longer = FileFingerprint::at(&files);
        assert!(longer != first);
        std::fs::write(&other, "seven").expect("written");
        std::fs::rename(&other, &file).expect("renamed");
        let replaced = FileFingerprint::at(&files);
        assert!(replaced != longer);
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(FileFingerprint::at(&files) != replaced);
    }
}

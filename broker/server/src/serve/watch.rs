//! Files that change while the broker runs are read again without being asked, where the configuration wants it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, SystemTime};

use super::reload::Reloader;

/// Looks at files from time to time, as often as it is told to.
#[derive(Default)]
pub(super) struct FileWatcher {
    pace: Arc<PollInterval>,
    reloader: OnceLock<Weak<Reloader>>,
}

#[derive(Default)]
struct PollInterval {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Seconds between two looks; 0: none are taken.
    every_s: u64,
    is_started: bool,
}

impl FileWatcher {
    /// From now on looks may be taken, on behalf of `reloader`.
    pub(super) fn begin(&self, every_s: u64, files: &[PathBuf], reloader: Weak<Reloader>) {
        let _ = self.reloader.set(reloader);
        self.adopt(every_s, files);
    }

    /// From now on looks are taken so often. The thread for them is started when it is first needed; what it compares with are these files as
    /// they are now, and not when it comes to run.
    pub(super) fn adopt(&self, every_s: u64, files: &[PathBuf]) {
        let Some(reloader) = self.reloader.get().cloned() else { return };
        let mut state = self.pace.state();
        state.every_s = every_s;
        if every_s > 0 && !state.is_started {
            let (pace, adopted) = (self.pace.clone(), FileFingerprint::at(files));
            match thread::Builder::new().name("files".to_owned()).spawn(move || pace.run(&reloader, adopted)) {
                Ok(_) => state.is_started = true,
                Err(error) => log::error!("files cannot be watched: {error}"),
            }
        }
        self.pace.changed.notify_all();
    }
}

impl PollInterval {
    fn run(&self, reloader: &Weak<Reloader>, mut adopted: FileFingerprint) {
        let mut before = adopted.clone();
        loop {
            self.wait();
            let Some(now) = reloader.upgrade().map(|reloader| FileFingerprint::at(&reloader.files())) else { return };
            // What is still being written differs from one look to the next.
            if now != adopted && now == before {
                adopted = now.clone();
                if let Some(reloader) = reloader.upgrade() {
                    reloader.reload_and_notify("files have changed");
                }
            }
            before = now;
        }
    }

    /// Until the next look is due.
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

/// What tells one state of files from another, without reading them.
#[derive(Clone, PartialEq, Eq)]
struct FileFingerprint(Vec<(PathBuf, Option<Stamp>)>);

/// When a file was last written, how long it is, and which one it is: a file is often replaced by another of the same name.
type Stamp = (Option<SystemTime>, u64, u64);

impl FileFingerprint {
    fn at(files: &[PathBuf]) -> FileFingerprint {
        let mut stamps = Vec::new();
        for file in files {
            stamps.push((file.clone(), stamp(file)));
            // Of a folder, what lies in it.
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
    fn a_file_that_is_written_replaced_or_removed_is_another() {
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

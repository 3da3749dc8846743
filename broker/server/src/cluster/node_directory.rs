//! The data directory of a cluster node, which stores the last incarnation. The next broker that locks the directory knows that it has
//! ended, so its sessions are free at once and not after the lease.

use std::fs;
use std::io::{self, Write as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use tautwire_cluster::names::Incarnation;
use tautwire_journal::{Directory, Disk as _, LockedDirectory};

/// The file with the last incarnation, in hexadecimal.
const LIFE_FILE: &str = "cluster-life";
/// The prefix of log segments, which a broker without a cluster writes.
const SEGMENT_PREFIX: &str = "segment-";

/// The data directory of a node; `None` if it stores nothing.
pub(super) struct NodeDirectory(Option<ClaimedDirectory>);

struct ClaimedDirectory {
    path: PathBuf,
    /// Excludes other processes.
    _lock: LockedDirectory<Directory>,
}

impl NodeDirectory {
    /// Opens and locks the directory.
    ///
    /// # Errors
    /// It cannot be locked, or it has the state of a broker without a cluster.
    pub(super) fn take(path: Option<&Path>) -> Result<NodeDirectory, String> {
        let Some(path) = path else { return Ok(NodeDirectory(None)) };
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let directory = Directory::open(path).map_err(|error| failed(&error))?;
        let lock = LockedDirectory::take(&directory).map_err(|error| failed(&error))?;
        let names = directory.list().map_err(|error| failed(&error))?;
        if names.iter().any(|name| name.starts_with(SEGMENT_PREFIX)) {
            return Err(failed(
                &"has the state of a broker without a cluster, which a cluster cannot take over; set data.path to another directory, or \
                  move this one away [cluster_with_data]",
            ));
        }
        Ok(NodeDirectory(Some(ClaimedDirectory { path: path.to_owned(), _lock: lock })))
    }

    /// The last incarnation, if there was one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn last_life(&self) -> Result<Option<Incarnation>, String> {
        let Some(ClaimedDirectory { path, .. }) = &self.0 else { return Ok(None) };
        let file = path.join(LIFE_FILE);
        let failed = |why: &str| format!("{}: {why}", file.display());
        match fs::read_to_string(&file) {
            Ok(text) => match u64::from_str_radix(text.trim(), 16).ok().and_then(NonZeroU64::new) {
                Some(number) => Ok(Some(Incarnation(number))),
                None => Err(failed(
                    "does not contain an incarnation number; remove the file, and sessions of the last incarnation are free after its \
                     lease [cluster_incarnation]",
                )),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&error.to_string())),
        }
    }

    /// Records an incarnation before it starts.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn begin_life(&self, life: Incarnation) -> Result<(), String> {
        let Some(ClaimedDirectory { path, .. }) = &self.0 else { return Ok(()) };
        let (file, new) = (path.join(LIFE_FILE), path.join(format!("{LIFE_FILE}.new")));
        let write = || {
            let mut created = fs::File::create(&new)?;
            writeln!(created, "{:016x}", life.0)?;
            created.sync_all()?;
            fs::rename(&new, &file)?;
            fs::File::open(path)?.sync_all()
        };
        write().map_err(|error: io::Error| format!("{}: {error}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tautwire-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn the_next_node_in_a_directory_knows_the_previous_incarnation() {
        let path = folder("cluster-place");
        let directory = NodeDirectory::take(Some(&path)).expect("a directory");
        assert_eq!(directory.last_life(), Ok(None));
        let life = Incarnation(NonZeroU64::new(0xfe).expect("not 0"));
        directory.begin_life(life).expect("it is written");
        assert_eq!(directory.last_life(), Ok(Some(life)));
        assert!(NodeDirectory::take(Some(&path)).is_err(), "it is locked");
        drop(directory);
        let directory = NodeDirectory::take(Some(&path)).expect("it is free");
        assert_eq!(directory.last_life(), Ok(Some(life)));
        fs::write(path.join(LIFE_FILE), "x").expect("it is written");
        assert!(directory.last_life().is_err_and(|why| why.ends_with("[cluster_incarnation]")));
        fs::remove_dir_all(&path).expect("it is removed");
    }

    #[test]
    fn existing_state_of_a_single_broker_is_not_ignored() {
        let path = folder("cluster-lone");
        fs::create_dir_all(&path).expect("a directory");
        fs::write(path.join("segment-0000000000000001"), "").expect("it is written");
        let refused = NodeDirectory::take(Some(&path)).map(drop).expect_err("refused");
        assert!(refused.contains("[cluster_with_data]"), "{refused}");
        fs::remove_dir_all(&path).expect("it is removed");
    }
}

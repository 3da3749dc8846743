//! Where a node of a cluster keeps what the next one in its place has to know: which life was the last. Whoever has the directory knows
//! that it is over, so its sessions are free at once and not after the lease.

use std::fs;
use std::io::{self, Write as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use tautwire_cluster::names::Incarnation;
use tautwire_journal::{Directory, Disk as _, LockedDirectory};

/// The number of the last life, in hexadecimal, in a file of this name.
const LIFE_FILE: &str = "cluster-life";
/// A segment of the log that a broker keeps for itself.
const SEGMENT_PREFIX: &str = "segment-";

/// The data directory of a node; none where it keeps nothing.
pub(super) struct NodeDirectory(Option<ClaimedDirectory>);

struct ClaimedDirectory {
    path: PathBuf,
    /// Nobody else has it.
    _lock: LockedDirectory<Directory>,
}

impl NodeDirectory {
    /// Takes the directory.
    ///
    /// # Errors
    /// It cannot be had, or has the state of a broker that was alone.
    pub(super) fn take(path: Option<&Path>) -> Result<NodeDirectory, String> {
        let Some(path) = path else { return Ok(NodeDirectory(None)) };
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let directory = Directory::open(path).map_err(|error| failed(&error))?;
        let lock = LockedDirectory::take(&directory).map_err(|error| failed(&error))?;
        let names = directory.list().map_err(|error| failed(&error))?;
        if names.iter().any(|name| name.starts_with(SEGMENT_PREFIX)) {
            return Err(failed(
                &"has the state of a broker that was alone, which a cluster does not take over; name another directory in \
                  data.path, or move this one away [cluster_with_data]",
            ));
        }
        Ok(NodeDirectory(Some(ClaimedDirectory { path: path.to_owned(), _lock: lock })))
    }

    /// The last life, if there was one.
    ///
    /// # Errors
    /// What is there cannot be read.
    pub(super) fn last_life(&self) -> Result<Option<Incarnation>, String> {
        let Some(ClaimedDirectory { path, .. }) = &self.0 else { return Ok(None) };
        let file = path.join(LIFE_FILE);
        let failed = |why: &str| format!("{}: {why}", file.display());
        match fs::read_to_string(&file) {
            Ok(text) => match u64::from_str_radix(text.trim(), 16).ok().and_then(NonZeroU64::new) {
                Some(number) => Ok(Some(Incarnation(number))),
                None => Err(failed(
                    "is not the number of a life; remove the file, and sessions of the last life are free after its lease \
                     [cluster_life]",
                )),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&error.to_string())),
        }
    }

    /// A life is about to begin.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn begin_life(&self, life: Incarnation) -> Result<(), String> {
        let Some(ClaimedDirectory { path, .. }) = &self.0 else { return Ok(()) };
        let (file, new) = (path.join(LIFE_FILE), path.join(format!("{LIFE_FILE}.new")));
        let write = || {
            let mut made = fs::File::create(&new)?;
            writeln!(made, "{:016x}", life.0)?;
            made.sync_all()?;
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
    fn the_next_node_in_a_place_knows_the_last_life() {
        let path = folder("cluster-place");
        let place = NodeDirectory::take(Some(&path)).expect("a directory");
        assert_eq!(place.last_life(), Ok(None));
        let life = Incarnation(NonZeroU64::new(0xfe).expect("not 0"));
        place.begin_life(life).expect("it is written");
        assert_eq!(place.last_life(), Ok(Some(life)));
        assert!(NodeDirectory::take(Some(&path)).is_err(), "it is taken");
        drop(place);
        let place = NodeDirectory::take(Some(&path)).expect("it is free");
        assert_eq!(place.last_life(), Ok(Some(life)));
        fs::write(path.join(LIFE_FILE), "x").expect("it is written");
        assert!(place.last_life().is_err_and(|why| why.ends_with("[cluster_life]")));
        fs::remove_dir_all(&path).expect("it is removed");
    }

    #[test]
    fn the_state_of_a_lone_broker_is_not_passed_over() {
        let path = folder("cluster-lone");
        fs::create_dir_all(&path).expect("a directory");
        fs::write(path.join("segment-0000000000000001"), "").expect("it is written");
        let refused = NodeDirectory::take(Some(&path)).map(drop).expect_err("refused");
        assert!(refused.contains("[cluster_with_data]"), "{refused}");
        fs::remove_dir_all(&path).expect("it is removed");
    }
}

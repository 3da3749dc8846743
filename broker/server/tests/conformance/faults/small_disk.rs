//! A small file system in memory that only the programs of one test see.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{is_root, skipped};
use crate::support::Folder;

/// Gone when this is dropped.
pub(super) struct SmallDisk {
    /// Keeps the mount namespace.
    holder: Child,
    folder: Folder,
}

impl SmallDisk {
    /// One with these options of tmpfs, such as `size=40m`; none where the system does not let the test have it, which has been said then.
    pub(super) fn new(options: &str) -> Option<SmallDisk> {
        let folder = Folder::new(&[]);
        let mut command = Command::new("unshare");
        command.arg("--mount").args((!is_root()).then_some("--map-root-user"));
        let script = "mount -t tmpfs -o \"$1\" tmpfs \"$2\" && echo mounted && exec cat";
        command.args(["sh", "-c", script, "sh", options]).arg(folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Ok(mut holder) = command.spawn() else {
            skipped("unshare of util-linux is missing, so there is no small disk");
            return None;
        };
        let mut line = String::new();
        let mut out = BufReader::new(holder.stdout.take().expect("is a pipe"));
        out.read_line(&mut line).expect("can be read");
        if line != "mounted\n" {
            let output = holder.wait_with_output().expect("it ends");
            let why = String::from_utf8_lossy(&output.stderr);
            skipped(&format!("a small disk cannot be mounted: {}", why.lines().next().unwrap_or_default()));
            return None;
        }
        Some(SmallDisk { holder, folder })
    }

    /// What runs a program that sees the disk.
    pub(super) fn wrapper(&self) -> Vec<String> {
        let pid = self.holder.id().to_string();
        let mut words = vec!["nsenter".to_owned(), "--target".to_owned(), pid, "--mount".to_owned()];
        if !is_root() {
            words.extend(["--user".to_owned(), "--preserve-credentials".to_owned()]);
        }
        words.push("--".to_owned());
        words
    }

    /// Where a file of the disk is for programs that see the disk.
    pub(super) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Where it is for everybody.
    pub(super) fn outside(&self, name: &str) -> PathBuf {
        let inside = self.folder.path().join(name);
        PathBuf::from(format!("/proc/{}/root{}", self.holder.id(), inside.display()))
    }

    /// The names in a folder of the disk.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.outside(folder)).expect("is there");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("reads").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Takes all space but `spare_bytes`, as somebody else's files do, under this name.
    pub(super) fn fill(&self, name: &str, spare_bytes: u64) {
        let mut file = File::create(self.outside(name)).expect("there is room for a name");
        let block = vec![b'x'; 64 << 10];
        let mut bytes = 0;
        while let Ok(count) = file.write(&block) {
            bytes += count as u64;
        }
        file.set_len(bytes.saturating_sub(spare_bytes)).expect("it can be made shorter");
    }

    /// Somebody else's file goes.
    pub(super) fn make_room(&self, name: &str) {
        std::fs::remove_file(self.outside(name)).expect("it is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

//! A small file system in memory, visible only to the programs of one test.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{is_root, skipped};
use crate::support::Folder;

/// Unmounted on drop.
pub(super) struct SmallDisk {
    /// Keeps the mount namespace alive.
    holder: Child,
    folder: Folder,
}

impl SmallDisk {
    /// Mounts a tmpfs with these options, such as `size=40m`. Returns `None` and prints the reason if the system denies it.
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
        out.read_line(&mut line).expect("the output is readable");
        if line != "mounted\n" {
            let output = holder.wait_with_output().expect("it ends");
            let why = String::from_utf8_lossy(&output.stderr);
            skipped(&format!("a small disk cannot be mounted: {}", why.lines().next().unwrap_or_default()));
            return None;
        }
        Some(SmallDisk { holder, folder })
    }

    /// The command prefix that runs a program with access to the disk.
    pub(super) fn wrapper(&self) -> Vec<String> {
        let pid = self.holder.id().to_string();
        let mut words = vec!["nsenter".to_owned(), "--target".to_owned(), pid, "--mount".to_owned()];
        if !is_root() {
            words.extend(["--user".to_owned(), "--preserve-credentials".to_owned()]);
        }
        words.push("--".to_owned());
        words
    }

    /// The path of a file for programs that see the disk.
    pub(super) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// The path of a file for all others.
    pub(super) fn outside(&self, name: &str) -> PathBuf {
        let inside = self.folder.path().join(name);
        PathBuf::from(format!("/proc/{}/root{}", self.holder.id(), inside.display()))
    }

    /// The names in a folder of the disk.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.outside(folder)).expect("the folder exists");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("reads").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Takes all space except `spare_bytes` with a foreign file of this name.
    pub(super) fn fill(&self, name: &str, spare_bytes: u64) {
        let mut file = File::create(self.outside(name)).expect("there is room for a name");
        let block = vec![b'x'; 64 << 10];
        let mut bytes = 0;
        while let Ok(count) = file.write(&block) {
            bytes += count as u64;
        }
        file.set_len(bytes.saturating_sub(spare_bytes)).expect("it can be truncated");
    }

    /// Removes the foreign file.
    pub(super) fn make_room(&self, name: &str) {
        std::fs::remove_file(self.outside(name)).expect("the file exists");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

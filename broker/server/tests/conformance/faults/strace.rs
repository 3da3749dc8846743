//! System calls that fail, or kill the calling process.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::skipped;
use crate::support::{Broker, wait_until};

/// The command prefix that runs a program with `injections`, each as for `strace -e inject=`. Returns `None` and prints the reason if it is
/// not available.
pub(super) fn wrapper(injections: &[String]) -> Option<Vec<String>> {
    let probe =
        Command::new("strace").args(["-f", "-o", "/dev/null", "-e", "inject=pwrite64:error=EIO", "true"]).output();
    match probe {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            skipped(&format!("strace cannot trace here: {}", why.lines().next().unwrap_or_default()));
            return None;
        }
        Err(_) => {
            skipped("strace is missing (Debian: apt-get install strace)");
            return None;
        }
    }
    // The program is still a child of the test, with the reported process id.
    let mut words: Vec<String> = ["strace", "-D", "-f", "-qq", "-o", "/dev/null"].map(str::to_owned).to_vec();
    for injection in injections {
        words.extend(["-e".to_owned(), format!("inject={injection}")]);
    }
    Some(words)
}

/// Makes system calls of a running broker fail until dropped.
pub(super) struct Faults(Child);

impl Faults {
    /// `injection`: as for `strace -e inject=`, limited to calls on `paths` if given. Returns `None` and prints the reason if it is not
    /// available.
    pub(super) fn of(broker: &Broker, injection: &str, paths: &[String]) -> Option<Faults> {
        let only = paths.iter().flat_map(|path| ["-P".to_owned(), path.clone()]);
        Faults::attach(injection, ["-f".to_owned()].into_iter().chain(only), broker.pid())
    }

    /// The same for the broker's single thread of that name.
    pub(super) fn of_thread(broker: &Broker, name: &str, injection: &str) -> Option<Faults> {
        let is_called_so =
            |task: &PathBuf| std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name);
        let find = || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", broker.pid())).expect("the broker is running");
            tasks.flatten().map(|task| task.path()).find(is_called_so)
        };
        // A thread gets its name after it has started.
        let mut task = None;
        wait_until(&format!("the broker has a thread {name}"), || {
            task = find();
            task.is_some()
        });
        let id = task.and_then(|task| task.file_name()?.to_str()?.parse().ok());
        Faults::attach(injection, [], id.expect("a thread has a number"))
    }

    fn attach(injection: &str, options: impl IntoIterator<Item = String>, id: u32) -> Option<Faults> {
        wrapper(&[])?;
        let calls = injection.split(':').next().unwrap_or_default();
        let mut command = Command::new("strace");
        command.args(["-o", "/dev/null", "-e", &format!("trace={calls}"), "-e", &format!("inject={injection}")]);
        command.args(options).args(["-p", &id.to_string()]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("strace starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("is a pipe"));
        let mut lines = String::new();
        while !lines.contains(" attached") {
            let count = stderr.read_line(&mut lines).expect("the output is readable");
            if count == 0 {
                let _ = child.wait();
                skipped(&format!("strace cannot trace here: {lines}"));
                return None;
            }
        }
        // Drain further output, so that it does not block.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Some(Faults(child))
    }

    /// Waits for strace after the broker has been killed during a delay, which keeps the process alive until its end.
    pub(super) fn end_with_broker(mut self) {
        let _ = self.0.kill();
    }
}

impl Drop for Faults {
    /// Detaches from the broker.
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

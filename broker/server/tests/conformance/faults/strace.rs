//! System calls that fail, or end the process that makes them.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::skipped;
use crate::support::{Broker, wait_until};

/// What runs a program some of whose system calls are tampered with, each of `injections` as `strace -e inject=` takes it; none
/// where that cannot be, which has been said then.
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
    // The program is a child of the test all the same, under the number that is told.
    let mut words: Vec<String> = ["strace", "-D", "-f", "-qq", "-o", "/dev/null"].map(str::to_owned).to_vec();
    for injection in injections {
        words.extend(["-e".to_owned(), format!("inject={injection}")]);
    }
    Some(words)
}

/// System calls of a running broker fail, until this is dropped.
pub(super) struct Faults(Child);

impl Faults {
    /// `injection` as `strace -e inject=` takes it; of calls that concern one of `paths` alone, if there are any. None where that
    /// cannot be, which has been said then.
    pub(super) fn of(broker: &Broker, injection: &str, paths: &[String]) -> Option<Faults> {
        let only = paths.iter().flat_map(|path| ["-P".to_owned(), path.clone()]);
        Faults::attached(injection, ["-f".to_owned()].into_iter().chain(only), broker.pid())
    }

    /// The same of the calls of the broker's one thread of that name.
    pub(super) fn of_thread(broker: &Broker, name: &str, injection: &str) -> Option<Faults> {
        let is_called_so =
            |task: &PathBuf| std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name);
        let find = || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", broker.pid())).expect("the broker is running");
            tasks.flatten().map(|task| task.path()).find(is_called_so)
        };
        // A thread names itself once it runs.
        let mut task = None;
        wait_until(&format!("the broker has a thread {name}"), || {
            task = find();
            task.is_some()
        });
        let id = task.and_then(|task| task.file_name()?.to_str()?.parse().ok());
        Faults::attached(injection, [], id.expect("a thread has a number"))
    }

    fn attached(injection: &str, options: impl IntoIterator<Item = String>, id: u32) -> Option<Faults> {
        wrapper(&[])?;
        let calls = injection.split(':').next().unwrap_or_default();
        let mut command = Command::new("strace");
        command.args(["-o", "/dev/null", "-e", &format!("trace={calls}"), "-e", &format!("inject={injection}")]);
        command.args(options).args(["-p", &id.to_string()]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it was there a moment ago");
        let mut said = BufReader::new(child.stderr.take().expect("is a pipe"));
        let mut lines = String::new();
        while !lines.contains(" attached") {
            let count = said.read_line(&mut lines).expect("can be read");
            if count == 0 {
                let _ = child.wait();
                skipped(&format!("strace cannot trace here: {lines}"));
                return None;
            }
        }
        // Whatever else it says must not hold it up.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Some(Faults(child))
    }

    /// The broker has been killed, and has not lived to see the end of a delay. It is not gone as long as that goes on.
    pub(super) fn end_with_broker(mut self) {
        let _ = self.0.kill();
    }
}

impl Drop for Faults {
    /// It lets go of the broker.
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

//! Child processes that end with this one.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use crate::failure::{ErrorContext, Failure, Result};
use crate::system::{Placement, pin_self};

const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A child process of this program, such as the echo of the raw ping-pong.
pub(crate) struct Helper {
    pub address: SocketAddr,
    _process: RunningProcess,
}

impl Helper {
    pub(crate) fn start(command: &str, placement: &Placement) -> Result<Self> {
        pin_self(&placement.broker)?;
        let spawned =
            command_killed_with_parent(&std::env::current_exe()?)?.arg(command).stdout(Stdio::piped()).spawn();
        pin_self(&placement.generator)?;
        let mut process = RunningProcess::of(spawned?);
        let address = process.read_ready_line()?;
        Ok(Self { address, _process: process })
    }
}

/// A command for `program` that ends when this process ends, in any way. It starts as this program, which requests
/// that from the kernel and then executes the other.
pub(crate) fn command_killed_with_parent(program: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("become").arg(program);
    Ok(command)
}

/// The second half of [`command_killed_with_parent`]: returns only if `program` cannot be started.
pub(crate) fn become_program(program: &OsStr, arguments: &[OsString]) -> Failure {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::TERM)) {
        return error.into();
    }
    let error = Command::new(program).args(arguments).exec();
    Failure::new(format!("{}: {error}", program.display()))
}

/// A child process, which is killed when dropped.
pub(crate) struct RunningProcess(Child);

impl RunningProcess {
    pub(super) fn of(child: Child) -> Self {
        Self(child)
    }

    /// Takes its standard output, once.
    pub(super) fn output(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for `listening on SCHEME://ADDRESS:PORT` on the standard output.
    pub(super) fn read_ready_line(&mut self) -> Result<SocketAddr> {
        let output = self.0.stdout.as_mut().ok_or_else(|| Failure::new("the standard output is not connected"))?;
        let mut lines = BufReader::with_capacity(1, output);
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line)? == 0 {
                return Err(Failure::new("the process ended before it listened"));
            }
            if let Some(rest) = line.trim().strip_prefix("listening on ") {
                let address = rest.split_once("://").map_or(rest, |(_, address)| address);
                return address.parse().during(|| format!("the address in {line:?}"));
            }
        }
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.0.try_wait()?)
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        // After a wait, the process identifier may belong to another process.
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let is_sent = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
        let deadline = Instant::now() + STOP_TIMEOUT;
        while is_sent && Instant::now() < deadline {
            if matches!(self.0.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        // It did not exit; an error here means that it is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

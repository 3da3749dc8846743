//! Runs the program: child processes with timeouts, killed at the end of their test.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout for a program to end; only reached if a test fails.
const END_TIMEOUT: Duration = Duration::from_secs(90);

/// The output and exit code of a program.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if it was killed by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ended {
    /// Standard output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Fails unless the program ended with this code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.text(), self.stderr);
        self
    }
}

/// A running `tautwire`, killed when dropped.
pub(crate) struct Process {
    child: Child,
    stdout: Option<Receiver<Vec<u8>>>,
    stderr: Option<BufReader<ChildStderr>>,
    /// Standard error read so far.
    stderr_text: String,
}

/// Runs `tautwire` to its end with nothing on standard input.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    run_with_input(arguments, b"")
}

/// Runs `tautwire` to its end.
pub(crate) fn run_with_input(arguments: &[&str], input: &[u8]) -> Ended {
    let mut process = Process::start(arguments);
    process.give(input);
    process.end()
}

impl Process {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut process = Self::start_without_reader(arguments);
        let stdout = process.child.stdout.take().expect("a pipe");
        process.stdout = Some(read_all(stdout));
        process
    }

    /// Starts `tautwire` without reading its standard output.
    pub(crate) fn start_without_reader(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tautwire"))
            .args(arguments)
            .env_remove("TAUTWIRE_PASSWORD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tautwire starts");
        let stderr = child.stderr.take().map(BufReader::new);
        Self { child, stdout: None, stderr, stderr_text: String::new() }
    }

    /// Closes standard output, like a reader that stops early.
    pub(crate) fn close_output(&mut self) {
        drop(self.child.stdout.take());
    }

    /// The next line of standard output of a process started without a reader.
    pub(crate) fn output_line(&mut self) -> String {
        let stdout = self.child.stdout.as_mut().expect("no reader took it");
        let mut line = Vec::new();
        let mut byte = [0];
        while stdout.read(&mut byte).expect("reads") == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8(line).expect("UTF-8")
    }

    /// Writes to standard input and leaves it open.
    pub(crate) fn give(&mut self, input: &[u8]) {
        let stdin = self.child.stdin.as_mut().expect("standard input is open");
        // If the program has ended, its exit code shows the reason.
        let _ = stdin.write_all(input).and_then(|()| stdin.flush());
    }

    /// Waits for a line on standard error that contains the text.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let stderr = self.stderr.as_mut().expect("standard error is open");
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            let count = stderr.read_line(&mut line).expect("reads");
            self.stderr_text.push_str(&line);
            assert!(count > 0, "ended before it printed \"{text}\":\n{}", self.stderr_text);
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("is killed");
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let status = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits for the end without reading output; returns the exit code.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + END_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("the process can be asked for") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it still runs {END_TIMEOUT:?} later");
            thread::yield_now();
        }
    }

    /// Closes standard input and waits for the end.
    pub(crate) fn end(mut self) -> Ended {
        drop(self.child.stdin.take());
        let stderr = self.stderr.take().map(read_all);
        let collect = |reader: Option<Receiver<Vec<u8>>>| match reader {
            Some(reader) => reader.recv_timeout(END_TIMEOUT).ok(),
            None => Some(Vec::new()),
        };
        let Some(stdout) = collect(self.stdout.take()) else {
            let _ = self.child.kill();
            let rest = collect(stderr).unwrap_or_default();
            panic!(
                "did not end within {END_TIMEOUT:?}; its standard error:\n{}{}",
                self.stderr_text,
                String::from_utf8_lossy(&rest)
            );
        };
        let rest = collect(stderr).expect("standard error ends with the process");
        let code = self.child.wait().expect("ends").code();
        let stderr = format!("{}{}", self.stderr_text, String::from_utf8_lossy(&rest));
        Ended { code, stdout, stderr }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_all(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// A running broker on its own port.
pub(crate) struct Broker {
    process: Process,
    port: String,
    /// The URL of the admin API, if `admin.listen` is set.
    admin: Option<String>,
}

impl Broker {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a broker with settings of the form `KEY=VALUE`.
    pub(crate) fn with(settings: &[&str]) -> Self {
        Self::with_options(&[], settings)
    }

    /// Starts a broker with further options of `serve`.
    pub(crate) fn with_options(options: &[&str], settings: &[&str]) -> Self {
        let mut arguments = vec!["serve", "--memory", "--listen", "127.0.0.1:0", "--threads", "1"];
        arguments.extend(options);
        for setting in settings {
            arguments.extend(["--set", setting]);
        }
        let mut process = Process::start_without_reader(&arguments);
        let line = process.output_line();
        if line.is_empty() {
            panic!("not ready: {:?}", process.end());
        }
        let port = line.strip_prefix("listening on mqtt://127.0.0.1:");
        let port = port.unwrap_or_else(|| panic!("not ready: {line}")).to_owned();
        let has_admin = settings.iter().any(|setting| setting.starts_with("admin.listen="));
        let admin = has_admin.then(|| process.output_line());
        let admin = admin.and_then(|line| line.strip_prefix("listening on ").map(str::to_owned));
        Self { process, port, admin }
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    pub(crate) fn port(&self) -> &str {
        &self.port
    }

    /// Stops the broker cleanly; returns its log.
    pub(crate) fn stop(self) -> String {
        self.process.interrupt();
        self.process.end().expect(0).stderr
    }

    /// The URL of the admin API.
    pub(crate) fn admin(&self) -> &str {
        self.admin.as_deref().expect("the test has set admin.listen")
    }

    /// Runs `tautwire discover`.
    pub(crate) fn discover(&self, arguments: &[&str]) -> Ended {
        run(&self.arguments("discover", arguments))
    }

    /// The arguments of a command against this broker.
    fn arguments<'a>(&'a self, command: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
        [&[command, "-h", "127.0.0.1", "-p", &self.port], arguments].concat()
    }

    /// Runs `tautwire pub`.
    pub(crate) fn publish(&self, arguments: &[&str]) -> Ended {
        run(&self.arguments("pub", arguments))
    }

    pub(crate) fn publish_with_input(&self, arguments: &[&str], input: &[u8]) -> Ended {
        run_with_input(&self.arguments("pub", arguments), input)
    }

    pub(crate) fn start_publish(&self, arguments: &[&str]) -> Process {
        Process::start(&self.arguments("pub", arguments))
    }

    /// Runs `tautwire sub` until it ends.
    pub(crate) fn subscribe_to_end(&self, arguments: &[&str]) -> Ended {
        run(&self.arguments("sub", arguments))
    }

    /// Starts `tautwire sub`; returns once the broker has acknowledged the subscription.
    pub(crate) fn subscribe(&self, arguments: &[&str]) -> Process {
        let mut process = Process::start(&self.arguments("sub", &[&["-d"], arguments].concat()));
        process.wait_for("subscribed ");
        process
    }

    /// Starts `tautwire sub` without reading its output.
    pub(crate) fn subscribe_without_reader(&self, arguments: &[&str]) -> Process {
        let mut process = Process::start_without_reader(&self.arguments("sub", &[&["-d"], arguments].concat()));
        process.wait_for("subscribed ");
        process
    }
}

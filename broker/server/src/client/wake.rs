//! The threads that wait: for bytes from the broker, for a signal, for lines of standard input.
//! Each hands what comes to the one thread that owns the connection, over one bounded channel.

use std::io::{self, BufRead as _, Read as _};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Wakes waiting for the connection's thread before the others wait too.
pub(super) const WAKES_MAX: usize = 16;
/// Bytes read from the broker at once.
const READ_BYTES: usize = 64 * 1024;
/// Longest line of standard input: no longer one fits in a PUBLISH.
const LINE_MAX_BYTES: u64 = 268_435_455;
/// Exit code of a process that is interrupted a second time, as shells have it for SIGINT.
const EXIT_INTERRUPTED: i32 = 130;

/// What has come.
pub(super) enum Wake {
    Bytes(Vec<u8>),
    /// The broker sends no more; with the error, if it was one.
    Closed(Option<io::Error>),
    Interrupted,
    Line(Vec<u8>),
    InputEnded,
    InputFailed(io::Error),
}

/// Reads from the broker until it closes the connection or the client is gone.
pub(super) fn watch_network(mut stream: TcpStream, wakes: SyncSender<Wake>) -> io::Result<()> {
    spawn("mqtt-read", move || {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let wake = match stream.read(&mut buffer) {
                Ok(0) => Wake::Closed(None),
                Ok(count) => Wake::Bytes(buffer[..count].to_vec()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Wake::Closed(Some(error)),
            };
            let last = matches!(wake, Wake::Closed(_));
            if wakes.send(wake).is_err() || last {
                return;
            }
        }
    })
}

/// Hands the first SIGINT or SIGTERM to the client, so that it can say goodbye; a second one ends the process.
pub(super) fn watch_signals(wakes: SyncSender<Wake>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    spawn("signals", move || {
        let mut interrupted = false;
        for _ in signals.forever() {
            // A full channel means a client that is stuck or busy: waiting here would swallow the second signal.
            if std::mem::replace(&mut interrupted, true) {
                std::process::exit(EXIT_INTERRUPTED);
            }
            let wakes = wakes.clone();
            let _ = spawn("interrupt", move || {
                let _ = wakes.send(Wake::Interrupted);
            });
        }
    })
}

/// Reads lines of standard input, each when it is asked for, so that none piles up.
pub(super) fn watch_input(wakes: SyncSender<Wake>) -> io::Result<SyncSender<()>> {
    let (asker, asked): (SyncSender<()>, Receiver<()>) = sync_channel(1);
    spawn("stdin", move || {
        let mut input = io::stdin().lock();
        while asked.recv().is_ok() {
            let wake = match next_line(&mut input) {
                Ok(Some(line)) => Wake::Line(line),
                Ok(None) => Wake::InputEnded,
                Err(error) => Wake::InputFailed(error),
            };
            if wakes.send(wake).is_err() {
                return;
            }
        }
    })?;
    Ok(asker)
}

/// The next line without its end, which is a line feed, with or without a carriage return before it.
fn next_line(input: &mut impl io::BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    if input.take(LINE_MAX_BYTES + 2).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.pop_if(|byte| *byte == b'\n').is_some() {
        let _ = line.pop_if(|byte| *byte == b'\r');
    } else if line.len() as u64 > LINE_MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long for an MQTT message"));
    }
    Ok(Some(line))
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_line_feed_carriage_return_or_the_input() {
        let mut input = io::Cursor::new(b"a\nb\r\n\nc\rd\n\xff\0".to_vec());
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).expect("reads") {
            lines.push(line);
        }
        assert_eq!(lines, [&b"a"[..], b"b", b"", b"c\rd", b"\xff\0"]);
    }
}

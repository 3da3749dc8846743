//! The threads that wait for a signal and for lines of standard input, and where what they get can be waited for.

use std::io::{self, BufRead as _, Read as _};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Longest line of standard input: no longer one fits in a PUBLISH.
const LINE_MAX_BYTES: u64 = 268_435_455;
/// Exit code of a process that is interrupted a second time, as shells have it for SIGINT.
const EXIT_INTERRUPTED: i32 = 130;

/// What standard input gives.
#[derive(Debug)]
pub(crate) enum Input {
    /// The line that was asked for, without its end.
    Line(Vec<u8>),
    Ended,
    Failed(io::Error),
}

/// What has come from outside of the connection.
#[derive(Clone)]
pub(crate) struct Inputs {
    state: Arc<Mutex<InputState>>,
    line_requester: Option<SyncSender<()>>,
}

#[derive(Default)]
struct InputState {
    interrupted: bool,
    /// At most one: lines are read when they are asked for, so that none piles up.
    input: Option<Input>,
    waker: Option<Waker>,
}

impl Inputs {
    /// Begins to listen to SIGINT and SIGTERM; a second one ends the process.
    pub(super) fn watch_signals() -> io::Result<Inputs> {
        let state = Arc::<Mutex<InputState>>::default();
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let told = state.clone();
        spawn("signals", move || {
            let mut interrupted = false;
            for _ in signals.forever() {
                if std::mem::replace(&mut interrupted, true) {
                    std::process::exit(EXIT_INTERRUPTED);
                }
                update(&told, |state| state.interrupted = true);
            }
        })?;
        Ok(Inputs { state, line_requester: None })
    }

    pub(super) fn request_line(&mut self) -> io::Result<()> {
        let asker = match self.line_requester.take() {
            Some(asker) => asker,
            None => watch_input(self.state.clone())?,
        };
        // The thread is gone only after it said that the input has ended.
        let _ = asker.send(());
        self.line_requester = Some(asker);
        Ok(())
    }

    /// Whether there was a signal; each counts once.
    pub(super) fn poll_interrupted(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if std::mem::take(&mut state.interrupted) {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// What standard input has given, when it was asked.
    pub(crate) fn poll_input(&self, cx: &Context<'_>) -> Poll<Input> {
        let mut state = lock(&self.state);
        match state.input.take() {
            Some(input) => Poll::Ready(input),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn lock(state: &Mutex<InputState>) -> MutexGuard<'_, InputState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn update(state: &Mutex<InputState>, what: impl FnOnce(&mut InputState)) {
    let mut state = lock(state);
    what(&mut state);
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Reads lines of standard input, each when it is asked for.
fn watch_input(state: Arc<Mutex<InputState>>) -> io::Result<SyncSender<()>> {
    let (asker, asked): (SyncSender<()>, Receiver<()>) = sync_channel(1);
    spawn("stdin", move || {
        let mut input = io::stdin().lock();
        while asked.recv().is_ok() {
            let read = match next_line(&mut input) {
                Ok(Some(line)) => Input::Line(line),
                Ok(None) => Input::Ended,
                Err(error) => Input::Failed(error),
            };
            update(&state, |state| state.input = Some(read));
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

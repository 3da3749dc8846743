//! Threads that wait for signals and for lines of standard input, and futures for their results.

use std::io::{self, BufRead as _, Read as _};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Longest line of standard input; a longer one does not fit into a PUBLISH.
const LINE_MAX_BYTES: u64 = 268_435_455;
/// Exit code after a second interruption, as shells use it for SIGINT.
const EXIT_INTERRUPTED: i32 = 130;

/// Input from standard input.
#[derive(Debug)]
pub(crate) enum Input {
    /// A line without its end.
    Line(Vec<u8>),
    Ended,
    Failed(io::Error),
}

/// Signals and input.
#[derive(Clone)]
pub(crate) struct Inputs {
    state: Arc<Mutex<InputState>>,
    line_requester: Option<SyncSender<()>>,
}

#[derive(Default)]
struct InputState {
    interrupted: bool,
    /// At most one: lines are read on request, so that they do not accumulate.
    input: Option<Input>,
    waker: Option<Waker>,
}

impl Inputs {
    /// Handles SIGINT and SIGTERM; a second one ends the process.
    pub(super) fn watch_signals() -> io::Result<Inputs> {
        let state = Arc::<Mutex<InputState>>::default();
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let shared = state.clone();
        spawn("signals", move || {
            let mut interrupted = false;
            for _ in signals.forever() {
                if std::mem::replace(&mut interrupted, true) {
                    std::process::exit(EXIT_INTERRUPTED);
                }
                update(&shared, |state| state.interrupted = true);
            }
        })?;
        Ok(Inputs { state, line_requester: None })
    }

    pub(super) fn request_line(&mut self) -> io::Result<()> {
        let requester = match self.line_requester.take() {
            Some(requester) => requester,
            None => watch_input(self.state.clone())?,
        };
        // The thread ends only after it has reported the end of the input.
        let _ = requester.send(());
        self.line_requester = Some(requester);
        Ok(())
    }

    /// Ready if there was a signal; each counts once.
    pub(super) fn poll_interrupted(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if std::mem::take(&mut state.interrupted) {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The requested input, once it is available.
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

fn update(state: &Mutex<InputState>, change: impl FnOnce(&mut InputState)) {
    let mut state = lock(state);
    change(&mut state);
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Reads lines of standard input on request.
fn watch_input(state: Arc<Mutex<InputState>>) -> io::Result<SyncSender<()>> {
    let (requester, requests): (SyncSender<()>, Receiver<()>) = sync_channel(1);
    spawn("stdin", move || {
        let mut input = io::stdin().lock();
        while requests.recv().is_ok() {
            let read = match next_line(&mut input) {
                Ok(Some(line)) => Input::Line(line),
                Ok(None) => Input::Ended,
                Err(error) => Input::Failed(error),
            };
            update(&state, |state| state.input = Some(read));
        }
    })?;
    Ok(requester)
}

/// Reads the next line without its end: a line feed, optionally after a carriage return.
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
    fn lines_end_with_lf_crlf_or_the_end_of_input() {
        let mut input = io::Cursor::new(b"a\nb\r\n\nc\rd\n\xff\0".to_vec());
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).expect("reads") {
            lines.push(line);
        }
        assert_eq!(lines, [&b"a"[..], b"b", b"", b"c\rd", b"\xff\0"]);
    }
}

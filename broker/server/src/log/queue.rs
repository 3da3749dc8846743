//! The queue of log lines, and the thread that writes them.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Limits for queued lines and their bytes. Lines that do not fit are dropped and counted.
const LINES_MAX: usize = 4_096;
const BYTES_MAX: usize = 1 << 20;
/// Most bytes per write.
const WRITE_BYTES: usize = 64 << 10;

pub(super) struct Queue {
    state: Mutex<State>,
    /// Signaled when a line is queued.
    filled: Condvar,
    /// Signaled after a write.
    written: Condvar,
    /// Formats the line that reports the number of lost lines.
    lost_lines: Box<dyn Fn(u64) -> String + Send + Sync>,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    /// The size of `lines`, and of the lines being written.
    bytes: usize,
    is_writing: bool,
    /// Lines lost since the last one that fit.
    lost: u64,
    /// Lines lost before a counter was installed.
    uncounted: u64,
    count: Option<LossCounter>,
}

/// Receives the number of lost lines.
type LossCounter = Box<dyn Fn(u64) + Send>;

impl Queue {
    /// Starts the thread that writes to `out`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(
        out: Box<dyn Write + Send>,
        lost_lines: impl Fn(u64) -> String + Send + Sync + 'static,
    ) -> io::Result<Arc<Queue>> {
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            filled: Condvar::new(),
            written: Condvar::new(),
            lost_lines: Box::new(lost_lines),
        });
        let writer = queue.clone();
        thread::Builder::new().name("log".into()).spawn(move || writer.run_writer(out))?;
        Ok(queue)
    }

    /// Queues one or several lines as a unit, unless there is no room. Never blocks.
    pub(super) fn push(&self, lines: String) {
        if lines.is_empty() {
            return;
        }
        let mut state = self.state();
        if state.lines.len() >= LINES_MAX || state.bytes + lines.len() > BYTES_MAX {
            state.count_loss();
            return;
        }
        self.report_lost_lines(&mut state);
        state.add(lines);
        drop(state);
        self.filled.notify_one();
    }

    /// Counts lines that were lost before they got here.
    pub(super) fn count_lost(&self, lines: u64) {
        self.state().count_lost(lines);
    }

    /// Installs a counter of lost lines, and reports the earlier ones to it.
    pub(super) fn count_losses(&self, count: LossCounter) {
        let mut state = self.state();
        count(std::mem::take(&mut state.uncounted));
        state.count = Some(count);
    }

    /// Waits until everything has been written, or for `timeout`.
    pub(super) fn wait_until_written(&self, timeout: Duration) {
        let is_waiting = |state: &mut State| state.is_writing || !state.lines.is_empty() || state.lost > 0;
        let _ = self.written.wait_timeout_while(self.state(), timeout, is_waiting);
    }

    /// Queues the line that reports lost lines, if there are any.
    fn report_lost_lines(&self, state: &mut State) {
        if state.lost > 0 {
            let lost = std::mem::take(&mut state.lost);
            state.add((self.lost_lines)(lost));
        }
    }

    fn run_writer(&self, mut out: Box<dyn Write + Send>) {
        let mut piece = String::new();
        loop {
            let mut state = self.state();
            state.bytes -= piece.len();
            state.is_writing = false;
            self.written.notify_all();
            if state.lines.is_empty() {
                self.report_lost_lines(&mut state);
            }
            state =
                self.filled.wait_while(state, |state| state.lines.is_empty()).unwrap_or_else(PoisonError::into_inner);
            piece = state.lines.pop_front().unwrap_or_default();
            while state.lines.front().is_some_and(|next| piece.len() + next.len() <= WRITE_BYTES) {
                piece.extend(state.lines.pop_front());
            }
            state.is_writing = true;
            drop(state);
            // Continue even if standard error is closed.
            let _ = out.write_all(piece.as_bytes());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, lines: String) {
        self.bytes += lines.len();
        self.lines.push_back(lines);
    }

    fn count_loss(&mut self) {
        self.lost += 1;
        self.count_lost(1);
    }

    fn count_lost(&mut self, lines: u64) {
        match &self.count {
            Some(count) => count(lines),
            None => self.uncounted += lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A generous upper bound for each test.
    const TIMEOUT: Duration = Duration::from_secs(20);

    /// A writer that blocks until the test permits each write.
    struct BlockingWriter {
        permits: Receiver<()>,
        taken: Sender<String>,
    }

    impl Write for BlockingWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.permits.recv();
            let _ = self.taken.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn queue() -> (Arc<Queue>, Sender<()>, Receiver<String>) {
        let ((permit, permits), (taken, seen)) = (channel(), channel());
        let writer = BlockingWriter { permits, taken };
        let queue = Queue::start(Box::new(writer), |count| format!("{count} lost\n")).expect("a thread starts");
        (queue, permit, seen)
    }

    #[test]
    fn lines_are_written_whole_and_in_order() {
        let (queue, permit, seen) = queue();
        for number in 0..1_000 {
            queue.push(format!("{number}\n"));
        }
        drop(permit);
        queue.wait_until_written(TIMEOUT);
        let text: String = seen.try_iter().collect();
        assert_eq!(text, (0..1_000).map(|number| format!("{number}\n")).collect::<String>());
    }

    #[test]
    fn dropped_lines_are_counted_and_reported_in_place() {
        for line_bytes in [2, 3_000] {
            let (queue, permit, seen) = queue();
            let line = format!("{}\n", "x".repeat(line_bytes - 1));
            for _ in 0..10_000 {
                queue.push(line.clone());
            }
            // Nothing is read, and no push has blocked. Lines lost before a counter is installed are counted too.
            let counted = Arc::new(AtomicU64::new(0));
            let counter = counted.clone();
            queue.count_losses(Box::new(move |lines| {
                counter.fetch_add(lines, Ordering::Relaxed);
            }));
            queue.push(line.clone());
            let lost = counted.load(Ordering::Relaxed);
            drop(permit);
            queue.wait_until_written(TIMEOUT);
            queue.push("next\n".into());
            queue.wait_until_written(TIMEOUT);
            let text: String = seen.try_iter().collect();
            let written = text.lines().filter(|line| line.starts_with('x')).count() as u64;
            assert_eq!(written + lost, 10_001);
            // The writer may have taken a batch before it blocks.
            assert!(lost > 0 && written <= 2 * (LINES_MAX as u64), "{written}");
            let reported = text.lines().filter_map(|line| line.strip_suffix(" lost")?.parse::<u64>().ok()).sum::<u64>();
            assert_eq!(reported, lost);
            // That batch may have freed room for lines behind the lost ones.
            assert!(text.ends_with("\nnext\n"));
        }
    }

    #[test]
    fn shutdown_does_not_wait_for_a_stalled_reader() {
        let (queue, permit, _seen) = queue();
        queue.push("line\n".into());
        queue.wait_until_written(Duration::from_millis(1));
        drop(permit);
    }
}

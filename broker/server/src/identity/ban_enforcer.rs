//! Bans by rule end the connections that they are about: clients are looked at again soon after somebody has been banned.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The least time between two looks at all clients. Who fails by the thousand must not keep the broker busy with looking.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Looks at clients again when somebody has been banned: at once, but not more often than each [`CHECK_INTERVAL`]. It has a thread only
/// while there is something to do.
pub(crate) struct BanEnforcer {
    look: Box<dyn Fn() + Send + Sync>,
    pause: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Somebody has been banned since the last look began.
    is_due: bool,
    has_thread: bool,
}

impl BanEnforcer {
    pub(crate) fn new(look: impl Fn() + Send + Sync + 'static) -> Arc<BanEnforcer> {
        BanEnforcer::pausing(look, || thread::sleep(CHECK_INTERVAL))
    }

    fn pausing(look: impl Fn() + Send + Sync + 'static, pause: impl Fn() + Send + Sync + 'static) -> Arc<BanEnforcer> {
        Arc::new(BanEnforcer { look: Box::new(look), pause: Box::new(pause), state: Mutex::default() })
    }

    /// Somebody has been banned. Takes no time.
    pub(crate) fn note(self: &Arc<BanEnforcer>) {
        let mut state = self.state();
        state.is_due = true;
        if !state.has_thread {
            match self.clone().start() {
                Ok(()) => state.has_thread = true,
                Err(error) => log::error!("who is banned and connected stays so: no thread can be started: {error}"),
            }
        }
    }

    fn start(self: Arc<BanEnforcer>) -> io::Result<()> {
        thread::Builder::new().name("bans".to_owned()).spawn(move || self.run()).map(|_| ())
    }

    fn run(&self) {
        while self.should_continue() {
            (self.look)();
            (self.pause)();
        }
    }

    fn should_continue(&self) -> bool {
        let mut state = self.state();
        state.has_thread = std::mem::take(&mut state.is_due);
        state.has_thread
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn many_bans_are_enforced_in_one_check() {
        let ((sender, looks), (end_pause, pauses)) = (channel(), channel());
        let (sender, pauses) = (Mutex::new(sender), Mutex::new(pauses));
        let look = move || sender.lock().expect("no panic").send(()).expect("somebody listens");
        let pause = move || pauses.lock().expect("no panic").recv().expect("the pause ends");
        let enforcement = BanEnforcer::pausing(look, pause);
        enforcement.note();
        looks.recv().expect("a look at once");
        (0..1_000).for_each(|_| enforcement.note());
        end_pause.send(()).expect("there is a thread");
        looks.recv().expect("another look");
        end_pause.send(()).expect("there is a thread");
        enforcement.note();
        looks.recv().expect("one more look, by this thread or by another");
        assert!(looks.try_recv().is_err(), "a thousand bans are not a thousand looks");
    }
}

//! Enforces bans made by rules on connected clients, shortly after each ban.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Shortest interval between two checks of all clients. Thousands of failing clients must not keep the broker busy with checks.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Rechecks all clients after a ban: at once, but not more often than each [`CHECK_INTERVAL`]. Has a thread only while there is work.
pub(crate) struct BanEnforcer {
    check: Box<dyn Fn() + Send + Sync>,
    pause: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A ban has been made since the last check started.
    is_due: bool,
    has_thread: bool,
}

impl BanEnforcer {
    pub(crate) fn new(check: impl Fn() + Send + Sync + 'static) -> Arc<BanEnforcer> {
        BanEnforcer::with_pause(check, || thread::sleep(CHECK_INTERVAL))
    }

    fn with_pause(
        check: impl Fn() + Send + Sync + 'static,
        pause: impl Fn() + Send + Sync + 'static,
    ) -> Arc<BanEnforcer> {
        Arc::new(BanEnforcer { check: Box::new(check), pause: Box::new(pause), state: Mutex::default() })
    }

    /// Schedules a check without blocking.
    pub(crate) fn schedule(self: &Arc<BanEnforcer>) {
        let mut state = self.state();
        state.is_due = true;
        if !state.has_thread {
            match self.clone().start() {
                Ok(()) => state.has_thread = true,
                Err(error) => log::error!("cannot disconnect banned clients: cannot start a thread: {error}"),
            }
        }
    }

    fn start(self: Arc<BanEnforcer>) -> io::Result<()> {
        thread::Builder::new().name("bans".to_owned()).spawn(move || self.run()).map(|_| ())
    }

    fn run(&self) {
        while self.should_continue() {
            (self.check)();
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
        let ((sender, checks), (end_pause, pauses)) = (channel(), channel());
        let (sender, pauses) = (Mutex::new(sender), Mutex::new(pauses));
        let check = move || sender.lock().expect("no panic").send(()).expect("the receiver exists");
        let pause = move || pauses.lock().expect("no panic").recv().expect("the pause ends");
        let enforcer = BanEnforcer::with_pause(check, pause);
        enforcer.schedule();
        checks.recv().expect("an immediate check");
        (0..1_000).for_each(|_| enforcer.schedule());
        end_pause.send(()).expect("there is a thread");
        checks.recv().expect("another check");
        end_pause.send(()).expect("there is a thread");
        enforcer.schedule();
        checks.recv().expect("one more check, by this thread or by another");
        assert!(checks.try_recv().is_err(), "a thousand bans need one check");
    }
}

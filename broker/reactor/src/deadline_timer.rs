//! Wakes a waiting thread at its next deadline.
//!
//! A timeout on every wait makes the kernel create and destroy a timer each time, which costs about a twentieth of a round trip. Deadlines
//! change rarely, so on Linux one timer descriptor is set when an earlier deadline appears and otherwise left alone. It may fire for an
//! obsolete deadline, which costs an empty turn.

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::time::Duration;

    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };

    /// A timer descriptor.
    #[derive(Debug)]
    pub(crate) struct DeadlineTimer {
        timer: OwnedFd,
        /// The next time it fires.
        set_ms: Option<u64>,
    }

    impl DeadlineTimer {
        pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<DeadlineTimer> {
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
            // Edge-triggered, so it need not be read: each expiry is reported once.
            registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
            Ok(DeadlineTimer { timer, set_ms: None })
        }

        /// Makes sure that the thread wakes at `at_ms`. Returns the timeout of the wait.
        pub(crate) fn set(&mut self, at_ms: Option<u64>, now_ms: u64) -> io::Result<Option<Duration>> {
            let rung = self.set_ms.is_some_and(|set_ms| set_ms <= now_ms);
            let Some(at_ms) = at_ms.filter(|at_ms| rung || self.set_ms.is_none_or(|set_ms| *at_ms < set_ms)) else {
                return Ok(None);
            };
            // A time of zero would disarm the timer.
            let delay_ms = at_ms.saturating_sub(now_ms).max(1);
            let value = Timespec { tv_sec: (delay_ms / 1000) as i64, tv_nsec: (delay_ms % 1000 * 1_000_000) as _ };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
            self.set_ms = Some(now_ms + delay_ms);
            Ok(None)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;
    use std::time::Duration;

    use mio::{Registry, Token};

    /// The timeout of each wait.
    #[derive(Debug)]
    pub(crate) struct DeadlineTimer;

    impl DeadlineTimer {
        pub(crate) fn new(_registry: &Registry, _token: Token) -> io::Result<DeadlineTimer> {
            Ok(DeadlineTimer)
        }

        /// Returns the timeout of the wait, to wake at `at_ms`.
        pub(crate) fn set(&mut self, at_ms: Option<u64>, now_ms: u64) -> io::Result<Option<Duration>> {
            Ok(at_ms.map(|at_ms| Duration::from_millis(at_ms.saturating_sub(now_ms))))
        }
    }
}

pub(crate) use imp::DeadlineTimer;

//! Wakes a thread after less than a millisecond.

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};

    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };

    /// A timer descriptor.
    #[derive(Debug)]
    pub(crate) struct ShortTimer {
        timer: OwnedFd,
    }

    impl ShortTimer {
        /// Creates a timer that reports with `token`.
        ///
        /// # Errors
        /// The timer cannot be created.
        pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<ShortTimer> {
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
            // Edge-triggered, so it need not be read.
            registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
            Ok(ShortTimer { timer })
        }

        /// Wakes the thread once after `delay_us`, more than 0 and less than a second. Returns false if that is not possible.
        pub(crate) fn set(&mut self, delay_us: u32) -> bool {
            let value = Timespec { tv_sec: 0, tv_nsec: (i64::from(delay_us) * 1_000) as _ };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).is_ok()
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;

    use mio::{Registry, Token};

    /// Not available on this system.
    #[derive(Debug)]
    pub(crate) struct ShortTimer;

    impl ShortTimer {
        pub(crate) fn new(_registry: &Registry, _token: Token) -> io::Result<ShortTimer> {
            Ok(ShortTimer)
        }

        pub(crate) fn set(&mut self, _delay_us: u32) -> bool {
            false
        }
    }
}

pub(crate) use imp::ShortTimer;

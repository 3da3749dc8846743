//! Notifies the service manager: ready, reloading, stopping, alive. See sd_notify(3).

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tautwire_reactor::Control;

/// The service manager's socket, if it expects notifications.
static MANAGER: LazyLock<Option<Manager>> = LazyLock::new(|| {
    let address = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty())?;
    Manager::at(&address).map_err(|error| log::warn!("cannot use NOTIFY_SOCKET {address:?}: {error}")).ok()
});
/// Reloads are only reported after READY=1.
static IS_READY: AtomicBool = AtomicBool::new(false);

struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Manager {
    fn at(address: &OsStr) -> io::Result<Manager> {
        let address = match address.as_bytes().strip_prefix(b"@") {
            Some(name) => abstract_address(name)?,
            None => SocketAddr::from_pathname(address)?,
        };
        Ok(Manager { socket: UnixDatagram::unbound()?, address })
    }
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;

    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

fn send(state: &str) {
    if let Some(Manager { socket, address }) = &*MANAGER
        && let Err(error) = socket.send_to_addr(state.as_bytes(), address)
    {
        log::warn!("cannot send {state:?} to the service manager: {error}");
    }
}

/// Reports that the broker accepts connections.
pub(crate) fn ready() {
    IS_READY.store(true, Ordering::Release);
    send("READY=1");
}

/// Reports a reload, which ends when the returned guard is dropped.
pub(crate) fn reloading() -> Option<ReloadGuard> {
    IS_READY.load(Ordering::Acquire).then(|| {
        let now = clock_gettime(ClockId::Monotonic);
        send(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1_000));
        ReloadGuard
    })
}

/// Reports the end of a reload when dropped.
pub(crate) struct ReloadGuard;

impl Drop for ReloadGuard {
    fn drop(&mut self) {
        if IS_READY.load(Ordering::Acquire) {
            send("READY=1");
        }
    }
}

/// Reports that the broker is stopping.
pub(crate) fn stopping() {
    IS_READY.store(false, Ordering::Release);
    send("STOPPING=1");
}

/// Starts sending keep-alive pings to the service manager's watchdog, if it has one: two per interval, as long as all threads respond.
/// Without them it restarts the broker.
pub(crate) fn watch(control: Control) {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(interval) = watchdog_interval(variable, std::process::id()) else { return };
    let half = interval / 2;
    let run = move || {
        loop {
            let began = Instant::now();
            if control.is_responsive(half) {
                send("WATCHDOG=1");
            } else {
                log::error!(
                    "a thread has not responded for {half:?}: the keep-alive ping to the service manager's watchdog is skipped"
                );
            }
            thread::sleep(half.saturating_sub(began.elapsed()));
        }
    };
    if let Err(error) = thread::Builder::new().name("watchdog".to_owned()).spawn(run) {
        log::error!("cannot start the watchdog thread: {error}");
    }
}

/// The watchdog interval, if the service manager set one for the process `pid`.
fn watchdog_interval(variable: impl Fn(&str) -> Option<String>, pid: u32) -> Option<Duration> {
    let is_other = variable("WATCHDOG_PID").is_some_and(|expected| expected.parse() != Ok(pid));
    let interval = variable("WATCHDOG_USEC")?.parse().ok().filter(|us| *us > 0 && !is_other)?;
    Some(Duration::from_micros(interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_intended_process_notifies_the_watchdog() {
        let interval = |usec: Option<&str>, pid: Option<&str>| {
            let variable = |name: &str| if name == "WATCHDOG_USEC" { usec } else { pid }.map(str::to_owned);
            watchdog_interval(variable, 7)
        };
        assert_eq!(interval(Some("2000000"), None), Some(Duration::from_secs(2)));
        assert_eq!(interval(Some("2000000"), Some("7")), Some(Duration::from_secs(2)));
        for (usec, pid) in [(None, None), (Some("2000000"), Some("8")), (Some("0"), None), (Some("x"), Some("7"))] {
            assert_eq!(interval(usec, pid), None);
        }
    }
}

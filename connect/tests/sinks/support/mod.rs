//! The processes of a test, and what they share.

pub(crate) mod broker;
pub(crate) mod connector;
pub(crate) mod endpoint;
pub(crate) mod faults;
pub(crate) mod kafka;
pub(crate) mod nats;
pub(crate) mod postgres;
pub(crate) mod process;

use std::future::Future;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The longest wait for an event; much longer than anything takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// A directory that is removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tautwire-connect-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// A port that is free now, for a server that is restarted on the same one.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Runs a test with a runtime, if the programs that it needs are named.
pub(crate) fn run(needed: &[&str], test: impl Future<Output = ()>) {
    if let Some(missing) = needed.iter().find(|name| std::env::var_os(name).is_none()) {
        eprintln!("not run: {missing} is not set; use make test-connect");
        return;
    }
    // The second test finds it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

/// Polls until `check` returns a value.
pub(crate) async fn wait_for<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(begun.elapsed() < DEADLINE, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A number of the environment.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

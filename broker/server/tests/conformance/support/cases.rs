//! Runs a test body for each protocol version and number of threads.

use std::thread;

use tautwire_protocol::ProtocolVersion;

use super::broker::Broker;

/// A protocol version and a number of broker threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) version: ProtocolVersion,
    pub(crate) threads: usize,
}

impl Case {
    /// A broker for this case with default settings.
    pub(crate) fn broker(self) -> Broker {
        self.broker_set(&[])
    }

    /// A broker for this case with `KEY=VALUE` settings.
    pub(crate) fn broker_set(self, settings: &[&str]) -> Broker {
        Broker::with(self.threads, settings)
    }
}

/// Runs `body` for 3.1.1 and 5.0, on one thread and on two, all at once.
pub(crate) fn every_case(body: impl Fn(Case) + Sync) {
    run(&[ProtocolVersion::V3_1_1, ProtocolVersion::V5], &[1, 2], body);
}

/// Runs `body` for 3.1.1 and 5.0 on one thread, both at once: for behaviour of a single connection.
pub(crate) fn every_version(body: impl Fn(Case) + Sync) {
    run(&[ProtocolVersion::V3_1_1, ProtocolVersion::V5], &[1], body);
}

/// Runs `body` for 5.0, on one thread and on two, both at once.
pub(crate) fn every_thread_count(body: impl Fn(Case) + Sync) {
    run(&[ProtocolVersion::V5], &[1, 2], body);
}

fn run(versions: &[ProtocolVersion], threads: &[usize], body: impl Fn(Case) + Sync) {
    let cases: Vec<Case> =
        versions.iter().flat_map(|&version| threads.iter().map(move |&threads| Case { version, threads })).collect();
    let failed: Vec<Case> = thread::scope(|scope| {
        let body = &body;
        let running: Vec<_> = cases.iter().map(|&case| (case, scope.spawn(move || body(case)))).collect();
        running.into_iter().filter_map(|(case, thread)| thread.join().is_err().then_some(case)).collect()
    });
    assert!(failed.is_empty(), "failed for {failed:?}");
}

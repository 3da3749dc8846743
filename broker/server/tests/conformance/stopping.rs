//! Shutdown.

use std::process::Command;

use crate::support::{AtLeastOnce, V3_1_1, V5, every_thread_count};

/// 3.14.2.1 of 5.0: Server shutting down. A signal stops the broker cleanly, and 5.0 clients are notified.
#[test]
fn a_signal_stops_the_broker_and_disconnects_the_clients() {
    every_thread_count(|case| {
        for signal in ["-INT", "-TERM"] {
            let mut broker = case.broker();
            let mut old = broker.connect(V3_1_1, "old");
            let mut new: Vec<_> = ["a", "b", "c", "d"].map(|client_id| broker.connect(V5, client_id)).into();
            new[0].publish("a", AtLeastOnce, b"x");
            let sent = Command::new("kill").args([signal, &broker.pid().to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()));
            for client in &mut new {
                assert_eq!(client.expect_disconnect(), 0x8b);
            }
            old.expect_closed();
            drop((old, new));
            assert_eq!(broker.exit_code(), Some(0));
        }
    });
}

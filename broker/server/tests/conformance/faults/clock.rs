//! Clocks that are set forward or back, both while a broker runs and between two runs.

use std::fs;
use std::process::Command;
use std::time::Instant;

use tautwire_protocol::Property;

use super::{metric, settings, skipped, start_by, wait_until};
use crate::support::{
    AtLeastOnce, Broker, Folder, NEVER, OutgoingPublish, V5, WillMessage, program, reconnect, remaining_expiry,
};

const DAY_S: i64 = 86_400;
const HOUR_S: u32 = 3_600;

/// The wall clock of the brokers of one test.
struct WallClock {
    folder: Folder,
    wrapper: Vec<String>,
}

impl WallClock {
    /// Returns `None` and prints the reason if it is not available.
    fn new() -> Option<WallClock> {
        let folder = Folder::new(&[("clock", "0"), ("clock.c", include_str!("clock.c"))]);
        let at = |name: &str| folder.path().join(name).display().to_string();
        let linked = Command::new("ldd").arg(program()).output().map(|output| output.status.success());
        if !linked.unwrap_or(false) {
            skipped("the program is linked statically, or is for another system, and takes no clock from the test");
            return None;
        }
        let made = Command::new("cc").args(["-shared", "-fPIC", "-o", &at("clock.so"), &at("clock.c")]).output();
        if !made.is_ok_and(|output| output.status.success()) {
            skipped("there is no C compiler to make a clock");
            return None;
        }
        let (preload, file) = (format!("LD_PRELOAD={}", at("clock.so")), format!("CLOCK_FILE={}", at("clock")));
        Some(WallClock { wrapper: vec!["env".to_owned(), preload, file], folder })
    }

    /// Sets the offset of the clock.
    fn set(&self, seconds: i64) {
        // Written atomically.
        self.folder.write("clock.new", &seconds.to_string());
        fs::rename(self.folder.path().join("clock.new"), self.folder.path().join("clock")).expect("can be renamed");
    }

    fn start(&self) -> Broker {
        let data = self.folder.path().join("data").display().to_string();
        start_by(&self.wrapper, &settings(&self.folder, &data, &[]))
    }
}

fn kill(broker: Broker) {
    broker.signal("KILL");
    drop(broker);
}

/// A persistent session of an offline client that expires after this time.
fn create_offline_session(broker: &Broker, client_id: &str, expiry_s: u32) {
    broker.connecting(V5, client_id).session_expiry_s(expiry_s).open().disconnect();
}

fn is_there(broker: &Broker, client_id: &str) -> bool {
    broker.connecting(V5, client_id).clean_start(false).session_expiry_s(1_000).open().session_present()
}

fn publish_for(broker: &Broker, seconds: u32) {
    let message = OutgoingPublish::new("kept/x", AtLeastOnce, b"for a while");
    let message = message.property(Property::MessageExpiryInterval(seconds));
    assert_eq!(broker.connect(V5, "publisher").deliver(&message), 0);
}

/// A broker with a persistent session whose queue has a message that expires in an hour, and one that does not expire.
fn with_messages(clock: &WallClock) -> Broker {
    let broker = clock.start();
    let mut subscriber = broker.connecting(V5, "subscriber").persistent().open();
    subscriber.subscribe("kept/#", AtLeastOnce);
    subscriber.subscribe("will", AtLeastOnce);
    subscriber.disconnect();
    publish_for(&broker, HOUR_S);
    assert_eq!(broker.connect(V5, "publisher").publish("kept/x", AtLeastOnce, b"for ever"), 0);
    // The last record written shows the time of the clock.
    create_offline_session(&broker, "last", 1_000);
    broker
}

/// [MQTT-3.1.2-23], [MQTT-3.1.2-8], [MQTT-3.3.2-6]: expiry after seconds is not delayed by a day.
#[test]
fn a_clock_set_back_between_runs_delays_nothing() {
    let Some(clock) = WallClock::new() else { return };
    let started_at = Instant::now();
    let broker = with_messages(&clock);
    create_offline_session(&broker, "short", 2);
    let will = WillMessage::new("will", b"gone").qos(AtLeastOnce).delay_s(2);
    broker.connecting(V5, "mortal").session_expiry_s(NEVER).will(will).open().cut();
    wait_until("the end of the connection is noticed", || metric(&broker, "sessions_connected") == 0);
    kill(broker);
    clock.set(-DAY_S);
    let broker = clock.start();
    wait_until("the session ends", || metric(&broker, "sessions") == 3);
    assert!(!is_there(&broker, "short"));
    let mut subscriber = reconnect(&broker, V5, "subscriber");
    let message = subscriber.receive();
    let left_s = message.properties().message_expiry_interval().expect("it expires");
    assert!(remaining_expiry(HOUR_S, started_at).contains(&left_s), "{left_s} s are left");
    assert_eq!(subscriber.receive().text(), "for ever");
    assert_eq!(subscriber.receive().text(), "gone");
    let log = broker.end();
    assert!(log.contains("was set back by at least 8"), "{log}");

    // Once more, with the clock right again.
    clock.set(0);
    let broker = clock.start();
    assert!(is_there(&broker, "subscriber"));
    assert!(!broker.end().contains("was set back"));
}

/// A clock set forward is indistinguishable from a long time without a broker.
#[test]
fn a_clock_set_forward_between_runs_counts_as_elapsed_time() {
    let Some(clock) = WallClock::new() else { return };
    let broker = with_messages(&clock);
    create_offline_session(&broker, "short", HOUR_S);
    create_offline_session(&broker, "long", NEVER);
    let will = WillMessage::new("will", b"gone").qos(AtLeastOnce).delay_s(HOUR_S);
    broker.connecting(V5, "mortal").session_expiry_s(NEVER).will(will).open().cut();
    wait_until("the end of the connection is noticed", || metric(&broker, "sessions_connected") == 0);
    kill(broker);
    clock.set(DAY_S);
    let broker = clock.start();
    assert!(!is_there(&broker, "short") && is_there(&broker, "long"));
    let mut subscriber = reconnect(&broker, V5, "subscriber");
    assert_eq!(subscriber.receive().text(), "for ever", "an expired message is not sent [MQTT-3.3.2-5]");
    assert_eq!(subscriber.receive().text(), "gone");
    subscriber.expect_nothing();
}

/// The machine's clock only matters at startup.
#[test]
fn a_clock_change_at_run_time_has_no_effect() {
    let Some(clock) = WallClock::new() else { return };
    for seconds in [DAY_S, -DAY_S] {
        clock.set(0);
        let started_at = Instant::now();
        let broker = with_messages(&clock);
        let mut present = broker.connecting(V5, "present").keep_alive_s(60).open();
        create_offline_session(&broker, "hour", HOUR_S);
        let before = metric(&broker, "sessions");
        create_offline_session(&broker, "short", 2);
        assert_eq!(metric(&broker, "sessions"), before + 1);
        clock.set(seconds);
        wait_until("the session ends", || metric(&broker, "sessions") == before);
        present.ping();
        assert!(is_there(&broker, "hour"));
        let mut subscriber = reconnect(&broker, V5, "subscriber");
        let left_s = subscriber.receive().properties().message_expiry_interval().expect("it expires");
        assert!(remaining_expiry(HOUR_S, started_at).contains(&left_s), "{left_s} s are left");
        kill(broker);
        fs::remove_dir_all(clock.folder.path().join("data")).expect("the directory is removable");
    }
}

//! The acknowledgement levels: what each waits for, however it is configured, and what survives a kill.
//!
//! The disk stalls at a defined point, so it is known what has reached the disk, and what only the operating system.

use std::net::SocketAddr;

use super::create_offline_session;
use super::strace::Faults;
use crate::listeners::connecting;
use crate::support::{AtLeastOnce, Broker, Folder, OutgoingPublish, V5, reconnect};

/// In the order of publishing here: a write handed over with the first message contains it for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Os,
    Disk,
    Memory,
}

const LEVELS: [Level; 3] = [Level::Os, Level::Disk, Level::Memory];

/// The operation at which the disk stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stalled {
    /// No later write reaches the operating system.
    Write,
    /// The first write reaches the operating system, but no sync completes.
    Sync,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Os => "os",
            Level::Disk => "disk",
            Level::Memory => "memory",
        }
    }

    fn is_answered(self, stalled: Stalled) -> bool {
        match self {
            Level::Os => stalled == Stalled::Sync,
            Level::Disk => false,
            Level::Memory => true,
        }
    }
}

impl Stalled {
    /// A delay that ends when the fault injection is removed.
    fn injection(self) -> &'static str {
        match self {
            Stalled::Write => "pwrite64:delay_enter=1000000000",
            Stalled::Sync => "fdatasync:delay_enter=1000000000",
        }
    }
}

/// Publishes one message per level to a topic named like the level. The broker also has the configuration `file`, and serves each level at
/// `address`. The level determines who is acknowledged despite the stalled disk, and what survives a kill.
fn check(stalled: Stalled, levels: &[Level], file: &str, address: impl Fn(&Broker, Level) -> SocketAddr) {
    let folder = Folder::new(&[]);
    let path = format!("data.path={}", folder.path().join("data").display());
    let broker = Broker::set(&[&path]);
    create_offline_session(&broker);
    broker.end();

    let broker = Broker::with_listeners(1, &folder, file, &[&path]);
    let open = |level: &Level| (*level, connecting(address(&broker, *level), level.name()).open());
    let mut clients: Vec<_> = levels.iter().map(open).collect();
    let Some(faults) = Faults::of(&broker, stalled.injection(), &[]) else { return };
    for (level, client) in &mut clients {
        let topic = format!("kept/{}", level.name());
        let id = client.send_publish(&OutgoingPublish::new(&topic, AtLeastOnce, b"x"));
        if level.is_answered(stalled) {
            assert_eq!(client.expect_puback(id), 0, "{level:?} {stalled:?} {file}");
        }
    }
    for (level, mut client) in clients {
        if !level.is_answered(stalled) {
            client.expect_nothing();
        }
    }
    broker.signal("KILL");
    faults.end_with_broker();
    drop(broker);

    let broker = Broker::set(&[&path]);
    let mut subscriber = reconnect(&broker, V5, "subscriber");
    if stalled == Stalled::Sync {
        assert_eq!(subscriber.receive().topic(), "kept/os", "the system had it: {file}");
    }
    subscriber.expect_nothing();
}

fn own(broker: &Broker, _: Level) -> SocketAddr {
    broker.address()
}

/// The address of the level's own listener, if it has one.
fn of_table(broker: &Broker, level: Level) -> SocketAddr {
    match level {
        Level::Os => broker.other_address(0),
        Level::Disk => broker.address(),
        Level::Memory => broker.other_address(1),
    }
}

#[test]
fn the_default_ack_level_applies() {
    for level in LEVELS {
        check(Stalled::Write, &[level], &format!("data.ack = \"{}\"\n", level.name()), own);
    }
    check(Stalled::Sync, &[Level::Os], "data.ack = \"os\"\n", own);
}

#[test]
fn the_ack_level_of_a_topic_applies() {
    let file = "data.ack_topics = [\"kept/os = os\", \"kept/memory/# = memory\"]\n";
    check(Stalled::Write, &LEVELS, file, own);
    check(Stalled::Sync, &LEVELS, file, own);
}

#[test]
fn the_ack_level_of_an_address_applies() {
    let file = "data.ack_listeners = [\"127.0.0.2:0 = os\", \"127.0.0.3:0 = memory\"]\n\
                [[listener]]\naddress = \"127.0.0.2:0\"\n[[listener]]\naddress = \"127.0.0.3:0\"\n";
    check(Stalled::Write, &LEVELS, file, of_table);
    check(Stalled::Sync, &LEVELS, file, of_table);
}

#[test]
fn the_ack_level_of_a_listener_applies() {
    let file = "[[listener]]\naddress = \"127.0.0.1:0\"\nack = \"os\"\n[[listener]]\naddress = \"127.0.0.1:0\"\nack = \"memory\"\n";
    check(Stalled::Write, &LEVELS, file, of_table);
    check(Stalled::Sync, &LEVELS, file, of_table);
}

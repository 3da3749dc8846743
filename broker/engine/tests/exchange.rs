//! The exchange between shards, and the work of one turn, as clients see them. The tests run turns and deliver batches themselves.

use std::collections::VecDeque;
use std::sync::Arc;

use tautwire_contracts::{Catalogue, LoadLimits};
use tautwire_engine::Volatile;
use tautwire_engine::{Action, Chunk, ConfigCell, ConnectionId, Io, NextTurn, Settings, Shard, Shared, turn};
use tautwire_router::{Batch, Exchange, Placement, RetainedLimits, ShardIndex};

const NOW_MS: u64 = 1_700_000_000_000;
const LIMITS: RetainedLimits = RetainedLimits { messages: 100_000, bytes: 100 << 20 };

/// Shards whose turns the tests run.
struct World {
    shards: Vec<Shard<Volatile>>,
    channels: Vec<Channels>,
    exchange: Arc<Exchange>,
    config_cell: Arc<ConfigCell>,
}

/// A client: its shard, and its connection there.
type Client = (usize, ConnectionId);

impl World {
    fn new(shards: usize) -> World {
        World::with(shards, Settings::default())
    }

    fn with(shards: usize, settings: Settings) -> World {
        let settings = Settings { sys_interval_s: 0, ..settings };
        let shared = Shared::new(settings, Exchange::with_placement(Placement::new(shards, 0), LIMITS));
        let shard = |index: usize| Shard::new(ShardIndex(index as u8), shared.clone(), Volatile, NOW_MS);
        let (exchange, config_cell) = (shared.exchange.clone(), shared.config_cell.clone());
        let channels = (0..shards).map(|_| Channels::default()).collect();
        World { shards: (0..shards).map(shard).collect(), channels, exchange, config_cell }
    }

    fn set_contracts(&self, contracts: Arc<Catalogue>) {
        self.config_cell.change(|next| next.contracts = contracts);
    }

    /// Connects a client of 3.1.1 whose session belongs to `shard`.
    fn client(&mut self, shard: usize) -> Client {
        let name = (0..)
            .map(|number| format!("{number:04}"))
            .find(|name| usize::from(self.exchange.owner(name).0) == shard && self.client_is_new(shard, name));
        let name = name.expect("some name belongs to the shard");
        let id = self.shards[shard].accept(NOW_MS).expect("the connection is accepted");
        let connect = [&[0x10, 16, 0, 4], &b"MQTT"[..], &[4, 2, 0, 0, 0, 4], name.as_bytes()].concat();
        self.send((shard, id), &connect);
        assert_eq!(self.received((shard, id)), [0x20, 2, 0, 0]);
        (shard, id)
    }

    /// Names are used in order, one for each connection of the shard.
    fn client_is_new(&self, shard: usize, name: &str) -> bool {
        let before = (0..name.parse::<u32>().expect("a number"))
            .filter(|number| usize::from(self.exchange.owner(&format!("{number:04}")).0) == shard)
            .count();
        before as u64 == self.shards[shard].counters().connects.get()
    }

    fn send(&mut self, (shard, id): Client, bytes: &[u8]) {
        let accepted = self.shards[shard].receive(id, &Chunk::from(bytes.to_vec()), 0..bytes.len(), NOW_MS);
        assert_eq!(accepted, bytes.len());
    }

    fn publish(&mut self, client: Client, first_byte: u8, topic: &str, payload: &[u8]) {
        self.send(client, &[&[first_byte, (2 + topic.len() + payload.len()) as u8], &*text(topic), payload].concat());
    }

    /// Takes the bytes written to a client.
    fn received(&mut self, (shard, id): Client) -> Vec<u8> {
        let Some(output) = self.shards[shard].output(id) else { return Vec::new() };
        let mut slices = [std::io::IoSlice::new(&[]); 64];
        let count = output.fill(&mut slices, usize::MAX);
        let bytes: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
        self.shards[shard].advance_output(id, bytes.len(), NOW_MS);
        bytes
    }

    /// Runs a turn of a shard without I/O of clients.
    fn turn(&mut self, shard: usize) -> NextTurn {
        turn(&mut self.shards[shard], &mut self.channels[shard], NOW_MS)
    }

    /// Delivers the batches of a shard to another one.
    fn deliver(&mut self, from: usize, to: usize) {
        let _ = self.turn(from);
        let (there, other): (Vec<_>, Vec<_>) =
            self.channels[from].sent.drain(..).partition(|(receiver, _)| usize::from(receiver.0) == to);
        self.channels[from].sent = other;
        self.channels[to].incoming.extend(there.into_iter().map(|(_, batch)| (ShardIndex(from as u8), batch)));
        while self.turn(to) == NextTurn::Busy {}
    }
}

/// The batches to and from other shards.
#[derive(Default)]
struct Channels {
    /// Runs in the next turn, before batches are received.
    before_batches: Option<Box<dyn FnOnce()>>,
    sent: Vec<(ShardIndex, Batch)>,
    incoming: VecDeque<(ShardIndex, Batch)>,
}

impl Io<Volatile> for Channels {
    fn room(&mut self, _to: ShardIndex) -> usize {
        if let Some(callback) = self.before_batches.take() {
            callback();
        }
        10
    }

    fn adopt(&mut self, _shard: &mut Shard<Volatile>) -> bool {
        false
    }

    fn next_batch(&mut self, from: ShardIndex) -> Option<Batch> {
        let at = self.incoming.iter().position(|(sender, _)| *sender == from)?;
        self.incoming.remove(at).map(|(_, batch)| batch)
    }

    fn batches_taken(&mut self, _from: ShardIndex) {}

    fn read(&mut self, _shard: &mut Shard<Volatile>) -> bool {
        false
    }

    fn accept(&mut self, _shard: &mut Shard<Volatile>) {}

    fn run_commands(&mut self, _shard: &mut Shard<Volatile>) {}

    fn perform(&mut self, _shard: &mut Shard<Volatile>, _action: Action) {}

    fn send(&mut self, to: ShardIndex, batches: impl Iterator<Item = Batch>) {
        self.sent.extend(batches.map(|batch| (to, batch)));
    }

    fn write_ready(&mut self, _shard: &mut Shard<Volatile>) {}

    fn write(&mut self, _shard: &mut Shard<Volatile>, _id: ConnectionId) {}

    fn end_turn(&mut self, _shard: &mut Shard<Volatile>) -> NextTurn {
        NextTurn::Until(None)
    }

    fn has_room_or_arm_waker(&mut self, _to: ShardIndex) -> bool {
        true
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

/// SUBSCRIBE with packet identifier 1.
fn subscribe(filters: impl Iterator<Item = String>, qos: u8) -> Vec<u8> {
    let mut body = vec![0, 1];
    for filter in filters {
        body.extend(text(&filter));
        body.push(qos);
    }
    with_header(0x82, &body)
}

fn unsubscribe(filter: &str) -> Vec<u8> {
    with_header(0xa2, &[&[0, 1], &*text(filter)].concat())
}

fn with_header(first_byte: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first_byte];
    let mut rest = body.len();
    while rest > 127 {
        packet.push(rest as u8 | 128);
        rest >>= 7;
    }
    packet.push(rest as u8);
    [&packet, body].concat()
}

/// [MQTT-3.10.4-2]: after UNSUBACK a client receives no message for the subscription, even if one was in flight.
#[test]
fn a_message_to_a_departed_member_is_redispatched_with_the_new_qos() {
    let mut world = World::new(2);
    let (publisher, leaving, staying) = (world.client(0), world.client(1), world.client(0));
    let share = "$share/g/t";
    world.send(leaving, &subscribe([share.to_owned()].into_iter(), 1));
    world.publish(publisher, 0x30, "t", b"one");
    // The receiver unsubscribes before the message arrives.
    world.send(leaving, &unsubscribe(share));
    world.send(staying, &subscribe([share.to_owned()].into_iter(), 0));
    world.received(leaving);
    world.received(staying);
    world.deliver(0, 1);
    assert_eq!(world.received(leaving), [], "a message arrived after UNSUBACK");
    world.deliver(1, 0);
    assert_eq!(world.received(staying), b"\x30\x06\0\x01tone");

    // QoS 1 for a member with QoS 1, then for one with QoS 0.
    world.send(staying, &unsubscribe(share));
    world.send(leaving, &subscribe([share.to_owned()].into_iter(), 1));
    world.send(publisher, b"\x32\x08\0\x01t\0\x07two");
    world.send(leaving, &unsubscribe(share));
    world.send(staying, &subscribe([share.to_owned()].into_iter(), 0));
    world.received(leaving);
    world.received(staying);
    world.deliver(0, 1);
    world.deliver(1, 0);
    assert_eq!(world.received(leaving), []);
    assert_eq!(world.received(staying), b"\x30\x06\0\x01ttwo", "the message has another QoS than granted");

    // No member is left.
    world.send(staying, &unsubscribe(share));
    world.send(leaving, &subscribe([share.to_owned()].into_iter(), 1));
    world.publish(publisher, 0x30, "t", b"three");
    world.send(leaving, &unsubscribe(share));
    world.received(leaving);
    world.deliver(0, 1);
    assert_eq!(world.received(leaving), []);
    assert_eq!(world.shards[1].counters().dropped_no_member.get(), 1);
}

/// A session that ends leaves its groups over several turns. If it is chosen meanwhile, its shard must redispatch the message.
#[test]
fn a_member_whose_session_is_ending_is_skipped() {
    const GROUPS: usize = 600;
    let mut world = World::new(2);
    let (publisher, leaving, staying) = (world.client(0), world.client(0), world.client(1));
    let share = |number: usize| format!("$share/g{number:03}/t");
    world.send(leaving, &subscribe((0..GROUPS).map(share), 1));
    while world.turn(0) == NextTurn::Busy {}
    world.send(staying, &subscribe([share(GROUPS - 1)].into_iter(), 1));
    world.received(staying);
    world.shards[0].connection_lost(leaving.1, NOW_MS);
    for number in 1..=3 {
        world.send(publisher, &[0x32, 8, 0, 1, b't', 0, number, b'o', b'n', b'e']);
        assert_eq!(world.received(publisher), [0x40, 2, 0, number], "the PUBLISH is not acknowledged");
    }
    world.deliver(0, 1);
    assert_eq!(world.received(staying), *b"\x32\x08\0\x01t\0\x01one\x32\x08\0\x01t\0\x02one\x32\x08\0\x01t\0\x03one");
    assert_eq!(world.shards[0].counters().dropped_shard_queue_full.get(), 0);
}

/// Thousands of wildcard filters over thousands of topics do not delay other clients.
#[test]
fn scans_of_retained_messages_continue_over_several_turns() {
    const TOPICS: usize = 5_000;
    const FILTERS: usize = 100;
    /// A turn visits at most 32 Ki nodes. The test fails if the engine's limit is raised.
    const TURNS_MIN: usize = TOPICS * FILTERS / (32 << 10);
    let mut world = World::new(1);
    let (publisher, subscriber, bystander) = (world.client(0), world.client(0), world.client(0));
    for number in 0..TOPICS {
        world.publish(publisher, 0x31, &format!("d{number}/x"), b"x");
    }
    world.publish(publisher, 0x31, "last/n7", b"seven");
    world.send(subscriber, &subscribe((0..FILTERS).map(|number| format!("+/n{number}")), 0));
    assert_eq!(world.received(subscriber).len(), 1 + 1 + 2 + FILTERS, "there is more output than SUBACK");
    let mut turns = 0;
    let mut received = Vec::new();
    loop {
        // Other clients are served meanwhile.
        world.send(bystander, &[0xc0, 0]);
        assert_eq!(world.received(bystander), [0xd0, 0]);
        let rest = world.turn(0);
        received.extend(world.received(subscriber));
        turns += 1;
        if rest != NextTurn::Busy {
            break;
        }
    }
    assert!(turns >= TURNS_MIN, "{turns} turns");
    assert!(world.shards[0].counters().retained_scans_deferred.get() as usize >= TURNS_MIN);
    assert_eq!(received, b"\x31\x0e\0\x07last/n7seven");
}

/// Retained messages for a client that disconnects are queued in its session, however long the scan takes.
#[test]
fn a_scan_continues_for_a_session_whose_client_disconnects() {
    const TOPICS: usize = 50_000;
    let mut world = World::new(1);
    let publisher = world.client(0);
    for number in 0..TOPICS {
        world.publish(publisher, 0x31, &format!("d{number}/x"), b"x");
    }
    world.send(publisher, b"\x33\x10\0\x07last/n7\0\x01seven"); // QoS 1
    let connect = |world: &mut World| {
        let id = world.shards[0].accept(NOW_MS).expect("the connection is accepted");
        world.send((0, id), b"\x10\x10\0\x04MQTT\x04\0\0\0\0\x04stay");
        (0, id)
    };
    let subscriber = connect(&mut world);
    world.send(subscriber, &subscribe(["+/n7".to_owned()].into_iter(), 1));
    world.received(subscriber);
    world.shards[0].connection_lost(subscriber.1, NOW_MS);
    assert_eq!(world.turn(0), NextTurn::Busy, "the scan ended in one turn");
    while world.turn(0) == NextTurn::Busy {}
    let subscriber = connect(&mut world);
    assert_eq!(world.received(subscriber), b"\x20\x02\x01\0\x33\x10\0\x07last/n7\0\x01seven");
}

/// Many small SUBSCRIBE packets of many clients together get no more of a turn than one large packet.
#[test]
fn filters_in_small_packets_are_handled_over_several_turns() {
    const CLIENTS: usize = 100;
    const FILTERS: usize = 60;
    /// The limit of a turn. The test fails if the engine's limit is raised.
    const TURN_FILTERS_MAX: usize = 2_048;
    let mut world = World::new(1);
    let clients: Vec<Client> = (0..CLIENTS).map(|_| world.client(0)).collect();
    let held = |world: &World| world.shards[0].counters().subscriptions.get() as usize;
    let mut before = 0;
    for (number, client) in clients.iter().enumerate() {
        world.send(*client, &subscribe((0..FILTERS).map(|filter| format!("$share/g{number}-{filter}/t")), 1));
    }
    let mut turns = 0;
    loop {
        let done = held(&world) - before;
        assert!(done <= TURN_FILTERS_MAX, "{done} filters in a turn");
        before += done;
        if world.turn(0) != NextTurn::Busy {
            break;
        }
        turns += 1;
    }
    assert!(turns >= CLIENTS * FILTERS / TURN_FILTERS_MAX, "{turns} turns");
    for client in &clients {
        assert_eq!(world.received(*client), [&[0x90, 2 + FILTERS as u8, 0, 1], &[1; FILTERS][..]].concat());
    }
    // All sessions end at once, with their connections.
    for client in &clients {
        world.shards[0].connection_lost(client.1, NOW_MS);
    }
    loop {
        let done = before - held(&world);
        assert!(done <= TURN_FILTERS_MAX, "{done} filters in a turn");
        before -= done;
        if world.turn(0) != NextTurn::Busy {
            break;
        }
    }
    assert_eq!(held(&world), 0);
}

/// Deadlines of thousands of clients with wills expire at once: each turn handles a part of them.
#[test]
fn simultaneous_deadlines_are_handled_over_several_turns() {
    const CLIENTS: usize = 5_000;
    /// The limit of a turn. The test fails if the engine's limit is raised.
    const TURN_WILLS_MAX: usize = 2_048;
    const LATER_MS: u64 = NOW_MS + 3_000;
    let mut world = World::new(1);
    let observer = world.client(0);
    world.send(observer, &subscribe(["will".to_owned()].into_iter(), 0));
    world.received(observer);
    for number in 0..CLIENTS {
        let id = world.shards[0].accept(NOW_MS).expect("the connection is accepted");
        // Clean Session, a will of QoS 0, Keep Alive 1 s.
        let connect =
            [b"\x00\x04MQTT\x04\x06\x00\x01", &*text(&number.to_string()), &text("will"), &text("x")].concat();
        world.send((0, id), &with_header(0x10, &connect));
    }
    let (mut wills, mut turns) = (0, 0);
    loop {
        let rest = turn(&mut world.shards[0], &mut world.channels[0], LATER_MS);
        let now = world.received(observer).windows(4).filter(|bytes| bytes == b"will").count();
        assert!(now <= TURN_WILLS_MAX, "{now} wills in a turn");
        wills += now;
        turns += 1;
        if rest != NextTurn::Busy {
            break;
        }
    }
    assert_eq!(wills, CLIENTS);
    assert!(turns >= CLIENTS / TURN_WILLS_MAX, "{turns} turns");
}

/// Transcoding of payloads takes long, whether it succeeds or not.
#[test]
fn retained_messages_are_transcoded_over_several_turns() {
    const MESSAGES: usize = 40;
    const PAYLOAD_BYTES: usize = 9_000;
    let mut world = World::with(1, Settings { maximum_packet_size_bytes: 10_000, ..Settings::default() });
    world.set_contracts(enumerations("many/#"));
    let publisher = world.client(0);
    let payload =
        [&[0x0a, PAYLOAD_BYTES as u8 & 127 | 128, (PAYLOAD_BYTES >> 7) as u8], &[1; PAYLOAD_BYTES][..]].concat();
    for number in 0..MESSAGES {
        let topic = text(&format!("many/{number:02}"));
        world.send(publisher, &with_header(0x33, &[&*topic, &[0, 1], &payload].concat())); // QoS 1
    }
    for session_stays in [false, true] {
        let id = world.shards[0].accept(NOW_MS).expect("the connection is accepted");
        let subscriber = (0, id);
        world.send(subscriber, b"\x10\x16\0\x04MQTT\x05\x00\0\0\x05\x11\0\0\0\x09\0\x04five");
        world.send(subscriber, b"\x82\x15\0\x01\0\0\x0f$as/json/many/#\x01");
        if session_stays {
            world.shards[0].connection_lost(subscriber.1, NOW_MS);
        }
        let (mut refused, mut turns) = (0, 0);
        loop {
            let output = if session_stays { Vec::new() } else { world.received(subscriber) };
            let now = String::from_utf8_lossy(&output).matches("the payload in json is larger").count();
            assert!(now <= 3, "{now} in a turn");
            refused += now;
            if world.turn(0) != NextTurn::Busy {
                break;
            }
            turns += 1;
        }
        assert!(turns >= MESSAGES / 3, "{turns} turns");
        assert!(session_stays || refused == MESSAGES, "{refused} of {MESSAGES}");
        world.shards[0].connection_lost(subscriber.1, NOW_MS);
    }
}

/// The message was accepted under contracts that the receiver's thread applies only during a turn.
#[test]
fn a_message_of_another_shard_is_not_transcoded_with_older_contracts() {
    let mut world = World::new(2);
    let manifest = "[[contract]]\nname = 'c'\ntopics = 't'\nformat = ['protobuf', 'json']\nschema = 's.proto'\n";
    let schema = "syntax = \"proto3\"; message M { string word = 1; }";
    let files = [("contracts.toml", manifest), ("s.proto", schema)];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    let contracts = Arc::new(Catalogue::load(&files, &LoadLimits::default()).expect("loads"));
    let (publisher, reader) = (world.client(0), world.client(1));
    world.send(reader, b"\x82\x0f\0\x01\0\x0a$as/json/t\0");
    world.received(reader);
    world.set_contracts(contracts.clone());
    let _ = world.turn(0);
    world.publish(publisher, 0x30, "t", b"\x0a\x02hi");
    let _ = world.turn(0);
    let batches: Vec<_> = world.channels[0].sent.drain(..).map(|(_, batch)| (ShardIndex(0), batch)).collect();
    world.set_contracts(Arc::default());
    let _ = world.turn(1);
    world.channels[1].incoming.extend(batches);
    let config_cell = world.config_cell.clone();
    world.channels[1].before_batches =
        Some(Box::new(move || _ = config_cell.change(|next| next.contracts = contracts)));
    let _ = world.turn(1);
    let output = world.received(reader);
    assert!(String::from_utf8_lossy(&output).contains("{\"word\":\"hi\"}"), "{}", output.escape_ascii());
}

/// Each item is one byte when published and 34 characters in JSON: a small message must not become a huge one.
#[test]
fn a_transcoded_payload_is_limited_to_the_maximum_packet_size() {
    const MAXIMUM: u32 = 10_000;
    let mut world = World::with(1, Settings { maximum_packet_size_bytes: MAXIMUM, ..Settings::default() });
    world.set_contracts(enumerations("t"));
    let id = world.shards[0].accept(NOW_MS).expect("the connection is accepted");
    let subscriber = (0, id);
    world.send(subscriber, b"\x10\x11\0\x04MQTT\x05\x02\0\0\0\0\x04five");
    world.send(subscriber, b"\x82\x10\0\x01\0\0\x0a$as/json/t\0");
    world.received(subscriber);
    let publisher = world.client(0);
    for (items, fits) in [(50, true), (9_000 / 37, true), (110 * 3, false)] {
        let payload = [&b"\x0a"[..], &[items as u8 & 127 | 128, (items >> 7) as u8], &vec![1; items]].concat();
        world.send(publisher, &with_header(0x30, &[&text("t"), &*payload].concat()));
        let output = world.received(subscriber);
        let text = String::from_utf8_lossy(&output);
        assert_eq!(text.contains("the payload in json is larger than 10000 bytes"), !fits, "{items}: {text}");
        assert_eq!(text.matches("A_NAME_OF_THIRTY_FOUR_CHARACTERS_B").count(), if fits { items } else { 0 });
    }
}

/// A contract for lists of values that take one byte each, and 34 characters in JSON.
fn enumerations(topics: &str) -> Arc<Catalogue> {
    let files = [
        (
            "contracts.toml",
            format!(
                "[[contract]]\nname = 'c'\ntopics = '{topics}'\nformat = ['protobuf', 'json']\nschema = 's.proto'\n"
            ),
        ),
        (
            "s.proto",
            "syntax = \"proto3\"; message M { repeated State states = 1; }\n\
             enum State { A_NAME_OF_THIRTY_FOUR_CHARACTERS_A = 0; A_NAME_OF_THIRTY_FOUR_CHARACTERS_B = 1; }"
                .to_owned(),
        ),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text)).into();
    Arc::new(Catalogue::load(&files, &LoadLimits::default()).expect("loads"))
}

/// The memory limit of the tests below.
const LIMIT_BYTES: usize = 1 << 20;

/// The memory limit is checked before a will is stored: not one will exceeds it.
#[test]
fn a_will_that_does_not_fit_is_refused() {
    const WILL_BYTES: usize = 60_000;
    let mut world = World::with(1, Settings { memory_bytes: LIMIT_BYTES, ..Settings::default() });
    let mut accepted = 0;
    loop {
        let id = world.shards[0].accept(NOW_MS).expect("the connection is accepted");
        let (name, topic) = (text(&format!("{accepted:04}")), text("will"));
        let will = [&(WILL_BYTES as u16).to_be_bytes(), &[b'w'; WILL_BYTES][..]].concat();
        let body = [&b"\0\x04MQTT\x05\x06\0\0\0"[..], &name, b"\0", &topic, &will].concat();
        world.send((0, id), &with_header(0x10, &body));
        match world.received((0, id))[3] {
            0 => accepted += 1,
            reason => break assert_eq!(reason, 0x97),
        }
        let _ = world.turn(0);
    }
    // A sixteenth is reserved for clients that hold little.
    let limit = LIMIT_BYTES / 16 * 15 / WILL_BYTES;
    assert!(accepted == limit || accepted + 1 == limit, "{accepted} wills were accepted, and {limit} fit");
}

/// Idle connections take memory, too: at most half of the limit.
#[test]
fn idle_connections_take_at_most_half_of_the_memory() {
    let mut world = World::with(1, Settings { memory_bytes: LIMIT_BYTES, ..Settings::default() });
    let count = (0..100_000).take_while(|_| world.shards[0].accept(NOW_MS).is_some()).count();
    assert!((500..10_000).contains(&count), "{count} connections");
    assert!(world.shards[0].held_bytes() <= LIMIT_BYTES as u64 / 2);
    assert_eq!(world.shards[0].counters().connections_refused.get(), 1);
}

/// A client can hold as much memory as it leaves free.
#[test]
fn topic_aliases_are_limited_to_a_clients_share_of_memory() {
    const TOPIC_BYTES: usize = 60_000;
    let settings = Settings { memory_bytes: LIMIT_BYTES, topic_alias_maximum: 100, ..Settings::default() };
    let mut world = World::with(1, settings);
    let id = world.shards[0].accept(NOW_MS).expect("the connection is accepted");
    world.send((0, id), b"\x10\x11\0\x04MQTT\x05\x02\0\0\0\0\x04five");
    world.received((0, id));
    let topic = "t".repeat(TOPIC_BYTES);
    let accepted = (1..=100u8)
        .take_while(|alias| {
            world.send((0, id), &with_header(0x30, &[&*text(&topic), b"\x03\x23\0", &[*alias]].concat()));
            world.received((0, id)).is_empty()
        })
        .count();
    let limit = LIMIT_BYTES / 16 * 15 / 2 / TOPIC_BYTES;
    assert!(
        accepted == limit || accepted + 1 == limit,
        "{accepted} aliases were accepted, and {limit} fit into the client's share"
    );
}

/// Contracts with large schemas are published over many turns. Documents of removed contracts are cleared at the end.
#[test]
fn contracts_are_published_over_several_turns() {
    const CONTRACTS: usize = 20;
    let settings = Settings { contract_discovery: true, ..Settings::default() };
    let mut world = World::with(1, settings);
    let catalogue = |contracts: std::ops::Range<usize>| {
        let mut files = std::collections::BTreeMap::new();
        let mut manifest = String::new();
        for at in contracts {
            manifest +=
                &format!("[[contract]]\nname = 'c{at}'\ntopics = 't{at}'\nformat = 'json'\nschema = 's{at}.json'\n");
            let description = "x".repeat(100_000);
            files.insert(format!("s{at}.json"), format!("{{\"title\": \"{at}\", \"description\": \"{description}\"}}"));
        }
        files.insert("contracts.toml".to_owned(), manifest);
        Arc::new(Catalogue::load(&files, &LoadLimits::default()).expect("loads"))
    };
    let publish_all = |world: &mut World| {
        let mut turns = 1;
        while world.turn(0) == NextTurn::Busy {
            turns += 1;
        }
        turns
    };
    let retained = |world: &World| world.exchange.retained().0;
    let documents = |contracts: usize| 2 * (2 * contracts + 1);

    world.set_contracts(catalogue(0..CONTRACTS));
    assert_eq!(world.turn(0), NextTurn::Busy);
    assert!(retained(&world) < documents(CONTRACTS), "one turn published everything");
    assert!(publish_all(&mut world) > 5);
    assert_eq!(retained(&world), documents(CONTRACTS));

    // The contracts change again while they are published.
    world.set_contracts(catalogue(10..CONTRACTS + 10));
    assert_eq!(world.turn(0), NextTurn::Busy, "one turn published everything");
    world.set_contracts(catalogue(CONTRACTS - 1..CONTRACTS + 1));
    publish_all(&mut world);
    assert_eq!(retained(&world), documents(2));
    let index = world.exchange.retained_message("$SYS/contracts/index.json").expect("the index is retained");
    assert!(
        String::from_utf8_lossy(index.loaded().expect("the index is in memory").payload()).contains("\"name\":\"c20\"")
    );
}

//! Tests a node's work besides serving clients, step by step, on a store that answers at once.

use std::num::{NonZeroU16, NonZeroU64};

use tautwire_cluster::mutant::{Mutant, mutate};
use tautwire_cluster::names::{ClientKey, Incarnation, Key, Seed};
use tautwire_cluster::record::{Claim, ConfigPart, ConfigRecord, Load, NodeRecord, NodeState, Retain, SessionRecord};
use tautwire_cluster::{
    Answer, Decision, Member, Operation, OperationId, OperatorPublish, Output, ProposalOutcome, Publish, Refusal,
    RetainedChange, Revision, Sequence, Settings, Start,
};

use crate::store::Store;

const SEED: Seed = Seed([3; 16]);

struct Node {
    member: Member,
    store: Store,
    now_ms: u64,
    decisions: Vec<Decision>,
    /// Operations of these kinds are not executed before `do_all`.
    waits: fn(&Operation) -> bool,
    refusal_seen: u64,
    /// The last message that is known to be refused.
    refused: u64,
    open: Vec<(OperationId, Operation)>,
}

fn life(number: u64) -> Incarnation {
    Incarnation(NonZeroU64::new(number).expect("not 0"))
}

fn is_append(operation: &Operation) -> bool {
    matches!(operation, Operation::Append { .. })
}

fn is_of_session(operation: &Operation) -> bool {
    matches!(operation, Operation::Put { key: Key::Session(_), .. })
}

fn part(text: &str) -> Vec<ConfigPart> {
    vec![ConfigPart { name: "rules".to_owned(), bytes: text.as_bytes().to_vec() }]
}

impl Node {
    /// Creates a node that has not sent any operation.
    fn begun(store: Store) -> Node {
        let member = Member::new(0, life(1), "a", None, SEED, Settings::default());
        Node {
            member,
            store,
            now_ms: 0,
            decisions: Vec::new(),
            waits: |_| false,
            refusal_seen: 0,
            refused: 0,
            open: Vec::new(),
        }
    }

    fn on(store: Store) -> Node {
        let mut node = Node::begun(store);
        node.carry_out();
        node.pass(100);
        node
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.member.next_output() {
            match output {
                Output::Operation(id, operation) => {
                    // The log is not followed.
                    if matches!(operation, Operation::Follow { .. }) {
                        continue;
                    }
                    if (self.waits)(&operation) {
                        self.open.push((id, operation));
                    } else {
                        self.do_now(id, operation);
                    }
                }
                Output::Decision(decision) => {
                    if let Decision::NotStored { ticket, .. } = decision {
                        self.refused = ticket;
                    }
                    self.decisions.push(decision);
                }
                Output::Send(..)
                | Output::AddInterest(_)
                | Output::RemoveInterest(_)
                | Output::Probe(_)
                | Output::Echo { .. } => {}
            }
        }
    }

    fn do_now(&mut self, id: OperationId, operation: Operation) {
        let (answer, _) = self.store.apply(operation, false);
        let answer = self.store.hand_over(answer);
        self.member.answer(self.now_ms, id, &answer);
    }

    /// Executes all waiting operations.
    fn do_all(&mut self) {
        self.waits = |_| false;
        self.do_some(|_| true);
    }

    /// Executes some of the waiting operations.
    fn do_some(&mut self, which: fn(&Operation) -> bool) {
        let (done, open) = std::mem::take(&mut self.open).into_iter().partition(|(_, operation)| which(operation));
        self.open = open;
        let done: Vec<_> = done;
        for (id, operation) in done {
            self.do_now(id, operation);
        }
        self.carry_out();
    }

    /// Time passes, a second at a time: the lease is renewed.
    fn pass(&mut self, for_ms: u64) {
        let until_ms = self.now_ms + for_ms;
        while self.now_ms < until_ms {
            self.now_ms = until_ms.min(self.now_ms + 1000);
            self.member.advance(self.now_ms);
            self.carry_out();
        }
    }

    fn take(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    fn connect(&mut self, ticket: u64, client: &str) -> ClientKey {
        self.member.claim(self.now_ms, ticket, client, Start::Clean);
        self.carry_out();
        SEED.client(client)
    }

    fn publish(&mut self, client: ClientKey, ticket: u64, packet_id: Option<u16>, retain: Option<Retain>) {
        let retain = retain.map(|retain| (retain, None));
        self.publish_to(client, "t", (ticket, self.refused), packet_id, retain);
    }

    /// Creates a node that serves one client, and whose appends to the log are not answered for now.
    fn with_appends_held_up() -> (Node, ClientKey) {
        let mut node = Node::on(Store::default());
        let client = node.connect(1, "c");
        node.take();
        node.waits = is_append;
        (node, client)
    }

    /// `refusal_seen`: the last refusal that the engine knows.
    fn publish_to(
        &mut self,
        client: ClientKey,
        topic: &str,
        (ticket, refusal_seen): (u64, u64),
        packet_id: Option<u16>,
        retain: Option<(Retain, Option<Sequence>)>,
    ) {
        let packet_id = packet_id.and_then(NonZeroU16::new);
        let publish = Publish { ticket, refusal_seen, topic, packet_id, retain, message: vec![1, 2, 3] };
        self.member.publish(self.now_ms, client, publish).expect("not full");
        self.carry_out();
    }

    /// Another node reports its load.
    fn hear_of(&mut self, number: u64, sessions: u32, is_closed: bool) {
        let state = NodeState::Alive { beat: 1, load: Load { sessions, is_closed } };
        let record = NodeRecord { name: format!("n{number}"), reference: format!("n{number}:1883"), state };
        self.refusal_seen += 1;
        self.member.observe_node(self.now_ms, life(number), Revision(1000 + self.refusal_seen), &record.encode());
    }
}

/// Creates a store with a configuration of a newer version.
fn store_with_newer_configuration() -> Store {
    let mut store = Store::default();
    let record = ConfigRecord { number: 1, by: (life(9), 1), parts: part("a") };
    let mut value = record.encode();
    value[0] += 1;
    store.apply(Operation::Put { key: Key::Config, expected: None, value }, false);
    store
}

#[test]
fn a_node_that_cannot_read_the_configuration_never_serves() {
    let mut node = Node::on(store_with_newer_configuration());
    node.pass(20_000);
    assert!(!node.member.is_serving(node.now_ms) && node.member.status(node.now_ms).config.is_behind);
    let told = node.take();
    assert!(told.contains(&Decision::ConfigUnsupported) && !told.contains(&Decision::Resumed));
}

#[test]
fn a_node_that_cannot_apply_a_revision_accepts_no_new_clients() {
    let mut node = Node::on(Store::default());
    node.connect(1, "first");
    node.member.propose(7, 0, part("new"));
    node.carry_out();
    let proposed = Decision::Proposed { ticket: 7, outcome: ProposalOutcome::Accepted(1) };
    assert!(node.decisions.contains(&Decision::Configure { number: 1, parts: part("new") }));
    assert!(node.decisions.contains(&proposed));
    node.member.configured(node.now_ms, 1, false);
    node.take();
    assert!(node.member.is_serving(node.now_ms));
    node.connect(2, "second");
    assert_eq!(node.take(), [Decision::Refuse { ticket: 2, why: Refusal::Closed }]);
    // It knows another node now, and one that accepts no clients either.
    node.hear_of(5, 0, true);
    node.hear_of(6, 10, false);
    node.connect(3, "third");
    assert!(matches!(&node.take()[..], [Decision::Redirect { ticket: 3, to }] if to.reference == "n6:1883"));
    assert!(node.member.status(node.now_ms).config.is_behind);
}

#[test]
fn a_node_can_apply_or_replace_a_failed_revision_later() {
    let mut node = Node::on(Store::default());
    node.member.propose(1, 0, part("a"));
    node.carry_out();
    node.member.configured(node.now_ms, 1, false);
    assert!(node.member.status(node.now_ms).config.is_behind);
    node.member.configured(node.now_ms, 1, true);
    let status = node.member.status(node.now_ms).config;
    assert!(!status.is_behind && status.held == 1);
    node.member.propose(2, 1, part("b"));
    node.carry_out();
    node.member.configured(node.now_ms, 2, false);
    node.take();
    node.member.propose(3, 2, part("c"));
    node.carry_out();
    assert!(node.take().contains(&Decision::Proposed { ticket: 3, outcome: ProposalOutcome::Accepted(3) }));
    node.member.configured(node.now_ms, 3, true);
    let status = node.member.status(node.now_ms).config;
    assert!(!status.is_behind && status.held == 3);
}

#[test]
fn an_incarnation_starts_with_the_stored_revision() {
    let record = |number, what| ConfigRecord { number, by: (life(9), number), parts: part(what) }.encode();
    let mut store = Store::default();
    let mut put = |expected, value| match store.apply(Operation::Put { key: Key::Config, expected, value }, false).0 {
        Answer::Put(revision) => revision,
        answer => panic!("{answer:?}"),
    };
    let old = put(None, record(1, "old"));
    put(Some(old), record(2, "new"));
    let mut node = Node::begun(store);
    // A lagging replica reports the previous revision.
    node.member.observe_config(old, &record(1, "old"));
    node.member.configured(0, 1, true);
    node.carry_out();
    node.pass(5_000);
    assert!(!node.member.is_serving(node.now_ms) && !node.take().contains(&Decision::Resumed));
    node.member.configured(node.now_ms, 2, true);
    node.pass(1_000);
    assert!(node.member.is_serving(node.now_ms));
}

#[test]
fn a_proposal_based_on_an_old_revision_is_refused() {
    let mut node = Node::on(Store::default());
    for (ticket, base, outcome) in [(1, 0, ProposalOutcome::Accepted(1)), (2, 0, ProposalOutcome::Outdated(1))] {
        node.member.propose(ticket, base, part("x"));
        node.carry_out();
        assert!(node.take().contains(&Decision::Proposed { ticket, outcome }));
    }
    let large = vec![ConfigPart { name: "users".to_owned(), bytes: vec![0; 1024 * 1024] }];
    node.member.propose(3, 1, large);
    node.carry_out();
    assert_eq!(node.take(), [Decision::Proposed { ticket: 3, outcome: ProposalOutcome::TooLarge }]);
}

#[test]
fn messages_that_wait_too_long_are_refused_unless_in_flight() {
    let (mut node, client) = Node::with_appends_held_up();
    node.publish(client, 11, None, None);
    node.publish(client, 12, None, None);
    node.publish(client, 13, Some(5), None);
    node.pass(5000);
    let producer = node.member.status(node.now_ms).producers[SEED.partition("t").index()];
    assert_eq!((producer.waiting, producer.waiting_bytes, producer.group_age_ms), (2, 2 * (3 + 26), Some(5000)));
    node.pass(6000);
    // The first is neither refused nor stored, and the others are answered in the order of the messages.
    assert_eq!(node.take(), []);
    assert_eq!(node.member.status(node.now_ms).counters.timeouts, 2);
    node.do_all();
    let told = [
        Decision::Stored { client, ticket: 11 },
        Decision::NotStored { client, ticket: 12 },
        Decision::NotStored { client, ticket: 13 },
    ];
    assert_eq!(node.take(), told);
    node.publish(client, 14, Some(5), None);
    assert_eq!(node.take(), [Decision::Stored { client, ticket: 14 }]);
}

/// Topics of different partitions.
fn two_topics() -> [String; 2] {
    let other = (0..).map(|number| format!("t{number}")).find(|topic| SEED.partition(topic) != SEED.partition("t"));
    ["t".to_owned(), other.expect("there are several partitions")]
}

#[test]
fn messages_after_a_refused_one_of_the_same_client_are_refused() {
    let [topic, elsewhere] = two_topics();
    let mut node = Node::on(Store::default());
    let [client, other] = ["c", "d"].map(|name| node.connect(1, name));
    node.take();
    node.waits = is_append;
    for topic in [&topic, &elsewhere] {
        node.publish_to(other, topic, (11, 0), None, None);
    }
    node.publish_to(client, &topic, (11, 0), None, None);
    node.pass(6000);
    // They have waited for less, and some wait for the record.
    node.publish_to(client, &elsewhere, (12, 0), None, None);
    node.publish_to(client, &topic, (13, 0), Some(5), None);
    node.publish_to(other, &topic, (12, 0), None, None);
    node.waits = |operation| is_append(operation) || is_of_session(operation);
    node.publish_to(client, &topic, (14, 0), Some(6), None);
    node.publish_to(client, &topic, (15, 0), Some(7), None);
    node.pass(4500);
    assert_eq!(node.member.status(node.now_ms).counters.timeouts, 3);
    node.do_all();
    node.pass(1000);
    let of_client = |decision: &&Decision| matches!(decision, Decision::Stored { client: of, .. } | Decision::NotStored { client: of, .. } if *of == client);
    let told: Vec<_> = node.take().into_iter().filter(|decision| of_client(&decision)).collect();
    assert_eq!(told, [11, 12, 13, 14, 15].map(|ticket| Decision::NotStored { client, ticket }));
    assert!(!has_intent(&node, client));
    node.publish(client, 16, Some(5), None);
    assert_eq!(node.take(), [Decision::Stored { client, ticket: 16 }], "nothing delays it");
}

#[test]
fn messages_submitted_before_a_refusal_is_known_are_refused() {
    let (mut node, client) = Node::with_appends_held_up();
    node.publish(client, 11, None, None);
    node.publish(client, 12, None, None);
    node.pass(11_000);
    node.do_all();
    node.publish_to(client, "t", (13, 0), None, None);
    node.publish_to(client, "t", (14, 12), Some(5), None);
    node.publish_to(client, "t", (15, 14), None, None);
    let refused = [12, 13, 14].map(|ticket| Decision::NotStored { client, ticket });
    let told = [&[Decision::Stored { client, ticket: 11 }][..], &refused, &[Decision::Stored { client, ticket: 15 }]];
    assert_eq!(node.take(), told.concat());
}

#[test]
fn an_operators_message_is_stored_or_refused() {
    let mut node = Node::on(Store::default());
    node.take();
    let own = |retain: Option<Retain>| OperatorPublish {
        topic: "t",
        retain: retain.map(|retain| (retain, None)),
        message: vec![1],
    };
    node.member.publish_from_operator(node.now_ms, 21, own(Some(Retain::Always)));
    node.carry_out();
    assert_eq!(node.take().pop(), Some(Decision::Published { ticket: 21, is_stored: true }));
    let found = node.store.apply(Operation::LastRetained("t".to_owned()), false).0;
    assert!(matches!(found, Answer::Last(Some(_))), "it is safe when it is retained");
    node.waits = is_append;
    node.member.publish_from_operator(node.now_ms, 22, own(None));
    node.member.publish_from_operator(node.now_ms, 23, own(None));
    node.pass(11_000);
    assert_eq!(node.take().pop(), Some(Decision::Published { ticket: 23, is_stored: false }));
    node.do_all();
    assert_eq!(node.take(), [Decision::Published { ticket: 22, is_stored: true }]);
}

#[test]
fn a_retained_message_is_acknowledged_after_it_is_retained() {
    let mut node = Node::on(Store::default());
    let client = node.connect(1, "c");
    node.take();
    node.publish(client, 11, None, Some(Retain::Seconds(60)));
    let decisions = node.take();
    assert!(matches!(decisions[..], [Decision::Stored { ticket: 11, .. }]), "{decisions:?}");
    let found = node.store.apply(Operation::LastRetained("t".to_owned()), false).0;
    assert!(matches!(found, Answer::Last(Some(_))));
    node.member.sync_retained(node.now_ms, 3);
    node.pass(200);
    let decisions = node.take();
    let [Decision::Retain(changes), Decision::RetainedSync { ticket: 3 }] = &decisions[..] else {
        panic!("{decisions:?}");
    };
    let [RetainedChange { record, expires_at_ms, .. }] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!((&record.topic[..], record.retain), ("t", Retain::Seconds(60)));
    assert_eq!(*expires_at_ms, Some(node.now_ms + 60_000));
}

#[test]
fn a_draining_node_moves_clients_to_the_least_loaded_and_stops() {
    let mut node = Node::on(Store::default());
    let clients: Vec<_> = (0..4).map(|n| node.connect(n, &format!("c{n}"))).collect();
    node.take();
    node.hear_of(5, 10, false);
    node.hear_of(6, 12, false);
    node.hear_of(7, 0, true);
    node.member.drain(node.now_ms, true);
    node.carry_out();
    let mut places = Vec::new();
    for decision in node.take() {
        let Decision::Migrate { client, to: Some(to) } = decision else { panic!("{decision:?}") };
        assert!(clients.contains(&client) && to.is_for_good);
        places.push(to.reference);
    }
    places.sort();
    assert_eq!(places, ["n5:1883", "n5:1883", "n5:1883", "n6:1883"]);
    for client in clients {
        node.member.left(node.now_ms, client, vec![1]);
    }
    node.carry_out();
    node.pass(2000);
    assert_eq!(node.take(), [Decision::Drained]);
    let (_, _, value) = node.store.keys().find(|(key, ..)| *key == Key::Node(life(1))).expect("a record");
    assert!(matches!(NodeRecord::decode(value).expect("a record").state, NodeState::Removed { .. }));
}

#[test]
fn a_node_gives_up_leases_above_its_share() {
    let mut node = Node::on(Store::default());
    for n in 0..10 {
        node.connect(n, &format!("c{n}"));
    }
    node.take();
    node.hear_of(5, 2, false);
    node.hear_of(6, 0, false);
    node.member.rebalance(node.now_ms);
    node.carry_out();
    // 12 sessions on three nodes.
    assert_eq!(node.take().iter().filter(|decision| matches!(decision, Decision::Migrate { .. })).count(), 6);
    node.hear_of(5, 9, false);
    node.member.rebalance(node.now_ms);
    node.carry_out();
    assert_eq!(node.member.status(node.now_ms).sessions.migrating, 6);
}

/// Whether the store's record of a client has an intent.
fn has_intent(node: &Node, client: ClientKey) -> bool {
    let (_, _, value) = node.store.keys().find(|(key, ..)| *key == Key::Session(client)).expect("a session");
    let record = SessionRecord::decode(value).expect("a record");
    record.taken.iter().any(|taken| taken.intent.is_some())
}

#[test]
fn a_qos_2_message_is_refused_after_its_record_is_deleted() {
    let (mut node, client) = Node::with_appends_held_up();
    node.publish(client, 11, None, None);
    node.publish(client, 12, Some(5), None);
    assert!(has_intent(&node, client));
    node.waits = |operation| is_append(operation) || is_of_session(operation);
    node.pass(12_000);
    // The first message is appended to the log, and the record still has the intent of the second.
    node.do_some(is_append);
    assert!(has_intent(&node, client));
    assert_eq!(node.take(), [Decision::Stored { client, ticket: 11 }]);
    node.do_all();
    assert!(!has_intent(&node, client));
    assert_eq!(node.take(), [Decision::NotStored { client, ticket: 12 }]);
}

#[test]
fn a_withdrawn_message_frees_its_identifier() {
    let (mut node, client) = Node::with_appends_held_up();
    node.publish(client, 11, None, None);
    node.publish(client, 12, Some(5), None);
    // Its client was answered before the log has it, and has released it.
    node.member.release(node.now_ms, client, NonZeroU16::new(5).expect("not 0"));
    node.carry_out();
    assert!(!has_intent(&node, client));
    node.pass(6000);
    // In another partition, and so in a group in flight: it is not refused with the earlier one.
    let [_, elsewhere] = two_topics();
    node.publish_to(client, &elsewhere, (13, 0), Some(5), None);
    node.pass(5000);
    assert_eq!(node.member.status(node.now_ms).counters.timeouts, 1);
    assert!(has_intent(&node, client), "the record still has the intent of the later one");
    node.take();
    node.do_all();
    let told = node.take();
    assert_eq!(told.len(), 3);
    for ticket in [11, 13] {
        assert!(told.contains(&Decision::Stored { client, ticket }), "{told:?}");
    }
    assert!(told.contains(&Decision::NotStored { client, ticket: 12 }), "{told:?}");
}

#[test]
fn no_message_overtakes_a_withdrawn_qos_2_message_with_a_record() {
    let mut node = Node::on(Store::default());
    let clients = ["c", "d"].map(|name| node.connect(1, name));
    node.take();
    node.waits = is_append;
    node.publish(clients[0], 11, None, None);
    node.publish(clients[0], 12, Some(5), None);
    node.pass(6000);
    node.publish(clients[1], 13, Some(5), None);
    node.waits = |operation| is_append(operation) || is_of_session(operation);
    node.pass(5000);
    assert_eq!(node.member.status(node.now_ms).counters.timeouts, 1);
    // The partition is free, and the third message would be appended if the second were not in between.
    node.do_some(is_append);
    assert!(has_intent(&node, clients[0]) && !node.open.iter().any(|(_, operation)| is_append(operation)));
    node.do_all();
    assert!(!has_intent(&node, clients[0]));
    assert!(node.take().contains(&Decision::Stored { client: clients[1], ticket: 13 }));
}

#[test]
fn sessions_outside_of_a_nodes_share_are_collected_after_a_while() {
    let mut store = Store::default();
    let dead = NodeState::Removed { ends: Box::default() };
    let record = NodeRecord { name: "d".to_owned(), reference: String::new(), state: dead };
    store.apply(Operation::Put { key: Key::Node(life(9)), expected: None, value: record.encode() }, false);
    for name in ["c", "d", "e", "f", "g", "h"] {
        let record = SessionRecord {
            client_id: name.to_owned(),
            epoch: 1,
            write: 1,
            claimed_at: None,
            owner: Some(Claim { by: life(9), number: 1 }),
            taken: Vec::new(),
            expiry_s: 100,
            away_ms: None,
            will: None,
            due: Vec::new(),
            state: vec![1],
        };
        let key = Key::Session(SEED.client(name));
        store.apply(Operation::Put { key, expected: None, value: record.encode() }, false);
    }
    let owned = |store: &Store| {
        let owner = |(key, _, value): (Key, Revision, &[u8])| {
            matches!(key, Key::Session(_)) && SessionRecord::decode(value).is_ok_and(|record| record.owner.is_some())
        };
        store.keys().filter(|key| owner(*key)).count()
    };
    let mut node = Node::on(store);
    node.hear_of(5, 0, false);
    node.member.observe_node(node.now_ms, life(9), Revision(1), &record.encode());
    node.pass(1000);
    assert!((1..6).contains(&owned(&node.store)), "some are of its share, and some are not");
    // The other node is alive but idle.
    for _ in 0..8 {
        node.hear_of(5, 0, false);
        node.pass(1000);
    }
    assert_eq!(owned(&node.store), 0);
    assert!(
        node.store.keys().all(|(key, ..)| key != Key::Node(life(9))),
        "no record names the dead incarnation any more"
    );
}

/// A late heartbeat does not bring a node back whose removal has begun.
#[test]
fn a_node_whose_record_says_dying_stops_serving() {
    let mut node = Node::on(Store::default());
    node.pass(2000);
    assert!(node.member.is_serving(node.now_ms));
    let key = Key::Node(life(1));
    let expected = node.store.keys().find(|(found, ..)| *found == key).map(|(_, revision, _)| revision);
    let state = NodeState::Removing { by: life(2), attempt: 1 };
    let record = NodeRecord { name: "a".to_owned(), reference: String::new(), state };
    let (answer, _) = node.store.apply(Operation::Put { key, expected, value: record.encode() }, false);
    assert!(matches!(answer, Answer::Put(_)), "{answer:?}");
    node.pass(5000);
    assert!(node.take().contains(&Decision::Fenced) && !node.member.is_serving(node.now_ms));
}

/// Another node writes a heartbeat that is not reported to any node. Returns its revision and value.
fn beat(node: &mut Node, number: u64, beat: u64, expected: Option<Revision>) -> (Revision, Vec<u8>) {
    let state = NodeState::Alive { beat, load: Load::default() };
    let value = NodeRecord { name: "b".to_owned(), reference: String::new(), state }.encode();
    let put = Operation::Put { key: Key::Node(life(number)), expected, value: value.clone() };
    let (Answer::Put(revision), _) = node.store.apply(put, false) else { panic!("a beat is written") };
    (revision, value)
}

#[test]
fn a_node_with_an_unreported_heartbeat_is_not_removed() {
    let mut node = Node::on(Store::default());
    let (seen, record) = beat(&mut node, 2, 1, None);
    node.member.observe_node(node.now_ms, life(2), seen, &record);
    beat(&mut node, 2, 2, Some(seen));
    // It is overdue as observed by this node.
    node.pass(9_000);
    let (_, _, value) = node.store.keys().find(|(key, ..)| *key == Key::Node(life(2))).expect("it has a record");
    let state = NodeRecord::decode(value).expect("a record").state;
    assert!(matches!(state, NodeState::Alive { beat: 2, .. }), "{state:?}");
}

#[test]
fn faults_that_the_simulation_rarely_reaches_are_found_here() {
    let tests: [(Mutant, fn()); 7] = [
        (Mutant::RemovesWithoutRevision, a_node_with_an_unreported_heartbeat_is_not_removed),
        (Mutant::RefusesOnlyOne, messages_after_a_refused_one_of_the_same_client_are_refused),
        (Mutant::AcceptsAfterRefusal, messages_submitted_before_a_refusal_is_known_are_refused),
        (Mutant::IgnoresOwnRemoval, a_node_whose_record_says_dying_stops_serving),
        (Mutant::RefusesBeforeRecord, a_qos_2_message_is_refused_after_its_record_is_deleted),
        (Mutant::AppendsAfterRefusal, no_message_overtakes_a_withdrawn_qos_2_message_with_a_record),
        (Mutant::CollectsOnlyItsShare, sessions_outside_of_a_nodes_share_are_collected_after_a_while),
    ];
    for (mutant, test) in tests {
        mutate(Some(mutant));
        let found = std::panic::catch_unwind(test);
        mutate(None);
        assert!(found.is_err(), "{mutant:?}");
    }
}

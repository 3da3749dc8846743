//! Messages that operators publish in a cluster, and admin queries.

use tautwire_engine::{
    AdminQuery, ConfirmStatus, DeliveryOutcome, HypotheticalPublish, Publication, PublishConfirm, PublishFailure,
    PublishReceipt, QueryResult, Reply, Settings, WhyQuery,
};
use tautwire_protocol::{QoS, TopicName};
use tautwire_session::AckLevel;

use crate::world::{Plan, World};

/// Publishes on the first shard of a node.
fn publish(
    world: &mut World,
    place: usize,
    topic: &str,
    payload: &str,
    qos: QoS,
    retain: bool,
) -> Result<PublishReceipt, PublishFailure> {
    let topic = TopicName::new(topic).expect("a valid topic");
    let message = Publication { topic, content_type: None, payload: payload.as_bytes(), qos, retain }.to_message();
    let node = world.places[place].node.as_mut().expect("the node runs");
    let now_ms = node.broker.now_ms();
    let mut published = None;
    node.broker.prepare_shards(|shard| {
        published.get_or_insert_with(|| shard.publish_for_operator(&message, now_ms));
    });
    node.broker.wake_all();
    world.run(0);
    published.expect("a shard")
}

fn status(world: &mut World, place: usize, confirm: PublishConfirm) -> ConfirmStatus {
    let mut status = None;
    let node = world.places[place].node.as_mut().expect("the node runs");
    node.broker.prepare_shards(|shard| {
        status.get_or_insert_with(|| shard.confirm_status(confirm));
    });
    status.expect("a shard")
}

fn confirm(published: Result<PublishReceipt, PublishFailure>) -> PublishConfirm {
    let PublishReceipt { matched, confirm } = published.expect("the message was not published");
    assert!(matched, "a publish to the log always counts as matched");
    confirm.expect("the message goes to the log")
}

#[test]
fn operator_messages_reach_all_nodes_and_are_confirmed_when_stored() {
    let mut world = World::new(2);
    let readers = [0, 1].map(|place| {
        let reader = world.client(&format!("reader-{place}"));
        world.connect(reader, place, true, 0);
        world.subscribe(reader, "a", QoS::ExactlyOnce);
        reader
    });
    for (qos, retain) in [(QoS::AtLeastOnce, false), (QoS::ExactlyOnce, false), (QoS::AtMostOnce, true)] {
        let confirm = confirm(publish(&mut world, 0, "a", "x", qos, retain));
        assert_eq!(status(&mut world, 0, confirm), ConfirmStatus::Pending);
        world.run(200);
        assert_eq!(status(&mut world, 0, confirm), ConfirmStatus::Confirmed);
        for reader in readers {
            assert_eq!(
                world.clients[reader].received.pop().map(|one| (one.qos, one.payload)),
                Some((qos, "x".to_owned()))
            );
        }
    }
    let late = world.client("late");
    world.connect(late, 1, true, 0);
    world.subscribe(late, "a", QoS::ExactlyOnce);
    world.run(100);
    assert_eq!(world.clients[late].payloads(), ["x"], "the message must be retained");
}

#[test]
fn an_operator_message_that_the_log_refuses_is_refused() {
    let set_member = |member: &mut tautwire_cluster::Settings| member.publish_timeout_ms = 2_000;
    let mut world = World::with_members(1, 0, Plan::default(), |_| {}, |_| {}, set_member);
    world.store.is_log_closed = true;
    // A message in a group that is being appended may arrive.
    let [first, second] =
        ["1", "2"].map(|payload| confirm(publish(&mut world, 0, "a", payload, QoS::AtLeastOnce, false)));
    world.run(4_000);
    assert_eq!(status(&mut world, 0, second), ConfirmStatus::Refused);
    assert_eq!(status(&mut world, 0, first), ConfirmStatus::Pending);
    assert_eq!(
        PublishConfirm::both(Some(first), Some(second)).map(|both| status(&mut world, 0, both)),
        Some(ConfirmStatus::Pending)
    );
    world.store.is_log_closed = false;
    world.run(8_000);
    assert_eq!(status(&mut world, 0, first), ConfirmStatus::Confirmed);
}

#[test]
fn without_a_lease_operator_messages_are_refused() {
    let mut world = World::new(1);
    let waits = confirm(publish(&mut world, 0, "b", "x", QoS::AtLeastOnce, false));
    world.places[0].is_cut = true;
    world.run(20_000);
    assert_eq!(publish(&mut world, 0, "a", "x", QoS::AtLeastOnce, false), Err(PublishFailure::Busy));
    assert!(publish(&mut world, 0, "a", "x", QoS::AtMostOnce, false).is_ok());
    assert_eq!(status(&mut world, 0, waits), ConfirmStatus::Pending);
}

#[test]
fn retained_messages_removed_by_an_operator_are_removed_on_all_nodes() {
    let mut world = World::new(2);
    for number in 0..5 {
        confirm(publish(&mut world, 0, &format!("a/{number}"), "x", QoS::AtLeastOnce, true));
    }
    world.run(500);
    let (reply, answer) = std::sync::mpsc::sync_channel(1);
    let mut query = Some(AdminQuery::RemoveRetained("a/#".into(), Reply::new(move |removed| _ = reply.send(removed))));
    let node = world.places[1].node.as_mut().expect("the node runs");
    let now_ms = node.broker.now_ms();
    node.broker.prepare_shards(|shard| {
        if let Some(query) = query.take() {
            shard.run_admin_query(query, now_ms);
        }
    });
    node.broker.wake_all();
    world.run(500);
    let removed = answer.try_recv().expect("an answer");
    assert_eq!((removed.removed, removed.refused, removed.has_more), (5, 0, false));
    assert_eq!(removed.confirm.map(|confirm| status(&mut world, 1, confirm)), Some(ConfirmStatus::Confirmed));
    for place in 0..2 {
        let reader = world.client(&format!("reader-{place}"));
        world.connect(reader, place, true, 0);
        world.subscribe(reader, "a/#", QoS::AtLeastOnce);
        world.run(100);
        assert_eq!(world.clients[reader].payloads(), [""; 0]);
    }
}

#[test]
fn a_node_does_not_report_a_client_of_another_node_as_missing() {
    let mut world = World::new(2);
    let reader = world.client("reader");
    world.connect(reader, 0, true, 3_600);
    world.subscribe(reader, "a", QoS::AtLeastOnce);
    let why = |world: &mut World, place: usize| {
        let (reply, answer) = std::sync::mpsc::sync_channel(8);
        let node = world.places[place].node.as_mut().expect("the node runs");
        let now_ms = node.broker.now_ms();
        // The shard of the client is not known here: all are queried, and one of them finds it.
        node.broker.prepare_shards(|shard| {
            let reply = reply.clone();
            let query =
                WhyQuery { name: "reader".into(), message: HypotheticalPublish::new("a", QoS::AtLeastOnce).into() };
            shard.run_admin_query(
                AdminQuery::Why(query, Reply::new(move |explained| _ = reply.send(explained))),
                now_ms,
            );
        });
        node.broker.wake_all();
        world.run(500);
        let answers: Vec<_> = answer.try_iter().collect();
        let known = answers.iter().find(|explained| explained.findings != [QueryResult::NotServedHere]);
        known.or(answers.first()).cloned().expect("an answer")
    };
    assert_eq!(why(&mut world, 0).outcome, DeliveryOutcome::Arrives);
    let elsewhere = why(&mut world, 1);
    assert_eq!((elsewhere.outcome, elsewhere.findings), (DeliveryOutcome::Elsewhere, vec![QueryResult::NotServedHere]));
}

#[test]
fn a_lagging_cluster_is_reported_as_a_pause_reason() {
    let at_memory = |settings: &mut Settings| settings.acks.topics = [(Box::from("#"), AckLevel::Memory)].into();
    let mut world = World::with(1, 0, Plan::default(), at_memory, |_| {});
    let client = world.client("p");
    world.connect(client, 0, true, 0);
    let reading_paused_for = |world: &mut World| {
        let (reply, answer) = std::sync::mpsc::sync_channel(8);
        let node = world.places[0].node.as_mut().expect("the node runs");
        let now_ms = node.broker.now_ms();
        node.broker.prepare_shards(|shard| {
            let reply = reply.clone();
            shard.run_admin_query(
                AdminQuery::Client("p".into(), Reply::new(move |detail| _ = reply.send(detail))),
                now_ms,
            );
        });
        node.broker.wake_all();
        world.run(0);
        answer.try_iter().flatten().next().expect("a shard with the client").reading_paused_for
    };
    assert_eq!(reading_paused_for(&mut world), [""; 0]);
    // Acknowledgements are sent at once, and the log stores nothing.
    world.store.is_log_closed = true;
    while world.clients[client].is_idle() {
        world.publish(client, "a", "x", QoS::AtLeastOnce);
        world.settle(0);
    }
    assert_eq!(reading_paused_for(&mut world), ["cluster_behind"]);
    world.store.is_log_closed = false;
    world.run_until("reading from it is resumed", |world| world.clients[client].is_idle());
    assert_eq!(reading_paused_for(&mut world), [""; 0]);
}

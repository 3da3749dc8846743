//! Shared subscriptions whose members are on several nodes [MQTT 5.0 section 4.8.2].

use std::collections::BTreeSet;

use tautwire_protocol::{QoS, SubscribeReason};

use crate::world::{Plan, World};

const HOUR_S: u32 = 3600;
const SHARE: &str = "$share/g/a/#";

/// Connects this many members, on each node in turn, and subscribes each of them.
fn members(world: &mut World, count: usize, qos: QoS, expiry_s: u32) -> Vec<usize> {
    let nodes = world.places.len();
    let members: Vec<_> = (0..count).map(|number| world.client(&format!("member-{number}"))).collect();
    for (number, member) in members.iter().enumerate() {
        world.connect(*member, number % nodes, true, expiry_s);
        assert_eq!(world.subscribe(*member, SHARE, qos), [qos.min(QoS::AtLeastOnce).as_u8()]);
    }
    members
}

/// The payloads that all of them received, sorted.
fn received(world: &World, members: &[usize]) -> Vec<String> {
    let payloads = members.iter().flat_map(|member| world.clients[*member].payloads());
    let mut received: Vec<_> = payloads.map(str::to_owned).collect();
    received.sort_unstable();
    received
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("{number:03}")).collect()
}

/// Publishes messages with these numbers to several topics.
fn publish(world: &mut World, publisher: usize, range: std::ops::Range<usize>, qos: QoS) {
    for number in range {
        world.publish_and_wait(publisher, &format!("a/{}", number % 23), &format!("{number:03}"), qos);
    }
}

/// Waits until moving partitions have arrived: until then, no node delivers them.
fn wait_for_partitions(world: &mut World) {
    world.run(20_000);
}

#[test]
fn each_message_reaches_one_member_across_all_nodes() {
    let mut world = World::new(3);
    let members = members(&mut world, 6, QoS::AtLeastOnce, 0);
    wait_for_partitions(&mut world);
    let publisher = world.client("p");
    world.connect(publisher, 1, true, 0);
    assert!(world.clients[publisher].may_share);
    for (range, qos) in [(0..100, QoS::AtLeastOnce), (100..200, QoS::ExactlyOnce)] {
        publish(&mut world, publisher, range, qos);
    }
    world.run(1_000);
    assert_eq!(received(&world, &members), numbers(0..200), "each message must arrive once");
    for member in members {
        let client = &world.clients[member];
        assert!(client.received.len() > 5, "{} got {}", client.name, client.received.len());
        assert!(client.received.iter().all(|received| received.qos == QoS::AtLeastOnce));
    }
}

#[test]
fn a_qos_0_message_reaches_one_member_across_all_nodes() {
    let mut world = World::new(3);
    let members = members(&mut world, 6, QoS::AtLeastOnce, 0);
    wait_for_partitions(&mut world);
    let publisher = world.client("p");
    world.connect(publisher, 2, true, 0);
    publish(&mut world, publisher, 0..100, QoS::AtMostOnce);
    world.run(1_000);
    assert_eq!(received(&world, &members), numbers(0..100), "each message must arrive once");
    let nodes = members.iter().filter(|member| !world.clients[**member].received.is_empty());
    assert!(nodes.count() > 3, "members of all nodes get messages");
    // With the last member, all announced filters are withdrawn.
    for member in members {
        world.disconnect(member);
    }
    world.run(10_000);
    assert!(world.places.iter().all(|place| place.node.as_ref().expect("the node runs").has_no_interest()));
}

#[test]
fn members_with_qos_0_receive_qos_1_messages() {
    let mut world = World::new(2);
    let members = members(&mut world, 2, QoS::AtMostOnce, 0);
    wait_for_partitions(&mut world);
    let publisher = world.client("p");
    world.connect(publisher, 0, true, 0);
    publish(&mut world, publisher, 0..50, QoS::AtLeastOnce);
    world.run(1_000);
    assert_eq!(received(&world, &members), numbers(0..50));
    assert!(members.iter().all(|member| world.clients[*member].received.iter().all(|one| one.qos == QoS::AtMostOnce)));
}

#[test]
fn unacknowledged_messages_of_a_leaving_member_are_redispatched() {
    let mut world = World::new(2);
    let members = members(&mut world, 4, QoS::AtLeastOnce, HOUR_S);
    wait_for_partitions(&mut world);
    let publisher = world.client("p");
    world.connect(publisher, 0, true, 0);
    let silent = members[1];
    world.clients[silent].withholds_acks = true;
    publish(&mut world, publisher, 0..60, QoS::AtLeastOnce);
    world.run(500);
    let unacknowledged = world.clients[silent].received.len();
    assert!(unacknowledged > 5, "it got {unacknowledged}");
    let others: Vec<_> = members.iter().copied().filter(|member| *member != silent).collect();
    assert_eq!(
        received(&world, &others).len(),
        60 - unacknowledged,
        "while it is connected, its messages go to no other member"
    );
    world.cut_off(silent);
    world.run_until("other members have the messages", |world| received(world, &others) == numbers(0..60));
    // It gets none of them when it connects again to any node.
    world.clients[silent].received.clear();
    world.clients[silent].withholds_acks = false;
    assert!(world.connect(silent, 0, false, HOUR_S), "its session was not resumed");
    world.run(1_000);
    assert!(world.clients[silent].received.is_empty());
    wait_for_partitions(&mut world);
    publish(&mut world, publisher, 60..100, QoS::AtLeastOnce);
    world.run(500);
    assert!(!world.clients[silent].received.is_empty(), "it is no longer a member");
}

#[test]
fn no_message_is_lost_when_a_node_with_members_dies() {
    let mut world = World::new(3);
    let members = members(&mut world, 3, QoS::AtLeastOnce, HOUR_S);
    wait_for_partitions(&mut world);
    let publisher = world.client("p");
    world.connect(publisher, 0, true, 0);
    world.clients[members[1]].withholds_acks = true;
    publish(&mut world, publisher, 0..60, QoS::AtLeastOnce);
    world.kill(1);
    let others = [members[0], members[2]];
    world.run_until("other members have all messages", |world| {
        received(world, &others).into_iter().collect::<BTreeSet<_>>().len() == 60
    });
}

#[test]
fn messages_published_without_connected_members_wait_for_one() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        wait_for_a_member(qos);
    }
}

fn wait_for_a_member(qos: QoS) {
    let mut world = World::new(2);
    let members = members(&mut world, 2, qos, HOUR_S);
    wait_for_partitions(&mut world);
    let publisher = world.client("p");
    world.connect(publisher, 0, true, 0);
    for member in &members {
        world.cut_off(*member);
    }
    wait_for_partitions(&mut world);
    publish(&mut world, publisher, 0..40, QoS::AtLeastOnce);
    world.run(1_000);
    world.connect(members[0], 1, false, HOUR_S);
    world.run_until("the member has all messages", |world| received(world, &members) == numbers(0..40));
    wait_for_partitions(&mut world);
    assert_eq!(received(&world, &members), numbers(0..40), "each message must arrive once");
}

#[test]
fn a_slow_member_is_limited_to_its_credit() {
    let mut world = World::with(2, 0, Plan::default(), |_| {}, |cluster| cluster.member_messages_max = 5);
    let members = members(&mut world, 3, QoS::AtLeastOnce, 0);
    wait_for_partitions(&mut world);
    let publisher = world.client("p");
    world.connect(publisher, 0, true, 0);
    world.clients[members[0]].withholds_acks = true;
    publish(&mut world, publisher, 0..100, QoS::AtLeastOnce);
    world.run_until("the other members have the rest", |world| received(world, &members[1..]).len() >= 95);
    assert_eq!(world.clients[members[0]].received.len(), 5);
    // If all members are slow, the rest waits in the log.
    (1..3).for_each(|member| world.clients[members[member]].withholds_acks = true);
    publish(&mut world, publisher, 100..200, QoS::AtLeastOnce);
    world.run(2_000);
    assert_eq!(received(&world, &members).len(), 100 + 10);
    assert!(
        world.broker_totals(0).share_messages_deferred_to_log + world.broker_totals(1).share_messages_deferred_to_log
            > 0
    );
    for member in &members {
        world.clients[*member].withholds_acks = false;
        world.clients[*member].acknowledge();
    }
    world.run_until("all messages are delivered", |world| received(world, &members) == numbers(0..200));
}

#[test]
fn an_unsubscribed_member_gets_nothing_and_a_group_without_members_ends() {
    let mut world = World::new(2);
    let members = members(&mut world, 2, QoS::AtLeastOnce, HOUR_S);
    wait_for_partitions(&mut world);
    let publisher = world.client("p");
    world.connect(publisher, 0, true, 0);
    world.clients[members[0]].unsubscribe(SHARE);
    wait_for_partitions(&mut world);
    publish(&mut world, publisher, 0..30, QoS::AtLeastOnce);
    world.run(1_000);
    assert_eq!(received(&world, &members[1..]), numbers(0..30));
    world.clients[members[1]].unsubscribe(SHARE);
    wait_for_partitions(&mut world);
    publish(&mut world, publisher, 30..60, QoS::AtLeastOnce);
    world.subscribe(members[0], SHARE, QoS::AtLeastOnce);
    wait_for_partitions(&mut world);
    assert_eq!(received(&world, &members), numbers(0..30), "a group must begin with its first member");
    publish(&mut world, publisher, 60..80, QoS::AtLeastOnce);
    world.run(1_000);
    assert_eq!(received(&world, &members[..1]), numbers(60..80));
}

#[test]
fn a_new_node_gets_its_share_and_nothing_is_delivered_twice() {
    let mut world = World::new(2);
    let first = members(&mut world, 1, QoS::AtLeastOnce, 0);
    wait_for_partitions(&mut world);
    let publisher = world.client("p");
    world.connect(publisher, 0, true, 0);
    let second = world.client("second");
    world.connect(second, 1, true, 0);
    for number in 0..200 {
        if number == 50 {
            world.clients[second].subscribe(SHARE, QoS::AtLeastOnce, false);
        }
        publish(&mut world, publisher, number..number + 1, QoS::AtLeastOnce);
        world.run(50);
    }
    world.run(10_000);
    assert_eq!(received(&world, &[first[0], second]), numbers(0..200));
    assert!(world.clients[second].received.len() > 20, "{}", world.clients[second].received.len());
}

#[test]
fn a_group_with_an_unreadable_record_refuses_members() {
    let mut world = World::new(1);
    world.store.damage_group(SHARE);
    let client = world.client("c");
    world.connect(client, 0, true, HOUR_S);
    let refused = SubscribeReason::ImplementationSpecificError.as_u8();
    assert_eq!(world.subscribe(client, SHARE, QoS::AtLeastOnce), [refused]);
    world.clients[client].subscribe("b", QoS::AtLeastOnce, false);
    world.run(100);
    assert_eq!(world.clients[client].suback, [1], "a later SUBSCRIBE must not wait for it");
    assert_eq!(world.broker_totals(0).subscriptions, 1);
}

/// A world in which one member has 30 unacknowledged messages when a second one subscribes on another node.
fn world_with_second_node(return_wait_ms: u64) -> (World, [usize; 2], usize) {
    let mut world = World::with(2, 0, Plan::default(), |_| {}, |cluster| cluster.return_wait_ms = return_wait_ms);
    let first = members(&mut world, 1, QoS::AtLeastOnce, 0)[0];
    wait_for_partitions(&mut world);
    let (second, publisher) = (world.client("second"), world.client("p"));
    world.connect(publisher, 0, true, 0);
    world.clients[first].withholds_acks = true;
    publish(&mut world, publisher, 0..30, QoS::AtLeastOnce);
    world.connect(second, 1, true, 0);
    world.subscribe(second, SHARE, QoS::AtLeastOnce);
    wait_for_partitions(&mut world);
    (world, [first, second], publisher)
}

#[test]
fn messages_of_members_move_to_another_node_only_after_a_timeout() {
    let (mut world, members, publisher) = world_with_second_node(60_000);
    assert_eq!(received(&world, &members), numbers(0..30));
    world.clients[members[0]].withholds_acks = false;
    world.clients[members[0]].acknowledge();
    wait_for_partitions(&mut world);
    publish(&mut world, publisher, 30..90, QoS::AtLeastOnce);
    world.run(1_000);
    assert_eq!(received(&world, &members), numbers(0..90), "each message must arrive once");
    assert!(world.clients[members[1]].received.len() > 10, "{}", world.clients[members[1]].received.len());
}

#[test]
fn a_silent_member_does_not_delay_another_node() {
    let (world, [_, second], _) = world_with_second_node(1_000);
    assert!(world.clients[second].received.len() > 5, "{}", world.clients[second].received.len());
}

#[test]
fn sys_messages_of_a_node_go_to_its_own_members() {
    let mut world = World::with(2, 0, Plan::default(), |settings| settings.sys_interval_s = 1, |_| {});
    let members = [world.client("a"), world.client("b")];
    for (place, member) in members.into_iter().enumerate() {
        world.connect(member, place, true, 0);
        world.subscribe(member, "$share/g/$SYS/#", QoS::AtMostOnce);
    }
    wait_for_partitions(&mut world);
    for member in members {
        world.clients[member].received.clear();
    }
    world.run(10_000);
    let topics = |member: usize| -> BTreeSet<String> {
        world.clients[member].received.iter().map(|received| received.topic.clone()).collect()
    };
    // Some values are published only when they have changed.
    let common = topics(members[0]).intersection(&topics(members[1])).count();
    assert!(common > 10, "{common}");
}

/// A world whose nodes check groups at this interval, and a publisher.
fn world_with_group_checks(group_check_interval_ms: u64) -> (World, usize) {
    let set_member = |member: &mut tautwire_cluster::Settings| {
        (member.group_check_interval_ms, member.confirm_gone_ms) = (group_check_interval_ms, 500);
    };
    let mut world = World::with_members(2, 0, Plan::default(), |_| {}, |_| {}, set_member);
    let publisher = world.client("p");
    world.connect(publisher, 0, true, 0);
    (world, publisher)
}

/// What a new member gets of messages that were published before it subscribed, and after.
fn join_late(world: &mut World, publisher: usize) -> Vec<String> {
    publish(world, publisher, 0..20, QoS::AtLeastOnce);
    let late = world.client("late");
    world.connect(late, 0, true, 0);
    world.subscribe(late, SHARE, QoS::AtLeastOnce);
    wait_for_partitions(world);
    publish(world, publisher, 20..40, QoS::AtLeastOnce);
    world.run(1_000);
    received(world, &[late])
}

#[test]
fn a_group_ends_with_an_expired_session() {
    for (expiry_s, got) in [(2, 20..40), (HOUR_S, 0..40)] {
        let (mut world, publisher) = world_with_group_checks(5_000);
        let member = members(&mut world, 1, QoS::AtLeastOnce, expiry_s)[0];
        wait_for_partitions(&mut world);
        world.cut_off(member);
        world.run(30_000);
        assert_eq!(join_late(&mut world, publisher), numbers(got), "a session of {expiry_s} s");
    }
}

#[test]
fn a_group_ends_with_a_clean_start_on_another_node() {
    for (is_clean, got) in [(true, 20..40), (false, 0..40)] {
        // No group check is due in time.
        let (mut world, publisher) = world_with_group_checks(u64::MAX / 2);
        let member = members(&mut world, 1, QoS::AtLeastOnce, HOUR_S)[0];
        wait_for_partitions(&mut world);
        world.cut_off(member);
        wait_for_partitions(&mut world);
        world.connect(member, 1, is_clean, HOUR_S);
        world.cut_off(member);
        wait_for_partitions(&mut world);
        assert_eq!(join_late(&mut world, publisher), numbers(got), "a clean start: {is_clean}");
    }
}

#[test]
fn a_group_ends_if_its_node_dies_during_a_clean_start() {
    let (mut world, publisher) = world_with_group_checks(5_000);
    let member = members(&mut world, 1, QoS::AtLeastOnce, 0)[0];
    wait_for_partitions(&mut world);
    // Its session ends with the connection, and no node is left to report that.
    world.kill(0);
    world.run(60_000);
    assert!(!world.clients[member].is_connected());
    let late = world.client("late");
    world.connect(late, 1, true, 0);
    world.connect(publisher, 1, true, 0);
    publish(&mut world, publisher, 0..20, QoS::AtLeastOnce);
    world.subscribe(late, SHARE, QoS::AtLeastOnce);
    wait_for_partitions(&mut world);
    publish(&mut world, publisher, 20..40, QoS::AtLeastOnce);
    world.run(1_000);
    assert_eq!(received(&world, &[late]), numbers(20..40));
}

//! Shared subscriptions.

use std::time::Instant;

use tautwire_protocol::{Property, PubAckReason, PubRecReason};

use crate::support::property::receive_maximum;
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Case, Client, EXPECT_TIMEOUT, ExactlyOnce, OutgoingPublish, QoS, V3_1_1, V5,
    every_case, every_thread_count, expect_nothing_from,
};

const MEMBERS: [&str; 4] = ["member-a", "member-b", "member-c", "member-d"];

fn members(case: Case, broker: &Broker, filter: &str, qos: QoS) -> Vec<Client> {
    let join = |client_id| {
        let mut member = broker.connect(case.version, client_id);
        member.subscribe(filter, qos);
        member
    };
    MEMBERS.into_iter().map(join).collect()
}

/// Receives everything sent to each client so far, up to a sentinel that each is subscribed to.
fn collect(publisher: &mut Client, clients: &mut [Client]) -> Vec<Vec<String>> {
    for client in clients.iter_mut() {
        client.subscribe("sentinel", AtLeastOnce);
    }
    publisher.publish("sentinel", AtLeastOnce, b"sentinel");
    let up_to_sentinel = |client: &mut Client| {
        let mut texts = Vec::new();
        loop {
            let message = client.receive();
            if message.topic() == "sentinel" {
                break;
            }
            texts.push(message.text().to_owned());
        }
        client.unsubscribe(&["sentinel"]);
        texts
    };
    clients.iter_mut().map(up_to_sentinel).collect()
}

/// Receives messages until all clients together have `count`.
#[track_caller]
fn collect_count(publisher: &mut Client, clients: &mut [Client], count: usize) -> Vec<String> {
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    let mut received: Vec<String> = Vec::new();
    while received.len() < count {
        assert!(Instant::now() < deadline, "only {} of {count} messages came: {received:?}", received.len());
        received.extend(collect(publisher, clients).into_iter().flatten());
    }
    received
}

fn sorted(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.into_iter().collect();
    texts.sort_unstable();
    texts
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    sorted(range.map(|number| number.to_string()))
}

/// 4.8.2 of 5.0: each message goes to one member, and the load is distributed over all.
#[test]
fn messages_are_distributed_among_the_members() {
    every_case(|case| {
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            let broker = case.broker();
            let mut publisher = broker.connect(case.version, "publisher");
            let mut members = members(case, &broker, "$share/group/work/+", qos);
            for number in 0..200 {
                publisher.publish("work/x", qos, number.to_string().as_bytes());
            }
            let received = collect(&mut publisher, &mut members);
            let shares: Vec<usize> = received.iter().map(Vec::len).collect();
            assert!(shares.iter().all(|&share| (25..=100).contains(&share)), "{shares:?} at {qos:?}");
            assert_eq!(sorted(received.into_iter().flatten()), numbers(0..200), "{qos:?}");
        }
    });
}

/// 4.8.2 of 5.0: each group receives its own copy, and so does each ordinary subscription.
#[test]
fn every_group_and_every_ordinary_subscription_gets_a_copy() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut clients: Vec<Client> = ["$share/one/a", "$share/two/a", "$share/one/+", "a", "#"]
            .into_iter()
            .enumerate()
            .map(|(number, filter)| {
                let mut client = broker.connect(case.version, &format!("client-{number}"));
                client.subscribe(filter, AtLeastOnce);
                client
            })
            .collect();
        for number in 0..10 {
            publisher.publish("a", AtLeastOnce, number.to_string().as_bytes());
        }
        for received in collect(&mut publisher, &mut clients) {
            assert_eq!(sorted(received.into_iter().filter(|text| text != "sentinel")), numbers(0..10));
        }
    });
}

/// 4.8.2 of 5.0: a shared and an ordinary subscription of one client are separate, each with its copy.
#[test]
fn a_client_can_have_a_shared_and_an_ordinary_subscription() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut client = broker.connect(V5, "client");
        client.subscribe_identified("a", AtLeastOnce, 1);
        client.subscribe_identified("$share/group/a", AtLeastOnce, 2);
        publisher.publish("a", AtLeastOnce, b"x");
        let mut identifiers = [client.receive(), client.receive()].map(|message| message.subscription_identifiers());
        identifiers.sort();
        assert_eq!(identifiers, [vec![1], vec![2]]);
        // Leaving the group keeps the ordinary subscription.
        assert_eq!(client.unsubscribe(&["$share/group/a"]), [0]);
        publisher.publish("a", AtLeastOnce, b"y");
        assert_eq!(client.receive().subscription_identifiers(), [1]);
        expect_nothing_from(&mut publisher, &mut client);
    });
}

/// [MQTT-4.8.2-3]
#[test]
fn a_member_receives_at_the_qos_it_was_granted() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        for granted in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            let mut member = broker.connect(case.version, "member");
            member.subscribe("$share/group/a", granted);
            for published in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
                publisher.publish("a", published, b"x");
                assert_eq!(member.receive().qos(), published.min(granted));
            }
        }
    });
}

/// 4.8.2 of 5.0: retained messages are not sent for a new shared subscription.
#[test]
fn a_shared_subscription_gets_no_retained_messages() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        publisher.deliver(&OutgoingPublish::new("a", AtLeastOnce, b"kept").retained());
        let mut member = broker.connect(case.version, "member");
        member.subscribe("$share/group/a", AtLeastOnce);
        member.subscribe("$share/group/#", AtLeastOnce);
        expect_nothing_from(&mut publisher, &mut member);
    });
}

/// 4.8.2 of 5.0: unacknowledged QoS 1 messages of a leaving member are redispatched; none is lost.
#[test]
fn messages_in_flight_to_a_leaving_member_go_to_the_others_at_qos_1() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut members = members(case, &broker, "$share/group/a", AtLeastOnce);
        for number in 0..40 {
            publisher.publish("a", AtLeastOnce, number.to_string().as_bytes());
        }
        // Its session ends with the connection; it has acknowledged nothing.
        let leaver = members.remove(1);
        leaver.cut();
        let received = collect_count(&mut publisher, &mut members, 40);
        assert_eq!(sorted(received), numbers(0..40));
    });
}

/// The same for messages not sent yet because the member's window was full.
#[test]
fn messages_queued_for_a_leaving_member_go_to_the_others() {
    every_thread_count(|case| {
        for (qos, client_id) in [(AtLeastOnce, "leaver-1"), (ExactlyOnce, "leaver-2")] {
            let broker = case.broker();
            let mut publisher = broker.connect(V5, "publisher");
            let mut leaver = broker.connecting(V5, client_id).property(receive_maximum(1)).open();
            leaver.subscribe("$share/group/a", qos);
            for number in 0..10 {
                publisher.publish("a", qos, number.to_string().as_bytes());
            }
            // One is in flight, and with QoS 2 stays with its member [MQTT-4.8.2-5]. The others are queued.
            assert_eq!(leaver.expect_publish().text(), "0");
            let mut stayer = broker.connect(V5, "stayer");
            stayer.subscribe("$share/group/a", qos);
            leaver.cut();
            let wanted = if qos == AtLeastOnce { 0..10 } else { 1..10 };
            assert_eq!(sorted(stayer.receive_texts(wanted.len())), numbers(wanted));
            expect_nothing_from(&mut publisher, &mut stayer);
        }
    });
}

/// [MQTT-4.8.2-5]: a QoS 2 message already sent is not redispatched when the session ends.
#[test]
fn a_qos_2_message_once_sent_is_not_moved_to_another_member() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut leaver = broker.connect(case.version, "leaver");
        leaver.subscribe("$share/group/a", ExactlyOnce);
        publisher.publish("a", ExactlyOnce, b"sent");
        publisher.publish("a", ExactlyOnce, b"received");
        leaver.expect_publish();
        let second = leaver.expect_publish();
        leaver.send_pubrec(second.id());
        leaver.expect_pubrel(second.id());
        let mut stayer = broker.connect(case.version, "stayer");
        stayer.subscribe("$share/group/a", ExactlyOnce);
        leaver.cut();
        // The session has ended when its id connects with a clean start.
        broker.connect(case.version, "leaver").disconnect();
        expect_nothing_from(&mut publisher, &mut stayer);
    });
}

/// [MQTT-4.8.2-4]: it is completed with the same client after its reconnect.
#[test]
fn a_qos_2_message_in_flight_is_completed_when_its_member_reconnects() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let connecting = broker.connecting(case.version, "returning").persistent();
        let mut member = connecting.open();
        member.subscribe("$share/group/a", ExactlyOnce);
        publisher.publish("a", ExactlyOnce, b"mine");
        let first = member.expect_publish();
        let mut other = broker.connect(case.version, "other");
        other.subscribe("$share/group/a", ExactlyOnce);
        member.cut();
        expect_nothing_from(&mut publisher, &mut other);
        let mut member = connecting.open();
        let again = member.receive();
        assert_eq!((again.id(), again.text(), again.dup()), (first.id(), "mine", true));
        expect_nothing_from(&mut publisher, &mut other);
    });
}

/// 4.8.2 of 5.0: nothing is lost while a persistent member is offline, whichever member receives it.
#[test]
fn nothing_is_lost_while_a_persistent_member_is_offline() {
    every_case(|case| {
        for qos in [AtLeastOnce, ExactlyOnce] {
            let broker = case.broker();
            let mut publisher = broker.connect(case.version, "publisher");
            let connecting = broker.connecting(case.version, "away").persistent();
            let mut away = connecting.open();
            away.subscribe("$share/group/a", qos);
            let mut present = broker.connect(case.version, "present");
            present.subscribe("$share/group/a", qos);
            for number in 0..10 {
                publisher.publish("a", qos, number.to_string().as_bytes());
            }
            away.cut();
            for number in 10..20 {
                publisher.publish("a", qos, number.to_string().as_bytes());
            }
            let away = connecting.open();
            let mut members = [away, present];
            let received = collect_count(&mut publisher, &mut members, 20);
            assert_eq!(sorted(received), numbers(0..20), "{qos:?}");
        }
    });
}

/// 4.8.2 of 5.0: with every member offline the messages are queued.
#[test]
fn messages_are_queued_while_every_member_is_offline() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let connectings =
            ["away-a", "away-b", "away-c"].map(|client_id| broker.connecting(case.version, client_id).persistent());
        for connecting in &connectings {
            let mut member = connecting.open();
            member.subscribe("$share/group/a", AtLeastOnce);
            member.disconnect();
        }
        for number in 0..12 {
            publisher.publish("a", AtLeastOnce, number.to_string().as_bytes());
        }
        let mut members = connectings.map(|connecting| connecting.open());
        let received = collect_count(&mut publisher, &mut members, 12);
        assert_eq!(sorted(received), numbers(0..12));
    });
}

/// [MQTT-4.8.2-6]
#[test]
fn a_message_refused_by_a_member_is_not_sent_to_another() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut refuser = broker.connect(V5, "refuser");
        refuser.subscribe("$share/group/a", ExactlyOnce);
        publisher.publish("a", AtLeastOnce, b"1");
        publisher.publish("a", ExactlyOnce, b"2");
        let first = refuser.expect_publish();
        let second = refuser.expect_publish();
        let mut other = broker.connect(V5, "other");
        other.subscribe("$share/group/a", ExactlyOnce);
        refuser.send_puback_with(first.id(), PubAckReason::UnspecifiedError);
        refuser.send_pubrec_with(second.id(), PubRecReason::UnspecifiedError);
        refuser.expect_nothing();
        refuser.disconnect();
        expect_nothing_from(&mut publisher, &mut other);
    });
}

/// 3.10.4 of 5.0: a member that has unsubscribed receives no more, and the others take over.
#[test]
fn an_unsubscribed_member_receives_no_more_messages() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut members = members(case, &broker, "$share/group/a", AtLeastOnce);
        members[0].unsubscribe(&["$share/group/a"]);
        members[2].unsubscribe(&["$share/group/a"]);
        for number in 0..20 {
            publisher.publish("a", AtLeastOnce, number.to_string().as_bytes());
        }
        let received = collect(&mut publisher, &mut members);
        assert!(received[0].is_empty() && received[2].is_empty(), "{received:?}");
        assert_eq!(sorted(received.into_iter().flatten()), numbers(0..20));
    });
}

/// 3.4.2.1 of 5.0: an empty group is no subscriber.
#[test]
fn a_group_without_members_is_no_subscriber() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut members = members(case, &broker, "$share/group/a", AtLeastOnce);
        assert_eq!(publisher.publish("a", AtLeastOnce, b"x"), 0x00);
        for member in &mut members {
            member.unsubscribe(&["$share/group/a"]);
        }
        assert_eq!(publisher.publish("a", AtLeastOnce, b"x"), 0x10);
    });
}

/// 4.8.2 of 5.0: shared messages have subscription identifiers and properties too.
#[test]
fn a_shared_message_has_its_identifier_and_properties() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut member = broker.connect(V5, "member");
        member.subscribe_identified("$share/group/a/#", AtLeastOnce, 321);
        publisher.deliver(&OutgoingPublish::new("a/b", AtLeastOnce, b"x").property(Property::UserProperty("k", "v")));
        let message = member.receive();
        assert_eq!(message.topic(), "a/b");
        assert_eq!(message.subscription_identifiers(), [321]);
        assert_eq!(message.user_properties(), [("k".to_owned(), "v".to_owned())]);
    });
}

/// Members of one group may use different versions.
#[test]
fn a_group_spans_protocol_versions() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut old = broker.connect(V3_1_1, "old");
        old.subscribe("$share/group/a", AtLeastOnce);
        let mut new = broker.connect(V5, "new");
        new.subscribe("$share/group/a", AtLeastOnce);
        for number in 0..20 {
            publisher.publish("a", AtLeastOnce, number.to_string().as_bytes());
        }
        let received = collect(&mut publisher, &mut [old, new]);
        assert!(received.iter().all(|texts| !texts.is_empty()), "{received:?}");
        assert_eq!(sorted(received.into_iter().flatten()), numbers(0..20));
    });
}

/// [MQTT-3.3.4-9]: a member whose window is full does not hold up the group.
#[test]
fn a_member_that_acknowledges_nothing_does_not_starve_the_others() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut stuck = broker.connecting(V5, "stuck").property(receive_maximum(1)).open();
        stuck.subscribe("$share/group/a", AtLeastOnce);
        let mut busy = broker.connect(V5, "busy");
        busy.subscribe("$share/group/a", AtLeastOnce);
        for number in 0..20 {
            publisher.publish("a", AtLeastOnce, number.to_string().as_bytes());
        }
        let mut received = vec![busy.receive().text().to_owned()];
        stuck.expect_publish();
        stuck.cut();
        received.extend(busy.receive_texts(19));
        assert_eq!(sorted(received), numbers(0..20));
    });
}

/// 4.8.2 of 5.0: a member receives no more than its window while another member can take messages. Members have no queues of their own.
#[test]
fn a_stuck_member_gets_its_window_and_the_others_the_rest() {
    every_thread_count(|case| {
        let broker = case.broker_set(&["limits.session_queue_messages=1"]);
        let mut publisher = broker.connect(V5, "publisher");
        let mut stuck = broker.connecting(V5, "stuck").property(receive_maximum(1)).open();
        stuck.subscribe("$share/group/a", AtLeastOnce);
        let mut idle = broker.connect(V5, "idle");
        idle.subscribe("$share/group/a", AtLeastOnce);
        for number in 0..100 {
            publisher.publish("a", AtLeastOnce, number.to_string().as_bytes());
        }
        let received = idle.receive_texts(99).into_iter().chain([stuck.expect_publish().text().to_owned()]);
        assert_eq!(sorted(received), numbers(0..100));
        stuck.expect_nothing();
    });
}

/// `mqtt.shared_ack_timeout_s`: unacknowledged messages of a connected member are redispatched, except for QoS 2 [MQTT-4.8.2-4].
#[test]
fn messages_not_acknowledged_in_time_are_redispatched() {
    every_thread_count(|case| {
        let broker = case.broker_set(&["mqtt.shared_ack_timeout_s=1"]);
        let mut publisher = broker.connect(V5, "publisher");
        let mut stuck = broker.connect(V5, "stuck");
        stuck.subscribe("$share/group/a", ExactlyOnce);
        for (number, qos) in [AtLeastOnce, ExactlyOnce, AtLeastOnce].into_iter().enumerate() {
            publisher.publish("a", qos, number.to_string().as_bytes());
        }
        let sent = [stuck.expect_publish(), stuck.expect_publish(), stuck.expect_publish()];
        let mut other = broker.connect(V5, "other");
        other.subscribe("$share/group/a", ExactlyOnce);
        assert_eq!(other.receive_texts(2), ["0", "2"]);
        // The identifiers are still those of the first client's messages.
        sent.iter().for_each(|message| stuck.acknowledge(message));
        expect_nothing_from(&mut publisher, &mut other);
    });
}

/// `limits.shared_queue_bytes`: a publisher is notified if no member takes its messages, and messages accepted before are delivered.
#[test]
fn a_full_queue_of_a_group_refuses_publishers() {
    every_thread_count(|case| {
        let broker = case.broker_set(&["limits.shared_queue_bytes=2000", "limits.session_queue_messages=1"]);
        let mut publisher = broker.connect(V5, "publisher");
        let connecting = broker.connecting(V5, "absent").persistent();
        let mut absent = connecting.open();
        absent.subscribe("$share/group/a", AtLeastOnce);
        absent.disconnect();
        let taken = (0..100).take_while(|number| {
            let reason = publisher.publish("a", AtLeastOnce, number.to_string().as_bytes());
            assert!(matches!(reason, 0x00 | 0x97), "{reason:#04x}");
            reason == 0x00
        });
        let taken = taken.count();
        assert!((2..100).contains(&taken), "{taken}");
        let mut back = connecting.open();
        let expected: Vec<String> = (0..taken).map(|number| number.to_string()).collect();
        assert_eq!(back.receive_texts(taken), expected);
        assert_eq!(publisher.publish("a", AtLeastOnce, b"again"), 0x00);
        assert_eq!(back.receive().text(), "again");
    });
}

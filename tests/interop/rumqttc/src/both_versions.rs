//! Cases that mean the same in MQTT 3.1.1 and 5.0.

use crate::connection::{Options, Version, WILL_PAYLOAD, Will};
use crate::harness::{Case, Outcome, Run, expect, expect_balanced, expect_equal};
use crate::peer::{Peer, texts};

const LARGE_PAYLOAD_BYTES: u32 = 1024 * 1024;
const MESSAGES: usize = 100;
const SHARED_MESSAGES: usize = 300;

pub const CASES: &[(&str, Case)] = &[
    ("qos0_roundtrip", |run, version| Box::pin(roundtrip(run, version, 0))),
    ("qos1_roundtrip", |run, version| Box::pin(roundtrip(run, version, 1))),
    ("qos2_roundtrip", |run, version| Box::pin(roundtrip(run, version, 2))),
    ("qos_is_the_lower_of_both", |run, version| Box::pin(qos_is_the_lower_of_both(run, version))),
    ("wildcards", |run, version| Box::pin(wildcards(run, version))),
    ("overlapping_subscriptions", |run, version| Box::pin(overlapping_subscriptions(run, version))),
    ("unsubscribe", |run, version| Box::pin(unsubscribe(run, version))),
    ("retained_on_subscribe", |run, version| Box::pin(retained_on_subscribe(run, version))),
    ("retained_replace", |run, version| Box::pin(retained_replace(run, version))),
    ("retained_delete", |run, version| Box::pin(retained_delete(run, version))),
    ("will_on_cut", |run, version| Box::pin(will_on_cut(run, version))),
    ("will_retained", |run, version| Box::pin(will_retained(run, version))),
    ("no_will_on_disconnect", |run, version| Box::pin(no_will_on_disconnect(run, version))),
    ("shared_subscription", |run, version| Box::pin(shared_subscription(run, version))),
    ("large_payload", |run, version| Box::pin(large_payload(run, version))),
    ("persistent_session", |run, version| Box::pin(persistent_session(run, version))),
    ("persistent_session_after_cut", |run, version| Box::pin(persistent_session_after_cut(run, version))),
    ("clean_session_discards", |run, version| Box::pin(clean_session_discards(run, version))),
    ("redelivery_after_cut", |run, version| Box::pin(redelivery_after_cut(run, version))),
    ("takeover", |run, version| Box::pin(takeover(run, version))),
];

fn numbered(count: usize, prefix: &str) -> Vec<String> {
    (0..count).map(|number| format!("{prefix} {number}")).collect()
}

pub fn persistent(run: &Run, name: &str) -> Options {
    Options { client_id: run.client_id(name), persistent: true, ..Options::default() }
}

async fn roundtrip(run: &Run, version: Version, qos: u8) -> Outcome {
    let topic = run.topic("roundtrip");
    let (mut subscriber, mut publisher) = (Peer::plain(run, version).await?, Peer::plain(run, version).await?);
    expect_equal(subscriber.subscribe(qos, &[&topic]).await?, [qos], "granted QoS")?;
    let sent = numbered(MESSAGES, "message");
    publisher.publish_all(&topic, &sent, qos).await?;
    publisher.publish(&topic, "fence", qos).await?;
    let received = subscriber.receive_until("fence").await?;
    expect_equal(texts(&received), sent, "payloads")?;
    for message in received {
        expect_equal((message.qos, message.retain, message.dup), (qos, false, false), "(QoS, RETAIN, DUP)")?;
    }
    Ok(())
}

async fn qos_is_the_lower_of_both(run: &Run, version: Version) -> Outcome {
    let mut publisher = Peer::plain(run, version).await?;
    for granted in 0..=2 {
        let topic = run.topic(format!("granted/{granted}"));
        let mut subscriber = Peer::plain(run, version).await?;
        subscriber.subscribe(granted, &[&topic]).await?;
        for sent in 0..=2 {
            publisher.publish(&topic, "x", sent).await?;
            let what = format!("sent at QoS {sent}, granted {granted}");
            expect_equal(subscriber.receive().await?.qos, sent.min(granted), &what)?;
        }
    }
    Ok(())
}

async fn wildcards(run: &Run, version: Version) -> Outcome {
    let (mut subscriber, mut publisher) = (Peer::plain(run, version).await?, Peer::plain(run, version).await?);
    subscriber.subscribe(1, &[&run.topic("a/+/c"), &run.topic("b/#")]).await?;
    let matching = ["a/x/c", "a//c", "b", "b/x", "b/x/y"];
    for suffix in matching.into_iter().chain(["a/c", "a/x/y/c", "bb", "fence", "b/fence"]) {
        publisher.publish(&run.topic(suffix), suffix, 1).await?;
    }
    expect_equal(texts(&subscriber.receive_until("b/fence").await?), matching, "topics")
}

async fn overlapping_subscriptions(run: &Run, version: Version) -> Outcome {
    let (mut subscriber, mut publisher) = (Peer::plain(run, version).await?, Peer::plain(run, version).await?);
    subscriber.subscribe(0, &[&run.topic("a/#")]).await?;
    subscriber.subscribe(2, &[&run.topic("a/+")]).await?;
    subscriber.subscribe(1, &[&run.topic("a/b")]).await?;
    publisher.publish(&run.topic("a/b"), "once", 2).await?;
    publisher.publish(&run.topic("a/b"), "fence", 2).await?;
    let received = subscriber.receive_until("fence").await?;
    let copies: Vec<_> = received.iter().map(|message| (message.text(), message.qos)).collect();
    expect_equal(copies, [("once".to_owned(), 2)], "copies")
}

async fn unsubscribe(run: &Run, version: Version) -> Outcome {
    let (left, kept) = (run.topic("left"), run.topic("kept"));
    let (mut subscriber, mut publisher) = (Peer::plain(run, version).await?, Peer::plain(run, version).await?);
    subscriber.subscribe(1, &[&left, &kept]).await?;
    subscriber.unsubscribe(&left).await?;
    publisher.publish(&left, "unwanted", 1).await?;
    publisher.publish(&kept, "fence", 1).await?;
    expect_equal(texts(&subscriber.receive_until("fence").await?), [""; 0], "messages after UNSUBACK")
}

async fn retained_on_subscribe(run: &Run, version: Version) -> Outcome {
    let topic = run.topic("retained");
    let (mut live, mut publisher) = (Peer::plain(run, version).await?, Peer::plain(run, version).await?);
    live.subscribe(2, &[&topic]).await?;
    for qos in 0..=2 {
        let value = format!("value {qos}");
        publisher.retain(&topic, &value, qos).await?;
        let now = live.receive().await?;
        expect_equal((now.text(), now.retain), (value.clone(), false), "to a live subscription")?;
        let mut late = Peer::plain(run, version).await?;
        late.subscribe(2, &[&run.topic("+")]).await?;
        let stored = late.receive().await?;
        expect_equal(
            (&stored.topic, stored.text(), stored.qos, stored.retain),
            (&topic, value, qos, true),
            "to a new subscription",
        )?;
    }
    Ok(())
}

async fn retained_replace(run: &Run, version: Version) -> Outcome {
    let topic = run.topic("retained");
    let (mut subscriber, mut publisher) = (Peer::plain(run, version).await?, Peer::plain(run, version).await?);
    for value in ["first", "second", "third"] {
        publisher.retain(&topic, value, 1).await?;
    }
    publisher.publish(&topic, "not retained", 1).await?;
    subscriber.subscribe(1, &[&topic]).await?;
    publisher.publish(&topic, "fence", 1).await?;
    expect_equal(texts(&subscriber.receive_until("fence").await?), ["third"], "retained messages")
}

async fn retained_delete(run: &Run, version: Version) -> Outcome {
    let topic = run.topic("retained");
    let (mut live, mut publisher) = (Peer::plain(run, version).await?, Peer::plain(run, version).await?);
    let mut late = Peer::plain(run, version).await?;
    publisher.retain(&topic, "value", 1).await?;
    live.subscribe(1, &[&topic]).await?;
    expect_equal(live.receive().await?.text(), "value", "retained message before it is deleted")?;
    publisher.retain(&topic, "", 1).await?;
    let deletion = live.receive().await?;
    expect_equal((deletion.text().as_str(), deletion.retain), ("", false), "the deletion, to a live subscription")?;
    late.subscribe(1, &[&topic]).await?;
    publisher.publish(&topic, "fence", 1).await?;
    expect_equal(texts(&late.receive_until("fence").await?), [""; 0], "retained messages after deletion")
}

fn dying(run: &Run, name: &str, topic: &str, qos: u8, retain: bool) -> Options {
    let will = Will { topic: topic.to_owned(), qos, retain, properties: None };
    Options { client_id: run.client_id(name), will: Some(will), ..Options::default() }
}

async fn will_on_cut(run: &Run, version: Version) -> Outcome {
    let mut watcher = Peer::plain(run, version).await?;
    watcher.subscribe(2, &[&run.topic("will/+")]).await?;
    for qos in 0..=2 {
        let topic = run.topic(format!("will/{qos}"));
        Peer::connect(run, version, dying(run, "dying", &topic, qos, false)).await?.cut().await?;
        let will = watcher.receive().await?;
        expect_equal(
            (&will.topic, will.text().as_str(), will.qos, will.retain),
            (&topic, WILL_PAYLOAD, qos, false),
            "will",
        )?;
    }
    Ok(())
}

async fn will_retained(run: &Run, version: Version) -> Outcome {
    let topic = run.topic("will");
    let mut watcher = Peer::plain(run, version).await?;
    watcher.subscribe(1, &[&topic]).await?;
    Peer::connect(run, version, dying(run, "dying", &topic, 1, true)).await?.cut().await?;
    expect(!watcher.receive().await?.retain, "RETAIN is set to a live subscription")?;
    let mut late = Peer::plain(run, version).await?;
    late.subscribe(1, &[&topic]).await?;
    let stored = late.receive().await?;
    expect_equal((stored.text().as_str(), stored.retain), (WILL_PAYLOAD, true), "will to a new subscription")
}

async fn no_will_on_disconnect(run: &Run, version: Version) -> Outcome {
    let topic = run.topic("will");
    let mut watcher = Peer::plain(run, version).await?;
    watcher.subscribe(1, &[&topic]).await?;
    Peer::connect(run, version, dying(run, "leaving", &topic, 1, false)).await?.disconnect().await?;
    // The same client id again: its CONNACK proves that the broker has closed the first connection.
    let again = Options { client_id: run.client_id("leaving"), ..Options::default() };
    Peer::connect(run, version, again).await?.publish(&topic, "fence", 1).await?;
    expect_equal(texts(&watcher.receive_until("fence").await?), [""; 0], "wills after DISCONNECT")
}

async fn shared_subscription(run: &Run, version: Version) -> Outcome {
    let share = run.share(&run.topic("work/+"));
    let mut members = Vec::new();
    for _ in 0..3 {
        let mut member = Peer::plain(run, version).await?;
        member.subscribe(1, &[&share, &run.topic("fence")]).await?;
        members.push(member);
    }
    let mut publisher = Peer::plain(run, version).await?;
    let mut sent = numbered(SHARED_MESSAGES, "job");
    for (number, job) in sent.iter().enumerate() {
        publisher.publish(&run.topic(format!("work/{}", number % 7)), job.as_str(), 1).await?;
    }
    // Members unsubscribe first: their messages have been sent by then, and the fence follows.
    for member in &mut members {
        member.unsubscribe(&share).await?;
    }
    publisher.publish(&run.topic("fence"), "fence", 1).await?;
    let mut shares = Vec::new();
    for member in &mut members {
        shares.push(texts(&member.receive_until("fence").await?));
    }
    expect_balanced(&shares, SHARED_MESSAGES)?;
    let mut jobs = shares.concat();
    jobs.sort();
    sent.sort();
    expect_equal(jobs, sent, "jobs")
}

async fn large_payload(run: &Run, version: Version) -> Outcome {
    let topic = run.topic("large");
    // A multiplicative sequence: no two places are alike, and the topic makes each run differ.
    let seed = topic.bytes().fold(1_u32, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let payload: Vec<u8> = (0..LARGE_PAYLOAD_BYTES)
        .map(|place| (place.wrapping_add(seed).wrapping_mul(0x9E37_79B1) >> 24) as u8)
        .collect();
    let (mut subscriber, mut publisher) = (Peer::plain(run, version).await?, Peer::plain(run, version).await?);
    subscriber.subscribe(2, &[&topic]).await?;
    for qos in 0..=2 {
        publisher.publish(&topic, payload.clone(), qos).await?;
        let received = subscriber.receive().await?.payload;
        expect_equal(received.len(), payload.len(), "length in bytes")?;
        expect(received == payload, "the payload was changed on its way")?;
    }
    Ok(())
}

async fn persistent_session(run: &Run, version: Version) -> Outcome {
    let topics = [run.topic("queued/1"), run.topic("queued/2")];
    let mut publisher = Peer::plain(run, version).await?;
    let mut first = Peer::connect(run, version, persistent(run, "away")).await?;
    expect(!first.session_present, "session present on the first connection")?;
    first.subscribe(1, &[&topics[0]]).await?;
    first.subscribe(2, &[&topics[1]]).await?;
    first.disconnect().await?;
    let sent = numbered(MESSAGES, "message");
    publisher.publish_all(&topics[0], &sent, 1).await?;
    publisher.publish_all(&topics[1], &sent, 2).await?;
    let mut back = Peer::connect(run, version, persistent(run, "away")).await?;
    expect(back.session_present, "no session present after reconnection")?;
    let received = back.receive_many(2 * MESSAGES).await?;
    for (topic, qos) in topics.iter().zip([1, 2]) {
        let here: Vec<_> = received.iter().filter(|message| message.topic == *topic).collect();
        expect(here.iter().all(|message| message.qos == qos), format!("not all at QoS {qos}"))?;
        let payloads: Vec<_> = here.iter().map(|message| message.text()).collect();
        expect_equal(&payloads, &sent, &format!("QoS {qos} payloads"))?;
    }
    Ok(())
}

async fn persistent_session_after_cut(run: &Run, version: Version) -> Outcome {
    let topic = run.topic("queued");
    let mut publisher = Peer::plain(run, version).await?;
    let mut client = Peer::connect(run, version, persistent(run, "away")).await?;
    client.subscribe(2, &[&topic]).await?;
    client.cut().await?;
    let sent = numbered(MESSAGES, "message");
    publisher.publish_all(&topic, &sent, 2).await?;
    // The same event loop reconnects, as applications continue to poll it after an error.
    client.resume().await?;
    expect(client.session_present, "no session present after reconnection")?;
    publisher.publish(&topic, "fence", 2).await?;
    expect_equal(texts(&client.receive_until("fence").await?), sent, "payloads")
}

async fn clean_session_discards(run: &Run, version: Version) -> Outcome {
    let topic = run.topic("queued");
    let mut publisher = Peer::plain(run, version).await?;
    let mut first = Peer::connect(run, version, persistent(run, "away")).await?;
    first.subscribe(1, &[&topic]).await?;
    first.disconnect().await?;
    publisher.publish(&topic, "lost on purpose", 1).await?;
    let clean = Options { client_id: run.client_id("away"), ..Options::default() };
    let mut fresh = Peer::connect(run, version, clean).await?;
    expect(!fresh.session_present, "session present after a clean start")?;
    fresh.subscribe(1, &[&run.topic("fence")]).await?;
    publisher.publish(&topic, "not subscribed any more", 1).await?;
    publisher.publish(&run.topic("fence"), "fence", 1).await?;
    expect_equal(texts(&fresh.receive_until("fence").await?), [""; 0], "messages of the discarded session")
}

async fn redelivery_after_cut(run: &Run, version: Version) -> Outcome {
    let topic = run.topic("redelivered");
    let mut publisher = Peer::plain(run, version).await?;
    let mut careless =
        Peer::connect(run, version, Options { manual_acks: true, ..persistent(run, "careless") }).await?;
    careless.subscribe(1, &[&topic]).await?;
    let sent = numbered(10, "message");
    publisher.publish_all(&topic, &sent, 1).await?;
    let first = careless.receive_many(sent.len()).await?;
    careless.cut().await?;
    let mut back = Peer::connect(run, version, persistent(run, "careless")).await?;
    expect(back.session_present, "no session present after reconnection")?;
    for (again, first) in back.receive_many(sent.len()).await?.iter().zip(&first) {
        expect_equal(
            (again.text(), again.dup, again.packet_id),
            (first.text(), true, first.packet_id),
            "(payload, DUP, packet id) of the second delivery",
        )?;
    }
    Ok(())
}

async fn takeover(run: &Run, version: Version) -> Outcome {
    let twice = || Options { client_id: run.client_id("twice"), ..Options::default() };
    let mut first = Peer::connect(run, version, twice()).await?;
    let _second = Peer::connect(run, version, twice()).await?;
    let reason = first.closed().await?;
    match version {
        Version::V3 => Ok(()),
        Version::V5 => expect_equal(reason, Some(0x8E), "DISCONNECT reason code (session taken over)"),
    }
}

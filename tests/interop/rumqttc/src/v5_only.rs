//! Cases that need MQTT 5.0.

use std::time::{Duration, Instant};

use rumqttc::v5::mqttbytes::v5::{
    ConnectProperties, Filter, LastWillProperties, PublishProperties, RetainForwardRule, SubscribeProperties,
};

use crate::both_versions::persistent;
use crate::connection::{Options, Version, WILL_PAYLOAD, Will};
use crate::harness::{Case, Failure, Outcome, Run, expect, expect_equal, sleep_for};
use crate::peer::{Peer, texts};
use crate::v5::level;

const V5: Version = Version::V5;

pub const CASES: &[(&str, Case)] = &[
    ("user_properties", |run, _| Box::pin(user_properties(run))),
    ("request_response", |run, _| Box::pin(request_response(run))),
    ("message_expiry", |run, _| Box::pin(message_expiry(run))),
    ("topic_alias", |run, _| Box::pin(topic_alias(run))),
    ("subscription_identifiers", |run, _| Box::pin(subscription_identifiers(run))),
    ("reason_codes", |run, _| Box::pin(reason_codes(run))),
    ("assigned_client_id", |run, _| Box::pin(assigned_client_id(run))),
    ("session_without_expiry_ends", |run, _| Box::pin(session_without_expiry_ends(run))),
    ("will_delay", |run, _| Box::pin(will_delay(run))),
    ("will_properties", |run, _| Box::pin(will_properties(run))),
    ("no_local", |run, _| Box::pin(no_local(run))),
    ("retain_as_published", |run, _| Box::pin(retain_as_published(run))),
    ("retain_handling", |run, _| Box::pin(retain_handling(run))),
    ("receive_maximum", |run, _| Box::pin(receive_maximum(run))),
];

/// Subscribes with options or an identifier, which `Peer::subscribe` does not offer.
async fn subscribe_with(peer: &mut Peer<'_>, filters: Vec<Filter>, identifier: Option<usize>) -> Outcome<Vec<u8>> {
    let requested = match identifier {
        None => peer.v5().subscribe_many(filters).await,
        Some(_) => {
            let properties = SubscribeProperties { id: identifier, user_properties: Vec::new() };
            peer.v5().subscribe_many_with_properties(filters, properties).await
        }
    };
    requested.map_err(|error| Failure(format!("SUBSCRIBE: {error}")))?;
    peer.subscribed().await
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

async fn user_properties(run: &Run) -> Outcome {
    let topic = run.topic("properties");
    let (mut subscriber, mut publisher) = (Peer::plain(run, V5).await?, Peer::plain(run, V5).await?);
    subscriber.subscribe(2, &[&topic]).await?;
    let sent = PublishProperties {
        user_properties: pairs(&[("b", "2"), ("a", "1"), ("b", "2"), ("ключ", "значение")]),
        content_type: Some("text/plain".to_owned()),
        payload_format_indicator: Some(1),
        ..PublishProperties::default()
    };
    for qos in 0..=2 {
        publisher.publish_with(&topic, "text", qos, sent.clone()).await?;
        expect_equal(subscriber.receive().await?.properties, sent.clone(), "properties")?;
    }
    Ok(())
}

async fn request_response(run: &Run) -> Outcome {
    let (requests, responses) = (run.topic("requests"), run.topic("responses"));
    let (mut asker, mut answerer) = (Peer::plain(run, V5).await?, Peer::plain(run, V5).await?);
    answerer.subscribe(1, &[&requests]).await?;
    asker.subscribe(1, &[&responses]).await?;
    let asking = PublishProperties {
        response_topic: Some(responses.clone()),
        correlation_data: Some(vec![0, 1, 254, 255].into()),
        ..PublishProperties::default()
    };
    asker.publish_with(&requests, "6 * 7", 1, asking.clone()).await?;
    let request = answerer.receive().await?.properties;
    expect_equal(request.response_topic.as_ref(), Some(&responses), "response topic")?;
    let answering =
        PublishProperties { correlation_data: request.correlation_data.clone(), ..PublishProperties::default() };
    answerer.publish_with(&responses, "42", 1, answering).await?;
    let response = asker.receive().await?;
    expect_equal(response.text(), "42", "response")?;
    expect_equal(response.properties.correlation_data, asking.correlation_data, "correlation data")
}

async fn message_expiry(run: &Run) -> Outcome {
    let (topic, gone) = (run.topic("expiring"), run.topic("gone"));
    let (mut publisher, mut watcher) = (Peer::plain(run, V5).await?, Peer::plain(run, V5).await?);
    watcher.subscribe(1, &[&gone]).await?;
    let will = Some(Will { topic: gone, qos: 1, ..Will::default() });
    let mut away = Peer::connect(run, V5, Options { will, ..persistent(run, "away") }).await?;
    away.subscribe(1, &[&topic]).await?;
    away.cut().await?;
    // The will shows that the client is offline: from here on messages are queued, not sent.
    watcher.receive().await?;
    for (payload, expiry_s) in [("short-lived", 1), ("long-lived", 60)] {
        let expiring = PublishProperties { message_expiry_interval: Some(expiry_s), ..PublishProperties::default() };
        publisher.publish_with(&topic, payload, 1, expiring).await?;
    }
    publisher.publish(&topic, "fence", 1).await?;
    sleep_for(Duration::from_millis(2200)).await;
    let received = Peer::connect(run, V5, persistent(run, "away")).await?.receive_until("fence").await?;
    expect_equal(texts(&received), ["long-lived"], "messages left")?;
    let left_s = received[0].properties.message_expiry_interval.unwrap_or(0);
    expect((50..=58).contains(&left_s), format!("not counted down: {left_s} of 60 s after 2.2 s"))
}

async fn topic_alias(run: &Run) -> Outcome {
    let topics = [run.topic("alias/one"), run.topic("alias/two")];
    let (mut subscriber, mut publisher) = (Peer::plain(run, V5).await?, Peer::plain(run, V5).await?);
    let maximum = publisher.connack.topic_alias_max.unwrap_or(0);
    expect(maximum >= 2, format!("topic alias maximum of the broker is {maximum}"))?;
    subscriber.subscribe(1, &[&run.topic("alias/+")]).await?;
    let mut sent = Vec::new();
    for (topic, alias) in topics.iter().zip(1..) {
        for name in [topic.as_str(), ""] {
            let properties = PublishProperties { topic_alias: Some(alias), ..PublishProperties::default() };
            publisher.publish_with(name, "x", 1, properties).await?;
            sent.push(topic.clone());
        }
    }
    let received = subscriber.receive_many(sent.len()).await?;
    expect_equal(received.into_iter().map(|message| message.topic).collect::<Vec<_>>(), sent, "topics")
}

async fn subscription_identifiers(run: &Run) -> Outcome {
    let (mut subscriber, mut publisher) = (Peer::plain(run, V5).await?, Peer::plain(run, V5).await?);
    let filter = |suffix| vec![Filter::new(run.topic(suffix), level(1))];
    subscribe_with(&mut subscriber, filter("a/+"), Some(7)).await?;
    subscribe_with(&mut subscriber, filter("a/#"), Some(268_435_455)).await?;
    publisher.publish(&run.topic("a/b"), "both", 1).await?;
    publisher.publish(&run.topic("a/b"), "fence", 1).await?;
    let mut copies: Vec<_> = subscriber.receive_until("fence").await?;
    for copy in &mut copies {
        copy.properties.subscription_identifiers.sort_unstable();
    }
    let identifiers: Vec<_> = copies.iter().map(|copy| copy.properties.subscription_identifiers.clone()).collect();
    expect_equal(identifiers, [[7, 268_435_455]], "identifiers of each copy")
}

async fn reason_codes(run: &Run) -> Outcome {
    let mut peer = Peer::plain(run, V5).await?;
    let filters = [2, 0, 1].map(|qos| Filter::new(run.topic(qos), level(qos)));
    expect_equal(subscribe_with(&mut peer, filters.into(), None).await?, [2, 0, 1], "SUBACK reason codes")?;
    expect_equal(peer.unsubscribe(&run.topic(1)).await?, [0x00], "UNSUBACK reason codes")?;
    expect_equal(peer.unsubscribe(&run.topic("never")).await?, [0x11], "UNSUBACK reason codes")?;
    for qos in [1, 2] {
        let reason = peer.publish_with(&run.topic("nobody"), "", qos, PublishProperties::default()).await?;
        expect([0x00, 0x10].contains(&reason), format!("reason code of a QoS {qos} publish to nobody: {reason:#x}"))?;
    }
    Ok(())
}

async fn assigned_client_id(run: &Run) -> Outcome {
    let mut assigned = Vec::new();
    for _ in 0..2 {
        let peer = Peer::connect(run, V5, Options::default()).await?;
        let identifier = peer.connack.assigned_client_identifier.unwrap_or_default();
        expect(!identifier.is_empty(), "no client identifier was assigned")?;
        assigned.push(identifier);
    }
    expect(assigned[0] != assigned[1], "two clients were assigned the same identifier")
}

async fn session_without_expiry_ends(run: &Run) -> Outcome {
    let brief = ConnectProperties { session_expiry_interval: Some(0), ..ConnectProperties::new() };
    let options = Options { properties: Some(brief), ..persistent(run, "short") };
    Peer::connect(run, V5, options).await?.disconnect().await?;
    let again = Peer::connect(run, V5, persistent(run, "short")).await?;
    expect(!again.session_present, "session present though its expiry interval was 0")
}

async fn will_delay(run: &Run) -> Outcome {
    let topic = run.topic("will");
    let mut watcher = Peer::plain(run, V5).await?;
    watcher.subscribe(1, &[&topic]).await?;
    let properties = LastWillProperties { delay_interval: Some(1), ..no_will_properties() };
    let will = Some(Will { topic, qos: 1, properties: Some(properties), ..Will::default() });
    let mut dying = Peer::connect(run, V5, Options { will, ..persistent(run, "dying") }).await?;
    let started = Instant::now();
    dying.cut().await?;
    expect_equal(watcher.receive().await?.text(), WILL_PAYLOAD, "will")?;
    expect(started.elapsed() >= Duration::from_millis(900), "the will came before its delay of 1 s was over")
}

async fn will_properties(run: &Run) -> Outcome {
    let topic = run.topic("will");
    let mut watcher = Peer::plain(run, V5).await?;
    watcher.subscribe(1, &[&topic]).await?;
    let sent = LastWillProperties {
        content_type: Some("text/plain".to_owned()),
        response_topic: Some("answer/here".to_owned()),
        correlation_data: Some(vec![0, 255].into()),
        user_properties: pairs(&[("cause", "test")]),
        ..no_will_properties()
    };
    let will = Some(Will { topic, qos: 1, properties: Some(sent.clone()), ..Will::default() });
    let options = Options { client_id: run.client_id("dying"), will, ..Options::default() };
    Peer::connect(run, V5, options).await?.cut().await?;
    let got = watcher.receive().await?.properties;
    expect_equal(
        (got.content_type, got.response_topic, got.correlation_data, got.user_properties),
        (sent.content_type, sent.response_topic, sent.correlation_data, sent.user_properties),
        "will properties",
    )
}

async fn no_local(run: &Run) -> Outcome {
    let topic = run.topic("local");
    let (mut peer, mut other) = (Peer::plain(run, V5).await?, Peer::plain(run, V5).await?);
    let filter = Filter { nolocal: true, ..Filter::new(topic.clone(), level(1)) };
    subscribe_with(&mut peer, vec![filter], None).await?;
    peer.publish(&topic, "own", 1).await?;
    other.publish(&topic, "fence", 1).await?;
    expect_equal(texts(&peer.receive_until("fence").await?), [""; 0], "own messages")
}

async fn retain_as_published(run: &Run) -> Outcome {
    let topic = run.topic("retained");
    let (mut kept, mut cleared) = (Peer::plain(run, V5).await?, Peer::plain(run, V5).await?);
    let mut publisher = Peer::plain(run, V5).await?;
    for (peer, preserve_retain) in [(&mut kept, true), (&mut cleared, false)] {
        let filter = Filter { preserve_retain, ..Filter::new(topic.clone(), level(1)) };
        subscribe_with(peer, vec![filter], None).await?;
    }
    publisher.retain(&topic, "value", 1).await?;
    let flags = (kept.receive().await?.retain, cleared.receive().await?.retain);
    expect_equal(flags, (true, false), "RETAIN flags of a retained message")?;
    publisher.publish(&topic, "value", 1).await?;
    let flags = (kept.receive().await?.retain, cleared.receive().await?.retain);
    expect_equal(flags, (false, false), "RETAIN flags of another message")
}

async fn retain_handling(run: &Run) -> Outcome {
    let topic = run.topic("retained");
    let mut publisher = Peer::plain(run, V5).await?;
    publisher.retain(&topic, "value", 1).await?;
    // The number of retained messages after a first and a second SUBSCRIBE with each Retain Handling.
    let rules = [
        (RetainForwardRule::OnEverySubscribe, [1, 1]),
        (RetainForwardRule::OnNewSubscribe, [1, 0]),
        (RetainForwardRule::Never, [0, 0]),
    ];
    for (rule, want) in rules {
        let mut subscriber = Peer::plain(run, V5).await?;
        let mut brought = Vec::new();
        for _ in want {
            let filter = Filter { retain_forward_rule: rule.clone(), ..Filter::new(topic.clone(), level(1)) };
            subscribe_with(&mut subscriber, vec![filter], None).await?;
            publisher.publish(&topic, "fence", 1).await?;
            brought.push(subscriber.receive_until("fence").await?.len());
        }
        expect_equal(brought, want, &format!("retained messages with {rule:?}"))?;
    }
    Ok(())
}

async fn receive_maximum(run: &Run) -> Outcome {
    let (topic, fence) = (run.topic("flow"), run.topic("fence"));
    let mut publisher = Peer::plain(run, V5).await?;
    let properties = ConnectProperties { receive_maximum: Some(3), ..ConnectProperties::new() };
    let mut subscriber = Peer::connect(
        run,
        V5,
        Options {
            client_id: run.client_id("slow"),
            manual_acks: true,
            properties: Some(properties),
            ..Options::default()
        },
    )
    .await?;
    subscriber.subscribe(1, &[&topic]).await?;
    subscriber.subscribe(0, &[&fence]).await?;
    let sent: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    publisher.publish_all(&topic, &sent, 1).await?;
    // QoS 0 is not subject to the receive maximum, so the fence overtakes messages that wait.
    publisher.publish(&fence, "fence", 0).await?;
    let unacknowledged = subscriber.receive_until("fence").await?;
    expect_equal(texts(&unacknowledged), &sent[..3], "messages sent without an acknowledgement")?;
    for message in &unacknowledged {
        subscriber.acknowledge(message).await?;
    }
    for want in &sent[3..] {
        let next = subscriber.receive().await?;
        expect_equal(&next.text(), want, "message after the acknowledgements")?;
        subscriber.acknowledge(&next).await?;
    }
    Ok(())
}

fn no_will_properties() -> LastWillProperties {
    LastWillProperties {
        delay_interval: None,
        payload_format_indicator: None,
        message_expiry_interval: None,
        content_type: None,
        response_topic: None,
        correlation_data: None,
        user_properties: Vec::new(),
    }
}

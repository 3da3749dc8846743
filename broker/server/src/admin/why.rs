//! Why a message does or does not reach a client, in words.

use tautwire_contracts::OnViolation;
use tautwire_engine::{
    DeliveryOutcome, HypotheticalPublish, OtherTurns, PublishRefusal, QueryResult, QueueLimit, SlowConsumer, WhyQuery,
};
use tautwire_identity::BanTarget;
use tautwire_protocol::{MAX_PACKET_SIZE_BYTES, QoS, RetainHandling, TopicName};
use tautwire_reactor::counted;
use tautwire_router::DISPATCHES_MAX;
use tautwire_session::split_session_name;

use super::clients::{ClientSelector, drop_event, ok, query_error};
use super::query::bad_request;
use super::response::Response;
use super::routes::RequestContext;
use crate::fields::Fields;
use crate::time::UtcTime;

/// Answers for the client of a session.
pub(super) fn answer(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let ClientSelector { name, mut query } = ClientSelector::from_request(call)?;
    let topic = query.take("topic").ok_or_else(|| bad_request("topic is missing"))?;
    TopicName::new(&topic).map_err(|error| bad_request(&format!("topic: {error}")))?;
    let levels = [("0", QoS::AtMostOnce), ("1", QoS::AtLeastOnce), ("2", QoS::ExactlyOnce)];
    let read = |text: &str| levels.iter().find(|(name, _)| *name == text).map(|(_, qos)| *qos);
    let qos = query.take_as("qos", "0, 1 or 2", read)?.unwrap_or(QoS::AtLeastOnce);
    let truth = |text: &str| text.parse::<bool>().ok();
    let retain = query.take_as("retain", "true or false", truth)?.unwrap_or(false);
    let payload = query.take("payload").map(String::into_bytes);
    let size = format!("a number of bytes up to {MAX_PACKET_SIZE_BYTES}");
    let in_bytes = |text: &str| text.parse::<usize>().ok().filter(|bytes| *bytes <= MAX_PACKET_SIZE_BYTES as usize);
    let payload_bytes = query.take_as("payload_bytes", &size, in_bytes)?;
    let publisher = query.take("publisher");
    query.finish("mount_point, topic, qos, retain, payload, payload_bytes, publisher")?;
    if payload.is_some() && payload_bytes.is_some() {
        return Err(bad_request(
            "payload and payload_bytes are given, but the payload has a length: leave payload_bytes out",
        ));
    }
    let message = HypotheticalPublish {
        topic: topic.into(),
        qos,
        retain,
        is_payload_given: payload.is_some(),
        // Nobody looks at these bytes, so the system need not have them. An empty payload would remove what is retained.
        payload: payload.unwrap_or_else(|| vec![0; payload_bytes.unwrap_or(1)]).into(),
        publisher: publisher.as_deref().map(Box::from),
    };
    let query = WhyQuery { name: name.as_str().into(), message: message.into() };
    let explained = call.admin.control.why(query, call.patience()).map_err(query_error)?;
    let mut outcome = explained.outcome;
    let mut told: Vec<FindingText> = explained.findings.iter().map(words).collect();
    if is_banned(call, &name)? {
        told.push(banned("banned", split_session_name(&name).1));
    }
    if let Some(publisher) = publisher.filter(|publisher| *publisher != name)
        && is_banned(call, &publisher)?
    {
        outcome = DeliveryOutcome::DoesNotArrive;
        told.insert(0, banned("publisher_banned", split_session_name(&publisher).1));
    }
    if call.admin.reloader.node().is_some_and(|node| node.is_draining()) {
        told.push(FindingText {
            code: "draining",
            text: "this node of the cluster is drained: its clients are sent to other nodes, and it takes no new ones"
                .into(),
            change: "ask the other nodes, which `tautwire cluster status` names",
        });
    }
    let findings = told.into_iter().map(|FindingText { code, text, change }| {
        Fields::default().with("code", code).with("text", text).with("change", change)
    });
    let body = Fields::default().with("outcome", outcome.code()).with("findings", findings.collect::<Vec<_>>());
    Ok(ok(body.with("drops", explained.drops.iter().map(drop_event).collect::<Vec<_>>())))
}

/// Whether a ban keeps the client of a session out: one of its identifier, or of the user whose session it is.
fn is_banned(call: &RequestContext<'_, '_>, name: &str) -> Result<bool, Response> {
    let authenticator = call.admin.reloader.authenticator();
    if !authenticator.bans().is_any() {
        return Ok(false);
    }
    let refuses = |who: &BanTarget| authenticator.bans().is_banned(who, authenticator.now());
    if refuses(&BanTarget::ClientId(split_session_name(name).1.into())) {
        return Ok(true);
    }
    let session = call.admin.control.client(name, call.patience()).map_err(query_error)?;
    let user = session.and_then(|session| session.summary.user);
    Ok(user.is_some_and(|user| refuses(&BanTarget::User((*user).into()))))
}

fn banned(code: &'static str, client_id: &str) -> FindingText {
    FindingText {
        code,
        text: format!("the client {client_id:?}, or its user, is banned, so the broker does not let it connect"),
        change: "`tautwire bans list` shows the bans, `tautwire bans delete` removes one",
    }
}

/// A finding in words.
struct FindingText {
    /// Never changes.
    code: &'static str,
    text: String,
    /// Where it can be changed.
    change: &'static str,
}

fn words(finding: &QueryResult) -> FindingText {
    let said = |code, text: String, change| FindingText { code, text, change };
    match finding {
        QueryResult::NoSession => said(
            "no_session",
            "there is no session of that client: it has never connected, or its session has ended".into(),
            "the client connects; with a Session Expiry Interval (5.0) or without Clean Session (3.1.1) its session outlasts the connection",
        ),
        QueryResult::NotServedHere => said(
            "not_served_here",
            "this node of the cluster does not serve the client: another one does, or its session waits for it to come back, or there is none"
                .into(),
            "ask the other nodes, which `tautwire cluster status` names",
        ),
        QueryResult::Refused(refusal) => refused(*refusal),
        QueryResult::PublisherWaits => said(
            "publisher_waits",
            "the queue of a client that receives the message is full, so the broker does not read it from its publisher until there is room"
                .into(),
            "the client acknowledges faster; limits.slow_consumer; `tautwire top` shows the longest queues",
        ),
        QueryResult::NoPublisher => said(
            "publisher_not_connected",
            "the publisher is not connected to this broker, so its access rules and quotas are not known".into(),
            "the publisher connects; name another one, or none",
        ),
        QueryResult::HeldBack => said(
            "held_back",
            "the connections of the client break off too often, so the broker refuses it for a time".into(),
            "two clients may have this identifier; limits.client_breaks, limits.client_hold_s",
        ),
        QueryResult::NotSubscribed(nearest) if nearest.is_empty() => {
            said("not_subscribed", "the client has no subscriptions".into(), "the client subscribes")
        }
        QueryResult::NotSubscribed(nearest) => said(
            "not_subscribed",
            format!("no subscription of the client matches; nearest: {}", nearest.join(", ")),
            "the client's filters; levels are compared letter by letter",
        ),
        QueryResult::NotAllowed => said(
            "not_allowed",
            "the access rules would refuse a subscription to this topic".into(),
            "acl.file; `tautwire acl explain` says which rule decides",
        ),
        QueryResult::Subscribed { filter, record } => said(
            "subscribed",
            format!("the subscription {filter} matches, with QoS {}", record.options.qos.as_u8()),
            "",
        ),
        QueryResult::Shared { filter, qos, members, connected } => said(
            "shared",
            format!(
                "the shared subscription {filter} matches, with QoS {}: each message goes to one of {members} members, \
                 {connected} of them connected",
                qos.as_u8()
            ),
            "a subscription without $share brings every message",
        ),
        QueryResult::SharedQueue { filter, messages, bytes } => said(
            "shared_queue",
            format!(
                "{} ({bytes} bytes) waiting in the queue of {filter}, because no member can take messages: what waits goes first",
                counted(*messages, "message")
            ),
            "members that do not acknowledge; mqtt.shared_ack_timeout_s, limits.shared_queue_bytes",
        ),
        QueryResult::SharedTurns { filter, own, others } => {
            said("shared_turns", describe_turns(filter, *own, others.as_ref()), "")
        }
        QueryResult::NoLocal => said(
            "no_local",
            "what the client itself publishes does not come back to it".into(),
            "No Local of the subscription",
        ),
        QueryResult::QoSReduced(qos) => said(
            "qos_reduced",
            format!("the message is delivered with QoS {}, which was granted", qos.as_u8()),
            "the QoS of the subscription; mqtt.max_qos",
        ),
        QueryResult::OutsideMount(prefix) => {
            said("outside_mount", format!("the client sees only topics below {prefix}"), "mount_point of its listener")
        }
        QueryResult::CannotBecome(format) => said(
            "cannot_become",
            format!("payloads of the topic's contract cannot be had as {}", format.name()),
            "formats of the contract, or the format that the subscription asks for",
        ),
        QueryResult::Offline(None) => said("away", "the client is away; messages wait for it".into(), "the client connects"),
        QueryResult::Offline(Some(at_ms)) => said(
            "away",
            format!(
                "the client is away; messages wait for it until its session ends at {}",
                UtcTime::from_unix(at_ms / 1_000, 0).to_rfc3339()
            ),
            "the client connects; Session Expiry Interval, mqtt.max_session_expiry_s",
        ),
        QueryResult::OfflineAtMostOnce => said(
            "away_qos_0",
            "the client is away, and QoS 0 is not kept for those who are".into(),
            "QoS 1 or 2, for the message and for the subscription",
        ),
        QueryResult::QueueFull { limit, policy } => queue_full(*limit, *policy),
        QueryResult::Behind(count) => {
            said("behind", format!("{count} messages wait before it"), "the client acknowledges faster")
        }
        QueryResult::WindowFull(count) => said(
            "window_full",
            format!("{count} messages are sent and not acknowledged, as many as may be"),
            "Receive Maximum of the client; limits.in_flight_per_client",
        ),
        QueryResult::OutputFull(bytes) => said(
            "output_full",
            format!("the client has not taken {bytes} bytes of output: QoS 0 is dropped, other messages wait"),
            "the client reads faster; limits.connection_output_bytes",
        ),
        QueryResult::OutputBehind { pending_bytes, left_bytes } => said(
            "output_behind",
            format!(
                "the client has not taken {pending_bytes} bytes of output: messages of QoS 0 with more than {left_bytes} bytes are dropped"
            ),
            "the client reads faster; limits.connection_output_bytes",
        ),
        QueryResult::NoMemoryForOutput => said(
            "output_memory_full",
            "there is no memory for more output of QoS 0, so the message is dropped".into(),
            "memory.limit",
        ),
        QueryResult::TooLarge => said(
            "too_large",
            "the message is larger than the client accepts, so it is dropped".into(),
            "Maximum Packet Size of the client",
        ),
        QueryResult::PacketLimit(bytes) => said(
            "packet_limit",
            format!("packets larger than {bytes} bytes are not sent to the client"),
            "Maximum Packet Size of the client",
        ),
        QueryResult::Contract(name, on_violation) => said(
            "contract",
            format!("payloads must keep the contract {name}; {}", consequence(*on_violation)),
            "the contract's on_violation; `tautwire contract test` tries payloads",
        ),
        QueryResult::Retained => {
            said("retained", "a message is retained on this topic: a new subscription gets it".into(), "")
        }
        QueryResult::RetainHandling(handling) => said(
            "retain_handling",
            match handling {
                None => "the retained message does not go to shared subscriptions",
                Some(RetainHandling::SendIfNew) => "the retained message is not sent again when the client subscribes again",
                Some(_) => "the client has asked for no retained messages",
            }
            .into(),
            "Retain Handling of the subscription; a subscription without $share",
        ),
    }
}

/// A queue has no room: by which limit, and what that means for the message.
fn queue_full(limit: QueueLimit, policy: SlowConsumer) -> FindingText {
    let (code, held, change) = match limit {
        QueueLimit::Session => (
            "queue_full",
            "as many messages wait for the client as may",
            "the client acknowledges faster; limits.session_queue_messages, limits.session_queue_bytes, limits.slow_consumer",
        ),
        QueueLimit::Memory => (
            "queue_full_for_memory",
            "the messages that wait for the client take as much memory as one client may hold",
            "the client acknowledges faster; limits.client_bytes, limits.buffered_bytes, limits.slow_consumer",
        ),
        QueueLimit::User => (
            "queue_full_for_user",
            "as many messages wait for all clients of its user as may",
            "limits.user_queue_messages, limits.user_queue_bytes, limits.slow_consumer",
        ),
    };
    let happens = match policy {
        SlowConsumer::DropNew => "new ones are dropped for it",
        SlowConsumer::DropOld => "the oldest is dropped for each new one",
        SlowConsumer::Disconnect => "new ones are dropped for it, and it is disconnected",
        SlowConsumer::Refuse => "new ones are refused, and nobody gets them",
        SlowConsumer::PausePublisher => "publishers of new ones wait",
    };
    FindingText { code, text: format!("{held}: {happens}"), change }
}

/// Why the broker refuses a message.
fn refused(refusal: PublishRefusal) -> FindingText {
    let (text, change) = match refusal {
        PublishRefusal::PacketTooLarge => ("it is larger than the broker accepts", "mqtt.maximum_packet_size"),
        PublishRefusal::QoSNotSupported => ("its QoS is above the maximum", "mqtt.max_qos, or a lower QoS"),
        PublishRefusal::RetainNotSupported => ("retained messages are not available", "mqtt.retain_available"),
        PublishRefusal::TopicTooLong => (
            "the topic is longer, or has more levels, than the broker allows",
            "limits.topic_bytes, limits.topic_levels",
        ),
        PublishRefusal::TopicReserved => ("the topic is the broker's own", "another topic"),
        PublishRefusal::NotAuthorized => (
            "the access rules do not allow the publisher to publish it",
            "acl.file; `tautwire acl explain` says which rule decides",
        ),
        PublishRefusal::ContractBroken => {
            ("the payload breaks the contract of the topic", "the payload; `tautwire contract test` says what is wrong")
        }
        PublishRefusal::NoMemory => (
            "there is no memory for it, or a client that receives it holds more than its share",
            "memory.limit; `tautwire top` shows which clients hold most",
        ),
        PublishRefusal::PayloadTooLarge => ("its payload is larger than the broker accepts", "limits.payload_bytes"),
        PublishRefusal::SessionQueueFull => (
            "the queue of a client that receives it is full, and the publisher is told so",
            "the client acknowledges faster; limits.slow_consumer; `tautwire top` shows the longest queues",
        ),
        PublishRefusal::SharedQueueFull => (
            "no member of a shared subscription can take it, and the queue of the group is full",
            "members that acknowledge; mqtt.shared_ack_timeout_s, limits.shared_queue_bytes",
        ),
        PublishRefusal::DiskFull => (
            "the disk is full, or the log has as much as it may, so nothing that must be kept is accepted",
            "free space on the disk of data.path, or raise disk.limit",
        ),
        PublishRefusal::DiskFailed => (
            "the disk has failed, so nothing that must be kept is accepted until the broker is restarted",
            "the disk; the log of the broker says what failed",
        ),
        PublishRefusal::RetainedFull => (
            "as many retained messages, or bytes, as the limits allow are there",
            "limits.retained_messages, limits.retained_bytes",
        ),
        PublishRefusal::RetainedQuota => (
            "the publisher, or its user, has as many retained messages, or bytes, as its quota allows",
            "limits.retained_messages_per_client, limits.retained_bytes_per_client, limits.user_retained_messages, limits.user_retained_bytes",
        ),
    };
    FindingText { code: refusal.code(), text: format!("the broker refuses the message: {text}"), change }
}

/// For whom the last messages of a group were.
fn describe_turns(filter: &str, own: Option<(usize, u64)>, others: Option<&OtherTurns>) -> String {
    let at = |ms: u64| UtcTime::from_unix(ms / 1_000, 0).to_rfc3339();
    let own = own.map(|(count, last_ms)| format!("{count} for this client, the last at {}", at(last_ms)));
    let others = others.map(|OtherTurns { count, last_ms, name, .. }| {
        let who = match name.as_deref().map(split_session_name) {
            None => String::new(),
            Some((None, client_id)) => format!(" for {client_id}"),
            Some((Some(mount_point), client_id)) => format!(" for {client_id} behind {mount_point}"),
        };
        format!("{count} for other members, the last{who} at {}", at(*last_ms))
    });
    match [own, others].into_iter().flatten().reduce(|own, others| format!("{own}; {others}")) {
        Some(told) => format!("the last messages of {filter} on this topic: {told}"),
        None => format!("none of the last {DISPATCHES_MAX} messages of {filter} was on this topic"),
    }
}

fn consequence(on_violation: OnViolation) -> &'static str {
    match on_violation {
        OnViolation::Observe => "those that do not are counted and delivered",
        OnViolation::Reject => "those that do not are refused",
        OnViolation::Quarantine => "those that do not go to $quarantine/TOPIC instead",
        OnViolation::Disconnect => "whoever publishes one that does not is disconnected",
    }
}

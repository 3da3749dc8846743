//! Explains why a message does or does not reach a client.

use tautwire_contracts::OnViolation;
use tautwire_engine::{
    DeliveryOutcome, HypotheticalPublish, OtherDispatches, PublishRefusal, QueryResult, QueueLimit, SlowConsumer,
    WhyQuery,
};
use tautwire_identity::BanTarget;
use tautwire_protocol::{MAX_PACKET_SIZE_BYTES, QoS, RetainHandling, TopicName};
use tautwire_reactor::counted;
use tautwire_router::DISPATCHES_MAX;
use tautwire_session::split_session_name;

use super::clients::{ClientSelector, drop_event};
use super::query::bad_request;
use super::request_context::RequestContext;
use super::response::{Response, ok};
use crate::bridges::{BridgePlan, BridgeStatus};
use crate::fields::Fields;
use crate::time::UtcTime;

/// Explains the delivery of a hypothetical message to the client of a session.
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
            "payload and payload_bytes are both given: remove payload_bytes, since the payload has its own length",
        ));
    }
    let message = HypotheticalPublish {
        topic: topic.into(),
        qos,
        retain,
        is_payload_given: payload.is_some(),
        // The content of these bytes is never used, so they can stay untouched zero pages. An empty payload would delete a retained
        // message.
        payload: payload.unwrap_or_else(|| vec![0; payload_bytes.unwrap_or(1)]).into(),
        publisher: publisher.as_deref().map(Box::from),
    };
    let query = WhyQuery { name: name.as_str().into(), message: message.into() };
    let explained = call.admin.control.why(query, call.query_deadline())?;
    let mut outcome = explained.outcome;
    let mut findings: Vec<FindingText> = explained.findings.iter().map(describe).collect();
    if is_banned(call, &name)? {
        findings.push(banned("banned", split_session_name(&name).1));
    }
    if let Some(publisher) = publisher.filter(|publisher| *publisher != name)
        && is_banned(call, &publisher)?
    {
        outcome = DeliveryOutcome::DoesNotArrive;
        findings.insert(0, banned("publisher_banned", split_session_name(&publisher).1));
    }
    if let Some((plan, status)) = call.admin.reloader.bridges().find_by_session(&name) {
        findings.push(bridge(&plan, &status));
    }
    if call.admin.reloader.node().is_some_and(|node| node.is_draining()) {
        findings.push(FindingText {
            code: "draining",
            text:
                "this node of the cluster is draining: its clients are sent to other nodes, and it accepts no new ones"
                    .into(),
            remedy: "ask the other nodes; `tautwire cluster status` lists them",
        });
    }
    let findings = findings.into_iter().map(|FindingText { code, text, remedy }| {
        Fields::default().with("code", code).with("text", text).with("remedy", remedy)
    });
    let body = Fields::default().with("outcome", outcome.code()).with("findings", findings.collect::<Vec<_>>());
    Ok(ok(body.with("drops", explained.drops.iter().map(drop_event).collect::<Vec<_>>())))
}

/// Whether a ban applies to the client of a session, by its identifier or by its user.
fn is_banned(call: &RequestContext<'_, '_>, name: &str) -> Result<bool, Response> {
    let authenticator = call.admin.reloader.authenticator();
    if !authenticator.bans().is_any() {
        return Ok(false);
    }
    let refuses = |who: &BanTarget| authenticator.bans().is_banned(who, authenticator.now());
    if refuses(&BanTarget::ClientId(split_session_name(name).1.into())) {
        return Ok(true);
    }
    let session = call.admin.control.client(name, call.query_deadline())?;
    let user = session.and_then(|session| session.summary.user);
    Ok(user.is_some_and(|user| refuses(&BanTarget::User((*user).into()))))
}

fn banned(code: &'static str, client_id: &str) -> FindingText {
    FindingText {
        code,
        text: format!("the client {client_id:?} or its user is banned, so the broker refuses its connections"),
        remedy: "`tautwire bans list` shows the bans, `tautwire bans delete` removes one",
    }
}

/// The message goes on to another broker, which is beyond what this one can explain.
fn bridge(plan: &BridgePlan, status: &BridgeStatus) -> FindingText {
    let address = status.address.as_deref().or_else(|| plan.servers.first().map(|server| server.address.as_str()));
    let (state, address) = (status.state.name(), address.unwrap_or_default());
    let error = status.error.as_ref().map(|(_, message)| format!(": {message}")).unwrap_or_default();
    FindingText {
        code: "bridge",
        text: format!("the client is the bridge {:?} to {address}, which is {state}{error}", &*plan.name),
        remedy: "`tautwire bridges show` lists its rules and counters, `tautwire bridges test` tries its addresses; the other broker knows what happens there",
    }
}

/// A finding as text.
struct FindingText {
    /// Stable identifier of the finding.
    code: &'static str,
    text: String,
    /// Settings or actions that change it.
    remedy: &'static str,
}

fn describe(finding: &QueryResult) -> FindingText {
    let finding_text = |code, text: String, remedy| FindingText { code, text, remedy };
    match finding {
        QueryResult::NoSession => finding_text(
            "no_session",
            "there is no session of that client: it has never connected, or its session has ended".into(),
            "the client must connect; with a Session Expiry Interval (5.0) or without Clean Session (3.1.1) its session outlasts the connection",
        ),
        QueryResult::NotServedHere => finding_text(
            "other_node",
            "this node of the cluster does not serve the client: another node does, or its session is dormant until it reconnects, or it has none"
                .into(),
            "ask the other nodes; `tautwire cluster status` lists them",
        ),
        QueryResult::Refused(refusal) => describe_refusal(*refusal),
        QueryResult::PublisherPaused => finding_text(
            "publisher_paused",
            "the queue of a receiving client is full, so the broker pauses reading from the publisher until there is room"
                .into(),
            "the client must acknowledge faster; limits.slow_consumer; `tautwire top` shows the longest queues",
        ),
        QueryResult::NoPublisher => finding_text(
            "publisher_not_connected",
            "the publisher is not connected to this broker, so its access rules and quotas are not known".into(),
            "connect the publisher, or give another publisher or none",
        ),
        QueryResult::BlockedForFlapping => finding_text(
            "flapping_blocked",
            "the client's connections are lost too often, so the broker refuses it for a while".into(),
            "two clients may have this identifier; limits.flapping_disconnects, limits.flapping_block_s",
        ),
        QueryResult::NotSubscribed(nearest) if nearest.is_empty() => {
            finding_text("not_subscribed", "the client has no subscriptions".into(), "the client must subscribe")
        }
        QueryResult::NotSubscribed(nearest) => finding_text(
            "not_subscribed",
            format!("no subscription of the client matches; nearest: {}", nearest.join(", ")),
            "the client's filters; topic levels are case-sensitive",
        ),
        QueryResult::NotAllowed => finding_text(
            "not_allowed",
            "the access rules would refuse a subscription to this topic".into(),
            "acl.file; `tautwire acl explain` says which rule decides",
        ),
        QueryResult::Subscribed { filter, record } => finding_text(
            "subscribed",
            format!("the subscription {filter} matches, with QoS {}", record.options.qos.as_u8()),
            "",
        ),
        QueryResult::Shared { filter, qos, members, connected } => finding_text(
            "shared",
            format!(
                "the shared subscription {filter} matches, with QoS {}: each message goes to one of {members} members, \
                 {connected} of them connected",
                qos.as_u8()
            ),
            "a subscription without $share receives every message",
        ),
        QueryResult::SharedQueue { filter, messages, bytes } => finding_text(
            "shared_queue",
            format!(
                "{} ({bytes} bytes) queued for {filter}, because no member can take messages; queued messages are delivered first",
                counted(*messages, "message")
            ),
            "members that do not acknowledge; mqtt.shared_ack_timeout_s, limits.shared_queue_bytes",
        ),
        QueryResult::SharedDispatches { filter, own, others } => {
            finding_text("shared_selection", describe_turns(filter, *own, others.as_ref()), "")
        }
        QueryResult::NoLocal => finding_text(
            "no_local",
            "the client does not receive its own messages".into(),
            "No Local of the subscription",
        ),
        QueryResult::QoSReduced(qos) => finding_text(
            "qos_reduced",
            format!("the message is delivered with QoS {}, the granted maximum", qos.as_u8()),
            "the QoS of the subscription; mqtt.max_qos",
        ),
        QueryResult::OutsideMount(prefix) => {
            finding_text("outside_mount", format!("the client sees only topics below {prefix}"), "mount_point of its listener")
        }
        QueryResult::CannotTranscode(format) => finding_text(
            "not_transcodable",
            format!("payloads of the topic's contract cannot be converted to {}", format.name()),
            "formats of the contract, or the format that the subscription asks for",
        ),
        QueryResult::Offline(None) => finding_text("offline", "the client is offline; messages are queued for it".into(), "the client must connect"),
        QueryResult::Offline(Some(at_ms)) => finding_text(
            "offline",
            format!(
                "the client is offline; messages are queued for it until its session ends at {}",
                UtcTime::from_unix(at_ms / 1_000, 0).to_rfc3339()
            ),
            "the client must connect; Session Expiry Interval, mqtt.max_session_expiry_s",
        ),
        QueryResult::OfflineAtMostOnce => finding_text(
            "offline_qos_0",
            "the client is offline, and QoS 0 messages are not queued for offline clients".into(),
            "QoS 1 or 2, for the message and for the subscription",
        ),
        QueryResult::QueueFull { limit, policy } => queue_full(*limit, *policy),
        QueryResult::Behind(count) => {
            finding_text("queued_messages", format!("{} queued before it", counted(*count, "message")), "the client must acknowledge faster")
        }
        QueryResult::WindowFull(count) => finding_text(
            "in_flight_full",
            format!("{count} messages are in flight, which is the limit"),
            "Receive Maximum of the client; limits.in_flight_per_client",
        ),
        QueryResult::OutputFull(bytes) => finding_text(
            "output_full",
            format!("{bytes} bytes of output are not read by the client: QoS 0 is dropped, other messages wait"),
            "the client must read faster; limits.connection_output_bytes",
        ),
        QueryResult::OutputPending { pending_bytes, left_bytes } => finding_text(
            "output_nearly_full",
            format!(
                "{pending_bytes} bytes of output are not read by the client: QoS 0 messages of more than {left_bytes} bytes are dropped"
            ),
            "the client must read faster; limits.connection_output_bytes",
        ),
        QueryResult::NoMemoryForOutput => finding_text(
            "output_memory_full",
            "the memory for QoS 0 output is exhausted, so the message is dropped".into(),
            "memory.limit",
        ),
        QueryResult::TooLarge => finding_text(
            "too_large",
            "the message is larger than the client accepts, so it is dropped".into(),
            "Maximum Packet Size of the client",
        ),
        QueryResult::PacketLimit(bytes) => finding_text(
            "packet_limit",
            format!("packets larger than {bytes} bytes are not sent to the client"),
            "Maximum Packet Size of the client",
        ),
        QueryResult::Contract(name, on_violation) => finding_text(
            "contract",
            format!("payloads must conform to the contract {name}; {}", consequence(*on_violation)),
            "the contract's on_violation; `tautwire contract test` checks payloads",
        ),
        QueryResult::Retained => {
            finding_text("retained", "a message is retained on this topic; a new subscription receives it".into(), "")
        }
        QueryResult::RetainHandling(handling) => finding_text(
            "retain_handling",
            match handling {
                None => "retained messages are not sent to shared subscriptions",
                Some(RetainHandling::SendIfNew) => "the retained message is not sent again when the client subscribes again",
                Some(_) => "the client has requested no retained messages",
            }
            .into(),
            "Retain Handling of the subscription; a subscription without $share",
        ),
    }
}

/// The queue is full: which limit, and the consequence for the message.
fn queue_full(limit: QueueLimit, policy: SlowConsumer) -> FindingText {
    let (code, cause, remedy) = match limit {
        QueueLimit::Session => (
            "queue_full",
            "the client's queue is full",
            "the client must acknowledge faster; limits.session_queue_messages, limits.session_queue_bytes, limits.slow_consumer",
        ),
        QueueLimit::Memory => (
            "queue_full_for_memory",
            "the messages queued for the client have reached the memory limit of one client",
            "the client must acknowledge faster; limits.memory_bytes_per_client, limits.memory_bytes, limits.slow_consumer",
        ),
        QueueLimit::User => (
            "queue_full_for_user",
            "the queues of all clients of its user have reached their common limit",
            "limits.user_queue_messages, limits.user_queue_bytes, limits.slow_consumer",
        ),
    };
    let consequence = match policy {
        SlowConsumer::DropNew => "new messages are dropped for it",
        SlowConsumer::DropOld => "the oldest message is dropped for each new one",
        SlowConsumer::Disconnect => "new messages are dropped for it, and it is disconnected",
        SlowConsumer::Refuse => "new messages are refused for all receivers",
        SlowConsumer::PausePublisher => "publishers of new messages are paused",
    };
    FindingText { code, text: format!("{cause}: {consequence}"), remedy }
}

/// Explains why the broker refuses a message.
fn describe_refusal(refusal: PublishRefusal) -> FindingText {
    let (text, remedy) = match refusal {
        PublishRefusal::PacketTooLarge => ("it exceeds the maximum packet size", "mqtt.maximum_packet_size"),
        PublishRefusal::QoSNotSupported => ("its QoS is above the maximum", "mqtt.max_qos, or a lower QoS"),
        PublishRefusal::RetainNotSupported => ("retained messages are not available", "mqtt.retain_available"),
        PublishRefusal::TopicTooLong => (
            "the topic is longer, or has more levels, than the broker allows",
            "limits.topic_bytes, limits.topic_levels",
        ),
        PublishRefusal::TopicReserved => ("the topic is reserved for the broker", "another topic"),
        PublishRefusal::NotAuthorized => (
            "the access rules do not allow the publisher to publish it",
            "acl.file; `tautwire acl explain` says which rule decides",
        ),
        PublishRefusal::ContractViolation => {
            ("the payload violates the contract of the topic", "the payload; `tautwire contract test` shows the error")
        }
        PublishRefusal::NoMemory => (
            "memory is exhausted, or a receiving client holds more than its share",
            "memory.limit; `tautwire top` shows which clients use the most memory",
        ),
        PublishRefusal::PayloadTooLarge => ("its payload exceeds the limit", "limits.payload_bytes"),
        PublishRefusal::SessionQueueFull => (
            "the queue of a receiving client is full, and the publisher is notified",
            "the client must acknowledge faster; limits.slow_consumer; `tautwire top` shows the longest queues",
        ),
        PublishRefusal::SharedQueueFull => (
            "no member of a shared subscription can take it, and the group's queue is full",
            "members that acknowledge; mqtt.shared_ack_timeout_s, limits.shared_queue_bytes",
        ),
        PublishRefusal::DiskFull => (
            "the disk is full or the log has reached its limit, so no persistent message is accepted",
            "free space on the disk of data.path, or raise disk.limit",
        ),
        PublishRefusal::DiskFailed => (
            "the disk has failed, so no persistent message is accepted until the broker is restarted",
            "the disk; the broker's log has the error",
        ),
        PublishRefusal::RetainedFull => {
            ("the limit of retained messages or bytes is reached", "limits.retained_messages, limits.retained_bytes")
        }
        PublishRefusal::RetainedQuota => (
            "the publisher or its user has reached its quota of retained messages or bytes",
            "limits.retained_messages_per_client, limits.retained_bytes_per_client, limits.user_retained_messages, limits.user_retained_bytes",
        ),
    };
    FindingText { code: refusal.code(), text: format!("the broker refuses the message: {text}"), remedy }
}

/// Which members the last messages of a group went to.
fn describe_turns(filter: &str, own: Option<(usize, u64)>, others: Option<&OtherDispatches>) -> String {
    let at = |ms: u64| UtcTime::from_unix(ms / 1_000, 0).to_rfc3339();
    let own = own.map(|(count, last_ms)| format!("{count} for this client, the last at {}", at(last_ms)));
    let others = others.map(|OtherDispatches { count, last_ms, name, .. }| {
        let who = match name.as_deref().map(split_session_name) {
            None => String::new(),
            Some((None, client_id)) => format!(" for {client_id}"),
            Some((Some(mount_point), client_id)) => format!(" for {client_id} behind {mount_point}"),
        };
        format!("{count} for other members, the last{who} at {}", at(*last_ms))
    });
    match [own, others].into_iter().flatten().reduce(|own, others| format!("{own}; {others}")) {
        Some(turns) => format!("the last messages of {filter} on this topic: {turns}"),
        None => format!("none of the last {DISPATCHES_MAX} messages of {filter} were on this topic"),
    }
}

fn consequence(on_violation: OnViolation) -> &'static str {
    match on_violation {
        OnViolation::Observe => "violations are counted and delivered",
        OnViolation::Reject => "violations are refused",
        OnViolation::Quarantine => "violations are published to $quarantine/TOPIC instead",
        OnViolation::Disconnect => "the publisher of a violation is disconnected",
    }
}

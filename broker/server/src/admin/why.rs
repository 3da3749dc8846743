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
use super::query::{Query, bad_request};
use super::request_context::RequestContext;
use super::response::{Response, ok};
use crate::bridges::{BridgePlan, BridgeStatus};
use crate::fields::Fields;
use crate::time::UtcTime;

/// Explains the delivery of a hypothetical message to the client of a session.
pub(super) fn answer(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let ClientSelector { name, query } = ClientSelector::from_request(call)?;
    let message = read_message(query)?;
    let publisher = message.publisher.clone();
    let query = WhyQuery { name: name.as_str().into(), message: message.into() };
    let explained = call.admin.control.why(query, call.query_deadline())?;
    let mut outcome = explained.outcome;
    let mut findings: Vec<FindingText> = explained.findings.iter().map(describe).collect();
    if is_banned(call, &name)? {
        findings.push(banned("banned", split_session_name(&name).1));
    }
    if let Some(publisher) = publisher.filter(|publisher| **publisher != *name)
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

/// Reads the hypothetical message from the rest of a query string.
fn read_message(mut query: Query) -> Result<HypotheticalPublish, Response> {
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
    let publisher = query.take("publisher").map(String::into_boxed_str);
    query.finish("mount_point, topic, qos, retain, payload, payload_bytes, publisher")?;
    if payload.is_some() && payload_bytes.is_some() {
        return Err(bad_request(
            "payload and payload_bytes are both given: remove payload_bytes, since the payload has its own length",
        ));
    }
    Ok(HypotheticalPublish {
        topic: topic.into(),
        qos,
        retain,
        is_payload_given: payload.is_some(),
        // The content of these bytes is never used, so they can stay untouched zero pages. An empty payload would delete a retained
        // message.
        payload: payload.unwrap_or_else(|| vec![0; payload_bytes.unwrap_or(1)]).into(),
        publisher,
    })
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
    let (code, remedy) = code_and_remedy(finding);
    FindingText { code, text: text_of(finding), remedy }
}

#[rustfmt::skip]
fn code_and_remedy(finding: &QueryResult) -> (&'static str, &'static str) {
    match finding {
        QueryResult::NoSession => (
            "no_session",
            "the client must connect; with a Session Expiry Interval (5.0) or without Clean Session (3.1.1) its session outlasts the connection",
        ),
        QueryResult::NotServedHere => ("other_node", "ask the other nodes; `tautwire cluster status` lists them"),
        QueryResult::Refused(refusal) => (refusal.code(), describe_refusal(*refusal).1),
        QueryResult::PublisherPaused => {
            ("publisher_paused", "the client must acknowledge faster; limits.slow_consumer; `tautwire top` shows the longest queues")
        }
        QueryResult::NoPublisher => ("publisher_not_connected", "connect the publisher, or give another publisher or none"),
        QueryResult::BlockedForFlapping => {
            ("flapping_blocked", "two clients may have this identifier; limits.flapping_disconnects, limits.flapping_block_s")
        }
        QueryResult::NotSubscribed(nearest) if nearest.is_empty() => ("not_subscribed", "the client must subscribe"),
        QueryResult::NotSubscribed(_) => ("not_subscribed", "the client's filters; topic levels are case-sensitive"),
        QueryResult::NotAllowed => ("not_allowed", "acl.file; `tautwire acl explain` says which rule decides"),
        QueryResult::Subscribed { .. } => ("subscribed", ""),
        QueryResult::Shared { .. } => ("shared", "a subscription without $share receives every message"),
        QueryResult::SharedQueue { .. } => {
            ("shared_queue", "members that do not acknowledge; mqtt.shared_ack_timeout_s, limits.shared_queue_bytes")
        }
        QueryResult::SharedDispatches { .. } => ("shared_selection", ""),
        QueryResult::NoLocal => ("no_local", "No Local of the subscription"),
        QueryResult::QoSReduced(_) => ("qos_reduced", "the QoS of the subscription; mqtt.max_qos"),
        QueryResult::OutsideMount(_) => ("outside_mount", "mount_point of its listener"),
        QueryResult::CannotTranscode(_) => {
            ("not_transcodable", "formats of the contract, or the format that the subscription asks for")
        }
        QueryResult::Offline(None) => ("offline", "the client must connect"),
        QueryResult::Offline(Some(_)) => ("offline", "the client must connect; Session Expiry Interval, mqtt.max_session_expiry_s"),
        QueryResult::OfflineAtMostOnce => ("offline_qos_0", "QoS 1 or 2, for the message and for the subscription"),
        QueryResult::QueueFull { limit, .. } => describe_queue_limit(*limit).0,
        QueryResult::Behind(_) => ("queued_messages", "the client must acknowledge faster"),
        QueryResult::WindowFull(_) => ("in_flight_full", "Receive Maximum of the client; limits.in_flight_per_client"),
        QueryResult::OutputFull(_) => ("output_full", "the client must read faster; limits.connection_output_bytes"),
        QueryResult::OutputPending { .. } => ("output_nearly_full", "the client must read faster; limits.connection_output_bytes"),
        QueryResult::NoMemoryForOutput => ("output_memory_full", "memory.limit"),
        QueryResult::TooLarge => ("too_large", "Maximum Packet Size of the client"),
        QueryResult::PacketLimit(_) => ("packet_limit", "Maximum Packet Size of the client"),
        QueryResult::Contract(..) => ("contract", "the contract's on_violation; `tautwire contract test` checks payloads"),
        QueryResult::Retained => ("retained", ""),
        QueryResult::RetainHandling(_) => ("retain_handling", "Retain Handling of the subscription; a subscription without $share"),
    }
}

#[rustfmt::skip]
fn text_of(finding: &QueryResult) -> String {
    match finding {
        QueryResult::NoSession => "there is no session of that client: it has never connected, or its session has ended".into(),
        QueryResult::NotServedHere => {
            "this node of the cluster does not serve the client: another node does, or its session is dormant until it reconnects, or it has none"
                .into()
        }
        QueryResult::Refused(refusal) => format!("the broker refuses the message: {}", describe_refusal(*refusal).0),
        QueryResult::PublisherPaused => {
            "the queue of a receiving client is full, so the broker pauses reading from the publisher until there is room".into()
        }
        QueryResult::NoPublisher => {
            "the publisher is not connected to this broker, so its access rules and quotas are not known".into()
        }
        QueryResult::BlockedForFlapping => "the client's connections are lost too often, so the broker refuses it for a while".into(),
        QueryResult::NotSubscribed(nearest) if nearest.is_empty() => "the client has no subscriptions".into(),
        QueryResult::NotSubscribed(nearest) => format!("no subscription of the client matches; nearest: {}", nearest.join(", ")),
        QueryResult::NotAllowed => "the access rules would refuse a subscription to this topic".into(),
        QueryResult::Subscribed { filter, record } => {
            format!("the subscription {filter} matches, with QoS {}", record.options.qos.as_u8())
        }
        QueryResult::Shared { filter, qos, members, connected } => format!(
            "the shared subscription {filter} matches, with QoS {}: each message goes to one of {members} members, {connected} of them connected",
            qos.as_u8()
        ),
        QueryResult::SharedQueue { filter, messages, bytes } => format!(
            "{} ({bytes} bytes) queued for {filter}, because no member can take messages; queued messages are delivered first",
            counted(*messages, "message")
        ),
        QueryResult::SharedDispatches { filter, own, others } => describe_turns(filter, *own, others.as_ref()),
        QueryResult::NoLocal => "the client does not receive its own messages".into(),
        QueryResult::QoSReduced(qos) => format!("the message is delivered with QoS {}, the granted maximum", qos.as_u8()),
        QueryResult::OutsideMount(prefix) => format!("the client sees only topics below {prefix}"),
        QueryResult::CannotTranscode(format) => {
            format!("payloads of the topic's contract cannot be converted to {}", format.name())
        }
        QueryResult::Offline(None) => "the client is offline; messages are queued for it".into(),
        QueryResult::Offline(Some(at_ms)) => {
            format!("the client is offline; messages are queued for it until its session ends at {}", rfc3339(*at_ms))
        }
        QueryResult::OfflineAtMostOnce => "the client is offline, and QoS 0 messages are not queued for offline clients".into(),
        QueryResult::QueueFull { limit, policy } => {
            format!("{}: {}", describe_queue_limit(*limit).1, slow_consumer_consequence(*policy))
        }
        QueryResult::Behind(count) => format!("{} queued before it", counted(*count, "message")),
        QueryResult::WindowFull(count) => format!("{count} messages are in flight, which is the limit"),
        QueryResult::OutputFull(bytes) => {
            format!("{bytes} bytes of output are not read by the client: QoS 0 is dropped, other messages wait")
        }
        QueryResult::OutputPending { pending_bytes, left_bytes } => format!(
            "{pending_bytes} bytes of output are not read by the client: QoS 0 messages of more than {left_bytes} bytes are dropped"
        ),
        QueryResult::NoMemoryForOutput => "the memory for QoS 0 output is exhausted, so the message is dropped".into(),
        QueryResult::TooLarge => "the message is larger than the client accepts, so it is dropped".into(),
        QueryResult::PacketLimit(bytes) => format!("packets larger than {bytes} bytes are not sent to the client"),
        QueryResult::Contract(name, on_violation) => {
            format!("payloads must conform to the contract {name}; {}", violation_consequence(*on_violation))
        }
        QueryResult::Retained => "a message is retained on this topic; a new subscription receives it".into(),
        QueryResult::RetainHandling(handling) => retain_handling(*handling).into(),
    }
}

fn retain_handling(handling: Option<RetainHandling>) -> &'static str {
    match handling {
        None => "retained messages are not sent to shared subscriptions",
        Some(RetainHandling::SendIfNew) => "the retained message is not sent again when the client subscribes again",
        Some(_) => "the client has requested no retained messages",
    }
}

/// The code, the remedy and the text of a limit that is reached.
fn describe_queue_limit(limit: QueueLimit) -> ((&'static str, &'static str), &'static str) {
    match limit {
        QueueLimit::Session => (
            (
                "queue_full",
                "the client must acknowledge faster; limits.session_queue_messages, limits.session_queue_bytes, limits.slow_consumer",
            ),
            "the client's queue is full",
        ),
        QueueLimit::Memory => (
            (
                "queue_full_for_memory",
                "the client must acknowledge faster; limits.memory_bytes_per_client, limits.memory_bytes, limits.slow_consumer",
            ),
            "the messages queued for the client have reached the memory limit of one client",
        ),
        QueueLimit::User => (
            ("queue_full_for_user", "limits.user_queue_messages, limits.user_queue_bytes, limits.slow_consumer"),
            "the queues of all clients of its user have reached their common limit",
        ),
    }
}

fn slow_consumer_consequence(policy: SlowConsumer) -> &'static str {
    match policy {
        SlowConsumer::DropNew => "new messages are dropped for it",
        SlowConsumer::DropOld => "the oldest message is dropped for each new one",
        SlowConsumer::Disconnect => "new messages are dropped for it, and it is disconnected",
        SlowConsumer::Refuse => "new messages are refused for all receivers",
        SlowConsumer::PausePublisher => "publishers of new messages are paused",
    }
}

/// Why the broker refuses a message, and the remedy.
fn describe_refusal(refusal: PublishRefusal) -> (&'static str, &'static str) {
    match refusal {
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
    }
}

/// Which members the last messages of a group went to.
fn describe_turns(filter: &str, own: Option<(usize, u64)>, others: Option<&OtherDispatches>) -> String {
    let own = own.map(|(count, last_ms)| format!("{count} for this client, the last at {}", rfc3339(last_ms)));
    let others = others.map(|OtherDispatches { count, last_ms, name, .. }| {
        let who = match name.as_deref().map(split_session_name) {
            None => String::new(),
            Some((None, client_id)) => format!(" for {client_id}"),
            Some((Some(mount_point), client_id)) => format!(" for {client_id} behind {mount_point}"),
        };
        format!("{count} for other members, the last{who} at {}", rfc3339(*last_ms))
    });
    match [own, others].into_iter().flatten().reduce(|own, others| format!("{own}; {others}")) {
        Some(turns) => format!("the last messages of {filter} on this topic: {turns}"),
        None => format!("none of the last {DISPATCHES_MAX} messages of {filter} were on this topic"),
    }
}

fn violation_consequence(on_violation: OnViolation) -> &'static str {
    match on_violation {
        OnViolation::Observe => "violations are counted and delivered",
        OnViolation::Reject => "violations are refused",
        OnViolation::Quarantine => "violations are published to $quarantine/TOPIC instead",
        OnViolation::Disconnect => "the publisher of a violation is disconnected",
    }
}

fn rfc3339(at_ms: u64) -> String {
    UtcTime::from_unix(at_ms / 1_000, 0).to_rfc3339()
}

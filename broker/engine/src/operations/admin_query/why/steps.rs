//! Steps of [`super`] that need several states of a shard.

use tautwire_message::MessageRef;
use tautwire_protocol::{QoS, RetainHandling, SubscriptionId, TopicFilter, topic_matches};
use tautwire_router::{Dispatch, SessionKey, ShareGroup};
use tautwire_session::{Outbound, PendingMessage, SubscriptionIds, SubscriptionRecord, split_session_name};

use super::{
    DeliveryOutcome, Explanation, OtherDispatches, QueryResult, SubscriptionScan, WhyQuery, insert_nearest, similarity,
};
use crate::connection::mount::MountPoint;
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::operations::refusal::HypotheticalPublish;
use crate::routing::transcoding;
use crate::scheduling::work_budget::JOB_SLICE_STEPS;
use crate::session::queue_capacity::SMALLEST_BYTES;
use crate::session::slow_consumer::SlowConsumer;
use crate::shard::Shard;
use crate::shard::ShardState;

/// The maximum number of matching subscriptions that are reported.
const MATCHING_MAX: usize = 16;

impl SubscriptionScan {
    pub(crate) fn new(query: WhyQuery) -> SubscriptionScan {
        SubscriptionScan { query, after: "".into(), is_done: false, matching: Vec::new(), nearest: Vec::new() }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Scans more subscriptions; returns how many.
    pub(crate) fn advance<M: Mode>(&mut self, state: &ShardState<M>) -> usize {
        let mut steps = 0;
        let mut last = None;
        if let Some(session) = state.sessions.find_client_session(&self.query.name) {
            for (filter, record) in state.sessions[session].subscriptions().after(&self.after).take(JOB_SLICE_STEPS) {
                steps += 1;
                last = Some(filter);
                let Some(matched) = topic_filter_of(filter, &record) else { continue };
                if !topic_matches(matched, &self.query.message.topic) {
                    insert_nearest(&mut self.nearest, similarity(matched, &self.query.message.topic), filter);
                } else if self.matching.len() < MATCHING_MAX {
                    self.matching.push((filter.into(), record));
                }
            }
        }
        self.is_done = steps < JOB_SLICE_STEPS;
        if let Some(last) = last {
            self.after = last.into();
        }
        steps.max(1)
    }

    pub(crate) fn explain<M: Mode>(self, shard: &Shard<M>) -> Explanation {
        let state = &shard.state;
        let Some(session) = state.sessions.find_client_session(&self.query.name) else {
            let (outcome, finding) = match M::HAS_OTHER_NODES {
                true => (DeliveryOutcome::Elsewhere, QueryResult::NotServedHere),
                false => (DeliveryOutcome::DoesNotArrive, QueryResult::NoSession),
            };
            let mut findings = vec![finding];
            findings.extend(state.is_blocked_for_flapping(&self.query.name).then_some(QueryResult::BlockedForFlapping));
            return Explanation { outcome, findings, drops: Vec::new() };
        };
        let drops = state.sessions.drops(session).map(|drops| drops.events().cloned().collect()).unwrap_or_default();
        let mut findings = Vec::new();
        let outcome = self.outcome(shard, session, &mut findings);
        if let Some(contract) = state.config.contracts().find(&self.query.message.topic) {
            findings.push(QueryResult::Contract(contract.name().into(), contract.on_violation()));
        }
        if state.context.exchange().retained_message(&self.query.message.topic).is_some() {
            findings.push(QueryResult::Retained);
            findings.extend(self.retain_handling().map(QueryResult::RetainHandling));
        }
        Explanation { outcome, findings, drops }
    }

    /// The Retain Handling of matching subscriptions that do not always get a retained message; `None` if one does, or none matches.
    fn retain_handling(&self) -> Option<Option<RetainHandling>> {
        let own = self.matching.iter().filter(|(filter, _)| !filter.starts_with("$share/"));
        match own.map(|(_, record)| record.options.retain_handling).min_by_key(|handling| *handling as u8) {
            Some(RetainHandling::SendAtSubscribe) => None,
            // [MQTT-3.3.1-10], [MQTT-3.3.1-11]
            Some(handling) => Some(Some(handling)),
            None => (!self.matching.is_empty()).then_some(None),
        }
    }

    fn outcome<M: Mode>(
        &self,
        shard: &Shard<M>,
        session: SessionIndex,
        findings: &mut Vec<QueryResult>,
    ) -> DeliveryOutcome {
        let state = &shard.state;
        let HypotheticalPublish { topic, qos, .. } = &*self.query.message;
        let (mount_point, client_id) = split_session_name(state.sessions[session].name());
        // `#` after a mount point also matches the level above, and nothing there begins with `$`.
        let is_outside = |prefix: &&str| MountPoint::new(prefix).is_none_or(|mount| mount.rest(topic).is_none());
        if let Some(prefix) = mount_point.filter(is_outside) {
            findings.push(QueryResult::OutsideMount(prefix.into()));
            return DeliveryOutcome::DoesNotArrive;
        }
        if self.matching.is_empty() {
            findings.push(QueryResult::NotSubscribed(self.nearest.iter().map(|(_, filter)| filter.clone()).collect()));
            if let (Some(index), Ok(filter)) = (state.sessions.connection(session), TopicFilter::new(topic))
                && let Some(permissions) = state.permissions_of(index, client_id)
                && !permissions.may_subscribe(filter, *qos).is_allowed()
            {
                findings.push(QueryResult::NotAllowed);
            }
            return DeliveryOutcome::DoesNotArrive;
        }
        let Some((granted, is_shared)) = self.add_subscription_results(state, session, findings) else {
            return DeliveryOutcome::DoesNotArrive;
        };
        if granted < *qos {
            findings.push(QueryResult::QoSReduced(granted));
        }
        let own = self.matching.iter().filter(|(filter, _)| is_shared == filter.starts_with("$share/"));
        // [MQTT-3.3.4-4]; one member of a group has one.
        let ids: Vec<SubscriptionId> = own.filter_map(|(_, record)| record.identifier).collect();
        let effective = granted.min(*qos);
        match state.delivery_outcome(session, &self.query.message.message(), effective, &ids, findings) {
            // At QoS 1 and 2, another member gets it, or it is queued.
            DeliveryOutcome::DoesNotArrive if !is_shared || effective == QoS::AtMostOnce => {
                DeliveryOutcome::DoesNotArrive
            }
            _ if is_shared => DeliveryOutcome::OneOfMany,
            outcome => outcome,
        }
    }

    /// The highest granted QoS, and whether all matching subscriptions are shared; `None` if none of them delivers the message.
    fn add_subscription_results<M: Mode>(
        &self,
        state: &ShardState<M>,
        session: SessionIndex,
        findings: &mut Vec<QueryResult>,
    ) -> Option<(QoS, bool)> {
        let contract = state.config.contracts().find(&self.query.message.topic);
        let (mut own, mut shared) = (None, None);
        for (filter, record) in &self.matching {
            let qos = record.options.qos;
            match state.context.exchange().group(filter) {
                Some(group) => {
                    let (members, connected) = group.members();
                    findings.push(QueryResult::Shared { filter: filter.clone(), qos, members, connected });
                    let (messages, bytes) = group.waiting();
                    if messages > 0 {
                        findings.push(QueryResult::SharedQueue { filter: filter.clone(), messages, bytes });
                    }
                    findings.push(self.shared_turns(&group, &state.sessions.key(session)));
                }
                None => findings.push(QueryResult::Subscribed { filter: filter.clone(), record: *record }),
            }
            let is_shared = filter.starts_with("$share/");
            if record.options.no_local {
                if !findings.contains(&QueryResult::NoLocal) {
                    findings.push(QueryResult::NoLocal);
                }
                if self.query.message.publisher.as_ref() == Some(&self.query.name) {
                    continue;
                }
            }
            if let (Some(format), Some(contract)) = (record.format, &contract)
                && !contract.can_transcode_to(format)
            {
                findings.push(QueryResult::CannotTranscode(format));
                continue;
            }
            let highest = if is_shared { &mut shared } else { &mut own };
            *highest = (*highest).max(Some(qos));
        }
        own.map(|qos| (qos, false)).or(shared.map(|qos| (qos, true)))
    }

    fn shared_turns(&self, group: &ShareGroup, client: &SessionKey) -> QueryResult {
        let (own, others): (Vec<Dispatch>, Vec<Dispatch>) =
            group.dispatches_for(&self.query.message.topic).into_iter().partition(|turn| turn.member == *client);
        QueryResult::SharedDispatches {
            filter: group.filter().as_ref().into(),
            own: own.last().map(|last| (own.len(), last.at_ms)),
            others: others.last().map(|last| OtherDispatches {
                count: others.len(),
                last_ms: last.at_ms,
                member: last.member,
                name: None,
            }),
        }
    }
}

impl<M: Mode> ShardState<M> {
    /// The outcome of a delivery to a session with this QoS and these identifiers.
    fn delivery_outcome(
        &self,
        session: SessionIndex,
        message: &MessageRef<'_>,
        qos: QoS,
        ids: &[SubscriptionId],
        findings: &mut Vec<QueryResult>,
    ) -> DeliveryOutcome {
        let counted_bytes = PendingMessage::counted_bytes_of(message.allocated_bytes(), &SubscriptionIds::from(ids));
        let Some(index) = self.sessions.connection(session) else {
            findings.extend(
                self.is_blocked_for_flapping(self.sessions[session].name()).then_some(QueryResult::BlockedForFlapping),
            );
            if qos == QoS::AtMostOnce {
                findings.insert(0, QueryResult::OfflineAtMostOnce);
                return DeliveryOutcome::DoesNotArrive;
            }
            findings.insert(0, QueryResult::Offline(self.sessions.offline(session).expires_at_ms));
            let is_dropped = self.add_full_queue_result(session, message.topic, counted_bytes, findings);
            return if is_dropped { DeliveryOutcome::DoesNotArrive } else { DeliveryOutcome::Queued };
        };
        let connection = &self.connections[index];
        if let Some(bytes) = connection.connect_parameters().maximum_packet_size_bytes {
            findings.push(QueryResult::PacketLimit(bytes.get()));
        }
        let is_too_large = !self.fits(index, message, ids);
        if is_too_large {
            findings.insert(0, QueryResult::TooLarge);
        }
        let (pending_bytes, max_bytes) = (connection.pending_bytes(), self.memory.output_max_bytes());
        if pending_bytes > max_bytes {
            findings.insert(0, QueryResult::OutputFull(pending_bytes));
        } else if pending_bytes > 0 {
            findings.insert(0, QueryResult::OutputPending { pending_bytes, left_bytes: max_bytes - pending_bytes });
        }
        if qos == QoS::AtMostOnce {
            let payload_bytes = message.payload.len();
            let has_memory = self.memory.has_free_memory(pending_bytes, payload_bytes);
            findings.extend((!has_memory).then_some(QueryResult::NoMemoryForOutput));
            let arrives = self.memory.has_output_room(pending_bytes, payload_bytes) && has_memory && !is_too_large;
            return if arrives { DeliveryOutcome::Arrives } else { DeliveryOutcome::DoesNotArrive };
        }
        if self.add_full_queue_result(session, message.topic, counted_bytes, findings) || is_too_large {
            return DeliveryOutcome::DoesNotArrive;
        }
        let (in_flight, queued) =
            self.sessions[session].outbound().map_or((0, 0), |outbound| (outbound.in_flight(), outbound.queued()));
        let is_window_full =
            in_flight >= usize::from(connection.connect_parameters().send_maximum) || !self.has_send_quota(session);
        if queued > 0 {
            findings.insert(0, QueryResult::Behind(queued));
        }
        if is_window_full {
            findings.insert(0, QueryResult::WindowFull(in_flight));
        }
        if self.free_packet_id(session, index).is_some() { DeliveryOutcome::Arrives } else { DeliveryOutcome::Queued }
    }

    /// Whether the client of a session is refused because it reconnects too often.
    fn is_blocked_for_flapping(&self, name: &str) -> bool {
        self.quota_state.is_blocked(name, self.clock.now_ms())
    }

    /// Adds a result if the session has no room for a message of this size. Returns whether the message is dropped.
    fn add_full_queue_result(
        &self,
        session: SessionIndex,
        topic: &str,
        counted_bytes: usize,
        findings: &mut Vec<QueryResult>,
    ) -> bool {
        let policy = self.policy(session, topic);
        // Publishers are paused or refused only when nothing fits any more: until then a queue accepts one message of any size.
        let counted_bytes = if policy.affects_publishers() { SMALLEST_BYTES } else { counted_bytes };
        let Some(limit) = self.queue_limit(session, counted_bytes) else { return false };
        let queued = self.sessions[session].outbound().map_or(0, Outbound::queued);
        let policy = match policy {
            // Unacknowledged messages take all room, and are not dropped.
            SlowConsumer::DropOld if queued == 0 || !self.can_make_room_by_dropping(session, counted_bytes) => {
                SlowConsumer::DropNew
            }
            policy => policy,
        };
        findings.insert(0, QueryResult::QueueFull { limit, policy });
        matches!(policy, SlowConsumer::DropNew | SlowConsumer::Disconnect)
    }
}

/// The part of a filter that is compared with topics.
fn topic_filter_of<'f>(filter: &'f str, record: &SubscriptionRecord) -> Option<&'f str> {
    let filter = TopicFilter::new(filter).ok()?;
    transcoding::requested_format(filter, record.format).ok().map(|wanted| wanted.filter)
}

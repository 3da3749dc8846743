//! SUBSCRIBE and UNSUBSCRIBE [MQTT 5.0 sections 3.8 to 3.11].

use tautwire_message::Format;
use tautwire_protocol::{
    DisconnectReason, Packet, QoS, RetainHandling, Subscribe, SubscribeReason, SubscriptionId, SubscriptionRequest,
    TopicFilter, Unsubscribe, UnsubscribeReason,
};
use tautwire_router::{GroupMember, InterestChange, Scan};
use tautwire_session::{Change, SubscriptionRecord, subscription_bytes};

use crate::access::CheckBudget;
use crate::connection::ack::Ack;
use crate::connection::connections::Replay;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::routing::route::{MIGRATED, Subscription};
use crate::routing::transcoding::{self, FormatRequest};
use crate::scheduling::jobs::PartialSubscribe;
use crate::shard::Shard;

/// A packet with more filters is handled over several turns.
const FILTERS_PER_TURN: usize = 64;
/// A packet whose access checks take more steps is handled over several turns as well.
const INLINE_CHECK_STEPS_MAX: usize = 64;

/// Why a subscription was not made.
enum SubscribeError {
    Refused(SubscribeReason),
    /// The check of the access rules is not finished.
    Unfinished,
}

impl From<SubscribeReason> for SubscribeError {
    fn from(reason: SubscribeReason) -> SubscribeError {
        SubscribeError::Refused(reason)
    }
}

impl<M: Mode> Shard<M> {
    pub(crate) fn on_subscribe(&mut self, index: ConnectionIndex, session: SessionIndex, subscribe: &Subscribe<'_>) {
        if subscribe.requests.len() > self.state.config.settings().subscriptions_per_packet {
            self.state.counters().subscriptions_refused.add(subscribe.requests.len() as u64);
            self.disconnect(index, DisconnectReason::QuotaExceeded, "too many filters in one packet");
            return;
        }
        let packet = || Packet::Subscribe(*subscribe);
        if self.try_defer_filters(index, session, subscribe.requests.len(), packet) {
            return;
        }
        let mut checks = CheckBudget::with_steps(INLINE_CHECK_STEPS_MAX);
        let mut reasons = Vec::with_capacity(subscribe.requests.len());
        let mut replays = Vec::new();
        // [MQTT-3.8.4-5]
        for request in subscribe.requests.iter() {
            let made = self.subscribe_one(index, session, subscribe, &request, reasons.len(), &mut checks);
            let Some((reason, replay)) = made else {
                self.state.jobs.record_inline_steps(checks.steps_taken());
                let begun = PartialSubscribe { reasons, replays, checks };
                if !self.defer_filters(index, session, &packet(), begun) {
                    self.refuse_filters(index);
                }
                return;
            };
            reasons.push(reason);
            replays.extend(replay);
        }
        self.state.jobs.record_inline_steps(checks.steps_taken());
        // All shards already route to the new subscriptions, so they can be acknowledged.
        self.state.acknowledge(index, Ack::Subscribed(subscribe.packet_id, reasons.into()));
        for replay in replays {
            self.state.add_replay(index, replay);
        }
        self.state.send_pending(session);
    }

    /// Makes or refuses subscription number `nth` of a packet. Returns its reason code and its replay of retained messages; `None` if
    /// `checks` has too few steps left for the access check.
    pub(crate) fn subscribe_one(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        subscribe: &Subscribe<'_>,
        request: &SubscriptionRequest<'_>,
        nth: usize,
        checks: &mut CheckBudget,
    ) -> Option<(SubscribeReason, Option<Replay>)> {
        let made = match self.state.connections[index]
            .mount_point()
            .map(|mount| transcoding::mounted_filter(mount, request.filter))
        {
            None => self.subscribe_to(index, session, subscribe, request, nth, checks),
            Some(filter) => filter.map_err(SubscribeError::from).and_then(|filter| {
                let filter = TopicFilter::new(&filter).map_err(|_| SubscribeReason::TopicFilterInvalid)?;
                let request = SubscriptionRequest { filter, ..*request };
                self.subscribe_to(index, session, subscribe, &request, nth, checks)
            }),
        };
        Some(match made {
            Ok((qos, replay)) => (granted_reason(qos), replay),
            Err(SubscribeError::Unfinished) => return None,
            Err(SubscribeError::Refused(reason)) => {
                self.state.counters().subscriptions_refused.add(1);
                // 3.1.1 has one failure code, 0x80.
                let is_v5 = self.state.connections[index].is_v5();
                (if is_v5 { reason } else { SubscribeReason::UnspecifiedError }, None)
            }
        })
    }

    /// Makes or refuses a subscription to a full filter. Returns the granted QoS and the replay.
    fn subscribe_to(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        subscribe: &Subscribe<'_>,
        request: &SubscriptionRequest<'_>,
        nth: usize,
        checks: &mut CheckBudget,
    ) -> Result<(QoS, Option<Replay>), SubscribeError> {
        let identifier = subscribe.properties.subscription_identifier();
        let granted = self.check_subscription(index, session, request, identifier, checks);
        let format_request = transcoding::accepted_format(subscribe)
            .and_then(|accepted| transcoding::requested_format(request.filter, accepted));
        let (qos, format_request) = (granted?, format_request?);
        let replay = self.subscribe(index, session, request, qos, identifier, format_request);
        if request.filter.share().is_some() {
            M::join_group(&mut self.state, session, request.filter.as_str(), (subscribe.packet_id, nth));
        }
        Ok((qos, replay))
    }

    pub(crate) fn on_unsubscribe(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        unsubscribe: &Unsubscribe<'_>,
    ) {
        if unsubscribe.filters.len() > self.state.config.settings().subscriptions_per_packet {
            self.disconnect(index, DisconnectReason::QuotaExceeded, "too many filters in one packet");
            return;
        }
        let packet = || Packet::Unsubscribe(*unsubscribe);
        if self.try_defer_filters(index, session, unsubscribe.filters.len(), packet) {
            return;
        }
        // [MQTT-3.10.4-6]
        let filters = unsubscribe.filters.iter();
        let reasons: Vec<_> = filters.map(|filter| self.unsubscribe_one(index, session, filter)).collect();
        self.state.acknowledge(index, Ack::Unsubscribed(unsubscribe.packet_id, reasons.into()));
    }

    pub(crate) fn unsubscribe_one(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        filter: TopicFilter<'_>,
    ) -> UnsubscribeReason {
        let full = self.state.connections[index].mount_point().map(|mount| transcoding::mounted_filter(mount, filter));
        let filter = match &full {
            None => filter,
            Some(Ok(full)) => TopicFilter::new(full).unwrap_or(filter),
            Some(Err(_)) => return UnsubscribeReason::NoSubscriptionExisted,
        };
        let Some(held) = self.state.sessions[session].subscriptions().get(filter.as_str()) else {
            return UnsubscribeReason::NoSubscriptionExisted;
        };
        self.end_subscription(session, Some(index), filter, held.format);
        UnsubscribeReason::Success
    }

    /// Ends a subscription. Its replay of retained messages is cancelled [MQTT-3.10.4-2].
    pub(crate) fn end_subscription(
        &mut self,
        session: SessionIndex,
        index: Option<ConnectionIndex>,
        filter: TopicFilter<'_>,
        format: Option<Format>,
    ) {
        if let Some(index) = index
            && let Ok(format_request) = transcoding::requested_format(filter, format)
        {
            self.state.cancel_replay(session, index, format_request.filter, format_request.format);
        }
        self.state.unblock_filter(session, filter);
        self.state.commit(session, Change::Unsubscribed(filter.as_str().into()));
        self.remove_subscription(session, filter, format);
        if filter.share().is_some() {
            M::leave_group(&mut self.state, session, filter.as_str());
        }
    }

    /// Defers a packet with many filters, or any packet if the turn's budget is spent. Returns whether the packet was deferred or the
    /// connection closed.
    #[inline]
    fn try_defer_filters<'p>(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        filters: usize,
        packet: impl FnOnce() -> Packet<'p>,
    ) -> bool {
        if filters <= FILTERS_PER_TURN && self.state.jobs.try_take_steps(filters) {
            return false;
        }
        let is_deferred = self.defer_filters(index, session, &packet(), PartialSubscribe::default());
        if !is_deferred && filters > FILTERS_PER_TURN {
            self.refuse_filters(index);
            return true;
        }
        is_deferred
    }

    #[cold]
    fn refuse_filters(&mut self, index: ConnectionIndex) {
        self.state.counters().resources_refused_memory.add(1);
        self.disconnect(index, DisconnectReason::QuotaExceeded, "there is no memory for the packet");
    }

    /// Defers the filters of a packet to a job. Returns false if there is no memory for the packet.
    #[cold]
    fn defer_filters(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        packet: &Packet<'_>,
        begun: PartialSubscribe,
    ) -> bool {
        let len = packet.encoded_len(self.state.connections[index].version()).unwrap_or(0);
        let fits = self.state.memory.share().admits(self.state.client_bytes(session), len).is_ok();
        match packet.to_owned_packet().ok().filter(|_| fits) {
            Some(packet) => self.start_filter_job(self.state.id(index), packet, len, begun),
            None => return false,
        }
        true
    }

    /// Checks whether a subscription is allowed. Returns the granted QoS.
    fn check_subscription(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        request: &SubscriptionRequest<'_>,
        identifier: Option<SubscriptionId>,
        checks: &mut CheckBudget,
    ) -> Result<QoS, SubscribeError> {
        let filter = request.filter;
        self.check_availability(index, filter, identifier)?;
        match self.state.may_subscribe(index, filter, request.options.qos, checks) {
            Some(true) => {}
            Some(false) => return Err(SubscribeReason::NotAuthorized.into()),
            None => return Err(SubscribeError::Unfinished),
        }
        if self.state.sessions[session].subscriptions().get(filter.as_str()).is_none() {
            self.check_subscription_quotas(session, filter.as_str())?;
        }
        let offered = self.state.connections[index].max_qos(self.state.config.settings().max_qos);
        let max_qos = if filter.share().is_some() { offered.min(M::SHARED_MAX_QOS) } else { offered };
        Ok(request.options.qos.min(max_qos))
    }

    /// Checks that the settings allow such a filter. The limits in the client's CONNACK hold too if a reload has lowered them since.
    fn check_availability(
        &self,
        index: ConnectionIndex,
        filter: TopicFilter<'_>,
        identifier: Option<SubscriptionId>,
    ) -> Result<(), SubscribeReason> {
        let settings = self.state.config.settings();
        let announced = || self.state.server_limits(index);
        if filter.share().is_some()
            && !settings.shared_subscription_available
            && !announced().shared_subscription_available
        {
            return Err(SubscribeReason::SharedSubscriptionsNotSupported);
        }
        if !settings.wildcard_subscription_available
            && filter.has_wildcard()
            && !announced().wildcard_subscription_available
        {
            return Err(SubscribeReason::WildcardSubscriptionsNotSupported);
        }
        if identifier.is_some()
            && !settings.subscription_identifier_available
            && !announced().subscription_identifier_available
        {
            return Err(SubscribeReason::SubscriptionIdentifiersNotSupported);
        }
        let levels = || filter.as_str().bytes().filter(|byte| *byte == b'/').count() + 1;
        if filter.as_str().len() > settings.topic_bytes
            || (filter.as_str().len() >= settings.topic_levels && levels() > settings.topic_levels)
        {
            return Err(SubscribeReason::TopicFilterInvalid);
        }
        Ok(())
    }

    /// Checks that a session and its user may have one more subscription.
    fn check_subscription_quotas(&mut self, session: SessionIndex, filter: &str) -> Result<(), SubscribeReason> {
        let state = &mut self.state;
        if state.memory.share().admits(state.client_bytes(session), subscription_bytes(filter)).is_err() {
            state.counters().resources_refused_memory.add(1);
            return Err(SubscribeReason::QuotaExceeded);
        }
        if state.sessions[session].subscriptions().len() >= state.quota_state.quotas().subscriptions {
            return Err(SubscribeReason::QuotaExceeded);
        }
        let user = state.sessions.user(session);
        if user.is_some_and(|user| !user.has_room_for_subscription(&state.quota_state.quotas().of_user)) {
            state.counters().subscriptions_refused_for_user.add(1);
            return Err(SubscribeReason::QuotaExceeded);
        }
        if state.disk_error_for_session(session).is_some() {
            state.counters().resources_refused_disk.add(1);
            return Err(SubscribeReason::QuotaExceeded);
        }
        if !M::has_room_for_filter(state, session, filter) {
            return Err(SubscribeReason::QuotaExceeded);
        }
        Ok(())
    }

    /// Makes or replaces a subscription. Returns its replay of retained messages.
    fn subscribe(
        &mut self,
        index: ConnectionIndex,
        session: SessionIndex,
        request: &SubscriptionRequest<'_>,
        qos: QoS,
        identifier: Option<SubscriptionId>,
        format_request: FormatRequest<'_>,
    ) -> Option<Replay> {
        let filter = request.filter;
        let record = SubscriptionRecord {
            options: tautwire_protocol::SubscriptionOptions { qos, ..request.options },
            identifier,
            format: format_request.format,
        };
        if format_request.format.is_some() {
            self.state.context.requested_formats().request();
        }
        let older = self.state.sessions[session].subscriptions().get(filter.as_str());
        let existed = older.is_some();
        if let Some(older) = older.filter(|older| older.format != format_request.format) {
            self.remove_route(session, filter, older.format);
        }
        self.state.commit(session, Change::Subscribed(filter.as_str().into(), record));
        if qos != QoS::AtMostOnce {
            self.state.block_new_filter(session, filter.as_str());
        }
        if !existed {
            self.state.counters().subscriptions.add(1);
        }
        if filter.share().is_some() {
            // Retained messages are not sent for shared subscriptions [MQTT 5.0 section 4.8.2].
            self.join_share(session, filter, format_request.filter, &record);
            return None;
        }
        let sends_retained = match request.options.retain_handling {
            RetainHandling::SendAtSubscribe => true,
            RetainHandling::SendIfNew if existed => {
                // A pending replay continues with the options of the new subscription [MQTT-3.8.4-4].
                self.state.update_replay(index, format_request, qos, identifier);
                false
            }
            RetainHandling::SendIfNew => true,
            RetainHandling::DoNotSend => {
                self.state.cancel_replay(session, index, format_request.filter, format_request.format);
                false
            }
        };
        let scan = self.add_route(session, format_request, &record, sends_retained)?;
        Some(self.state.new_replay(session, scan, &record, existed))
    }

    /// Adds a subscription to the tree and the exchange. Returns the scan for matching retained messages if `sends_retained`.
    pub(crate) fn add_route(
        &mut self,
        session: SessionIndex,
        format_request: FormatRequest<'_>,
        record: &SubscriptionRecord,
        sends_retained: bool,
    ) -> Option<Scan> {
        let node = self.table.tree.entry(format_request.filter);
        let any = self.table.tree.values(node).is_empty();
        let is_persistent = self.state.is_fully_persistent(session);
        if any {
            M::add_interest(&mut self.state, format_request.filter);
        }
        M::await_interest(&mut self.state, session, format_request.filter);
        let key = (session, format_request.format, format_request.format_from_filter);
        let is_new = || self.table.tree.get_by_key(node, &key, Subscription::key).is_none();
        let change = InterestChange { any, persistent: is_persistent && is_new() };
        let (since, scan) = self.state.context.exchange().subscribe(
            self.state.context.shard(),
            format_request.filter,
            change,
            sends_retained,
        );
        let is_migrated = M::has_resumed_subscriptions(&self.state, session);
        let subscription = Subscription {
            session,
            identifier: record.identifier,
            since: if is_migrated { MIGRATED } else { since },
            qos: record.options.qos,
            no_local: record.options.no_local,
            retain_as_published: record.options.retain_as_published,
            format: format_request.format,
            format_from_filter: format_request.format_from_filter,
            is_persistent,
        };
        let replaced = self.table.tree.insert_sorted_by_key(node, subscription, Subscription::key);
        if let Some(old) = replaced {
            // [MQTT-3.8.4-4]: messages in transit from other shards for the old subscription still go to the new one.
            if let Some(place) =
                self.table.tree.values_mut(node).iter_mut().find(|held| held.key() == subscription.key())
            {
                place.since = old.since;
            }
        }
        self.table.generation += 1;
        scan
    }

    /// Adds a session to the group of a shared subscription.
    pub(crate) fn join_share(
        &mut self,
        session: SessionIndex,
        filter: TopicFilter<'_>,
        matched: &str,
        record: &SubscriptionRecord,
    ) {
        let key = self.state.sessions.key(session);
        let room = self.state.sessions.entry(session).member_credit();
        let number = M::session_number(&self.state, session);
        let member = GroupMember {
            session: key,
            number,
            qos: record.options.qos,
            retain_as_published: record.options.retain_as_published,
            identifier: record.identifier,
            format: record.format,
            room,
        };
        let exchange = self.state.context.exchange();
        exchange.join(filter.as_str(), matched, member);
        let queued = exchange.group(filter.as_str()).filter(|group| group.waiting().0 > 0);
        self.state.update_credit(session);
        if let Some(group) = queued {
            self.state.report_to_queue(group.filter(), key);
        }
    }

    /// Counts the end of a subscription, and removes it from the tree and the exchange.
    pub(crate) fn remove_subscription(
        &mut self,
        session: SessionIndex,
        filter: TopicFilter<'_>,
        format: Option<Format>,
    ) {
        self.state.counters().subscriptions.subtract(1);
        self.remove_route(session, filter, format);
    }

    fn remove_route(&mut self, session: SessionIndex, filter: TopicFilter<'_>, format: Option<Format>) {
        let Ok(format_request) = transcoding::requested_format(filter, format) else { return };
        if filter.share().is_some() {
            let key = self.state.sessions.key(session);
            self.state.leave_share(filter.as_str(), key);
            return;
        }
        let Some(node) = self.table.tree.find(format_request.filter) else { return };
        let key = (session, format_request.format, format_request.format_from_filter);
        let persistent =
            self.table.tree.remove_by_key(node, &key, Subscription::key).is_some_and(|held| held.is_persistent);
        let any = self.table.tree.prune(node);
        if any {
            M::remove_interest(&mut self.state, format_request.filter);
        }
        let change = InterestChange { any, persistent };
        self.state.context.exchange().unsubscribe(self.state.context.shard(), format_request.filter, change);
        self.table.generation += 1;
    }
}

fn granted_reason(qos: QoS) -> SubscribeReason {
    match qos {
        QoS::AtMostOnce => SubscribeReason::GrantedQoS0,
        QoS::AtLeastOnce => SubscribeReason::GrantedQoS1,
        QoS::ExactlyOnce => SubscribeReason::GrantedQoS2,
    }
}

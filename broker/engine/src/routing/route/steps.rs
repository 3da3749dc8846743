//! The steps of routing: lookup, delivery on this shard, and forwarding to other shards.

use std::sync::Arc;

use tautwire_contracts::Contract;
use tautwire_protocol::{QoS, ReasonCode, SubscriptionId};
use tautwire_router::{Batch, BatchPayload, Entry, Routes, ShardIndex};
use tautwire_session::Receivers;
use tautwire_topics::{FilterTree, MatchCache};

use super::{Matches, MessageSource, RouteError, Subscription, SubscriptionTable};
use crate::access::TopicStamps;
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::routing::deliver::DeliveryOptions;
use crate::routing::packet_copies::PacketCopies;
use crate::routing::publish_packets::OutgoingPublish;
use crate::scheduling::fan_out::FanOutBudget;
use crate::shard::Shard;
use crate::shard::ShardState;

impl<M: Mode> Shard<M> {
    /// Routes a message to all receivers. Returns whether there are any. `published_at` is the exchange's generation
    /// at which the message was published.
    ///
    /// # Errors
    /// The message violates its contract, or there is no memory for it, unless that has been checked before.
    pub(crate) fn route(
        &mut self,
        outgoing: &mut OutgoingPublish<'_>,
        publisher: MessageSource,
        published_at: u64,
    ) -> Result<bool, RouteError> {
        let Shard { state, table, .. } = self;
        let topic = outgoing.message.topic;
        let SubscriptionTable { tree, cache, stamps, generation } = table;
        let matches = find(tree, cache, stamps, *generation, state, topic, Lookup::Only);
        if outgoing.message.qos != QoS::AtMostOnce
            && state.outboxes.is_full()
            && let Some(shard) = state.congested(outgoing, publisher, matches)
        {
            return Err(RouteError::Congested(shard));
        }
        if let Some(publisher_index) = outgoing.unchecked_publisher.take()
            && !state.may_publish(publisher_index, matches.stamp, &outgoing.message)
        {
            return Err(RouteError::NotAuthorized);
        }
        state.work_budget.count_visits(matches.subscriptions.len() as u64);
        if let Some(contract) = &matches.contract
            && !outgoing.is_checked
        {
            state.check_contract(contract, outgoing).map_err(RouteError::ContractViolation)?;
        }
        if !outgoing.is_admitted && outgoing.message.qos != QoS::AtMostOnce {
            state.check_capacity(outgoing, matches)?;
            outgoing.is_admitted = true;
        }

        let contract = matches.contract.as_deref();
        let has_other_receivers = state.outboxes.shards() > 1 || !matches.routes.shares.is_empty();
        if contract.is_some()
            && has_other_receivers
            && !publisher.reaches_all_shards()
            && state.context.requested_formats().are_requested()
        {
            outgoing.transcodings = Some(Arc::default());
        }
        let before = (matches.meters != 0).then(|| state.meter_baseline());
        let mut matched = state.deliver_to_all(matches, contract, outgoing, publisher, published_at);
        if state.operations.has_observers() {
            state.notify_observers(matches, outgoing, publisher, published_at);
        }
        if !publisher.reaches_all_shards() {
            matched |= state.route_to_others(matches, contract, outgoing, published_at);
        } else if publisher != MessageSource::Shard && !matches.routes.shares.is_empty() {
            M::offer_to_groups(state, &matches.routes.shares, contract, outgoing);
        }
        if let Some(before) = before {
            state.meter(matches.meters, &outgoing.message, publisher, before);
        }
        Ok(matched)
    }

    /// Admits or refuses a message that is to be retained, before it is routed.
    pub(crate) fn admit_retained(&mut self, outgoing: &mut OutgoingPublish<'_>) -> Result<(), RouteError> {
        let Shard { state, table, .. } = self;
        let SubscriptionTable { tree, cache, stamps, generation } = table;
        let matches = find(tree, cache, stamps, *generation, state, outgoing.message.topic, Lookup::Ahead);
        state.check_capacity(outgoing, matches)?;
        outgoing.is_admitted = true;
        Ok(())
    }

    /// The shard whose full channel prevents a message from being accepted and retained now, if any.
    pub(crate) fn congested(&mut self, outgoing: &OutgoingPublish<'_>, publisher: MessageSource) -> Option<ShardIndex> {
        if !self.state.outboxes.is_full() {
            return None;
        }
        let Shard { state, table, .. } = self;
        let SubscriptionTable { tree, cache, stamps, generation } = table;
        let matches = find(tree, cache, stamps, *generation, state, outgoing.message.topic, Lookup::Ahead);
        state.congested(outgoing, publisher, matches)
    }

    /// Whether messages of `topic` may have to be transcoded for a subscriber.
    pub(crate) fn needs_transcoding(&mut self, topic: &str) -> bool {
        let Shard { state, table, .. } = self;
        if !state.context.requested_formats().are_requested() {
            return false;
        }
        let SubscriptionTable { tree, cache, stamps, generation } = table;
        let matches = find(tree, cache, stamps, *generation, state, topic, Lookup::Only);
        matches.plain < matches.subscriptions.len() || !matches.routes.shares.is_empty()
    }

    /// Receives a batch from another shard, without its first `from` entries. If the work budget ends before the batch, returns
    /// the entry to continue with once [`Shard::accepts_batches`] returns true again.
    pub(crate) fn receive_batch(&mut self, sender: ShardIndex, batch: &Batch, from: usize) -> Option<usize> {
        let mut budget = FanOutBudget::begin(&self.state);
        let mut done = from;
        let mut transfer = None;
        for Entry { content, forwarded } in batch.entries().skip(from) {
            if !self.state.work_budget.can_transcode() {
                break;
            }
            if let Some(number) = forwarded {
                M::begin_transfer(&mut self.state, &content);
                transfer = Some(number);
            }
            let len = match content {
                BatchPayload::Route { message, generation, transcodings } => {
                    let len = message.stored_bytes();
                    // The publisher's shard has checked the contract.
                    let mut outgoing = OutgoingPublish {
                        is_checked: true,
                        is_admitted: true,
                        transcodings: transcodings.cloned(),
                        ..OutgoingPublish::new(message)
                    };
                    let _ = self.route(&mut outgoing, MessageSource::Shard, generation);
                    len
                }
                BatchPayload::Share(receiver, delivery) => {
                    let meters = delivery
                        .message
                        .loaded()
                        .map_or(0, |message| self.state.routing.metered.matching(message.topic()));
                    let before = (meters != 0).then(|| self.state.meter_baseline());
                    self.receive_shared(receiver, delivery);
                    if let (Some(before), Some(message)) = (before, delivery.message.loaded()) {
                        self.state.meter(meters, &message.as_ref(), MessageSource::Shard, before);
                    }
                    0
                }
                BatchPayload::Update(update) => {
                    M::update_member(&mut self.state, update);
                    0
                }
            };
            done += 1;
            if budget.is_spent_after(&self.state, len) {
                break;
            }
        }
        if let Some(number) = transfer {
            M::end_transfer(&mut self.state, sender, number);
        }
        self.disconnect_overruns();
        if self.finish_source(&budget) {
            self.state.paused_readers.pause_batches();
        }
        (done < batch.len()).then_some(done)
    }
}

/// How often the topic of a message is looked up.
#[derive(Clone, Copy)]
enum Lookup {
    Only,
    /// It is looked up again when the message is routed.
    Ahead,
}

/// Looks up a topic in the cache, or else in the tree and the exchange.
// Inlined into `route`, the hot path of every message.
#[inline(always)]
fn find<'c, M: Mode>(
    tree: &FilterTree<Subscription>,
    cache: &'c mut MatchCache<Matches>,
    stamps: &mut TopicStamps,
    generation: u64,
    state: &ShardState<M>,
    topic: &str,
    look: Lookup,
) -> &'c Matches {
    // Both numbers only grow, so the sum changes whenever one of them does.
    let generation = generation + state.context.exchange().generation();
    let fill = |matches: &mut Matches| {
        matches.take_from(tree, topic, |_| true);
        state.context.exchange().routes(topic, &mut matches.routes);
        matches.contract = state.config.contracts().find(topic).cloned();
        matches.stamp = stamps.next();
        matches.meters = state.routing.metered.matching(topic);
    };
    match look {
        Lookup::Only => cache.get_or_fill(topic, generation, fill),
        Lookup::Ahead => cache.get_or_fill_first(topic, generation, fill),
    }
}

impl<M: Mode> ShardState<M> {
    /// Delivers a message to all matching subscriptions of this shard. Returns whether there are any.
    // Inlined into `route`, the hot path of every message.
    #[inline(always)]
    pub(crate) fn deliver_to_all(
        &mut self,
        matches: &Matches,
        contract: Option<&Contract>,
        outgoing: &mut OutgoingPublish<'_>,
        publisher: MessageSource,
        published_at: u64,
    ) -> bool {
        let (plain, in_formats) = matches.subscriptions.split_at(matches.plain);
        let mut matched = self.deliver_matches(plain, outgoing, publisher, published_at);
        if !in_formats.is_empty() {
            matched |= self.deliver_transcoded(in_formats, contract, outgoing, publisher, published_at);
        }
        matched
    }

    /// Notifies taps and traces of a message that has been delivered on this shard.
    #[cold]
    fn notify_observers(
        &mut self,
        matches: &Matches,
        outgoing: &OutgoingPublish<'_>,
        publisher: MessageSource,
        published_at: u64,
    ) {
        if !publisher.reaches_all_shards() {
            self.notify_taps(&outgoing.message, publisher);
        }
        let Routes { shards, shares, .. } = &matches.routes;
        // One copy per session, at the highest QoS of its matching subscriptions.
        let audience = Audience::of(publisher, published_at);
        let receivers = matches.subscriptions.chunk_by(|a, b| a.session == b.session).filter_map(|of_session| {
            let eligible = of_session.iter().filter(|subscription| audience.includes(subscription));
            let highest = eligible.max_by_key(|subscription| subscription.qos)?;
            Some((highest.session, highest.qos.min(outgoing.message.qos)))
        });
        let mut receivers = receivers.peekable();
        let has_receivers =
            receivers.peek().is_some() || !shares.is_empty() || shards.without(self.context.shard()).next().is_some();
        let reason = if has_receivers { ReasonCode::Success } else { ReasonCode::NoMatchingSubscribers };
        self.trace(&outgoing.message, publisher, reason, receivers);
    }

    /// Delivers one copy per session, however many of its subscriptions match [MQTT-3.3.4-2].
    // Inlined into `route`, the hot path of every message.
    #[inline(always)]
    fn deliver_matches(
        &mut self,
        found: &[Subscription],
        outgoing: &mut OutgoingPublish<'_>,
        publisher: MessageSource,
        published_at: u64,
    ) -> bool {
        // Checked once for all receivers. A message of QoS 1 or 2 was admitted already, and its receivers share one copy.
        outgoing.has_room = outgoing.message.qos == QoS::AtMostOnce
            && !M::may_be_duplicate(&outgoing.message)
            && self.memory.reserve_memory(0, found.len() * outgoing.message.payload.len());
        let audience = Audience::of(publisher, published_at);
        match found {
            [] => false,
            [only] if audience.includes(only) => {
                self.deliver(
                    only.session,
                    outgoing,
                    delivery_options(only, outgoing, only.identifier.as_slice(), false),
                );
                true
            }
            [_] => false,
            many => self.deliver_to_many(many, outgoing, audience),
        }
    }

    // Not inlined into `route`: most messages have one receiver on a shard.
    #[inline(never)]
    fn deliver_to_many(
        &mut self,
        found: &[Subscription],
        outgoing: &mut OutgoingPublish<'_>,
        audience: Audience,
    ) -> bool {
        self.routing.packets.clear();
        let mut copies = PacketCopies::of(outgoing);
        let mut rest = found;
        let mut matched = false;
        while let Some(first) = rest.first() {
            let count = rest.iter().take_while(|subscription| subscription.session == first.session).count();
            let (of_session, others) = rest.split_at(count);
            rest = others;
            if let [only] = of_session {
                if audience.includes(only) {
                    matched = true;
                    let options = delivery_options(only, outgoing, only.identifier.as_slice(), true);
                    if !self.send_copy(&mut copies, only, options.retain, outgoing) {
                        self.deliver(only.session, outgoing, options);
                    }
                }
            } else {
                let is_eligible = |subscription: &&Subscription| audience.includes(subscription);
                matched |= self.deliver_overlapping(of_session.iter().filter(is_eligible), outgoing);
            }
        }
        self.record_copies(&copies, outgoing);
        matched
    }

    /// Delivers a message to the subscriptions of one format. The message is in that format already.
    pub(crate) fn deliver_same_format(
        &mut self,
        found: &[Subscription],
        outgoing: &mut OutgoingPublish<'_>,
        publisher: MessageSource,
        published_at: u64,
    ) -> bool {
        self.deliver_matches(found, outgoing, publisher, published_at)
    }

    fn deliver_overlapping<'s>(
        &mut self,
        subscriptions: impl Iterator<Item = &'s Subscription> + Clone,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> bool {
        let Some(highest) = subscriptions.clone().max_by_key(|subscription| subscription.qos) else { return false };
        // [MQTT-3.3.4-4]
        let identifiers: Vec<SubscriptionId> =
            subscriptions.clone().filter_map(|subscription| subscription.identifier).collect();
        let merged = Subscription {
            retain_as_published: subscriptions.clone().any(|subscription| subscription.retain_as_published),
            ..*highest
        };
        let options = delivery_options(&merged, outgoing, &identifiers, true);
        self.deliver(merged.session, outgoing, options);
        true
    }

    /// Sends a message to the other shards and to the groups of shared subscriptions. Returns whether there are any.
    // Inlined into `route`, the hot path of every message.
    #[inline(always)]
    fn route_to_others(
        &mut self,
        matches: &Matches,
        contract: Option<&Contract>,
        outgoing: &mut OutgoingPublish<'_>,
        published_at: u64,
    ) -> bool {
        let mut matched = false;
        for shard in matches.routes.shards.without(self.context.shard()) {
            matched = true;
            self.send_to_shard(shard, outgoing, published_at, matches.routes.persistent.contains(shard));
        }
        for group in &matches.routes.shares {
            if M::delivers_to_group(self, group, outgoing.message.topic) {
                matched |= self.deliver_to_share(group, contract, outgoing);
            }
        }
        matched
    }

    /// Forwards a message to another shard. `is_persistent` says whether persistent sessions there may receive it.
    fn send_to_shard(
        &mut self,
        shard: ShardIndex,
        outgoing: &mut OutgoingPublish<'_>,
        generation: u64,
        is_persistent: bool,
    ) {
        let may_be_lost = outgoing.message.qos == QoS::AtMostOnce;
        let forwarded = if is_persistent && !may_be_lost {
            let message = outgoing.store_message(self.memory.ledger());
            M::record_forwarded(self, shard, &message, Receivers::Subscribers)
        } else {
            None
        };
        let read_at_us = self.latency_recorder.read_at_us();
        let ShardState { outboxes, memory, .. } = self;
        let Some(batch) = outboxes.batch_for(shard, may_be_lost, read_at_us, memory.ledger()) else {
            self.counters().dropped_shard_queue_full.add(1);
            return;
        };
        let (message, transcodings) = (outgoing.message, outgoing.transcodings.clone());
        batch.push_route(
            &message,
            || outgoing.store_message(memory.ledger()),
            generation,
            transcodings.as_ref(),
            forwarded,
        );
    }
}

/// Which of the matching subscriptions get a message. Determined once for all of them.
#[derive(Debug, Clone, Copy)]
enum Audience {
    All,
    /// All except subscriptions of this session with No Local.
    ExceptNoLocal(SessionIndex),
    /// Those that were created in this generation of the exchange or before.
    CreatedUntil(u64),
}

impl Audience {
    #[inline]
    fn of(publisher: MessageSource, published_at: u64) -> Audience {
        match publisher {
            MessageSource::Session(session) | MessageSource::Log(Some(session)) => Audience::ExceptNoLocal(session),
            MessageSource::Broker | MessageSource::Log(None) => Audience::All,
            MessageSource::Shard => Audience::CreatedUntil(published_at),
        }
    }

    #[inline]
    fn includes(self, subscription: &Subscription) -> bool {
        match self {
            // [MQTT-3.8.3-3]
            Audience::ExceptNoLocal(publisher) => !(subscription.no_local && publisher == subscription.session),
            Audience::All => true,
            // A message from before the subscription was already sent to it as a retained message, if it was retained.
            Audience::CreatedUntil(published_at) => published_at >= subscription.since,
        }
    }
}

fn delivery_options<'a>(
    subscription: &Subscription,
    outgoing: &OutgoingPublish<'_>,
    subscription_ids: &'a [SubscriptionId],
    is_shared: bool,
) -> DeliveryOptions<'a> {
    DeliveryOptions {
        qos: subscription.qos.min(outgoing.message.qos),
        // [MQTT-3.3.1-12], [MQTT-3.3.1-13]
        retain: subscription.retain_as_published && outgoing.message.retain,
        subscription_ids,
        share: None,
        is_shared,
    }
}

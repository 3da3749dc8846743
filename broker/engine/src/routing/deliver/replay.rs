//! Replays: the retained messages that a new subscription gets.

use tautwire_memory::{Charge, Kind};
use tautwire_message::{Body, Format, Message};
use tautwire_protocol::{PacketId, QoS, SubscriptionId};
use tautwire_router::{Progress, Scan};
use tautwire_session::{Change, Outbound, PendingMessage, SubscriptionRecord};

use super::DeliveryOptions;
use crate::connection::connections::{LoadQueue, Replay};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::{Fit, Mode};
use crate::operations::trace::Step;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::scans::CLIENT_STEPS;
use crate::routing::transcoding::FormatRequest;
use crate::session::drops::DropReason;
use crate::shard::ShardState;
use crate::storage::spill::LoadError;

/// The result of an attempt to send a retained message.
pub(super) enum ReplayStep {
    /// One message was handled.
    One,
    /// None is due or can be sent yet; the queue can be sent.
    None,
    /// It must be found first, and nothing else can be sent before it.
    Later,
}

/// A retained message that can be sent now.
struct DueRetained {
    message: Message,
    qos: QoS,
    identifier: Option<SubscriptionId>,
    /// `None` at QoS 0.
    packet_id: Option<PacketId>,
}

impl<M: Mode> ShardState<M> {
    /// Sends one retained message to a new subscription: after the messages that were queued when the subscription was made, and
    /// before later ones. `portion` is the number of steps left for the scan.
    pub(super) fn replay_next(
        &mut self,
        session: SessionIndex,
        index: ConnectionIndex,
        portion: &mut u64,
    ) -> ReplayStep {
        match self.take_due_retained(session, index, portion) {
            Ok(due) => {
                self.send_retained(session, index, due);
                ReplayStep::One
            }
            Err(step) => step,
        }
    }

    /// Takes the next message from the first replay. Returns the step that was made instead if it cannot be sent.
    fn take_due_retained(
        &mut self,
        session: SessionIndex,
        index: ConnectionIndex,
        portion: &mut u64,
    ) -> Result<DueRetained, ReplayStep> {
        let packet_id = self.next_id_in_window(session, index);
        let left_queue = self.sessions[session].outbound().map_or(u64::MAX, Outbound::left_queue);
        let Some(replay) = self.connections[index].replays().front() else { return Err(ReplayStep::None) };
        let (max_qos, identifier, format) = (replay.qos, replay.identifier, replay.format);
        let queue_goes_first = left_queue < replay.after;
        let body = self.find_retained(index, queue_goes_first, portion)?;
        let qos = max_qos.min(body.qos());
        if qos != QoS::AtMostOnce {
            if queue_goes_first || packet_id.is_none() {
                return Err(self.put_back(index, body, ReplayStep::None));
            }
            match M::fits_into_session(self, session, body.allocated_bytes()) {
                Fit::Now => {}
                Fit::Later => return Err(self.put_back(index, body, ReplayStep::Later)),
                Fit::Never => {
                    let topic = body.loaded().map_or("", |message| message.topic());
                    self.counters().dropped_too_large.add(1);
                    self.record_drop(session, DropReason::TooLarge, topic);
                    return Err(ReplayStep::One);
                }
            }
        }
        let message = self.load_retained(index, body, queue_goes_first)?;
        if !self.is_current(&message) || self.is_delivered_live(index, &message) || self.is_withheld(&message.as_ref())
        {
            return Err(ReplayStep::One);
        }
        match M::check_retained_visibility(self, index, &message) {
            Fit::Now => {}
            // It does not block other messages.
            Fit::Later => return Err(self.put_back(index, Body::Loaded(message), ReplayStep::None)),
            Fit::Never => return Err(ReplayStep::One),
        }
        let is_v5 = self.connections[index].is_v5();
        let message = self.transcode_retained(session, message, format, is_v5).ok_or(ReplayStep::One)?;
        Ok(DueRetained { message, qos, identifier, packet_id: packet_id.filter(|_| qos != QoS::AtMostOnce) })
    }

    /// Finds the next message of the first replay, which may be spilled.
    fn find_retained(
        &mut self,
        index: ConnectionIndex,
        queue_goes_first: bool,
        portion: &mut u64,
    ) -> Result<Body, ReplayStep> {
        let replays = self.connections[index].replays();
        let Some(replay) = replays.front_mut() else { return Err(ReplayStep::None) };
        let found = match replay.next.take() {
            Some(body) => Progress::Found(body),
            None => self.routing.scans.next(self.context.exchange(), &mut replay.scan, portion),
        };
        match found {
            Progress::Found(body) => Ok(body),
            Progress::Paused => {
                self.defer_scan(index);
                Err(if queue_goes_first { ReplayStep::None } else { ReplayStep::Later })
            }
            Progress::Ended => {
                replays.pop_front();
                Err(ReplayStep::One)
            }
        }
    }

    fn load_retained(
        &mut self,
        index: ConnectionIndex,
        body: Body,
        queue_goes_first: bool,
    ) -> Result<Message, ReplayStep> {
        let spilled = match body {
            Body::Loaded(message) => return Ok(message),
            Body::Spilled(spilled) => spilled,
        };
        self.read_for_replay(index, &spilled).map_err(|error| {
            // A message that cannot be read does not block others.
            let is_last = error == LoadError::Failed || queue_goes_first;
            let step = if is_last { ReplayStep::None } else { ReplayStep::Later };
            self.put_back(index, Body::Spilled(spilled), step)
        })
    }

    /// Returns a message to the first replay, to be sent later.
    fn put_back(&mut self, index: ConnectionIndex, body: Body, step: ReplayStep) -> ReplayStep {
        if let Some(replay) = self.connections[index].replays().front_mut() {
            replay.next = Some(body);
        }
        step
    }

    fn send_retained(&mut self, session: SessionIndex, index: ConnectionIndex, due: DueRetained) {
        let DueRetained { message, qos, identifier, packet_id } = due;
        self.routing.scans.spend(message.payload().len());
        let options = DeliveryOptions::of_retained(qos, identifier.as_slice());
        if self.operations.has_observers() && self.fits(index, &message.as_ref(), identifier.as_slice()) {
            self.trace_resend(Step::Retained, &message.as_ref(), session, qos);
        }
        match packet_id {
            Some(packet_id) => {
                let mut outgoing = OutgoingPublish { is_retained_replay: true, ..OutgoingPublish::of(&message) };
                let delivery = options.to_pending(&mut outgoing, self.memory.ledger());
                self.send_now(session, index, packet_id, delivery, &outgoing, options);
            }
            None if self.write_publish(index, &OutgoingPublish::of(&message), options, None, false) => {}
            None => self.count_unsendable(index, message.topic()),
        }
    }

    /// The replay of the retained messages that `scan` finds for a subscription. `replaces` says whether it replaces another subscription.
    pub(crate) fn new_replay(
        &self,
        session: SessionIndex,
        scan: Scan,
        subscription: &SubscriptionRecord,
        replaces: bool,
    ) -> Replay {
        // After the messages that are queued already.
        let after =
            self.sessions[session].outbound().map_or(0, |outbound| outbound.left_queue() + outbound.queued() as u64);
        let mut charge = Charge::new(self.memory.ledger(), Kind::Replay);
        charge.set(size_of::<Replay>() + scan.filter().len());
        Replay {
            after,
            scan,
            next: None,
            load_queue: LoadQueue::default(),
            qos: subscription.options.qos,
            identifier: subscription.identifier,
            format: subscription.format,
            live_from: M::live_start(self, session),
            replaces,
            charge,
        }
    }

    /// Adds the replay for a subscription. It replaces an older replay for the same filter.
    pub(crate) fn add_replay(&mut self, index: ConnectionIndex, replay: Replay) {
        let replays = self.connections[index].replays();
        if replay.replaces {
            replays.retain(|other| other.scan.filter() != replay.scan.filter() || other.format != replay.format);
        }
        replays.push_back(replay);
    }

    /// Cancels the replays for a subscription.
    pub(crate) fn cancel_replay(
        &mut self,
        session: SessionIndex,
        index: ConnectionIndex,
        filter: &str,
        format: Option<Format>,
    ) {
        let key = self.sessions.key(session);
        self.routing.scans.cancel_replay(&key, filter, format);
        self.spill.cancel_replay(&key, filter, format);
        if !self.connections[index].has_replays() {
            return;
        }
        let replays = self.connections[index].replays();
        replays.retain(|replay| replay.scan.filter() != filter || replay.format != format);
    }

    /// Applies the new options of a subscription to its pending replays.
    pub(crate) fn update_replay(
        &mut self,
        index: ConnectionIndex,
        request: FormatRequest<'_>,
        qos: QoS,
        identifier: Option<SubscriptionId>,
    ) {
        if !self.connections[index].has_replays() {
            return;
        }
        for replay in self.connections[index].replays() {
            if replay.scan.filter() == request.filter && replay.format == request.format {
                (replay.qos, replay.identifier) = (qos, identifier);
            }
        }
    }

    /// Moves the rest of a replay to the session's queue after the client has disconnected. If the session persists, messages of
    /// QoS 1 and 2 are queued, as far as the queue has room.
    pub(crate) fn move_replay_to_queue(&mut self, session: Option<SessionIndex>, mut replay: Replay) {
        let Some(session) = session.filter(|_| replay.qos != QoS::AtMostOnce) else { return };
        let mut portion = CLIENT_STEPS;
        loop {
            let found = match replay.next.take() {
                Some(body) => Progress::Found(body),
                None => self.routing.scans.next(self.context.exchange(), &mut replay.scan, &mut portion),
            };
            let body = match found {
                Progress::Found(body) => body,
                Progress::Paused => {
                    self.defer_offline_replay(session, replay);
                    return;
                }
                Progress::Ended => return,
            };
            let qos = replay.qos.min(body.qos());
            if qos == QoS::AtMostOnce {
                continue;
            }
            // Checked before the message is read from disk, which would be useless.
            let topic = body.loaded().map_or("", |message| message.topic());
            if !self.can_queue_retained(session, topic, body.allocated_bytes() + size_of::<PendingMessage>()) {
                return;
            }
            let message = match body {
                Body::Loaded(message) => message,
                Body::Spilled(spilled) => match self.read_for_offline_replay(session, replay, &spilled) {
                    Some((returned, message)) => {
                        replay = returned;
                        message
                    }
                    None => return,
                },
            };
            if !self.is_current(&message) || replay.live_from.as_ref().is_some_and(|start| start.delivers(message.id()))
            {
                continue;
            }
            let Some(message) = self.transcode_retained(session, message, replay.format, false) else { continue };
            self.routing.scans.spend(message.payload().len());
            let options = DeliveryOptions::of_retained(qos, replay.identifier.as_slice());
            let delivery = options.to_pending(&mut OutgoingPublish::of(&message), self.memory.ledger());
            // After transcoding, it may be larger than the stored message.
            if !self.can_queue_retained(session, message.topic(), delivery.counted_bytes()) {
                return;
            }
            self.commit(session, Change::Queued(delivery));
        }
    }

    /// Whether a retained message has neither expired nor been replaced since it was found. If it was replaced, the client has
    /// received the new one live.
    pub(crate) fn is_current(&self, message: &Message) -> bool {
        !message.as_ref().is_expired(self.clock.now_ms())
            && self.context.exchange().retained_message(message.topic()).is_some_and(|held| held.id() == message.id())
    }

    /// Whether the client gets the message that its first replay has found as a live message.
    fn is_delivered_live(&mut self, index: ConnectionIndex, message: &Message) -> bool {
        let first = self.connections[index].replays().front();
        first.and_then(|replay| replay.live_from.as_ref()).is_some_and(|start| start.delivers(message.id()))
    }
}

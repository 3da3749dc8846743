//! Steps of [`super`] that need several states of a shard.

use tautwire_message::MessageRef;
use tautwire_protocol::{QoS, ReasonCode};
use tautwire_session::{Outbound, split_session_name};

use super::{OpenSpan, Span, Step, Trace, Tracer, mix_id, span_id};
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::routing::route::MessageSource;
use crate::shard::ShardState;

/// The maximum number of receivers of one message with a span, on each shard.
const DELIVERIES_MAX: usize = 16;

/// The maximum number of open spans of a shard.
const OPEN_MAX: usize = 256;

/// The salt of the span for publishing. Those of receivers are higher.
const PUBLISH_SALT: u64 = 3;

/// Added to the salt of a receiver for the span in which a message leaves its queue. Shards and sessions use fewer bits.
const FROM_QUEUE: u64 = 1 << 62;

impl<M: Mode> ShardState<M> {
    /// Traces a message that was published and delivered to `receivers` of this shard. `reason` is the reason code of its acknowledgement.
    #[cold]
    pub(crate) fn trace(
        &mut self,
        message: &MessageRef<'_>,
        publisher: MessageSource,
        reason: ReasonCode,
        receivers: impl Iterator<Item = (SessionIndex, QoS)>,
    ) {
        let Some(tracer) = self.operations.tap.traces.tracer.clone() else { return };
        // Messages of the broker itself are not traced.
        if publisher == MessageSource::Broker || message.topic.starts_with("$SYS/") {
            return;
        }
        let Some(trace) = tracer.trace_of(message) else { return };
        let mut skipped = 0;
        for (number, (session, qos)) in receivers.enumerate() {
            if number >= DELIVERIES_MAX {
                skipped += 1;
            } else if let Some(span) = self.span_for_delivery(&trace, message, session, qos) {
                tracer.sink.take(span);
            }
        }
        if skipped > 0 {
            tracer.sink.skip(skipped);
        }
        if let MessageSource::Session(session) = publisher {
            self.trace_publish(&tracer, &trace, message, session, reason);
        }
    }

    /// Traces a message to the next member of a shared subscription.
    #[cold]
    pub(crate) fn trace_member(&self, message: &MessageRef<'_>, session: SessionIndex, qos: QoS) {
        if let Some(tracer) = &self.operations.tap.traces.tracer
            && let Some(trace) = tracer.trace_of(message)
            && let Some(span) = self.span_for_delivery(&trace, message, session, qos)
        {
            tracer.sink.take(span);
        }
    }

    /// Traces a message that leaves the queue of its receiver.
    #[cold]
    pub(crate) fn trace_from_queue(&self, message: &MessageRef<'_>, session: SessionIndex, qos: QoS) {
        self.trace_later(Step::Send, FROM_QUEUE, message, session, qos);
    }

    /// Traces a message that is sent again after a reconnection, or as a retained message.
    #[cold]
    pub(crate) fn trace_resend(&mut self, step: Step, message: &MessageRef<'_>, session: SessionIndex, qos: QoS) {
        // The same session may get it several times, even in one millisecond, and in another run of the broker.
        self.operations.tap.traces.resends += 1;
        let salt = mix_id(message.id, self.clock.now_ms()).wrapping_add(self.operations.tap.traces.resends);
        self.trace_later(step, salt, message, session, qos);
    }

    fn trace_later(&self, step: Step, salt: u64, message: &MessageRef<'_>, session: SessionIndex, qos: QoS) {
        if let Some(tracer) = &self.operations.tap.traces.tracer
            && !message.topic.starts_with("$SYS/")
            && let Some(trace) = tracer.trace_of(message)
        {
            tracer.sink.take(self.delivery_span(step, salt, &trace, message, session, qos));
        }
    }

    fn trace_publish(
        &mut self,
        tracer: &Tracer,
        trace: &Trace,
        message: &MessageRef<'_>,
        session: SessionIndex,
        reason: ReasonCode,
    ) {
        let mut span = self.span(Step::Publish(reason), trace, message, session);
        span.span_id = span_id(message.id, PUBLISH_SALT);
        span.parent_id = trace.parent_id;
        span.is_parent_remote = trace.parent_id.is_some();
        let waits = M::SPANS_WAIT && message.qos != QoS::AtMostOnce;
        match self.sessions.connection(session).filter(|_| waits) {
            None => tracer.sink.take(span),
            Some(_) if self.operations.tap.traces.open.len() >= OPEN_MAX => tracer.sink.skip(1),
            Some(connection) => {
                let connection = self.connections.id(connection);
                self.operations.tap.traces.open.push(OpenSpan { span, connection, until: None });
            }
        }
    }

    fn span_for_delivery(
        &self,
        trace: &Trace,
        message: &MessageRef<'_>,
        session: SessionIndex,
        qos: QoS,
    ) -> Option<Span> {
        let last = self.sessions[session].outbound().and_then(Outbound::back);
        let waits = qos != QoS::AtMostOnce && last.is_some_and(|last| last.message.id() == message.id);
        let step = match self.sessions.connection(session) {
            _ if waits => Step::Queue,
            Some(_) => Step::Send,
            // Messages of QoS 0 are not queued for offline clients, and a queue may be full.
            None => return None,
        };
        Some(self.delivery_span(step, 0, trace, message, session, qos))
    }

    fn delivery_span(
        &self,
        step: Step,
        salt: u64,
        trace: &Trace,
        message: &MessageRef<'_>,
        session: SessionIndex,
        qos: QoS,
    ) -> Span {
        let place = u64::from(self.context.shard().0) << 32 | session.number() as u64;
        let mut span = self.span(step, trace, message, session);
        span.span_id = span_id(message.id, salt.wrapping_add(PUBLISH_SALT + 1 + place));
        span.parent_id = Some(span_id(message.id, PUBLISH_SALT));
        span.qos = qos;
        span
    }

    /// A span of a session, without identifiers.
    fn span(&self, step: Step, trace: &Trace, message: &MessageRef<'_>, session: SessionIndex) -> Span {
        Span {
            step,
            trace_id: trace.trace_id,
            span_id: [0; 8],
            parent_id: None,
            is_parent_remote: false,
            trace_state: trace.state.clone(),
            message: message.id,
            topic: message.topic.into(),
            client_id: Some(split_session_name(self.sessions[session].name()).1.into()),
            qos: message.qos,
            payload_bytes: message.payload.len(),
            started_at_ms: self.clock.now_ms(),
        }
    }

    /// Ends the spans whose acknowledgement was sent. Call this at the end of a turn.
    #[cold]
    pub(crate) fn end_spans(&mut self) {
        let Some(tracer) = self.operations.tap.traces.tracer.clone() else { return };
        for mut open in std::mem::take(&mut self.operations.tap.traces.open) {
            // The oldest and the newest delayed acknowledgement: they are sent in order.
            let waiting = self.connections.get(open.connection).and_then(|connection| connection.delayed_positions());
            let until = open.until.or(waiting.map(|(_, last)| last));
            if waiting.zip(until).is_some_and(|((first, _), until)| first <= until) {
                open.until = until;
                self.operations.tap.traces.open.push(open);
            } else {
                tracer.sink.take(open.span);
            }
        }
    }
}

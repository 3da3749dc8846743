//! Sessions opened one at a time, blocking: for scenarios with few connections, before the measurement.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use super::context::Context;
use crate::failure::{ErrorContext, Failure, Result};
use crate::mqtt::{self, Frames, Incoming, PacketId, QoS};
use crate::net::{Connection, Role, Stream, connect_from};

/// The time without progress after which a run stops and missing messages count as lost.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time for outstanding messages at the end of a phase, after which missing messages count as lost.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const FILTERS_PER_SUBSCRIBE: usize = 100;

/// A session after its CONNACK, still blocking.
pub(super) struct Session {
    stream: Stream,
    next_packet_id: u16,
}

/// Opens a connection in a role: to the relay with its hello, to a broker with CONNECT (and SUBSCRIBE to `topic` for
/// the roles that receive).
pub(super) fn open_as(
    context: &Context<'_>,
    role: Role,
    client_id: &str,
    topic: &str,
    qos: QoS,
    packet_bytes: usize,
) -> Result<Connection> {
    open_at(context, context.broker.address, role, client_id, topic, qos, packet_bytes)
}

/// The same for a specific broker of a cluster.
pub(super) fn open_at(
    context: &Context<'_>,
    address: SocketAddr,
    role: Role,
    client_id: &str,
    topic: &str,
    qos: QoS,
    packet_bytes: usize,
) -> Result<Connection> {
    if context.broker.kind.is_relay() {
        let mut stream = connect(context, address)?;
        let frame_bytes = u32::try_from(packet_bytes).during(|| "packet size for the relay".to_owned())?;
        stream.write_all(&role.hello(frame_bytes))?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        return if answer == [Role::ACCEPTED] {
            stream.into_connection()
        } else {
            Err(Failure::new("the relay refused the hello"))
        };
    }
    let connect = mqtt::connect(context.version, client_id, mqtt::KEEP_ALIVE_S)?;
    let mut session = Session::open_with(context, address, &connect)?;
    if role != Role::Publisher {
        session.subscribe(context, &[topic], qos)?;
    }
    session.into_connection()
}

impl Session {
    pub(super) fn open(context: &Context<'_>, client_id: &str) -> Result<Self> {
        Self::open_with(
            context,
            context.broker.address,
            &mqtt::connect(context.version, client_id, mqtt::KEEP_ALIVE_S)?,
        )
    }

    /// A session that outlives its connection, and has no queued messages yet.
    pub(super) fn open_persistent(context: &Context<'_>, address: SocketAddr, client_id: &str) -> Result<Self> {
        Self::open_with(context, address, &mqtt::connect_persistent(context.version, client_id, mqtt::KEEP_ALIVE_S)?)
    }

    fn open_with(context: &Context<'_>, address: SocketAddr, packet: &[u8]) -> Result<Self> {
        let mut session = Self { stream: connect(context, address)?, next_packet_id: 0 };
        session.stream.write_all(packet)?;
        session.expect(context, |incoming| matches!(incoming, Incoming::ConnAck { refusal: 0, .. }))?;
        Ok(session)
    }

    /// Subscribes, with many filters per packet, and checks that all are granted at `qos`.
    pub(super) fn subscribe(&mut self, context: &Context<'_>, filters: &[&str], qos: QoS) -> Result<()> {
        for some in filters.chunks(FILTERS_PER_SUBSCRIBE) {
            self.next_packet_id = self.next_packet_id.checked_add(1).unwrap_or(1);
            let id = PacketId::new(self.next_packet_id).ok_or_else(|| Failure::new("packet id 0"))?;
            self.stream.write_all(&mqtt::subscribe(context.version, id, some.iter().copied(), qos)?)?;
            self.expect(context, |incoming| {
                *incoming == Incoming::SubAck { refused: false, granted_qos: qos.as_u8() }
            })?;
        }
        Ok(())
    }

    pub(super) fn into_connection(self) -> Result<Connection> {
        self.stream.into_connection()
    }

    /// Reads the next packet, which must satisfy `wanted` and be the only one.
    fn expect(&mut self, context: &Context<'_>, wanted: impl FnOnce(&Incoming<'_>) -> bool) -> Result<()> {
        let mut input = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let read = self.stream.read(&mut chunk).during(|| "waiting for the broker's answer".to_owned())?;
            if read == 0 {
                return Err(Failure::new("the broker closed the connection instead of answering"));
            }
            input.extend_from_slice(&chunk[..read]);
            let mut frames = Frames::of(&input);
            if let Some(frame) = frames.next_frame()? {
                let incoming = frame.read(context.version.is_v5())?;
                if wanted(&incoming) && frames.rest().is_empty() {
                    return Ok(());
                }
                return Err(Failure::new(format!("the broker answered with {incoming:?}")));
            }
        }
    }
}

fn connect(context: &Context<'_>, address: SocketAddr) -> Result<Stream> {
    let stream = connect_from(None, address)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    Stream::new(stream, context.broker.tls.as_ref())
}

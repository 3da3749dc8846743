//! A publisher that sends very many messages at QoS 1, as fast as its window allows.

use std::time::{Duration, Instant};

use super::client_group::StallTimer;
use super::context::Context;
use super::session::{STALL_TIMEOUT, open_as};
use crate::failure::{Failure, Result};
use crate::mqtt::{Incoming, PacketIds, PayloadStamp, Publishes, QoS};
use crate::net::{Connection, Poller, ReadBuffer, Role};

pub(super) struct StoreClient {
    connection: Connection,
    poller: Poller,
    buffer: ReadBuffer,
    in_flight: PacketIds,
    window: usize,
}

/// The result of the publisher.
#[derive(Debug, Default)]
pub(super) struct StoreResult {
    pub elapsed: Duration,
    pub violations: u64,
}

impl StoreClient {
    pub(super) fn open(context: &Context<'_>, client_id: &str, window: usize) -> Result<Self> {
        let connection = open_as(context, Role::Publisher, client_id, "", QoS::AtLeastOnce, 0)?;
        let poller = Poller::new()?;
        poller.add(connection.stream(), 0)?;
        Ok(Self { connection, poller, buffer: ReadBuffer::new(), in_flight: PacketIds::new(), window })
    }

    /// Publishes all of them, numbered from `first`, and waits until they are acknowledged.
    pub(super) fn store(
        &mut self,
        context: &Context<'_>,
        publishes: &mut Publishes,
        first: u64,
    ) -> Result<StoreResult> {
        let Self { connection, poller, buffer, in_flight, window } = self;
        let (mut next, mut violations) = (0, 0);
        let begun = Instant::now();
        let mut stall_timer = StallTimer::new(STALL_TIMEOUT);
        let mut waits_for_writable = false;
        while next < publishes.len() || in_flight.len() > 0 {
            let until = (next + *window - in_flight.len()).min(publishes.len());
            if next < until && !connection.has_unsent() {
                for index in next..until {
                    let stamp = PayloadStamp { seq: first + index as u64, publisher: 0, run: context.run };
                    publishes.stamp(index, stamp, in_flight.allocate());
                }
                connection.send(publishes.bytes(next..until))?;
                next = until;
            }
            if connection.has_unsent() != waits_for_writable {
                waits_for_writable = connection.has_unsent();
                poller.set_writable_interest(connection.stream(), 0, waits_for_writable)?;
            }
            poller.wait(Some(Duration::from_millis(100)))?;
            let before = in_flight.len();
            if poller.ready_count() > 0 {
                connection.read_frames(buffer, |frame| {
                    let is_due = match frame.read(context.version.is_v5())? {
                        Incoming::PubAck { packet_id, refused } => in_flight.remove(packet_id) && !refused,
                        _ => false,
                    };
                    violations += u64::from(!is_due);
                    Ok(())
                })?;
                connection.flush()?;
            }
            if stall_timer.is_over((before - in_flight.len()) as u64) {
                let left = publishes.len() - next + in_flight.len();
                return Err(Failure::new(format!("{left} of {} messages were not acknowledged", publishes.len())));
            }
        }
        Ok(StoreResult { elapsed: begun.elapsed(), violations })
    }
}

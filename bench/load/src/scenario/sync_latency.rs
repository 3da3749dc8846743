use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::parameters::plain_payload;
use super::session::{STALL_TIMEOUT, Session};
use crate::failure::{Failure, Result};
use crate::measure::{Histogram, Measurement, Sequence};
use crate::mqtt::{Incoming, PacketIds, PayloadForm, PayloadStamp, Publishes, QoS, ack};
use crate::net::{Connection, Poller, ReadBuffer};
use crate::system::{Load, Meter};

const TOPIC: &str = "bench/one-at-a-time";
/// The minimum write of a log.
const BLOCK_BYTES: usize = 4096;
/// The number of blocks of the synced file; all of them are written before the measurement.
const FILE_BLOCKS: u64 = 1024;
const PUBLISHER: usize = 0;
const SUBSCRIBER: usize = 1;

/// One message at a time, QoS 1, to a persistent session: from PUBLISH to PUBACK, compared with the `fdatasync` of a block that is
/// written to the same disk. Slices of both alternate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SyncLatency {
    pub messages: u64,
    pub slices: u64,
    pub payload_bytes: usize,
}

impl Default for SyncLatency {
    fn default() -> Self {
        Self { messages: 4000, slices: 40, payload_bytes: 256 }
    }
}

impl SyncLatency {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        let each = self.messages / self.slices.max(1);
        if each == 0 || self.slices == 0 {
            return Err(Failure::new("each slice needs at least one message"));
        }
        let form = plain_payload(self.payload_bytes)?;
        let disk = Disk::open(&context.broker.file_beside("bench-sync")?)?;
        let mut pair = Pair::open(context, &form)?;
        let (mut published, mut synced) = (Histogram::default(), Histogram::default());
        // The first operation is not representative.
        pair.publish(context, &form, each, &mut Histogram::default())?;
        let mut load = Load::default();
        for slice in 0..self.slices {
            let meter = Meter::begin(context.broker)?;
            pair.publish(context, &form, each, &mut published)?;
            load.add(&meter.end(context.broker)?);
            disk.sync(slice * each, each, &mut synced)?;
        }
        let mut account = pair.received.account(pair.sent);
        account.published = pair.sent;
        account.violations += pair.violations;
        let mut measurement = Measurement::of(account);
        measurement.set("p50_times_fdatasync", published.quantile_us(0.5) / synced.quantile_us(0.5));
        measurement.set("p99_times_fdatasync", published.quantile_us(0.99) / synced.quantile_us(0.99));
        measurement.set("broker_cpu_us_per_publish", load.broker_cpu_s * 1e6 / self.messages as f64);
        measurement.set_latencies("", published);
        measurement.set_latencies("fdatasync_", synced);
        load.describe(context.broker, &mut measurement)?;
        Ok(measurement)
    }
}

/// A publisher and a subscriber that wait for each other.
struct Pair {
    publisher: Connection,
    subscriber: Connection,
    poller: Poller,
    buffer: ReadBuffer,
    publishes: Publishes,
    packet_ids: PacketIds,
    received: Sequence,
    sent: u64,
    violations: u64,
}

impl Pair {
    fn open(context: &Context<'_>, form: &PayloadForm) -> Result<Self> {
        let mut session = Session::open_persistent(context, context.broker.address, "bench-one-sub")?;
        session.subscribe(context, &[TOPIC], QoS::AtLeastOnce)?;
        let subscriber = session.into_connection()?;
        let publisher = Session::open(context, "bench-one-pub")?.into_connection()?;
        let poller = Poller::new()?;
        poller.add(publisher.stream(), PUBLISHER)?;
        poller.add(subscriber.stream(), SUBSCRIBER)?;
        Ok(Self {
            publisher,
            subscriber,
            poller,
            buffer: ReadBuffer::new(),
            publishes: Publishes::encode(context.version, QoS::AtLeastOnce, form, [TOPIC])?,
            packet_ids: PacketIds::new(),
            received: Sequence::default(),
            sent: 0,
            violations: 0,
        })
    }

    /// The next message is sent when the last is acknowledged and delivered.
    fn publish(&mut self, context: &Context<'_>, form: &PayloadForm, count: u64, times: &mut Histogram) -> Result<()> {
        for _ in 0..count {
            let stamp = PayloadStamp { seq: self.sent, publisher: 0, run: context.run };
            self.publishes.stamp(0, stamp, self.packet_ids.allocate());
            self.sent += 1;
            let begun = Instant::now();
            self.publisher.send(self.publishes.bytes(0..1))?;
            let (mut is_acknowledged, mut is_delivered) = (false, false);
            while !is_acknowledged || !is_delivered {
                if begun.elapsed() > STALL_TIMEOUT {
                    return Err(Failure::new(format!("message {} was not acknowledged and delivered", stamp.seq)));
                }
                self.poller.wait(Some(Duration::from_millis(100)))?;
                for index in 0..self.poller.ready_count() {
                    if self.poller.ready(index).token == PUBLISHER {
                        if self.read_acknowledgement(context)? {
                            times.record(begun.elapsed().as_nanos() as u64);
                            is_acknowledged = true;
                        }
                    } else {
                        is_delivered |= self.read_delivery(context, form)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn read_acknowledgement(&mut self, context: &Context<'_>) -> Result<bool> {
        let (packet_ids, violations) = (&mut self.packet_ids, &mut self.violations);
        let mut is_there = false;
        self.publisher.read_frames(&mut self.buffer, |frame| {
            match frame.read(context.version.is_v5())? {
                Incoming::PubAck { packet_id, refused: false } if packet_ids.remove(packet_id) => is_there = true,
                _ => *violations += 1,
            }
            Ok(())
        })?;
        Ok(is_there)
    }

    fn read_delivery(&mut self, context: &Context<'_>, form: &PayloadForm) -> Result<bool> {
        let (received, violations) = (&mut self.received, &mut self.violations);
        let (mut is_there, mut answer) = (false, Vec::new());
        self.subscriber.read_frames(&mut self.buffer, |frame| {
            match frame.read(context.version.is_v5())? {
                Incoming::Publish { qos: 1, packet_id, payload } => {
                    let stamp = form.read(payload, context.run);
                    is_there |= stamp.is_some_and(|stamp| received.arrive(stamp.seq));
                    answer.extend_from_slice(&ack(0x40, packet_id));
                }
                _ => *violations += 1,
            }
            Ok(())
        })?;
        self.subscriber.send(&answer)?;
        Ok(is_there)
    }
}

/// A file on the same disk as the broker's data.
struct Disk(File);

impl Disk {
    fn open(path: &Path) -> Result<Self> {
        let file = File::options().write(true).create_new(true).open(path)?;
        file.write_all_at(&vec![0; BLOCK_BYTES * FILE_BLOCKS as usize], 0)?;
        file.sync_all()?;
        Ok(Self(file))
    }

    /// Writes and syncs one block after the other.
    fn sync(&self, first: u64, count: u64, times: &mut Histogram) -> Result<()> {
        let block = [0x55; BLOCK_BYTES];
        for number in first..first + count {
            let begun = Instant::now();
            self.0.write_all_at(&block, number % FILE_BLOCKS * BLOCK_BYTES as u64)?;
            self.0.sync_data()?;
            times.record(begun.elapsed().as_nanos() as u64);
        }
        Ok(())
    }
}

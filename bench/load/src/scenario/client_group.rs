//! Very many subscribers of one topic, and their reactions to a message.

use std::time::{Duration, Instant};

use super::context::Context;
use super::session_mill::{SessionMill, Steps, Topic};
use crate::failure::Result;
use crate::measure::Sequence;
use crate::mqtt::{Frame, Incoming, PayloadForm};
use crate::net::{Connection, Poller, ReadBuffer};

/// The number of concurrent handshakes.
const PARALLEL: u64 = 100;

pub(super) struct ClientGroup {
    pub members: Vec<Member>,
    poller: Poller,
    buffer: ReadBuffer,
    form: PayloadForm,
    v5: bool,
    run: u32,
    /// Messages that differ from what was published, and unexpected packets.
    pub corrupted: u64,
    pub violations: u64,
}

pub(super) struct Member {
    pub connection: Connection,
    pub received: Sequence,
    waits_for_writable: bool,
}

impl ClientGroup {
    /// Connects `count` members, all subscribed to `topic`. Also returns the time it took.
    pub(super) fn connect_all(
        context: &Context<'_>,
        count: u64,
        topic: &'static str,
        form: PayloadForm,
    ) -> Result<(Self, Duration)> {
        let steps = Steps {
            subscribe: Some(Topic::Shared(topic)),
            publish: false,
            disconnect: false,
            keep_alive_s: 600,
            client_ids: "bench-crowd",
        };
        let mut mill = SessionMill::new(context, steps)?;
        let took = mill.run(PARALLEL, count)?;
        let poller = Poller::new()?;
        let mut members = Vec::new();
        for connection in mill.into_connections() {
            poller.add(connection.stream(), members.len())?;
            members.push(Member { connection, received: Sequence::default(), waits_for_writable: false });
        }
        let client_group = Self {
            members,
            poller,
            buffer: ReadBuffer::new(),
            form,
            v5: context.version.is_v5(),
            run: context.run,
            corrupted: 0,
            violations: 0,
        };
        Ok((client_group, took))
    }

    /// Waits for readiness and reads once from each ready member. `received` is called for each new message, with the member's
    /// number, and returns what the member sends in response. Returns the number of messages.
    pub(super) fn turn(
        &mut self,
        timeout: Duration,
        mut received: impl FnMut(usize, &mut Connection) -> Result<()>,
    ) -> Result<u64> {
        self.poller.wait(Some(timeout))?;
        let mut messages = 0;
        for index in 0..self.poller.ready_count() {
            let ready = self.poller.ready(index);
            let member = &mut self.members[ready.token];
            if ready.readable {
                let mut news = 0;
                let (form, run, v5) = (&self.form, self.run, self.v5);
                let (sequence, corrupted, violations) =
                    (&mut member.received, &mut self.corrupted, &mut self.violations);
                member.connection.read_frames(&mut self.buffer, |frame: Frame<'_>| {
                    match frame.read(v5)? {
                        Incoming::Publish { payload, .. } => match form.read(payload, run) {
                            Some(stamp) => news += u64::from(sequence.arrive(stamp.seq)),
                            None => *corrupted += 1,
                        },
                        _ => *violations += 1,
                    }
                    Ok(())
                })?;
                for _ in 0..news {
                    received(ready.token, &mut member.connection)?;
                }
                messages += news;
            }
            member.connection.flush()?;
            if member.connection.has_unsent() != member.waits_for_writable {
                member.waits_for_writable = member.connection.has_unsent();
                self.poller.set_writable_interest(
                    member.connection.stream(),
                    ready.token,
                    member.waits_for_writable,
                )?;
            }
        }
        Ok(messages)
    }
}

/// The timeout of a wait for `expected` messages without progress.
pub(super) struct StallTimer {
    last_progress: Instant,
    limit: Duration,
}

impl StallTimer {
    pub(super) fn new(limit: Duration) -> Self {
        Self { last_progress: Instant::now(), limit }
    }

    /// Returns true if nothing has arrived for too long.
    pub(super) fn is_over(&mut self, messages: u64) -> bool {
        if messages > 0 {
            self.last_progress = Instant::now();
        }
        self.last_progress.elapsed() > self.limit
    }
}

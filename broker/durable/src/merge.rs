//! Merges the last snapshot and the log after it into the next snapshot. Retained messages are not held in memory: of a million, most have
//! not changed since the last snapshot, and are copied from file to file.

use std::ops::Range;

use tautwire_journal::record::{Record, Records};
use tautwire_journal::{Disk, DurableFrames, LogError, Position, Reader, SnapshotCandidates, SnapshotReader, Step};
use tautwire_message::{MessageId, MessageRef};
use tautwire_session::{LATE_CHANGES_MAX, Record as SessionRecord, RetainedChange};

use crate::error::{CompactError, RecoveryError};
use crate::inspection::read_snapshot;
use crate::last_changes::LastChanges;
use crate::mutant::{Mutant, is};
use crate::recovery::Recovery;
use crate::snapshot::{SnapshotBuilder, SnapshotHead, write_snapshot};
use crate::spill_queue::{ById, SpillStore};

/// Memory that is used regardless of the state: parts of the log and of both snapshots.
const BUFFERS_BYTES: usize = 6 << 20;

/// The number of records of a frame that are processed between calls of `should_continue`.
const RECORDS_PER_CHECK: usize = 256;

/// Makes a snapshot of the log up to the frame that `head` names, which must be durable.
///
/// Reads from disk. The log may be written meanwhile, but nothing else may remove its retired segments. Messages of sessions go to `store`
/// if memory is short. Returns the size of the snapshot in bytes, or `None` if `should_continue` has returned false.
///
/// # Errors
/// See [`CompactError`]. No snapshot was made.
pub fn compact<D: Disk>(
    disk: &D,
    head: SnapshotHead,
    store: &mut dyn SpillStore,
    should_continue: impl Fn() -> bool,
) -> Result<Option<u64>, CompactError> {
    match merge(disk, head, store, &should_continue) {
        Ok(made) => Ok(made),
        Err(MergeError::Failed(error)) => Err(error),
        Err(MergeError::NotMergeable) => rebuild(disk, head, store, &should_continue),
    }
}

/// Why merging failed.
enum MergeError {
    /// The data is damaged, or a record names a message outside of its own frame. The format allows that, although this program never
    /// writes it.
    NotMergeable,
    Failed(CompactError),
}

impl From<LogError> for MergeError {
    fn from(error: LogError) -> MergeError {
        MergeError::Failed(error.into())
    }
}

impl From<RecoveryError> for MergeError {
    fn from(error: RecoveryError) -> MergeError {
        MergeError::Failed(error.into())
    }
}

/// Does the same with the whole state in memory and a reader that reports damage.
fn rebuild<D: Disk>(
    disk: &D,
    head: SnapshotHead,
    store: &mut dyn SpillStore,
    should_continue: &impl Fn() -> bool,
) -> Result<Option<u64>, CompactError> {
    let mut recovery = Recovery::new(store.ledger()).spill_into(&mut *store);
    recovery.other_bytes = BUFFERS_BYTES;
    let mut covered = read_snapshot(disk, &mut recovery)?.covered;
    let mut reader = Reader::open(disk, covered)?;
    // The log may end earlier if its last frames are not turns.
    while covered < head.covered
        && let Some(step) = reader.step()?
    {
        match step {
            Step::Frame(frame) if frame.position <= head.covered => {
                covered = frame.position;
                recovery.frame(frame.body)?;
            }
            Step::Frame(_) => break,
            Step::Damage(damage) => return Err(LogError::Damaged(Box::new(damage)).into()),
        }
        if !should_continue() {
            return Ok(None);
        }
    }
    let replay = recovery.finish();
    Ok(write_snapshot(&replay, disk, head, |spilled| store.read(spilled), should_continue)?)
}

fn merge<D: Disk>(
    disk: &D,
    head: SnapshotHead,
    store: &mut dyn SpillStore,
    should_continue: &impl Fn() -> bool,
) -> Result<Option<u64>, MergeError> {
    let last = match SnapshotCandidates::of(disk)?.next_candidate()? {
        Some((_, None)) => return Err(MergeError::NotMergeable),
        Some((_, reader)) => reader,
        None => None,
    };
    let covered = last.as_ref().map_or(Position::START, SnapshotReader::covered);
    let mut changes = LastChanges::default();
    if !for_each_frame(disk, covered..head.covered, should_continue, |body| collect_changes(body, &mut changes))? {
        return Ok(None);
    }
    changes.dedup();
    let mut recovery = Recovery::new(store.ledger()).spill_into(&mut *store);
    recovery.other_bytes = BUFFERS_BYTES + changes.held_bytes();
    let mut merger = Merger { recovery, changes, snapshot: SnapshotBuilder::begin(disk, head)? };
    let merged = merger.take_all(disk, last, covered..head.covered, should_continue);
    let Merger { recovery, mut snapshot, .. } = merger;
    let replay = recovery.finish();
    let added = merged
        .and_then(|is_all| Ok(is_all && snapshot.add_all(&replay, |spilled| store.read(spilled), should_continue)?));
    snapshot.end(added)
}

/// Calls `visit` with the bodies of the frames after `range.start` up to `range.end`, all of which are durable. Returns whether these were
/// all frames, which is false if `should_continue` returned false.
fn for_each_frame<D: Disk>(
    disk: &D,
    range: Range<Position>,
    should_continue: &impl Fn() -> bool,
    mut visit: impl FnMut(&[u8]) -> Result<(), MergeError>,
) -> Result<bool, MergeError> {
    let mut frames = DurableFrames::open(disk, range.start)?;
    while frames.last() < range.end
        && let Some(frame) = frames.step()?
        && frame.position <= range.end
    {
        if !(is(Mutant::SnapshotEndsOneFrameEarly) && frame.position == range.end) {
            visit(frame.body)?;
        }
        if !should_continue() {
            return Ok(false);
        }
    }
    if frames.last() < range.end {
        return Err(MergeError::NotMergeable);
    }
    Ok(true)
}

/// The messages of a frame, with a flag whether the recovery has them.
type MessagesOfFrame<'a> = ById<(MessageRef<'a>, bool)>;

fn collect_changes(body: &[u8], changes: &mut LastChanges) -> Result<(), MergeError> {
    let mut last = None;
    for record in Records::new(body) {
        match record.map_err(RecoveryError::Record)? {
            Record::Message(message) => last = Some(message),
            Record::RetainedSet { sequence, message } => {
                // It is nearly always the last one, so no map is needed.
                let last = last.filter(|last| last.id == message);
                let message = last.or_else(|| find_message(body, message)).ok_or(MergeError::NotMergeable)?;
                changes.add(message.topic, sequence);
            }
            Record::RetainedCleared { sequence, topic } => changes.add(topic, sequence),
            _ => {}
        }
    }
    Ok(())
}

/// Finds the first message with this identity in a frame.
#[cold]
fn find_message(body: &[u8], id: MessageId) -> Option<MessageRef<'_>> {
    Records::new(body).map_while(Result::ok).find_map(|record| match record {
        Record::Message(message) if message.id == id => Some(message),
        _ => None,
    })
}

/// Whether a frame is from the snapshot or from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Snapshot,
    Log,
}

struct Merger<'s, D: Disk> {
    /// The state without retained messages.
    recovery: Recovery<'s>,
    changes: LastChanges,
    snapshot: SnapshotBuilder<D>,
}

impl<D: Disk> Merger<'_, D> {
    /// Processes the last snapshot and the frames of the log after it. Returns whether it has processed all of them.
    fn take_all(
        &mut self,
        disk: &D,
        last: Option<SnapshotReader<D>>,
        range: Range<Position>,
        should_continue: &impl Fn() -> bool,
    ) -> Result<bool, MergeError> {
        if let Some(mut last) = last {
            while let Some(frame) = last.step()? {
                self.take(frame.body, Source::Snapshot, should_continue)?;
                if !should_continue() {
                    return Ok(false);
                }
            }
            if !last.is_whole() {
                return Err(MergeError::NotMergeable);
            }
        }
        for_each_frame(disk, range, should_continue, |body| {
            self.recovery.begin_frame();
            self.take(body, Source::Log, should_continue)
        })
    }

    /// Processes a frame. Calls `should_continue` now and then only to let it yield; the caller checks its result.
    fn take(&mut self, body: &[u8], from: Source, should_continue: &impl Fn() -> bool) -> Result<(), MergeError> {
        let mut messages = MessagesOfFrame::default();
        for (number, record) in Records::new(body).enumerate() {
            if number % RECORDS_PER_CHECK == RECORDS_PER_CHECK - 1 {
                should_continue();
            }
            let record = record.map_err(RecoveryError::Record)?;
            match record {
                Record::Message(message) => {
                    messages.entry(message.id).or_insert((message, false));
                }
                Record::RetainedSet { sequence, message } => {
                    let (message, _) = messages.get(&message).ok_or(MergeError::NotMergeable)?;
                    self.count(sequence)?;
                    if self.is_last(message.topic, sequence, from) {
                        self.snapshot.add_retained(sequence, message)?;
                    }
                }
                Record::RetainedCleared { sequence, topic } => {
                    self.count(sequence)?;
                    if self.is_last(topic, sequence, from)
                        && self.can_precede_older_change(sequence)
                        && !is(Mutant::MergeDropsCleared)
                    {
                        let change = &RetainedChange::Cleared(topic.into());
                        self.snapshot.add(&SessionRecord::Retained { sequence, change })?;
                    }
                }
                record => self.apply_other(&record, &mut messages)?,
            }
        }
        self.recovery.end_frame(body.len());
        Ok(())
    }

    fn apply_other(&mut self, record: &Record<'_>, messages: &mut MessagesOfFrame<'_>) -> Result<(), MergeError> {
        if let Some((message, is_taken @ false)) = record.message().and_then(|id| messages.get_mut(&id)) {
            self.recovery.record(&Record::Message(*message))?;
            *is_taken = true;
        }
        match self.recovery.record(record) {
            Err(RecoveryError::MessageMissing(_)) => Err(MergeError::NotMergeable),
            taken => Ok(taken?),
        }
    }

    /// Continues the sequence numbers of changes after this one.
    fn count(&mut self, sequence: u64) -> Result<(), RecoveryError> {
        self.recovery.record(&Record::Counted { last_session: 0, last_sequence: sequence })
    }

    fn is_last(&mut self, topic: &str, sequence: u64, from: Source) -> bool {
        match from {
            Source::Snapshot => self.changes.is_unchanged(topic, sequence),
            Source::Log => self.changes.is_last(topic, sequence),
        }
    }

    fn can_precede_older_change(&self, sequence: u64) -> bool {
        let newest = self.recovery.replay.last_sequence().max(self.changes.last_sequence());
        newest.saturating_sub(sequence) <= LATE_CHANGES_MAX
    }
}

#[cfg(test)]
mod tests {
    use tautwire_message::Message;
    use tautwire_protocol::QoS;

    use super::*;
    use crate::frame_writer::FrameWriter;

    fn message(number: u64, topic: &str) -> Message {
        let id = MessageId { run: 1, number };
        let (properties, payload) = (&[][..], &b"x"[..]);
        let message =
            MessageRef { id, topic, properties, payload, qos: QoS::AtLeastOnce, retain: true, expires_at_ms: None };
        message.to_message()
    }

    /// A message need not directly precede the record that names it.
    #[test]
    fn a_retained_message_is_found_anywhere_in_its_frame() {
        let (one, other) = (message(1, "one"), message(2, "other"));
        let mut frame = FrameWriter::default();
        for (sequence, message) in [(1, &one), (2, &other), (3, &one)] {
            frame.add(&SessionRecord::Retained { sequence, change: &RetainedChange::Set(message.clone()) });
        }
        let body = frame.take(Vec::new());
        let messages = Records::new(&body).filter(|record| matches!(record, Ok(Record::Message(_)))).count();
        assert_eq!(messages, 2, "each one is present once");
        let mut changes = LastChanges::default();
        assert!(collect_changes(&body, &mut changes).is_ok());
        changes.dedup();
        assert!(changes.is_last("one", 3) && changes.is_last("other", 2));
    }
}

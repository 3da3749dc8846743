//! The next snapshot, from the last one and the log behind it, without holding in memory what topics retain: of a million messages
//! most have not changed since the last snapshot, and go from file to file.

use std::ops::Range;

use tautwire_journal::record::{Record, Records};
use tautwire_journal::{Disk, DurableFrames, LogError, Position, Reader, SnapshotCandidates, SnapshotReader, Step};
use tautwire_message::{MessageId, MessageRef};
use tautwire_session::{LATE_CHANGES_MAX, Record as Kept, RetainedChange};

use crate::compactor::CompactError;
use crate::inspection::read_snapshot;
use crate::last_changes::LastChanges;
use crate::mutant::{Mutant, is};
use crate::recovery::{ById, Recovery, RecoveryError};
use crate::snapshot::{SnapshotBuilder, SnapshotHead, write_snapshot};
use crate::spill_queue::SpillStore;

/// What is in memory whatever the state is: pieces of the log and of both snapshots.
const BUFFERS_BYTES: usize = 6 << 20;

/// Records of a frame that are taken before it is asked whether to go on.
const RECORDS_PER_CHECK: usize = 256;

/// Makes a snapshot of what the log has come to with the frame that `head` names, which is durable. Reads what is on disk; the log may be
/// written meanwhile, but nothing else may remove what it has retired. Messages of sessions for which there is no memory go to `store`. Gives
/// the size of the snapshot in bytes; `None` where `should_continue` has said that it is to be given up.
///
/// # Errors
/// See [`CompactError`]. There is no new snapshot then.
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

/// Why a snapshot could not be made by merging.
enum MergeError {
    /// Something is not whole, or a record names a message that is not in its own frame: the format allows it, although nothing of
    /// ours writes it.
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

/// The same with all of the state in memory, and a reader that says what is damaged.
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
    // It ends earlier where the last frames are no turns.
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
    Ok(write_snapshot(&replay, disk, head, |cold| store.read(cold), should_continue)?)
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
    let mut merging = Merging { recovery, changes, snapshot: SnapshotBuilder::begin(disk, head)? };
    let merged = merging.take_all(disk, last, covered..head.covered, should_continue);
    let Merging { recovery, mut snapshot, .. } = merging;
    let replay = recovery.finish();
    let added =
        merged.and_then(|is_all| Ok(is_all && snapshot.add_all(&replay, |cold| store.read(cold), should_continue)?));
    snapshot.end(added)
}

/// Calls `visit` with the bodies of the frames of the log behind `range.start` up to `range.end`, all of which are durable. Says whether that
/// were all: `should_continue` may have said that no more are wanted.
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

/// The messages of a frame, and whether the recovery has them.
type MessagesOfFrame<'a> = ById<(MessageRef<'a>, bool)>;

fn collect_changes(body: &[u8], changes: &mut LastChanges) -> Result<(), MergeError> {
    let mut last = None;
    for record in Records::new(body) {
        match record.map_err(RecoveryError::Record)? {
            Record::Message(message) => last = Some(message),
            Record::RetainedSet { sequence, message } => {
                // Nearly always the last one, so they need not be remembered.
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

/// The first message of that identity in a frame.
#[cold]
fn find_message(body: &[u8], id: MessageId) -> Option<MessageRef<'_>> {
    Records::new(body).map_while(Result::ok).find_map(|record| match record {
        Record::Message(message) if message.id == id => Some(message),
        _ => None,
    })
}

/// Where a frame is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Snapshot,
    Log,
}

struct Merging<'s, D: Disk> {
    /// All but what topics retain.
    recovery: Recovery<'s>,
    changes: LastChanges,
    snapshot: SnapshotBuilder<D>,
}

impl<D: Disk> Merging<'_, D> {
    /// Takes the last snapshot and the frames of the log behind it; says whether that were all.
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

    /// `should_continue` is asked now and then, since it may let others go first; who has called asks again.
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
                        && !is(Mutant::MergeForgetsCleared)
                    {
                        let change = &RetainedChange::Cleared(topic.into());
                        self.snapshot.add(&Kept::Retained { sequence, change })?;
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

    /// The numbers of changes go on behind this one.
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

    /// A message need not stand right before the record that names it.
    #[test]
    fn a_retained_message_is_found_wherever_it_stands_in_its_frame() {
        let (one, other) = (message(1, "one"), message(2, "other"));
        let mut frame = FrameWriter::default();
        for (sequence, message) in [(1, &one), (2, &other), (3, &one)] {
            frame.add(&Kept::Retained { sequence, change: &RetainedChange::Set(message.clone()) });
        }
        let body = frame.take(Vec::new());
        let messages = Records::new(&body).filter(|record| matches!(record, Ok(Record::Message(_)))).count();
        assert_eq!(messages, 2, "each stands there once");
        let mut changes = LastChanges::default();
        assert!(collect_changes(&body, &mut changes).is_ok());
        changes.dedup();
        assert!(changes.is_last("one", 3) && changes.is_last("other", 2));
    }
}

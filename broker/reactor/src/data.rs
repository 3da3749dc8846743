//! The data directory: what an earlier run of the broker has left, and the thread that writes on.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tautwire_durable::{Recovery, RecoveryError, SessionNumbers, ShardLog, write_snapshot};
use tautwire_engine::{Shard, Shared};
use tautwire_journal::{Directory, End, Epoch, Log, LogError, LogId, Position, Settings, SnapshotReader, WriterThread};
use tautwire_router::ShardIndex;
use tautwire_session::{Replay, ReplayedMessage};

use crate::bell::Bell;
use crate::clock::Clock;

/// Why the state of an earlier run cannot be had.
#[derive(Debug)]
pub struct DataError {
    path: PathBuf,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Log(LogError),
    /// A session or retained message for which there is no place.
    NoPlace(&'static str),
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data directory {}: ", self.path.display())?;
        match &self.cause {
            Cause::Log(error) => error.fmt(f),
            Cause::NoPlace(what) => write!(f, "there is no place for {what} that it holds; raise the limit"),
        }
    }
}

impl std::error::Error for DataError {}

/// Opens the log in `path`, gives each shard what it owns of what is in it, and starts the thread that writes on.
///
/// # Errors
/// See [`DataError`]. Nothing runs then.
pub(crate) fn open(
    path: &Path,
    shared: &Shared,
    bells: &[Arc<Bell>],
    clock: Clock,
) -> Result<(WriterThread, Vec<Shard<ShardLog>>), DataError> {
    let failed = |cause| DataError { path: path.to_owned(), cause };
    let log_failed = |error| failed(Cause::Log(error));
    let disk = Directory::open(path).map_err(|error| log_failed(error.into()))?;
    let mut recovery = Recovery::new(Some(shared.memory.ledger(0).clone()));
    let covered = read_snapshot(&disk, &mut recovery).map_err(log_failed)?;
    let opened = Log::open(&disk, Settings::default(), covered, epoch(), LogId(random()), clock.now_ms(), |frame| {
        recovery.frame(frame.body).map_err(|error| refusal(&error))
    });
    let (log, found) = opened.map_err(log_failed)?;
    announce(path, &found.end);
    let replay = recovery.finish();
    let end = log.durable();
    if end > covered {
        // What lies before is not needed any more.
        write_snapshot(&replay, &disk, log.id(), epoch(), end, clock.now_ms()).map_err(log_failed)?;
    }

    let bells = bells.to_vec();
    let count = bells.len();
    let wake = move |shard: tautwire_journal::ShardNumber| {
        if let Some(bell) = bells.get(usize::from(shard.0)) {
            bell.ring();
        }
    };
    let (writer, ports) = WriterThread::start(log, count as u16, wake, move || clock.now_ms()).map_err(log_failed)?;
    writer.release(end);
    let last = replay.last_session();
    let shard = |(index, port)| {
        let journal = ShardLog::new(port, SessionNumbers::above(last, index, count));
        Shard::new(ShardIndex(index as u8), shared.clone(), journal, clock.now_ms())
    };
    let mut shards: Vec<_> = ports.into_iter().enumerate().map(shard).collect();
    restore(replay, shared, &mut shards, clock.now_ms()).map_err(|what| failed(Cause::NoPlace(what)))?;
    Ok((writer, shards))
}

/// Takes the newest snapshot; gives the position of the last frame that it covers.
fn read_snapshot(disk: &Directory, recovery: &mut Recovery) -> Result<Position, LogError> {
    let Some(mut snapshot) = SnapshotReader::newest(disk)? else { return Ok(Position::START) };
    let covered = snapshot.covered();
    while let Some(frame) = snapshot.step()? {
        let taken = recovery.frame(frame.body);
        taken.map_err(|error| LogError::Refused { at: covered, cause: refusal(&error) })?;
    }
    Ok(covered)
}

fn refusal(error: &RecoveryError) -> Box<str> {
    format!("{error} [{}]", error.code()).into()
}

fn restore(replay: Replay, shared: &Shared, shards: &mut [Shard<ShardLog>], now_ms: u64) -> Result<(), &'static str> {
    let last_sequence = replay.last_sequence();
    let (sessions, messages) = replay.finish();
    log::info!("the data directory holds {} sessions and {} retained messages", sessions.len(), messages.len());
    for ReplayedMessage { message, .. } in messages {
        shared.exchange.retain(&message.as_ref(), || message.clone()).map_err(|_| "a retained message")?;
    }
    shared.exchange.go_on_after(last_sequence);
    for session in sessions {
        let owner = shared.exchange.owner(session.session.client_id());
        if !shards[usize::from(owner.0)].restore(session, now_ms) {
            return Err("a session");
        }
    }
    Ok(())
}

fn announce(path: &Path, end: &End) {
    let path = path.display();
    match &end.torn {
        Some(torn) => log::warn!(
            "data directory {path}: the end of the log was cut off in segment {} at byte {}; nothing there had been acknowledged",
            torn.segment,
            torn.offset
        ),
        None if !end.closed && end.last > Position::START => {
            log::warn!(
                "data directory {path}: the broker was not stopped in order; all that was acknowledged is there"
            );
        }
        None => {}
    }
}

fn epoch() -> Epoch {
    loop {
        if let Some(epoch) = Epoch::new(random()) {
            return epoch;
        }
    }
}

/// A number that nobody can foretell.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

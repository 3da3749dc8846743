//! A log on a faulty disk, and what must be in it.

use tautwire_journal::disk::{Faults, FaultyDisk, Random};
use tautwire_journal::{
    AppendError, Epoch, Log, LogError, LogId, OnDamage, OpenReport, Position, SEGMENT_MIN_BYTES, Settings, ShardNumber,
    TurnNumber,
};

/// A frame that was appended, or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) shard: u16,
    pub(crate) turn: u64,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct CrashTest {
    pub(crate) disk: FaultyDisk,
    pub(crate) random: Random,
    /// All frames after `covered` that may be in the log, in order.
    pub(crate) history: Vec<Written>,
    /// The number of frames reported durable.
    pub(crate) durable: usize,
    /// The number of frames that were sealed.
    pub(crate) sealed: usize,
    /// Positions that were reported durable, each with the frames of the history up to it.
    pub(crate) marks: Vec<(usize, Position)>,
    pub(crate) covered: Position,
    pub(crate) log: Option<Log<FaultyDisk>>,
    turns: [u64; 4],
    bodies: u64,
}

impl CrashTest {
    pub(crate) fn new(seed: u64) -> CrashTest {
        CrashTest {
            disk: FaultyDisk::new(seed),
            random: Random::new(!seed),
            history: Vec::new(),
            durable: 0,
            sealed: 0,
            marks: Vec::new(),
            covered: Position::START,
            log: None,
            turns: [0; 4],
            bodies: 0,
        }
    }

    /// Opens the log and returns what was read.
    pub(crate) fn open(&mut self, on_damage: OnDamage) -> Result<(Vec<(Position, Written)>, OpenReport), LogError> {
        self.log = None;
        let mut read = Vec::new();
        let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, on_damage, ..Settings::default() };
        let epoch = Epoch::new(self.random.next_u64() | 1).expect("not 0");
        let (log, recovery) = Log::open(&self.disk, settings, self.covered, epoch, LogId(7), 0, |frame| {
            let written = Written { shard: frame.shard.0, turn: frame.turn.0, body: frame.body.to_vec() };
            read.push((frame.position, written));
            Ok(())
        })?;
        self.log = Some(log);
        self.turns = [0; 4];
        Ok((read, recovery))
    }

    /// Opens the log after a crash. Checks that all durable frames are there, in order, and nothing that was not appended.
    pub(crate) fn open_and_look(&mut self) -> Result<(), LogError> {
        let (read, recovery) = self.open(OnDamage::Refuse)?;
        assert_eq!(recovery.damage, [], "nothing was damaged");
        assert!(read.len() >= self.durable, "only {} of {} durable frames exist", read.len(), self.durable);
        assert!(read.len() <= self.history.len(), "a frame exists that was never appended, or was cut off");
        for ((_, read), written) in read.iter().zip(&self.history) {
            assert!(read == written, "turn {} of shard {} differs from what was written", read.turn, read.shard);
        }
        // What was read is durable now, and what was cut off never comes back.
        self.history.truncate(read.len());
        self.durable = read.len();
        self.sealed = read.len();
        self.marks.retain(|(frames, _)| *frames <= read.len());
        if let Some((position, _)) = read.last() {
            self.marks.push((read.len(), *position));
        }
        Ok(())
    }

    pub(crate) fn append(&mut self) -> Result<(), LogError> {
        let body = self.body();
        self.append_body(body)
    }

    pub(crate) fn append_body(&mut self, body: Vec<u8>) -> Result<(), LogError> {
        let shard = self.random.below(4) as u16;
        let turn = self.turns[usize::from(shard)] + 1;
        let log = self.log.as_mut().expect("is open");
        match log.append(ShardNumber(shard), TurnNumber(turn), &body) {
            Ok(()) => {
                self.turns[usize::from(shard)] = turn;
                self.history.push(Written { shard, turn, body });
                Ok(())
            }
            Err(AppendError::BatchFull) => self.commit(),
            Err(AppendError::TooLarge | AppendError::Failed) => Err(log.failure().cloned().expect("has failed")),
        }
    }

    pub(crate) fn commit(&mut self) -> Result<(), LogError> {
        let position = self.log.as_mut().expect("is open").commit()?;
        self.durable = self.history.len();
        self.marks.push((self.durable, position));
        Ok(())
    }

    /// Simulates an idle time.
    pub(crate) fn seal(&mut self) -> Result<(), LogError> {
        self.commit()?;
        self.log.as_mut().expect("is open").seal()?;
        self.sealed = self.durable;
        Ok(())
    }

    /// Simulates a snapshot of some durable state.
    pub(crate) fn release(&mut self) -> Result<(), LogError> {
        let at = self.random.below(self.marks.len() as u64) as usize;
        let Some((frames, position)) = self.marks.get(at).copied() else { return Ok(()) };
        self.covered = position;
        self.history.drain(..frames);
        self.durable -= frames;
        self.sealed = self.sealed.saturating_sub(frames);
        self.marks.drain(..=at);
        for mark in &mut self.marks {
            mark.0 -= frames;
        }
        self.log.as_mut().expect("is open").release(position)
    }

    /// One random step.
    pub(crate) fn step(&mut self) -> Result<(), LogError> {
        match self.random.below(13) {
            0..=6 => self.append(),
            7..=9 => self.commit(),
            10 => self.seal(),
            11 => self.log.as_mut().expect("is open").prepare(0),
            _ => self.release(),
        }
    }

    pub(crate) fn inject_fault(&mut self) {
        let at = Some(self.disk.operations() + 1 + self.random.below(40));
        let faults = match self.random.below(4) {
            0 => Faults { fails_at: at, ..Faults::default() },
            1 => Faults { capacity_bytes: Some(self.random.below(8) * SEGMENT_MIN_BYTES), ..Faults::default() },
            _ => Faults { power_lost_at: at, ..Faults::default() },
        };
        self.disk.set_faults(faults);
    }

    /// Returns a body that is different for each frame; mostly short, sometimes longer than a segment.
    fn body(&mut self) -> Vec<u8> {
        self.bodies += 1;
        let len = match self.random.below(40) {
            0..=19 => self.random.below(100),
            20..=38 => self.random.below(9_000),
            _ => self.random.below(SEGMENT_MIN_BYTES * 2),
        };
        let mut body = self.bodies.to_le_bytes().repeat(len as usize / 8 + 1);
        body.truncate(len as usize);
        body
    }
}

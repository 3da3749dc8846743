//! Tests of the writer and its senders, on a disk in memory.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::disk::{Faults, FaultyDisk};
use crate::log::{SEGMENT_MIN_BYTES, Settings};
use crate::numbers::{Epoch, LogId, TurnNumber};
use crate::reader::{Reader, Step, read_header_and_seal};

const DEADLINE: Duration = Duration::from_secs(20);

fn open(disk: &FaultyDisk) -> Log<FaultyDisk> {
    let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, ..Settings::default() };
    let epoch = Epoch::new(9).expect("not 0");
    let opened = Log::open(disk, settings, Position::START, epoch, LogId(1), 0, |_| Ok(()));
    opened.expect("no faults").0
}

/// Shard, turn and body of every frame.
fn frames(disk: &FaultyDisk) -> Vec<(u16, u64, Vec<u8>)> {
    let mut reader = Reader::open(disk, Position::START).expect("no faults");
    let mut frames = Vec::new();
    while let Some(step) = reader.step().expect("no faults") {
        match step {
            Step::Frame(frame) => frames.push((frame.shard.0, frame.turn.0, frame.body.to_vec())),
            Step::Damage(damage) => panic!("{damage}"),
        }
    }
    frames
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < DEADLINE, "timed out");
        thread::yield_now();
    }
}

#[test]
fn frames_of_several_shards_become_durable_in_order() {
    const TURNS: u64 = 2_000;
    let disk = FaultyDisk::new(1);
    let (writer, frame_senders) = WriterThread::start(open(&disk), 3, |_| {}, || 0).expect("a thread");
    thread::scope(|scope| {
        for mut frame_sender in frame_senders {
            scope.spawn(move || {
                while frame_sender.posted() < TurnNumber(TURNS) {
                    let mut body = frame_sender.buffer();
                    assert!(body.is_empty());
                    body.extend_from_slice(&frame_sender.posted().0.to_le_bytes());
                    match frame_sender.post(body) {
                        Ok(turn) => assert_eq!(turn, frame_sender.posted()),
                        Err(PostError::Full(_)) => thread::yield_now(),
                        Err(error) => panic!("{error:?}"),
                    }
                    assert!(frame_sender.durable() <= frame_sender.posted());
                }
                wait_until(|| frame_sender.durable() == TurnNumber(TURNS));
            });
        }
    });
    writer.close().expect("no faults");
    disk.crash();
    let frames = frames(&disk);
    for shard in 0..3 {
        let mine: Vec<_> = frames.iter().filter(|frame| frame.0 == shard).collect();
        assert_eq!(mine.len() as u64, TURNS);
        for (frame, turn) in mine.into_iter().zip(1u64..) {
            assert_eq!((frame.1, frame.2.as_slice()), (turn, (turn - 1).to_le_bytes().as_slice()));
        }
    }
}

/// Each idle period takes one seal, and a frame posted right after takes none.
#[test]
fn an_idle_writer_seals_the_log() {
    let disk = FaultyDisk::new(3);
    let (writer, mut frame_senders) = WriterThread::start(open(&disk), 1, |_| {}, || 0).expect("a thread");
    let handle = writer.handle();
    let sealed = || match read_header_and_seal(&disk, "segment-0000000000000001") {
        Ok(Ok((_, sealed))) => sealed,
        other => panic!("{other:?}"),
    };
    assert_eq!(sealed(), None);
    for turn in 1..=3 {
        frame_senders[0].post(vec![turn; 10]).expect("not full");
        wait_until(|| frame_senders[0].durable() == TurnNumber(turn.into()));
        wait_until(|| sealed() == Some(handle.durable()));
    }
    writer.close().expect("no faults");
    assert!(sealed() > Some(handle.durable()), "the closing frame is sealed");
}

#[test]
fn frames_submitted_after_a_message_from_another_shard_are_later_in_the_log() {
    const TURNS: u64 = 3_000;
    let disk = FaultyDisk::new(6);
    let (writer, mut frame_senders) = WriterThread::start(open(&disk), 2, |_| {}, || 0).expect("a thread");
    let (notify, heard) = channel::<u64>();
    let post = |frame_sender: &mut FrameSender, number: u64| {
        while frame_sender.post(number.to_le_bytes().to_vec()).is_err() {
            thread::yield_now();
        }
    };
    // The receiver is read last: it must not overtake what the sender posts in the meantime.
    let (mut receiver, mut sender) = (frame_senders.remove(1), frame_senders.remove(0));
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..TURNS {
                post(&mut sender, number);
                notify.send(number).expect("the receiver exists");
            }
        });
        scope.spawn(move || {
            for number in heard {
                post(&mut receiver, number);
            }
        });
    });
    writer.close().expect("no faults");
    let mut sent = 0;
    for (shard, turn, _) in frames(&disk) {
        match shard {
            0 => sent = turn,
            _ => assert!(turn <= sent, "turn {turn} was taken before it was sent"),
        }
    }
    assert_eq!(sent, TURNS);
}

/// A writer that has made one frame durable and blocks in waking its shard until the returned sender is used.
fn blocked_writer(disk: &FaultyDisk) -> (WriterThread, FrameSender, Sender<()>) {
    let (unblock, held) = channel::<()>();
    let first = AtomicBool::new(true);
    let wake = move |_| {
        if first.swap(false, Ordering::SeqCst) {
            let _ = held.recv();
        }
    };
    let (writer, mut frame_senders) = WriterThread::start(open(disk), 1, wake, || 0).expect("a thread");
    let mut frame_sender = frame_senders.remove(0);
    frame_sender.post(vec![1]).expect("fits");
    wait_until(|| frame_sender.durable() == TurnNumber(1));
    (writer, frame_sender, unblock)
}

#[test]
fn a_full_ring_refuses_frames_and_loses_nothing() {
    let disk = FaultyDisk::new(2);
    let (writer, mut frame_sender, unblock) = blocked_writer(&disk);
    let full = loop {
        match frame_sender.post(vec![2]) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(full, PostError::Full(vec![2]));
    assert!(!frame_sender.has_room(1));
    let posted = frame_sender.posted();
    assert_eq!(posted, TurnNumber(1 + RING_FRAMES as u64));
    unblock.send(()).expect("the writer waits");
    wait_until(|| frame_sender.durable() == posted);
    assert_eq!(writer.handle().groups(), 2, "all pending frames formed one group");
    assert!(frame_sender.has_room(1));
    writer.close().expect("no faults");
    assert_eq!(frames(&disk).len() as u64, posted.0);
}

#[test]
fn pending_bytes_are_limited_and_one_large_frame_is_accepted() {
    let disk = FaultyDisk::new(3);
    let (writer, mut frame_sender, unblock) = blocked_writer(&disk);
    frame_sender.post(vec![2; RING_MAX_BYTES + 1]).expect("nothing else is pending");
    assert!(matches!(frame_sender.post(vec![3]), Err(PostError::Full(_))));
    unblock.send(()).expect("the writer waits");
    wait_until(|| frame_sender.durable() == TurnNumber(2));
    frame_sender.post(vec![3]).expect("not full");
    writer.close().expect("no faults");
    assert_eq!(frames(&disk).len(), 3);
}

#[test]
fn after_a_failed_sync_nothing_becomes_durable_and_all_shards_are_notified() {
    let disk = FaultyDisk::new(4);
    let log = open(&disk);
    let woken = Arc::new(AtomicU64::new(0));
    let count = woken.clone();
    let wake = move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    };
    let (writer, mut frame_senders) = WriterThread::start(log, 2, wake, || 0).expect("a thread");
    frame_senders[0].post(vec![1]).expect("fits");
    wait_until(|| frame_senders[0].durable() == TurnNumber(1));
    disk.set_faults(Faults { power_lost_at: Some(0), ..Faults::default() });
    frame_senders[0].post(vec![2]).expect("the failure is not known yet");
    wait_until(|| frame_senders[1].failure().is_some());
    // The failure becomes known a moment before posts are rejected.
    wait_until(|| matches!(frame_senders[1].post(vec![3]), Err(PostError::Failed(_))));
    assert!(matches!(frame_senders[0].post(vec![3]), Err(PostError::Failed(_))));
    assert_eq!((frame_senders[0].durable(), frame_senders[1].durable()), (TurnNumber(1), TurnNumber(0)));
    wait_until(|| woken.load(Ordering::SeqCst) == 3);
    let failure = writer.handle().failure();
    assert!(matches!(failure, Some(LogError::Disk(_))));
    assert_eq!(writer.close().err(), failure);
}

/// Whether a frame survives a power failure right after it was written.
fn survives_a_power_cut_when_written(seed: u64) -> bool {
    let disk = FaultyDisk::new(seed);
    let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, write_before_sync: true, ..Settings::default() };
    let epoch = Epoch::new(7).expect("not 0");
    let (mut log, _) = Log::open(&disk, settings, Position::START, epoch, LogId(1), 0, |_| Ok(())).expect("no faults");
    log.append(ShardNumber(0), TurnNumber(1), &[1]).expect("fits");
    log.commit().expect("no faults");
    log.append(ShardNumber(0), TurnNumber(2), &[2]).expect("fits");
    let cut = || disk.set_faults(Faults { power_lost_at: Some(0), ..Faults::default() });
    assert!(log.commit_with_callback(cut).is_err(), "it is not durable");
    disk.crash();
    let count = frames(&disk).len();
    assert!(count >= 1, "the durable frame exists");
    count == 2
}

#[test]
fn unsynced_data_may_be_lost_in_a_power_failure() {
    let survived: Vec<bool> = (0..20).map(survives_a_power_cut_when_written).collect();
    assert!(survived.contains(&true) && survived.contains(&false), "{survived:?}");
}

#[test]
fn segments_covered_by_a_snapshot_are_reused() {
    let disk = FaultyDisk::new(5);
    let (writer, mut frame_senders) = WriterThread::start(open(&disk), 1, |_| {}, || 0).expect("a thread");
    for _ in 0..100 {
        let turn = frame_senders[0].post(vec![7; 10_000]).expect("fits");
        wait_until(|| frame_senders[0].durable() == turn);
        writer.handle().release(writer.handle().durable());
    }
    assert!(writer.handle().held_bytes() < 4 * SEGMENT_MIN_BYTES, "{} bytes", writer.handle().held_bytes());
    writer.close().expect("no faults");
    let files = disk.list().expect("no faults");
    assert!(files.len() < 8, "{files:?}");
    assert!(files.iter().any(|name| name.starts_with("spare-")), "{files:?}");
}

#[test]
fn a_deferred_frame_is_written_with_the_next_one_or_after_a_delay() {
    let disk = FaultyDisk::new(1);
    let (writer, mut frame_senders) = WriterThread::start(open(&disk), 2, |_| {}, || 0).expect("a thread");
    let groups = writer.handle();
    let begun = Instant::now();
    let turn = frame_senders[0].post_deferred(vec![1]).expect("fits");
    wait_until(|| frame_senders[0].durable() == turn);
    assert!(begun.elapsed() >= Duration::from_millis(GROUP_COMMIT_DELAY_MS), "nothing else has woken the writer");
    // Both are written at once, however long the first would have been delayed.
    for body in 2..200 {
        let before = groups.groups();
        let deferred_turn = frame_senders[0].post_deferred(vec![body]).expect("fits");
        let awaited = frame_senders[1].post(vec![body]).expect("fits");
        wait_until(|| frame_senders[1].durable() == awaited);
        assert!(frame_senders[0].durable() == deferred_turn, "the deferred frame was posted before");
        assert!(groups.groups() - before <= 2);
    }
    writer.close().expect("no faults");
}

#[test]
fn deferred_frames_do_not_fill_the_ring() {
    const TURNS: u64 = 5_000;
    let disk = FaultyDisk::new(1);
    let (writer, mut frame_senders) = WriterThread::start(open(&disk), 1, |_| {}, || 0).expect("a thread");
    let groups = writer.handle();
    while frame_senders[0].posted() < TurnNumber(TURNS) {
        match frame_senders[0].post_deferred(vec![0; 100]) {
            Ok(_) => {}
            Err(PostError::Full(_)) => thread::yield_now(),
            Err(error) => panic!("{error:?}"),
        }
    }
    writer.close().expect("no faults");
    assert_eq!(frame_senders[0].durable(), TurnNumber(TURNS));
    assert!(groups.groups() < TURNS / 4, "{} groups", groups.groups());
    disk.crash();
    assert_eq!(frames(&disk).len() as u64, TURNS);
}

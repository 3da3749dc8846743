//! The product's journal under the same load.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cpu_time::ProcessTime;
use tautwire_journal::{
    Directory, Epoch, FrameSender, Log, LogId, Position, SEGMENT_MIN_BYTES, Settings, ShardNumber, TurnNumber,
    WriterThread,
};

use crate::file::FILE_BYTES;
use crate::load::{Load, run_together};
use crate::sample::Sample;
use crate::waker::ThreadWaker;

pub(crate) fn sample(folder: &Path, load: Load) -> io::Result<Sample> {
    let failed = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
    let _ = std::fs::remove_dir_all(folder);
    let disk = Directory::open(folder).map_err(|error| failed(&error))?;
    let settings = Settings { segment_bytes: (FILE_BYTES as u64).max(SEGMENT_MIN_BYTES), ..Settings::default() };
    let epoch = Epoch::new(1).ok_or(io::ErrorKind::InvalidInput)?;
    let opened = Log::open(&disk, settings, Position::START, epoch, LogId(1), 0, |_| Ok(()));
    let (mut log, _) = opened.map_err(|error| failed(&error))?;
    // The files of the others are preallocated, too.
    log.prepare(0).map_err(|error| failed(&error))?;
    let wakers: Arc<[ThreadWaker]> = (0..load.threads).map(|_| ThreadWaker::default()).collect();
    let woken = wakers.clone();
    let wake = move |shard: ShardNumber| woken[usize::from(shard.0)].wake();
    let started = WriterThread::start(log, load.threads as u16, wake, || 0);
    let (writer, ports) = started.map_err(|error| failed(&error))?;

    let cpu = ProcessTime::now();
    let begun = Instant::now();
    let writer = &writer;
    let produce = |(port, waker)| move || Ok(produce(port, waker, writer, load));
    let mut sample = run_together(ports.into_iter().zip(wakers.iter()).map(produce).collect())?;
    sample.cpu = cpu.elapsed();
    sample.took = begun.elapsed();
    sample.syncs = writer.handle().groups();
    Ok(sample)
}

fn produce(mut port: FrameSender, waker: &ThreadWaker, writer: &WriterThread, load: Load) -> Sample {
    waker.register();
    let mut sample = Sample::default();
    let mut begun = VecDeque::with_capacity(load.window);
    let mut seen = TurnNumber(0);
    let started = Instant::now();
    while started.elapsed() < load.time {
        while begun.len() < load.window {
            let mut body = port.buffer();
            body.resize(load.frame_bytes, 7);
            if port.post(body).is_err() {
                break;
            }
            begun.push_back(Instant::now());
        }
        waker.wait_until(|| port.durable() > seen || port.failure().is_some());
        let now = port.durable();
        for _ in seen.0..now.0 {
            sample.latencies.extend(begun.pop_front().map(|at| at.elapsed()));
        }
        seen = now;
        if now.0 % 256 < load.window as u64 {
            writer.handle().release(writer.handle().durable());
        }
    }
    sample
}

//! The number of logs, and the threads that write and sync them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use cpu_time::ProcessTime;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::file::{Log, Medium, Syncing};
use crate::load::{Load, run_together};
use crate::sample::Sample;
use crate::waker::ThreadWaker;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Layout {
    /// All threads post frames to one writer, which writes all pending frames with one sync.
    OneLog,
    /// Each thread has a separate log and writer.
    LogAndWriterEach,
    /// Each thread has a separate log, and syncs it itself, which blocks the thread.
    LogEach,
    /// The product's journal, which is one log and one writer.
    Journal,
}

impl Layout {
    pub(crate) const ALL: [Layout; 4] = [Layout::OneLog, Layout::LogAndWriterEach, Layout::LogEach, Layout::Journal];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Layout::OneLog => "one log, one writer",
            Layout::LogAndWriterEach => "log and writer each",
            Layout::LogEach => "log each, synced by its thread",
            Layout::Journal => "the journal",
        }
    }
}

pub(crate) fn sample(folder: &Path, layout: Layout, load: Load) -> io::Result<Sample> {
    if layout == Layout::Journal {
        return crate::product::sample(&folder.join("product"), load);
    }
    let writers = if layout == Layout::OneLog { 1 } else { load.threads };
    let logs: Vec<Log> = (0..writers)
        .map(|n| Log::create(&folder.join(format!("log-{n}")), Medium::Prewritten, Syncing::Fdatasync))
        .collect::<io::Result<_>>()?;
    let cpu = ProcessTime::now();
    let started = Instant::now();
    let mut sample = match layout {
        Layout::LogEach => synced_by_threads(logs, load),
        Layout::OneLog | Layout::LogAndWriterEach | Layout::Journal => synced_by_writers(logs, load),
    }?;
    sample.cpu = cpu.elapsed();
    sample.took = started.elapsed();
    Ok(sample)
}

fn synced_by_threads(logs: Vec<Log>, load: Load) -> io::Result<Sample> {
    let run = |mut log: Log| -> io::Result<Sample> {
        let mut sample = Sample::default();
        let started = Instant::now();
        while started.elapsed() < load.time {
            let begun = Instant::now();
            log.commit(load.window * load.frame_bytes)?;
            let latency = begun.elapsed();
            sample.latencies.extend(std::iter::repeat_n(latency, load.window));
        }
        sample.syncs = log.syncs;
        Ok(sample)
    };
    run_together(logs.into_iter().map(|log| move || run(log)).collect())
}

fn synced_by_writers(logs: Vec<Log>, load: Load) -> io::Result<Sample> {
    let writers = logs.len();
    let mut rings: Vec<Vec<Ring>> = logs.iter().map(|_| Vec::new()).collect();
    let mut works: Vec<Box<dyn FnOnce() -> io::Result<Sample> + Send>> = Vec::new();
    let wakers: Vec<Arc<ThreadWaker>> = logs.iter().map(|_| Arc::default()).collect();
    for number in 0..load.threads {
        let (posts, frames) = RingBuffer::new(load.window);
        let durable = Arc::new(Durable::default());
        let at = number % writers;
        rings[at].push(Ring { frames, durable: durable.clone(), taken: 0 });
        let waker = wakers[at].clone();
        works.push(Box::new(move || Ok(produce(posts, &durable, &waker, load))));
    }
    for ((log, rings), waker) in logs.into_iter().zip(rings).zip(wakers) {
        works.push(Box::new(move || write(log, rings, &waker, load)));
    }
    run_together(works)
}

fn produce(mut posts: Producer<()>, durable: &Durable, waker: &ThreadWaker, load: Load) -> Sample {
    durable.owner.register();
    let mut sample = Sample::default();
    let mut begun = std::collections::VecDeque::with_capacity(load.window);
    let mut seen = 0;
    let started = Instant::now();
    while started.elapsed() < load.time {
        let mut posted = false;
        while begun.len() < load.window && posts.push(()).is_ok() {
            begun.push_back(Instant::now());
            posted = true;
        }
        if posted {
            waker.wake();
        }
        durable.owner.wait_until(|| durable.frames.load(Ordering::SeqCst) > seen);
        let now = durable.frames.load(Ordering::SeqCst);
        for _ in seen..now {
            sample.latencies.extend(begun.pop_front().map(|at| at.elapsed()));
        }
        seen = now;
    }
    drop(posts);
    waker.wake();
    sample
}

fn write(mut log: Log, mut rings: Vec<Ring>, waker: &ThreadWaker, load: Load) -> io::Result<Sample> {
    waker.register();
    loop {
        let mut frames = 0;
        for ring in &mut rings {
            while ring.frames.pop().is_ok() {
                ring.taken += 1;
                frames += 1;
            }
        }
        if frames == 0 {
            if rings.iter().all(|ring| ring.frames.is_abandoned()) {
                break;
            }
            waker.wait_until(|| rings.iter().any(|ring| !ring.frames.is_empty() || ring.frames.is_abandoned()));
            continue;
        }
        log.commit(frames * load.frame_bytes)?;
        for ring in &rings {
            if ring.durable.frames.swap(ring.taken, Ordering::SeqCst) != ring.taken {
                ring.durable.owner.wake();
            }
        }
    }
    Ok(Sample { syncs: log.syncs, ..Sample::default() })
}

struct Ring {
    frames: Consumer<()>,
    durable: Arc<Durable>,
    taken: u64,
}

#[derive(Default)]
struct Durable {
    frames: AtomicU64,
    owner: ThreadWaker,
}

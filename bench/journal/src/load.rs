//! The load of a sample, and the threads that produce it.

use std::io;
use std::thread;
use std::time::Duration;

use crate::sample::Sample;

/// The sizes of a frame: one small message with its delivery, and a busy turn.
pub(crate) const FRAMES: [(&str, usize); 2] = [("small", 300), ("large", 16 << 10)];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) threads: usize,
    /// The maximum number of frames of one thread that are not durable yet.
    pub(crate) window: usize,
    pub(crate) frame_bytes: usize,
    pub(crate) time: Duration,
}

/// Runs each of `works` in a thread, and adds up their samples.
pub(crate) fn run_together<W: FnOnce() -> io::Result<Sample> + Send>(works: Vec<W>) -> io::Result<Sample> {
    thread::scope(|scope| {
        let threads: Vec<_> = works.into_iter().map(|work| scope.spawn(work)).collect();
        let mut all = Sample::default();
        for thread in threads {
            let sample = thread.join().map_err(|_| io::Error::other("a thread has panicked"))??;
            all.latencies.extend(sample.latencies);
            all.syncs += sample.syncs;
        }
        Ok(all)
    })
}

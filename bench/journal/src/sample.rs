//! The result of one run.

use std::time::Duration;

/// One run of one alternative.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// The time from passing a frame to the writer until the notification that it is durable, for each frame.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) syncs: u64,
    pub(crate) cpu: Duration,
    pub(crate) took: Duration,
}

impl Sample {
    /// Returns the figures by name.
    pub(crate) fn figures(&self) -> [(&'static str, f64); 5] {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let frames = sorted.len().max(1) as f64;
        let quantile = |q: f64| {
            let at = ((sorted.len() as f64 * q) as usize).min(sorted.len().saturating_sub(1));
            sorted.get(at).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
        };
        [
            ("syncs_per_frame", self.syncs as f64 / frames),
            ("p50_us", quantile(0.5)),
            ("p99_us", quantile(0.99)),
            ("cpu_us_per_frame", self.cpu.as_secs_f64() * 1e6 / frames),
            ("frames_per_s", frames / self.took.as_secs_f64()),
        ]
    }
}

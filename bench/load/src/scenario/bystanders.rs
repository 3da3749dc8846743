//! Clients with a moderate fixed rate on a separate thread, while the broker is disturbed: the effect on them
//! is the figure.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::context::Context;
use super::open_load::{OpenLoad, OpenLoadOutcome, OpenLoadPlan, Wiring};
use super::parameters::{PayloadKind, QosLevel};
use crate::failure::{Failure, Result};
use crate::measure::{Account, Measurement};

const PAIRS: usize = 10;
const RATE_PER_S: f64 = 1000.0;
const PAYLOAD_BYTES: usize = 64;

const BEFORE: usize = 0;
const DURING: usize = 1;
const OVER: usize = 2;

/// Bystanders have the broker to themselves for `calm`; then `disturb` runs. Its account and theirs are added to the
/// measurement, and their latencies before and during the disturbance are set in it.
pub(super) fn beside(
    context: &Context<'_>,
    calm: Duration,
    disturb: impl FnOnce() -> Result<Measurement>,
) -> Result<Measurement> {
    let plan = OpenLoadPlan {
        wiring: Wiring::Pairs,
        publishers: PAIRS,
        rate_per_s: RATE_PER_S,
        qos: QosLevel::default(),
        payload: PayloadKind::Plain,
        payload_bytes: PAYLOAD_BYTES,
        name: "bystander",
    };
    let stage = AtomicUsize::new(BEFORE);
    let (outcome, watched) = thread::scope(|scope| {
        let watching = scope.spawn(|| watch(context, plan, &stage, calm));
        while stage.load(Ordering::Acquire) == BEFORE && !watching.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        let outcome = disturb();
        stage.store(OVER, Ordering::Release);
        (outcome, watching.join())
    });
    let (before, during, account) = watched.map_err(|_| Failure::new("the bystanders panicked"))??;
    let mut measurement = outcome?;
    measurement.account.add(&account);
    before.describe("bystander_before_", &mut measurement);
    during.describe("bystander_during_", &mut measurement);
    let p99 = |stage: &str| measurement.metrics.get(&format!("bystander_{stage}_p99_us")).copied();
    if let Some((during, before)) = p99("during").zip(p99("before")) {
        measurement.set("bystander_p99_growth_us", during - before);
    }
    Ok(measurement)
}

fn watch(
    context: &Context<'_>,
    plan: OpenLoadPlan,
    stage: &AtomicUsize,
    calm: Duration,
) -> Result<(OpenLoadOutcome, OpenLoadOutcome, Account)> {
    let mut load = OpenLoad::open(plan, context)?;
    // The first use of code and memory is not the broker's latency.
    load.run_for(calm / 4, 1)?;
    let before = load.run_for(calm, 1)?;
    stage.store(DURING, Ordering::Release);
    let during = load.run_until(|elapsed| (stage.load(Ordering::Acquire) == OVER).then_some(elapsed), 1, |_| 0)?;
    Ok((before, during, load.account()))
}

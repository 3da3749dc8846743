//! The load of both sides in a measured phase, and whether the figures are limited by the generator.

use std::time::Instant;

use super::{ContextSwitches, CpuClock, Memory, Placement};
use crate::broker::Broker;
use crate::failure::Result;
use crate::measure::Measurement;

/// A side that is this busy, in cores, is saturated: the rest goes to the scheduler and other processes.
const SATURATED_CORES: f64 = 0.9;

/// Started before a measured phase, ended after it.
pub(crate) struct Meter {
    started: Instant,
    switches: ContextSwitches,
    broker: Vec<CpuClock>,
    between: Vec<CpuClock>,
    own: CpuClock,
}

/// The resources that both sides used in a measured phase.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Load {
    pub elapsed_s: f64,
    /// Of all its processes, for a cluster.
    pub broker_cpu_s: f64,
    /// Of the nats-servers between Tautwire brokers, which `broker_cpu_s` does not include.
    pub servers_cpu_s: f64,
    pub generator_cpu_s: f64,
    switches: ContextSwitches,
}

impl Meter {
    pub(crate) fn begin(broker: &Broker) -> Result<Self> {
        let switches = switches_of(broker)?;
        let (between, own) = (clocks(&broker.nats_server_pids())?, CpuClock::read(std::process::id())?);
        Ok(Self { started: Instant::now(), switches, broker: clocks(&broker.pids())?, between, own })
    }

    pub(crate) fn end(&self, broker: &Broker) -> Result<Load> {
        let elapsed_s = self.started.elapsed().as_secs_f64();
        let broker_cpu_s = seconds_since(&clocks(&broker.pids())?, &self.broker);
        let servers_cpu_s = seconds_since(&clocks(&broker.nats_server_pids())?, &self.between);
        let generator_cpu_s = CpuClock::read(std::process::id())?.seconds_since(&self.own);
        let switches = switches_of(broker)? - self.switches;
        Ok(Load { elapsed_s, broker_cpu_s, servers_cpu_s, generator_cpu_s, switches })
    }
}

fn clocks(pids: &[u32]) -> Result<Vec<CpuClock>> {
    pids.iter().map(|&pid| CpuClock::read(pid)).collect()
}

fn seconds_since(now: &[CpuClock], before: &[CpuClock]) -> f64 {
    now.iter().zip(before).map(|(now, before)| now.seconds_since(before)).sum()
}

fn switches_of(broker: &Broker) -> Result<ContextSwitches> {
    let mut sum = ContextSwitches::default();
    for pid in broker.pids() {
        let of_process = ContextSwitches::read(pid)?;
        sum.voluntary += of_process.voluntary;
        sum.involuntary += of_process.involuntary;
    }
    Ok(sum)
}

impl Load {
    /// Adds a further slice of the same phase.
    pub(crate) fn add(&mut self, slice: &Load) {
        self.elapsed_s += slice.elapsed_s;
        self.broker_cpu_s += slice.broker_cpu_s;
        self.servers_cpu_s += slice.servers_cpu_s;
        self.generator_cpu_s += slice.generator_cpu_s;
        self.switches.voluntary += slice.switches.voluntary;
        self.switches.involuntary += slice.switches.involuntary;
    }

    /// Sets the figures of every scenario.
    pub(crate) fn describe(&self, broker: &Broker, measurement: &mut Measurement) -> Result<()> {
        let mut memory = Memory { rss_bytes: 0, pss_bytes: 0, peak_rss_bytes: 0 };
        for pid in broker.pids() {
            let of_process = Memory::read(pid)?;
            memory.rss_bytes += of_process.rss_bytes;
            memory.pss_bytes += of_process.pss_bytes;
            memory.peak_rss_bytes += of_process.peak_rss_bytes;
        }
        measurement.set("broker_cores", self.broker_cpu_s / self.elapsed_s);
        if !broker.nats_server_pids().is_empty() {
            measurement.set("servers_cores", self.servers_cpu_s / self.elapsed_s);
        }
        measurement.set("generator_cores", self.generator_cpu_s / self.elapsed_s);
        measurement.set("broker_waits_per_s", self.switches.voluntary as f64 / self.elapsed_s);
        measurement.set("broker_preemptions_per_s", self.switches.involuntary as f64 / self.elapsed_s);
        measurement.set("broker_rss_bytes", memory.rss_bytes as f64);
        measurement.set("broker_pss_bytes", memory.pss_bytes as f64);
        measurement.set("broker_peak_rss_bytes", memory.peak_rss_bytes as f64);
        Ok(())
    }

    /// The reason why rates and latencies of this phase are not those of the broker, or `None`.
    ///
    /// The generator is one thread on one core. If it is saturated and the broker is not, it was the bottleneck. On
    /// a CPU that both share, the figures are those of both by definition, and this cannot happen.
    pub(crate) fn generator_bottleneck(&self, broker: &Broker, placement: &Placement) -> Option<String> {
        let room = broker.kind.cores_it_can_use();
        let (ours, theirs) = (self.generator_cpu_s / self.elapsed_s, self.broker_cpu_s / self.elapsed_s);
        is_bottleneck(ours, theirs, room, placement.shares_a_cpu()).then(|| {
            format!("the generator was the bottleneck: it used {ours:.2} cores, the broker {theirs:.2} of {room}")
        })
    }
}

fn is_bottleneck(generator_cores: f64, broker_cores: f64, broker_room: usize, on_one_cpu: bool) -> bool {
    !on_one_cpu && generator_cores >= SATURATED_CORES && broker_cores < SATURATED_CORES * broker_room as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saturated_generator_with_an_idle_broker_is_the_bottleneck() {
        assert!(is_bottleneck(0.97, 0.5, 1, false));
        assert!(is_bottleneck(0.97, 1.2, 3, false));
        assert!(!is_bottleneck(0.97, 0.95, 1, false));
        assert!(!is_bottleneck(0.6, 0.3, 1, false));
        assert!(!is_bottleneck(0.97, 0.02, 1, true));
    }
}

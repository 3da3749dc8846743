//! The CPUs of the broker and the generator. Placement matters more than the broker: a wake-up across cores
//! costs many times one on the same core, so figures are comparable only at the same placement.

use std::fmt;
use std::fs;
use std::str::FromStr;

use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

use crate::failure::{ErrorContext, Failure, Result};

/// A list of CPU numbers, written as `0` or `0+2`; empty means all that this process started with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CpuList(Vec<usize>);

/// The placement of both sides of a run, written as `broker=0,generator=0` or `free`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    pub broker: CpuList,
    pub generator: CpuList,
}

impl FromStr for Placement {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        let mut placement = Placement::default();
        if text == "free" {
            return Ok(placement);
        }
        for part in text.split(',') {
            let (side, cpus) = part
                .split_once('=')
                .ok_or_else(|| Failure::new(format!("placement {part:?}: write broker=CPU,generator=CPU or free")))?;
            match side {
                "broker" => placement.broker = cpus.parse()?,
                "generator" => placement.generator = cpus.parse()?,
                other => {
                    return Err(Failure::new(format!("placement of {other:?}: only broker and generator")));
                }
            }
        }
        Ok(placement)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("free");
        }
        write!(f, "broker={},generator={}", self.broker, self.generator)
    }
}

impl Placement {
    /// Whether broker and generator are pinned to a shared CPU.
    pub(crate) fn shares_a_cpu(&self) -> bool {
        self.broker.0.iter().any(|cpu| self.generator.0.contains(cpu))
    }

    /// A CPU of this placement that the machine does not have.
    pub(crate) fn absent_cpu(&self, cores: usize) -> Option<usize> {
        self.broker.0.iter().chain(&self.generator.0).copied().find(|&cpu| cpu >= cores)
    }
}

impl FromStr for CpuList {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        if text == "free" {
            return Ok(Self::default());
        }
        let cpus: std::result::Result<Vec<usize>, _> = text.split('+').map(str::parse).collect();
        match cpus {
            Ok(cpus) if cpus.iter().all(|&cpu| cpu < CpuSet::MAX_CPU) => Ok(Self(cpus)),
            _ => Err(Failure::new(format!("CPU list {text:?}: write CPU numbers joined by +, or free"))),
        }
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("free");
        }
        let words: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&words.join("+"))
    }
}

impl CpuList {
    fn to_set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        if self.0.is_empty() {
            // The kernel limits this to the CPUs that exist and that the process may use.
            (0..CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
        }
        self.0.iter().for_each(|&cpu| set.set(cpu));
        set
    }
}

/// Pins the calling thread; processes started afterwards inherit it.
pub(crate) fn pin_self(cpus: &CpuList) -> Result<()> {
    sched_setaffinity(None, &cpus.to_set()).during(|| format!("pinning to CPU {cpus}"))
}

/// Pins all current threads of `pid`.
pub(crate) fn pin_process(pid: u32, cpus: &CpuList) -> Result<()> {
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = entry?.file_name();
        let tid = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        if let Some(tid) = tid {
            match sched_setaffinity(Some(tid), &cpus.to_set()) {
                // A thread may end between the listing and this call.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(error).during(|| format!("pinning process {pid} to CPU {cpus}")),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_reads_back_as_written() {
        for text in ["free", "broker=0,generator=0", "broker=0+1,generator=free"] {
            let placement: Placement = text.parse().expect("valid");
            assert_eq!(placement.to_string(), text);
        }
    }

    #[test]
    fn a_shared_cpu_is_detected() {
        for (text, shared) in [("free", false), ("broker=0,generator=0", true), ("broker=0,generator=1", false)] {
            assert_eq!(text.parse::<Placement>().expect("valid").shares_a_cpu(), shared, "{text}");
        }
    }

    #[test]
    fn invalid_placements_are_refused() {
        for text in ["", "broker", "broker=x", "client=0", "broker=0;generator=1", "broker=99999"] {
            assert!(text.parse::<Placement>().is_err(), "{text}");
        }
    }
}

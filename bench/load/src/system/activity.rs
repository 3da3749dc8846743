//! The activity of a process besides CPU time: context switches, descriptors, threads.

use std::fs;
use std::ops::Sub;

use crate::failure::{ErrorContext, Result};

/// Counts since the process started, over all living threads. The counts of ended threads are lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ContextSwitches {
    /// The thread yielded the CPU to wait.
    pub voluntary: u64,
    /// Another thread preempted it.
    pub involuntary: u64,
}

impl ContextSwitches {
    pub(crate) fn read(pid: u32) -> Result<Self> {
        let mut sum = Self::default();
        for entry in
            fs::read_dir(format!("/proc/{pid}/task")).during(|| format!("context switches of process {pid}"))?
        {
            let text = fs::read_to_string(entry?.path().join("status")).unwrap_or_default();
            sum.voluntary += parse_count(&text, "voluntary_ctxt_switches:");
            sum.involuntary += parse_count(&text, "nonvoluntary_ctxt_switches:");
        }
        Ok(sum)
    }
}

impl Sub for ContextSwitches {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }
}

/// Open descriptors of a process, including sockets.
pub(crate) fn open_descriptors(pid: u32) -> Result<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).during(|| format!("descriptors of process {pid}"))?;
    Ok(entries.count() as u64)
}

fn parse_count(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn voluntary_and_involuntary_switches_are_distinguished() {
        let text = "Threads:\t1\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(parse_count(text, "voluntary_ctxt_switches:"), 12);
        assert_eq!(parse_count(text, "nonvoluntary_ctxt_switches:"), 3);
        assert_eq!(parse_count("", "voluntary_ctxt_switches:"), 0);
    }

    #[test]
    fn a_process_that_waits_has_context_switches() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || receiver.recv());
        // The other thread lives until it gets our message, and its counts with it; joining it makes this one wait.
        let pid = std::process::id();
        while ContextSwitches::read(pid).expect("own process is readable").voluntary == 0 {
            std::thread::yield_now();
        }
        sender.send(()).expect("heard");
        other.join().expect("no panic").expect("sent");
        let (earlier, later) = (counts(5, 9), counts(8, 7));
        assert_eq!(later - earlier, counts(3, 0));
    }

    fn counts(voluntary: u64, involuntary: u64) -> ContextSwitches {
        ContextSwitches { voluntary, involuntary }
    }

    #[test]
    fn a_socket_is_a_descriptor() {
        // Tests run in parallel: others open descriptors, too, but none closes a hundred.
        let before = open_descriptors(std::process::id()).expect("own process is readable");
        let sockets: Vec<_> = (0..200).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        assert!(open_descriptors(std::process::id()).expect("readable") >= before + 100);
        drop(sockets);
    }
}

//! The limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for other uses than clients: the log, listeners, threads, the admin API.
pub(crate) const RESERVED_DESCRIPTORS: u64 = 256;

/// Raises the soft limit to the hard limit, and returns the resulting limit; `None` if unlimited. Child processes would inherit it; the
/// broker starts none.
pub(crate) fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            log::warn!("cannot raise the limit of open files: {error} [descriptors]");
            current
        }
    }
}

/// A warning if the limit is too low for this many connections.
pub(crate) fn check_limit(allowed: Option<u64>, connections: u64) -> Option<String> {
    let allowed = allowed.filter(|allowed| *allowed < connections.saturating_add(RESERVED_DESCRIPTORS))?;
    Some(format!(
        "limits.connections is {connections}, but the process may open only {allowed} files, so it will refuse clients before that; raise \
         the hard limit (LimitNOFILE= of systemd, `ulimit -n`) to {} or lower limits.connections [descriptors]",
        connections.saturating_add(RESERVED_DESCRIPTORS)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_limit_that_is_too_low_is_reported_with_both_numbers() {
        let warning = check_limit(Some(1_024), 100_000).expect("too few");
        for part in ["limits.connections is 100000", "only 1024 files", "to 100256"] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
        assert_eq!(check_limit(Some(1_256), 1_000), None);
        assert!(check_limit(Some(1_255), 1_000).is_some());
        assert_eq!(check_limit(None, u64::MAX), None);
    }
}

//! How many files the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors besides those of clients: the log, listeners, threads, the admin API.
pub(crate) const RESERVED_DESCRIPTORS: u64 = 256;

/// Raises the soft limit to the hard one, and gives the limit that holds then; `None` where there is none. Processes that this one starts
/// have it as well; it starts none.
pub(crate) fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            log::warn!("the limit of open files cannot be raised: {error} [descriptors]");
            current
        }
    }
}

/// What is wrong with a limit for so many connections, if anything.
pub(crate) fn check_limit(allowed: Option<u64>, connections: u64) -> Option<String> {
    let allowed = allowed.filter(|allowed| *allowed < connections.saturating_add(RESERVED_DESCRIPTORS))?;
    Some(format!(
        "limits.connections is {connections}, but the process may open only {allowed} files, so it refuses clients before that; raise the \
         hard limit (LimitNOFILE= of systemd, `ulimit -n`) to {} or lower limits.connections [descriptors]",
        connections.saturating_add(RESERVED_DESCRIPTORS)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_what_connections_need_is_named_with_both_numbers() {
        let said = check_limit(Some(1_024), 100_000).expect("too few");
        for part in ["limits.connections is 100000", "only 1024 files", "to 100256"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(check_limit(Some(1_256), 1_000), None);
        assert!(check_limit(Some(1_255), 1_000).is_some());
        assert_eq!(check_limit(None, u64::MAX), None);
    }
}

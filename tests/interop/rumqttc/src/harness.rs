//! Shared by all cases: unique names, a deadline and expectations.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::fmt::{self, Debug, Display};
use std::hash::{BuildHasher, Hasher};
use std::pin::Pin;
use std::time::Duration;

use tokio::task::LocalSet;

use crate::connection::Version;

/// The time limit for a case.
pub const CASE_TIMEOUT: Duration = Duration::from_secs(60);

/// The result of a case.
pub type Outcome<T = ()> = Result<T, Failure>;

/// One test case. Cases of one version ignore the given version.
pub type Case = for<'a> fn(&'a Run, Version) -> Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// The broker, or the client, did not do what the case expects.
#[derive(Debug)]
pub struct Failure(pub String);

impl Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One run of one case.
pub struct Run {
    pub host: String,
    pub port: u16,
    tag: String,
    waiting_for: RefCell<String>,
}

impl Run {
    /// A topic name below a level that only this run uses.
    pub fn topic(&self, suffix: impl Display) -> String {
        format!("interop/{}/{suffix}", self.tag)
    }

    pub fn client_id(&self, suffix: impl Display) -> String {
        format!("interop-{}-{suffix}", self.tag)
    }

    /// A shared subscription of this run's own group.
    pub fn share(&self, filter: &str) -> String {
        format!("$share/group-{}/{filter}", self.tag)
    }

    /// Records what is awaited, for the failure text on timeout.
    pub fn waits_for(&self, what: impl Into<String>) {
        *self.waiting_for.borrow_mut() = what.into();
    }
}

/// Runs one case with the broker; all its clients are dropped at the end.
pub async fn attempt(host: &str, port: u16, version: Version, case: Case) -> Outcome {
    // The hasher's keys are random for each instance, which is random enough for a name.
    let tag = format!("{:016x}", RandomState::new().build_hasher().finish());
    let run = Run { host: host.to_owned(), port, tag, waiting_for: RefCell::default() };
    let result = LocalSet::new().run_until(tokio::time::timeout(CASE_TIMEOUT, case(&run, version))).await;
    result.unwrap_or_else(|_| {
        Err(Failure(format!("no {} within {} s", run.waiting_for.borrow(), CASE_TIMEOUT.as_secs())))
    })
}

pub fn expect(condition: bool, what: impl Into<String>) -> Outcome {
    if condition { Ok(()) } else { Err(Failure(what.into())) }
}

pub fn expect_equal<G: Debug + PartialEq<W>, W: Debug>(got: G, want: W, what: &str) -> Outcome {
    expect(got == want, format!("{what}: got {}, want {}", short(&got), short(&want)))
}

/// Every message went to exactly one member, and no member got less than half a fair share.
pub fn expect_balanced(shares: &[Vec<String>], total: usize) -> Outcome {
    let counts: Vec<usize> = shares.iter().map(Vec::len).collect();
    expect_equal(counts.iter().sum::<usize>(), total, &format!("messages across the group {counts:?}"))?;
    expect(
        counts.iter().all(|count| 2 * count * counts.len() >= total),
        format!("unbalanced shared subscription: {counts:?}"),
    )
}

/// Sleeps, only to test the passing of time (expiry, delays); never to wait for an event.
pub async fn sleep_for(duration: Duration) {
    tokio::time::sleep(duration).await;
}

fn short(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

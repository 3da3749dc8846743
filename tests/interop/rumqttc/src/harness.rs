//! What every case shares: names nobody else uses, a deadline and expectations.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::fmt::{self, Debug, Display};
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use tokio::task::LocalSet;

use crate::Case;
use crate::peer::Version;

/// A case that takes longer has failed.
pub const CASE_TIMEOUT: Duration = Duration::from_secs(60);

/// What a case ends with.
pub type Outcome<T = ()> = Result<T, Failure>;

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
    /// A topic name under a level that belongs to this run alone.
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

    /// Notes what is awaited, for the failure's text when it never comes.
    pub fn waits_for(&self, what: impl Into<String>) {
        *self.waiting_for.borrow_mut() = what.into();
    }
}

/// Runs one case against the broker, with all its clients gone at the end.
pub async fn attempt(host: &str, port: u16, version: Version, case: Case) -> Outcome {
    // The hasher's keys are random for each instance, which is all the randomness a name needs.
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

/// Lets time pass where passing time is what is tested (expiry, delays); never used to wait for an event.
pub async fn let_pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}

fn short(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

//! Where messages are handed in that do not come over a connection, for the first thread to publish.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tautwire_engine::NotPublished;
use tautwire_message::Message;
use tautwire_protocol::ReasonCode;

use crate::bell::Bell;

/// Messages that lie here at once: no fewer than the admin API has requests.
const POSTED_MAX: usize = 16;

/// Why a message was not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishError {
    /// A client that publishes it would be refused with this code and this reason string.
    Refused(ReasonCode, Cow<'static, str>),
    /// A thread is behind, or too many publish at once. Nothing was published; it may be tried again.
    Busy,
    /// The broker stops or has stopped. Nothing was published.
    Stopping,
    /// No answer came in time. The message may have been published.
    Unanswered,
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PublishError::Refused(_, why) => why,
            PublishError::Busy => "the threads of the broker are behind; nothing was published, try again",
            PublishError::Stopping => "the broker stops; nothing was published",
            PublishError::Unanswered => "the broker did not answer in time; the message may have been published",
        })
    }
}

impl std::error::Error for PublishError {}

impl From<NotPublished> for PublishError {
    fn from(error: NotPublished) -> PublishError {
        match error {
            NotPublished::Busy => PublishError::Busy,
            NotPublished::Refused(reason, why) => PublishError::Refused(reason, why),
        }
    }
}

/// What came of a message: whether anybody wanted it.
type Outcome = Result<bool, PublishError>;

/// A message, and where its publisher waits.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) message: Message,
    number: u64,
    answer: SyncSender<Outcome>,
}

impl Posted {
    pub(crate) fn answer(self, outcome: Result<bool, NotPublished>) {
        // Who has given up does not listen any more.
        let _ = self.answer.try_send(outcome.map_err(PublishError::from));
    }
}

/// The desk. Any thread may hand in; one [`Clerk`] takes.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    drawer: Mutex<Drawer>,
    /// There is something in the drawer, or was before it was withdrawn.
    has_posts: AtomicBool,
}

#[derive(Debug, Default)]
struct Drawer {
    posted: Vec<Posted>,
    next_number: u64,
    is_closed: bool,
}

impl Desk {
    /// Hands in a message and waits until the clerk, whom `bell` wakes, has published it.
    pub(crate) fn publish(&self, message: Message, bell: &Bell, timeout: Duration) -> Outcome {
        let (answer, outcome) = sync_channel(1);
        let number = self.post(message, answer)?;
        bell.ring();
        match outcome.recv_timeout(timeout) {
            Ok(outcome) => outcome,
            // The clerk is gone, and what lay here with him.
            Err(RecvTimeoutError::Disconnected) => Err(PublishError::Stopping),
            Err(RecvTimeoutError::Timeout) if self.withdraw(number) => Err(PublishError::Busy),
            // The clerk has it in hand, or has just answered.
            Err(RecvTimeoutError::Timeout) => outcome.try_recv().unwrap_or(Err(PublishError::Unanswered)),
        }
    }

    fn post(&self, message: Message, answer: SyncSender<Outcome>) -> Result<u64, PublishError> {
        let mut drawer = self.drawer();
        if drawer.is_closed {
            return Err(PublishError::Stopping);
        }
        if drawer.posted.len() >= POSTED_MAX {
            return Err(PublishError::Busy);
        }
        let number = drawer.next_number;
        drawer.next_number += 1;
        drawer.posted.push(Posted { message, number, answer });
        self.has_posts.store(true, Ordering::SeqCst);
        Ok(number)
    }

    /// Takes a message back; false where the clerk has it.
    fn withdraw(&self, number: u64) -> bool {
        let mut drawer = self.drawer();
        let before = drawer.posted.len();
        drawer.posted.retain(|posted| posted.number != number);
        drawer.posted.len() < before
    }

    fn drawer(&self) -> MutexGuard<'_, Drawer> {
        self.drawer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who takes what is handed in. When it is dropped, all who wait are told, and nobody can hand in any more.
#[derive(Debug)]
pub(crate) struct Clerk(Arc<Desk>);

impl Clerk {
    pub(crate) fn new(desk: Arc<Desk>) -> Clerk {
        Clerk(desk)
    }

    /// Whether there may be something to take. What was posted before the bell was looked at is seen.
    #[inline]
    pub(crate) fn has_posts(&self) -> bool {
        // In one order with `Bell::before_sleep` and `Bell::ring`, as mail is.
        self.0.has_posts.load(Ordering::SeqCst)
    }

    /// Takes all there is.
    pub(crate) fn take(&self) -> Vec<Posted> {
        let mut drawer = self.0.drawer();
        self.0.has_posts.store(false, Ordering::SeqCst);
        std::mem::take(&mut drawer.posted)
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        let mut drawer = self.0.drawer();
        drawer.is_closed = true;
        // With each goes the only sender of its channel.
        drawer.posted.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    use mio::{Poll, Token, Waker};
    use tautwire_engine::Publication;
    use tautwire_protocol::{QoS, TopicName};

    /// Longer than anything here may take.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn message() -> Message {
        let topic = TopicName::new("t").expect("a valid topic");
        Publication { topic, content_type: None, payload: b"x", qos: QoS::AtLeastOnce, retain: false }.to_message()
    }

    fn bell(poll: &Poll) -> Bell {
        Bell::new(Waker::new(poll.registry(), Token(0)).expect("a waker"))
    }

    #[test]
    fn a_full_desk_takes_nothing_more() {
        let desk = Arc::new(Desk::default());
        let clerk = Clerk::new(desk.clone());
        let (answer, _outcome) = sync_channel(1);
        for number in 0..POSTED_MAX {
            assert_eq!(desk.post(message(), answer.clone()), Ok(number as u64));
        }
        assert_eq!(desk.post(message(), answer.clone()), Err(PublishError::Busy));
        assert_eq!(clerk.take().len(), POSTED_MAX);
        assert!(!clerk.has_posts());
        assert!(desk.post(message(), answer).is_ok() && clerk.has_posts());
    }

    #[test]
    fn what_is_not_taken_in_time_is_withdrawn() {
        let poll = Poll::new().expect("a poll");
        let desk = Arc::new(Desk::default());
        let clerk = Clerk::new(desk.clone());
        let outcome = desk.publish(message(), &bell(&poll), Duration::from_millis(1));
        assert_eq!(outcome, Err(PublishError::Busy));
        assert!(clerk.take().is_empty());
    }

    /// Wherever the clerk is when he goes, nobody waits for him.
    #[test]
    fn nobody_waits_for_a_clerk_who_is_gone() {
        for taken in 0..50 {
            let poll = Poll::new().expect("a poll");
            let bell = bell(&poll);
            let desk = Arc::new(Desk::default());
            let clerk = Clerk::new(desk.clone());
            thread::scope(|scope| {
                let publishers: Vec<_> = (0..4)
                    .map(|_| {
                        scope.spawn(|| {
                            let mut published = 0;
                            loop {
                                match desk.publish(message(), &bell, PATIENCE) {
                                    Ok(_) => published += 1,
                                    Err(error) => return (published, error),
                                }
                            }
                        })
                    })
                    .collect();
                let mut answered = 0;
                while answered < taken {
                    for posted in clerk.take() {
                        posted.answer(Ok(true));
                        answered += 1;
                    }
                    thread::yield_now();
                }
                drop(clerk);
                let mut published = 0;
                for publisher in publishers {
                    let (count, error) = publisher.join().expect("a publisher ends");
                    assert_eq!(error, PublishError::Stopping);
                    published += count;
                }
                assert_eq!(published, answered);
            });
        }
    }
}

//! Queries and removal of retained messages, from other threads.

use std::thread;
use std::time::{Duration, Instant};

use tautwire_engine::{
    AdminQuery, FetchedMessage, PublishConfirm, RemovalResult, RetainedPage, RetainedQuery, TopicLevels, TopicsQuery,
};

use crate::admin_queries::{self, QueryDeadline, QueryError};
use crate::control::Control;
use crate::inbox::{Command, Inbox, PublishError};

/// The pause before a removal continues after a thread or the log was full.
const REMOVAL_PAUSE: Duration = Duration::from_millis(2);

impl Control {
    /// Returns some of the retained messages.
    ///
    /// # Errors
    /// There was no answer.
    pub fn retained_messages(
        &self,
        query: RetainedQuery,
        deadline: QueryDeadline<'_>,
    ) -> Result<RetainedPage, QueryError> {
        admin_queries::ask(self.inbox_for_scans(), |reply| AdminQuery::Retained(query, reply), deadline)
    }

    /// Returns the retained message of a topic.
    ///
    /// # Errors
    /// There was no answer.
    pub fn retained_message(&self, topic: &str, deadline: QueryDeadline<'_>) -> Result<FetchedMessage, QueryError> {
        admin_queries::ask(self.inbox_for_scans(), |reply| AdminQuery::RetainedMessage(topic.into(), reply), deadline)
    }

    /// Returns levels of the tree of topics with retained messages.
    ///
    /// # Errors
    /// There was no answer.
    pub fn topics(&self, query: TopicsQuery, deadline: QueryDeadline<'_>) -> Result<TopicLevels, QueryError> {
        admin_queries::ask(self.inbox_for_scans(), |reply| AdminQuery::Topics(query, reply), deadline)
    }

    /// Removes the retained messages that match a filter, like an empty message published to each topic. Returns the number of removed
    /// messages once the log has persisted the removal; there may be more after half of `timeout`.
    ///
    /// # Errors
    /// Some messages may have been removed.
    pub fn remove_retained(&self, filter: &str, timeout: Duration) -> Result<RemovalResult, PublishError> {
        let began = Instant::now();
        let left = || timeout.saturating_sub(began.elapsed());
        let inbox = &self.inboxes[0];
        let mut total = RemovalResult::default();
        loop {
            let result =
                admin_queries::ask(inbox, |reply| AdminQuery::RemoveRetained(filter.into(), reply), left().into());
            let RemovalResult { removed, refused, has_more, confirm } = result.map_err(removal_error)?;
            let confirm = PublishConfirm::both(total.confirm, confirm);
            total = RemovalResult { removed: total.removed + removed, refused, has_more, confirm };
            let is_stuck = removed == 0;
            if !has_more || began.elapsed() > timeout / 2 {
                break;
            }
            if is_stuck {
                thread::sleep(REMOVAL_PAUSE);
            }
        }
        if let Some(confirm) = total.confirm {
            inbox.request(|answer| Command::WaitDurable(confirm, answer), left())??;
        }
        Ok(total)
    }

    /// Returns the inbox of the shard that scans for all: not the one that accepts connections, if there is another.
    fn inbox_for_scans(&self) -> &Inbox {
        &self.inboxes[self.inboxes.len() - 1]
    }
}

fn removal_error(error: QueryError) -> PublishError {
    match error {
        QueryError::Busy => PublishError::Busy,
        QueryError::Stopping => PublishError::Stopping,
        QueryError::Timeout => PublishError::Timeout,
    }
}

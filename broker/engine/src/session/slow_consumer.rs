//! The policies for slow consumers.

use tautwire_protocol::topic_matches;

/// The policy for a message to a session whose queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlowConsumer {
    /// The new message is dropped for this session.
    #[default]
    DropNew,
    /// The oldest queued message of this session is dropped.
    DropOld,
    /// The new message is dropped, and the client is disconnected with 0x97 Quota exceeded. Its queue persists.
    Disconnect,
    /// The message is refused for all receivers with 0x97 Quota exceeded. A publisher of 3.1.1 is paused.
    Refuse,
    /// Reading from the publisher is paused until the queue has room.
    PausePublisher,
}

impl SlowConsumer {
    /// The stable name for operators.
    pub fn name(self) -> &'static str {
        match self {
            SlowConsumer::DropNew => "drop_new",
            SlowConsumer::DropOld => "drop_old",
            SlowConsumer::Disconnect => "disconnect",
            SlowConsumer::Refuse => "refuse",
            SlowConsumer::PausePublisher => "pause_publisher",
        }
    }

    /// Whether the policy affects the publisher instead of the session.
    #[inline]
    pub(crate) fn affects_publishers(self) -> bool {
        matches!(self, SlowConsumer::Refuse | SlowConsumer::PausePublisher)
    }
}

/// The configured policies for slow consumers. The first rule for the topic applies, then the rule for the session's user, then the
/// default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlowConsumers {
    /// The policy if no rule matches.
    pub default: SlowConsumer,
    /// Rules by topic filter, matched against the topic of the message.
    pub topics: Vec<(Box<str>, SlowConsumer)>,
    /// Rules by the user of the session whose queue is full.
    pub users: Vec<(Box<str>, SlowConsumer)>,
}

impl From<SlowConsumer> for SlowConsumers {
    fn from(default: SlowConsumer) -> Self {
        SlowConsumers { default, ..SlowConsumers::default() }
    }
}

impl SlowConsumers {
    /// The policy for a message of `topic` and a session of `user`.
    pub(crate) fn policy(&self, topic: &str, user: Option<&str>) -> SlowConsumer {
        let by_topic = self.topics.iter().find(|(filter, _)| topic_matches(filter, topic));
        let by_user = || self.users.iter().find(|(name, _)| user == Some(&**name));
        by_topic.or_else(by_user).map_or(self.default, |(_, policy)| *policy)
    }

    /// Whether any policy can affect publishers.
    #[inline]
    pub(crate) fn can_affect_publishers(&self) -> bool {
        let rules = || self.topics.iter().chain(&self.users);
        self.default.affects_publishers() || rules().any(|(_, policy)| policy.affects_publishers())
    }
}

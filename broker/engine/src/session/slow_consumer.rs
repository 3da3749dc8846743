//! What happens to a message for a session whose queue is full.

use tautwire_protocol::topic_matches;

/// What happens to a message for a session whose queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlowConsumer {
    /// The new message is dropped for this session.
    #[default]
    DropNew,
    /// The oldest waiting message is dropped for this session.
    DropOld,
    /// The new message is dropped, and the client is disconnected with 0x97 Quota exceeded; its queue stays.
    Disconnect,
    /// The message is refused with 0x97 Quota exceeded, for everybody. A publisher of 3.1.1 waits.
    Refuse,
    /// The publisher is not read from until the queue has room.
    PausePublisher,
}

impl SlowConsumer {
    /// What operators call it. Never changes.
    pub fn name(self) -> &'static str {
        match self {
            SlowConsumer::DropNew => "drop_new",
            SlowConsumer::DropOld => "drop_old",
            SlowConsumer::Disconnect => "disconnect",
            SlowConsumer::Refuse => "refuse",
            SlowConsumer::PausePublisher => "pause_publisher",
        }
    }

    /// Whether the publisher takes the consequence, and not the session.
    #[inline]
    pub(crate) fn affects_publishers(self) -> bool {
        matches!(self, SlowConsumer::Refuse | SlowConsumer::PausePublisher)
    }
}

/// The policies for slow consumers. The first rule for the topic of the message counts, then the rule for the user of the session, then
/// the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlowConsumers {
    /// Where no rule matches.
    pub default: SlowConsumer,
    /// By filters that the topic of the message may match.
    pub topics: Vec<(Box<str>, SlowConsumer)>,
    /// By the user of the session whose queue is full.
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

    /// Whether publishers may have to take the consequence at all.
    #[inline]
    pub(crate) fn can_affect_publishers(&self) -> bool {
        let rules = || self.topics.iter().chain(&self.users);
        self.default.affects_publishers() || rules().any(|(_, policy)| policy.affects_publishers())
    }
}

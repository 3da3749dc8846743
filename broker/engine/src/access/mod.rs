//! Authorization: what the access rules allow clients to do.
//!
//! A publish is checked with the match cache's entry for its topic, a subscription when it is made. A delivery is only checked if its
//! message was queued before the rules changed or the client reconnected.

mod check_budget;
mod client_info;
mod review;
mod steps;

use std::num::NonZeroU64;
use std::sync::Arc;

use tautwire_access::{Identity, Permissions, Policy, Subject, TopicStamp};
use tautwire_message::MessageRef;

pub(crate) use self::check_budget::CheckBudget;
pub use self::client_info::{ClientCheck, ClientInfo, RecheckOutcome};
pub(crate) use self::review::{AccessReview, AccessReviews};
use crate::connection::auth_progress::AuthProgress;
use crate::index::ConnectionId;
use crate::routing::retained_publisher::LastPublisher;
use crate::settings::config::ConfigSnapshot;

/// The access rules that a shard applies.
pub(crate) struct AccessRules {
    policy: Arc<Policy>,
    /// The number of the config with which it came.
    policy_version: u64,
    /// Rechecks connected clients; `None` if that was never needed.
    client_check: Option<ClientCheck>,
    /// The number of the config with which it came.
    client_check_version: u64,
    /// Whether there are rules.
    has_rules: bool,
    /// Whether clients must authenticate.
    requires_auth: bool,
    auth_progress: Arc<AuthProgress>,
    /// Connections that can only be rechecked with their address, which is not stored.
    unknown_address: Vec<ConnectionId>,
    last_publisher: LastPublisher,
}

impl AccessRules {
    pub(crate) fn new(config: &ConfigSnapshot) -> AccessRules {
        AccessRules {
            policy: config.policy.clone(),
            policy_version: config.policy_version(),
            client_check: config.client_check().cloned(),
            client_check_version: config.client_check_version(),
            has_rules: !config.policy.is_open(),
            requires_auth: config.requires_auth,
            auth_progress: config.auth_progress.clone(),
            unknown_address: Vec::new(),
            last_publisher: LastPublisher::default(),
        }
    }

    /// Whether clients must authenticate.
    #[inline]
    pub(crate) fn requires_auth(&self) -> bool {
        self.requires_auth
    }

    /// The progress of authentication, over all clients.
    pub(crate) fn auth_progress(&self) -> u64 {
        self.auth_progress.count()
    }

    /// Whether there are rules. Without rules, everything is allowed.
    #[inline]
    pub(crate) fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Applies a configuration. Returns what must be reviewed because of it.
    pub(crate) fn apply(&mut self, config: &ConfigSnapshot) -> AccessReviews {
        self.requires_auth = config.requires_auth;
        self.auth_progress.clone_from(&config.auth_progress);
        let rules = (config.policy_version() != self.policy_version).then(|| {
            self.policy_version = config.policy_version();
            self.has_rules = !config.policy.is_open();
            std::mem::replace(&mut self.policy, config.policy.clone())
        });
        let clients =
            config.client_check().filter(|_| config.client_check_version() != self.client_check_version).cloned();
        if clients.is_some() {
            self.client_check_version = config.client_check_version();
            self.client_check.clone_from(&clients);
        }
        AccessReviews { rules, clients }
    }

    /// `listener`: the listener of a client without an identity.
    fn resolve(&self, identity: Option<&Arc<Identity>>, listener: &str, client_id: &str) -> Permissions {
        match identity {
            Some(identity) => identity.as_subject(client_id, |subject| self.policy.resolve(subject)),
            // It connected before authentication was required.
            None => {
                let anonymous = Subject { client_id, user: None, listener, claims: &[], roles: &[] };
                self.policy.resolve(&anonymous)
            }
        }
    }

    /// The permissions of a retained message's publisher, given the stored description of it.
    pub(crate) fn permissions_of_publisher(&mut self, publisher: &str) -> Option<&Permissions> {
        self.last_publisher.permissions(&self.policy, publisher)
    }

    /// Whether an operator may publish.
    pub(crate) fn can_operator_publish(&self, message: &MessageRef<'_>) -> bool {
        let permissions = || self.policy.resolve(&Subject::ADMIN);
        !self.has_rules || permissions().may_publish(message.topic, message.qos, message.retain).is_allowed()
    }
}

/// Numbers the entries of a shard's match cache, so that a [`PublishCache`](tautwire_access::PublishCache) recognizes topics.
#[derive(Debug, Default)]
pub(crate) struct TopicStamps(u64);

impl TopicStamps {
    pub(crate) fn next(&mut self) -> Option<TopicStamp> {
        self.0 += 1;
        NonZeroU64::new(self.0).map(TopicStamp::new)
    }
}

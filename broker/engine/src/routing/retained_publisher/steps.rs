//! Storing the publisher with a retained message, and checking it on delivery.

use tautwire_message::MessageRef;

use super::{NAME, PublisherRecord, split};
use crate::connection::authentication::identity_of;
use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::routing::contracts::append_user_property;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// Appends the publisher to the properties of a retained message, if publishers are stored.
    pub(crate) fn append_publisher(&self, index: ConnectionIndex, client_id: &str, properties: &mut Vec<u8>) {
        if !self.config.settings().check_retained_publisher {
            return;
        }
        let connection = &self.connections[index];
        let identity = identity_of(connection.auth_state());
        let publisher = PublisherRecord {
            listener: connection.origin().map_or("", |origin| origin.listener()),
            client_id,
            user: identity.and_then(|identity| identity.user.as_deref()),
            roles: identity.iter().flat_map(|identity| identity.roles.iter().map(|role| &**role)).collect(),
        };
        append_user_property(properties, NAME, &publisher.to_text());
    }

    /// Whether a retained message is withheld from new subscribers because its publisher is no longer allowed to publish it.
    pub(crate) fn is_withheld(&mut self, message: &MessageRef<'_>) -> bool {
        if !self.config.settings().check_retained_publisher || !self.config.access().has_rules() {
            return false;
        }
        let (Some(publisher), _) = split(message.properties) else { return false };
        let permissions = self.config.access_mut().permissions_of_publisher(publisher);
        let is_withheld = permissions
            .is_none_or(|permissions| !permissions.may_publish(message.topic, message.qos, true).is_allowed());
        self.counters().retained_withheld.add(u64::from(is_withheld));
        is_withheld
    }
}

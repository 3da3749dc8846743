//! The server's limits in CONNACK. They apply to a connection until it ends, even if the settings change: a client that respects its
//! CONNACK is never at fault.
//!
//! The current settings are checked first, as plain fields. The limits here are only looked up if those refuse something.

mod steps;

use tautwire_protocol::QoS;

use crate::index::ServerLimitsIndex;
use crate::settings::values::Settings;

/// Different limits that are stored. If all are in use at once, the last entry is replaced.
const SERVER_LIMITS_MAX: usize = 1024;

/// The limits and capabilities in CONNACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerLimits {
    pub(crate) receive_maximum: u16,
    pub(crate) topic_alias_maximum: u16,
    maximum_packet_size_bytes: u32,
    pub(crate) max_qos: QoS,
    pub(crate) retain_available: bool,
    pub(crate) wildcard_subscription_available: bool,
    pub(crate) shared_subscription_available: bool,
    pub(crate) subscription_identifier_available: bool,
}

impl ServerLimits {
    fn of(settings: &Settings) -> ServerLimits {
        ServerLimits {
            receive_maximum: settings.receive_maximum,
            topic_alias_maximum: settings.topic_alias_maximum,
            maximum_packet_size_bytes: settings.maximum_packet_size_bytes,
            max_qos: settings.max_qos,
            retain_available: settings.retain_available,
            wildcard_subscription_available: settings.wildcard_subscription_available,
            shared_subscription_available: settings.shared_subscription_available,
            subscription_identifier_available: settings.subscription_identifier_available,
        }
    }
}

/// The different limits of a shard's connections.
#[derive(Debug)]
pub(crate) struct ServerLimitsTable {
    all: Vec<ServerLimits>,
    current: u16,
}

impl ServerLimitsTable {
    pub(crate) fn new(settings: &Settings) -> ServerLimitsTable {
        ServerLimitsTable { all: vec![ServerLimits::of(settings)], current: 0 }
    }

    /// The index of the current limits.
    pub(crate) fn current(&self) -> ServerLimitsIndex {
        ServerLimitsIndex(self.current)
    }

    /// Makes the limits of these settings current. `is_used` says whether an entry has clients. Returns whether an entry with clients had
    /// to be replaced.
    pub(crate) fn change(&mut self, settings: &Settings, mut is_used: impl FnMut(ServerLimitsIndex) -> bool) -> bool {
        let limits = ServerLimits::of(settings);
        if let Some(known) = self.all.iter().position(|other| *other == limits) {
            self.current = known as u16;
            return false;
        }
        if self.all.len() < SERVER_LIMITS_MAX {
            self.all.push(limits);
            self.current = (self.all.len() - 1) as u16;
            return false;
        }
        let free = (0..SERVER_LIMITS_MAX).find(|at| !is_used(ServerLimitsIndex(*at as u16)));
        let at = free.unwrap_or(SERVER_LIMITS_MAX - 1);
        self.all[at] = limits;
        self.current = at as u16;
        free.is_none()
    }

    pub(crate) fn get(&self, index: ServerLimitsIndex) -> &ServerLimits {
        self.all.get(usize::from(index.0)).unwrap_or(&self.all[usize::from(self.current)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(receive_maximum: u16) -> Settings {
        Settings { receive_maximum, ..Settings::default() }
    }

    #[test]
    fn limits_are_shared_and_freed_with_their_last_user() {
        let mut table = ServerLimitsTable::new(&settings(1));
        let first = table.current();
        assert!(!table.change(&settings(2), |_| true) && !table.change(&settings(1), |_| true));
        assert_eq!((table.current(), table.all.len()), (first, 2));
        for maximum in 2..=SERVER_LIMITS_MAX as u16 {
            assert!(!table.change(&settings(maximum), |_| true));
        }
        assert_eq!(table.all.len(), SERVER_LIMITS_MAX);
        assert!(!table.change(&settings(2000), |of| of != ServerLimitsIndex(7)));
        assert_eq!(table.current(), ServerLimitsIndex(7));
        assert_eq!(table.get(first).receive_maximum, 1);
        assert_eq!(table.get(ServerLimitsIndex(7)).receive_maximum, 2000);
        assert!(table.change(&settings(3000), |_| true), "each entry has clients");
    }
}

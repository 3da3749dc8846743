//! What clients have been told in CONNACK that they may do. It holds for a connection as long as that lasts, whatever the settings
//! become meanwhile: a client that keeps to what it was told breaks no rule.
//!
//! The settings of now are asked first, as plain fields. Only what they do not allow is looked up here.

mod steps;

use tautwire_protocol::QoS;

use crate::index::ServerLimitsIndex;
use crate::settings::values::Settings;

/// Different terms that are kept. If so many are in use at once, the last ones are replaced.
const SERVER_LIMITS_MAX: usize = 1024;

/// What CONNACK says of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerLimits {
    pub(crate) receive_maximum: u16,
    pub(crate) topic_alias_maximum: u16,
    pub(crate) maximum_packet_size_bytes: u32,
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

/// All terms on which connections of a shard may be, each once.
#[derive(Debug)]
pub(crate) struct ServerLimitsTable {
    all: Vec<ServerLimits>,
    current: u16,
}

impl ServerLimitsTable {
    pub(crate) fn new(settings: &Settings) -> ServerLimitsTable {
        ServerLimitsTable { all: vec![ServerLimits::of(settings)], current: 0 }
    }

    /// Those of the settings of now.
    pub(crate) fn current(&self) -> ServerLimitsIndex {
        ServerLimitsIndex(self.current)
    }

    /// From now on clients are told what these settings say. `is_used` says whether anybody is on some terms. Answers whether terms had to
    /// be replaced on which somebody is.
    pub(crate) fn change(&mut self, settings: &Settings, mut is_used: impl FnMut(ServerLimitsIndex) -> bool) -> bool {
        let terms = ServerLimits::of(settings);
        if let Some(known) = self.all.iter().position(|other| *other == terms) {
            self.current = known as u16;
            return false;
        }
        if self.all.len() < SERVER_LIMITS_MAX {
            self.all.push(terms);
            self.current = (self.all.len() - 1) as u16;
            return false;
        }
        let free = (0..SERVER_LIMITS_MAX).find(|at| !is_used(ServerLimitsIndex(*at as u16)));
        let at = free.unwrap_or(SERVER_LIMITS_MAX - 1);
        self.all[at] = terms;
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
    fn terms_are_kept_once_and_as_long_as_somebody_is_on_them() {
        let mut book = ServerLimitsTable::new(&settings(1));
        let first = book.current();
        assert!(!book.change(&settings(2), |_| true) && !book.change(&settings(1), |_| true));
        assert_eq!((book.current(), book.all.len()), (first, 2));
        for maximum in 2..=SERVER_LIMITS_MAX as u16 {
            assert!(!book.change(&settings(maximum), |_| true));
        }
        assert_eq!(book.all.len(), SERVER_LIMITS_MAX);
        assert!(!book.change(&settings(2000), |of| of != ServerLimitsIndex(7)));
        assert_eq!(book.current(), ServerLimitsIndex(7));
        assert_eq!(book.get(first).receive_maximum, 1);
        assert_eq!(book.get(ServerLimitsIndex(7)).receive_maximum, 2000);
        assert!(book.change(&settings(3000), |_| true), "somebody is on each of them");
    }
}

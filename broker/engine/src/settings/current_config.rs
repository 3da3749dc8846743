//! The configuration that a shard has applied, as plain fields for use in each packet.
//!
//! See [`ConfigSnapshot`](crate::settings::config::ConfigSnapshot).

use std::sync::Arc;

use tautwire_contracts::{Catalogue, Violation};

use crate::access::AccessRules;
use crate::index::ServerLimitsIndex;
use crate::operations::violations::ViolationReport;
use crate::routing::contracts::ViolationLogLimiter;
use crate::settings::config::ConfigSnapshot;
use crate::settings::server_limits::{ServerLimits, ServerLimitsTable};
use crate::settings::values::Settings;

/// The current settings, contracts and access rules of this shard.
pub(crate) struct CurrentConfig {
    settings: Arc<Settings>,
    /// The limits in the CONNACKs of connected clients. The current entry always follows `settings`.
    limits: ServerLimitsTable,
    /// The contracts of payloads.
    contracts: Arc<Catalogue>,
    violations: ViolationLogLimiter,
    /// The access rules.
    access: AccessRules,
}

impl CurrentConfig {
    pub(crate) fn new(config: &ConfigSnapshot) -> CurrentConfig {
        CurrentConfig {
            settings: config.settings.clone(),
            limits: ServerLimitsTable::new(&config.settings),
            contracts: config.contracts.clone(),
            violations: ViolationLogLimiter::default(),
            access: AccessRules::new(config),
        }
    }

    #[inline]
    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Applies these settings, whose limits go into CONNACK from now on. `is_used` says whether an entry has clients. Returns whether an
    /// entry with clients had to be replaced.
    pub(crate) fn apply_settings(
        &mut self,
        settings: &Arc<Settings>,
        is_used: impl FnMut(ServerLimitsIndex) -> bool,
    ) -> bool {
        self.settings = settings.clone();
        self.limits.change(&self.settings, is_used)
    }

    /// Whether these settings are the current ones.
    pub(crate) fn has_applied(&self, settings: &Arc<Settings>) -> bool {
        Arc::ptr_eq(settings, &self.settings)
    }

    /// The index of the current limits.
    pub(crate) fn current_limits(&self) -> ServerLimitsIndex {
        self.limits.current()
    }

    /// The limits at this index.
    pub(crate) fn limits(&self, index: ServerLimitsIndex) -> &ServerLimits {
        self.limits.get(index)
    }

    #[inline]
    pub(crate) fn contracts(&self) -> &Arc<Catalogue> {
        &self.contracts
    }

    /// Applies these contracts. Returns whether they have changed.
    pub(crate) fn apply_contracts(&mut self, contracts: &Arc<Catalogue>) -> bool {
        let is_changed = !Arc::ptr_eq(contracts, &self.contracts);
        if is_changed {
            self.contracts = contracts.clone();
            self.violations.history.retain_contracts(contracts);
        }
        is_changed
    }

    /// Decides whether to log a contract violation at `now_ms`; see [`ViolationLogLimiter::line`].
    pub(crate) fn take_violation_line(&mut self, now_ms: u64) -> Option<u64> {
        self.violations.line(now_ms)
    }

    /// Records a contract violation for operators.
    pub(crate) fn record_violation(&mut self, contract: &str, topic: &str, violation: &Violation, now_ms: u64) {
        self.violations.history.note(contract, topic, violation, now_ms);
    }

    /// The recorded contract violations.
    pub(crate) fn violation_report(&self) -> &ViolationReport {
        &self.violations.history
    }

    #[inline]
    pub(crate) fn access(&self) -> &AccessRules {
        &self.access
    }

    #[inline]
    pub(crate) fn access_mut(&mut self) -> &mut AccessRules {
        &mut self.access
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::config::ConfigCell;

    #[test]
    fn limits_follow_the_settings_except_for_connected_clients() {
        let config_cell = ConfigCell::new(Settings { receive_maximum: 7, ..Settings::default() }, 1);
        let mut current = CurrentConfig::new(&config_cell.current());
        let before = current.current_limits();
        let settings = Arc::new(Settings { receive_maximum: 9, ..Settings::default() });
        assert!(!current.apply_settings(&settings, |_| true));
        assert_eq!(current.settings().receive_maximum, 9);
        assert_eq!(current.limits(current.current_limits()).receive_maximum, 9);
        assert_eq!(current.limits(before).receive_maximum, 7);
    }

    #[test]
    fn contracts_change_once() {
        let mut current = CurrentConfig::new(&ConfigCell::new(Settings::default(), 1).current());
        let contracts = Arc::default();
        assert!(current.apply_contracts(&contracts));
        assert!(!current.apply_contracts(&contracts));
    }
}

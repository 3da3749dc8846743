//! What a shard has adopted of the [`Regime`](crate::regime::Regime): what it asks for each packet, as plain fields.

use std::sync::Arc;

use tautwire_contracts::{Catalogue, Violation};

use crate::access::Access;
use crate::contracts::ViolationLog;
use crate::place::TermsIndex;
use crate::regime::Regime;
use crate::settings::Settings;
use crate::terms::{Terms, TermsBook};
use crate::violations::ViolationBook;

/// Settings, contracts and access rules that hold for this shard now.
pub(crate) struct Adopted {
    settings: Arc<Settings>,
    /// What clients have been told of the settings: the current terms are always those of `settings`.
    terms: TermsBook,
    /// What messages must keep to.
    contracts: Arc<Catalogue>,
    violations: ViolationLog,
    /// What clients may do.
    access: Access,
}

impl Adopted {
    pub(crate) fn new(regime: &Regime) -> Adopted {
        Adopted {
            settings: regime.settings.clone(),
            terms: TermsBook::new(&regime.settings),
            contracts: regime.contracts.clone(),
            violations: ViolationLog::default(),
            access: Access::new(regime),
        }
    }

    #[inline]
    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Adopts these settings, and the terms that they are to clients who come from now on. `is_used` says whether anybody is on some
    /// terms. Answers whether terms had to be replaced on which somebody is.
    pub(crate) fn adopt_settings(&mut self, settings: &Arc<Settings>, is_used: impl FnMut(TermsIndex) -> bool) -> bool {
        self.settings = settings.clone();
        self.terms.change(&self.settings, is_used)
    }

    /// Whether the settings have been adopted.
    pub(crate) fn has_adopted(&self, settings: &Arc<Settings>) -> bool {
        Arc::ptr_eq(settings, &self.settings)
    }

    /// Those of the settings of now.
    pub(crate) fn current_terms(&self) -> TermsIndex {
        self.terms.current()
    }

    /// What clients on these terms have been told.
    pub(crate) fn terms(&self, index: TermsIndex) -> &Terms {
        self.terms.get(index)
    }

    #[inline]
    pub(crate) fn contracts(&self) -> &Arc<Catalogue> {
        &self.contracts
    }

    /// Adopts these contracts; says whether they are others.
    pub(crate) fn adopt_contracts(&mut self, contracts: &Arc<Catalogue>) -> bool {
        let are_others = !Arc::ptr_eq(contracts, &self.contracts);
        if are_others {
            self.contracts = contracts.clone();
            self.violations.book.keep_to(contracts);
        }
        are_others
    }

    /// A message breaks its contract, at `now_ms`: see [`ViolationLog::line`].
    pub(crate) fn violation_line(&mut self, now_ms: u64) -> Option<u64> {
        self.violations.line(now_ms)
    }

    /// Remembers that a message has broken its contract, for operators who ask.
    pub(crate) fn note_violation(&mut self, contract: &str, topic: &str, violation: &Violation, now_ms: u64) {
        self.violations.book.note(contract, topic, violation, now_ms);
    }

    /// What operators can be told of contracts that were broken.
    pub(crate) fn violation_book(&self) -> &ViolationBook {
        &self.violations.book
    }

    #[inline]
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    #[inline]
    pub(crate) fn access_mut(&mut self) -> &mut Access {
        &mut self.access
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regime::Board;

    #[test]
    fn terms_follow_the_settings_and_stay_for_those_who_were_told() {
        let board = Board::new(Settings { receive_maximum: 7, ..Settings::default() }, 1);
        let mut adopted = Adopted::new(&board.current());
        let before = adopted.current_terms();
        let settings = Arc::new(Settings { receive_maximum: 9, ..Settings::default() });
        assert!(!adopted.adopt_settings(&settings, |_| true));
        assert_eq!(adopted.settings().receive_maximum, 9);
        assert_eq!(adopted.terms(adopted.current_terms()).receive_maximum, 9);
        assert_eq!(adopted.terms(before).receive_maximum, 7);
    }

    #[test]
    fn contracts_are_others_once() {
        let mut adopted = Adopted::new(&Board::new(Settings::default(), 1).current());
        let contracts = Arc::default();
        assert!(adopted.adopt_contracts(&contracts));
        assert!(!adopted.adopt_contracts(&contracts));
    }
}

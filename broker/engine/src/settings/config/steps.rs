//! The steps of [`super`] that need several parts of a shard.

use crate::mode::Mode;
use crate::shard::Shard;

impl<M: Mode> Shard<M> {
    /// Applies the current configuration if it has changed. Call it between two packets; [`turn`](crate::scheduling::turn()) does so at its
    /// start.
    #[inline]
    pub fn apply_config_update(&mut self) {
        if self.config_cell.has_update() {
            self.apply_latest_config();
        }
    }

    #[cold]
    fn apply_latest_config(&mut self) {
        let (config, _previous) = self.config_cell.take();
        // Everything is applied before the reviews start: they may publish wills, which must be checked by the new rules.
        self.apply_settings(&config.settings);
        self.apply_contracts(&config);
        self.state.operations.apply_config(&config);
        if self.state.routing.apply_metered(config.metered()) {
            self.table.invalidate_matches();
        }
        let reviews = self.state.config.access_mut().apply(&config);
        self.begin_reviews(reviews);
        self.begin_contract_publication(&config);
    }
}

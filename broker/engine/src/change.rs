//! The settings change while the broker runs: a shard takes the new ones on at the beginning of a turn, all at once.

use tautwire_session::Journal;

use crate::quotas::Flapping;
use crate::shard::Shard;

impl<J: Journal> Shard<J> {
    /// Takes on the settings that hold now, if they are others.
    #[inline]
    pub(crate) fn look_at_settings(&mut self) {
        if self.have_settings_changed() {
            self.take_settings();
        }
    }

    #[inline]
    pub(crate) fn have_settings_changed(&self) -> bool {
        self.hub.settings_board.changes() != self.hub.settings_seen
    }

    #[cold]
    fn take_settings(&mut self) {
        let hub = &mut self.hub;
        // In this order: where they change again in between, they are looked at again.
        hub.settings_seen = hub.settings_board.changes();
        let settings = hub.settings_board.get();
        self.sys.change(hub.shard, &settings, hub.now_ms);
        hub.memory.set_limits(settings.memory_limits());
        hub.cold.set_hot_max(settings.hot_max_bytes());
        hub.flapping = settings.flapping().map(|rule| {
            let mut flapping = hub.flapping.take().unwrap_or_else(|| Flapping::new(rule));
            flapping.keep_to(rule);
            flapping
        });
        let quotas = settings.quotas();
        let has_rate_changed = quotas.publish != hub.quotas.publish;
        hub.paces_publishers = quotas.publish.are_bounded();
        hub.quotas = quotas;
        hub.settings = settings;
        hub.change_terms();
        if has_rate_changed {
            hub.hear_all_who_wait_for_their_rate();
        }
    }
}

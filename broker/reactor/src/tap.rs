//! Watching what is published, from outside the threads.

use std::sync::Arc;

use tautwire_engine::{ConfigSnapshot, Tap, Tracer};

use crate::broker::Control;

/// Somebody watches until this is dropped.
pub struct Watching {
    control: Control,
    tap: Arc<Tap>,
}

impl std::fmt::Debug for Watching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watching").field("tap", &self.tap).finish_non_exhaustive()
    }
}

impl Watching {
    /// What was asked for.
    pub fn tap(&self) -> &Tap {
        &self.tap
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let without = |config: &mut ConfigSnapshot| {
            config.taps = config.taps.iter().filter(|other| !Arc::ptr_eq(other, &self.tap)).cloned().collect();
        };
        self.control.change_regime(without);
    }
}

impl Control {
    /// From now on messages are followed as `tracer` says, or not at all.
    pub fn trace(&self, tracer: Option<Arc<Tracer>>) {
        self.change_regime(|config| config.tracer = tracer);
    }

    /// Shows what is published to `tap`, until the value given is dropped. What is published after this has returned is shown, unless a thread
    /// is held up for longer than [`TAKEN_ON_MAX`](crate::TAKEN_ON_MAX).
    pub fn watch(&self, tap: Tap) -> Watching {
        let tap = Arc::new(tap);
        let all = tap.clone();
        self.change_regime(|config| config.taps = config.taps.iter().cloned().chain([all]).collect());
        Watching { control: self.clone(), tap }
    }
}

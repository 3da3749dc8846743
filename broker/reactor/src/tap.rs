//! Taps and traces of published messages, from other threads.

use std::sync::Arc;

use tautwire_engine::{ConfigSnapshot, Tap, Tracer};

use crate::control::Control;

/// Keeps a tap active until dropped.
pub struct TapGuard {
    control: Control,
    tap: Arc<Tap>,
}

impl std::fmt::Debug for TapGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watching").field("tap", &self.tap).finish_non_exhaustive()
    }
}

impl TapGuard {
    /// Returns the tap.
    pub fn tap(&self) -> &Tap {
        &self.tap
    }
}

impl Drop for TapGuard {
    fn drop(&mut self) {
        let without = |config: &mut ConfigSnapshot| {
            config.taps = config.taps.iter().filter(|other| !Arc::ptr_eq(other, &self.tap)).cloned().collect();
        };
        self.control.change_config(without);
    }
}

impl Control {
    /// Traces messages with `tracer`, or stops tracing.
    pub fn trace(&self, tracer: Option<Arc<Tracer>>) {
        self.change_config(|config| config.tracer = tracer);
    }

    /// Passes published messages to `tap` until the returned guard is dropped. Covers all messages published after this returns, unless a
    /// thread is delayed by more than [`CONFIG_APPLY_TIMEOUT`](crate::CONFIG_APPLY_TIMEOUT).
    pub fn watch(&self, tap: Tap) -> TapGuard {
        let tap = Arc::new(tap);
        let all = tap.clone();
        self.change_config(|config| config.taps = config.taps.iter().cloned().chain([all]).collect());
        TapGuard { control: self.clone(), tap }
    }
}

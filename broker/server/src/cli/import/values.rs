//! Values in a configuration of mosquitto.

/// The default port of listeners and bridges.
pub(super) const DEFAULT_PORT: u16 = 1883;

pub(super) fn is_true(value: &str) -> bool {
    matches!(value, "true" | "1")
}

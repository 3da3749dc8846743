//! The settings, and how a new configuration takes effect.

pub(crate) mod apply_settings;
pub(crate) mod config;
pub(crate) mod current_config;
pub(crate) mod server_limits;
pub(crate) mod values;

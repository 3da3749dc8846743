//! The result of a reload, for the log and the admin API.

use std::fmt;
use std::net::SocketAddr;

use tautwire_reactor::counted;

use crate::config::reload_effect::ListenerChanges;
use crate::json;

/// The result of a reload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReloadReport {
    /// Changed keys that are in effect.
    pub(crate) applied: Vec<String>,
    /// Changed keys that apply to new connections.
    pub(crate) new_connections: Vec<String>,
    /// Changed keys that need a restart.
    pub(crate) after_restart: Vec<String>,
    /// Changes of listeners.
    pub(crate) listeners: ListenerChanges,
    /// The addresses of new listeners.
    pub(crate) addresses: Vec<(String, SocketAddr)>,
    /// The URL of the admin API, if it has changed.
    pub(crate) admin: Option<String>,
    /// The number of contracts, if a folder is configured.
    pub(crate) contracts: Option<usize>,
    /// The number of access rules, if a file is configured.
    pub(crate) rules: Option<usize>,
}

impl ReloadReport {
    /// The report as a JSON object.
    pub(crate) fn to_json(&self) -> String {
        let mut json = String::from("{");
        let lists = [
            ("applied", &self.applied),
            ("applied_to_new_connections", &self.new_connections),
            ("pending_restart", &self.after_restart),
            ("listeners_added", &self.listeners.added),
            ("listeners_removed", &self.listeners.removed),
        ];
        for (name, values) in lists {
            json.push_str(&format!("\"{name}\":["));
            for (at, value) in values.iter().enumerate() {
                json.push_str(if at > 0 { "," } else { "" });
                json::push_string(&mut json, value);
            }
            json.push_str("],");
        }
        json.push_str("\"addresses\":{");
        for (at, (name, address)) in self.addresses.iter().enumerate() {
            json.push_str(if at > 0 { "," } else { "" });
            json::push_string(&mut json, name);
            json.push_str(&format!(":\"{address}\""));
        }
        json.push_str("},\"admin\":");
        match &self.admin {
            Some(address) => json::push_string(&mut json, address),
            None => json.push_str("null"),
        }
        json.push(',');
        let number = |count: Option<usize>| count.map_or("null".to_owned(), |count| count.to_string());
        json.push_str(&format!("\"contracts\":{},\"rules\":{}}}\n", number(self.contracts), number(self.rules)));
        json
    }
}

impl fmt::Display for ReloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("reloaded the configuration and its files")?;
        if let Some(count) = self.rules {
            write!(f, "; {}", counted(count, "rule"))?;
        }
        if let Some(count) = self.contracts {
            write!(f, "; {}", counted(count, "contract"))?;
        }
        for (names, what) in [(&self.listeners.added, "added"), (&self.listeners.removed, "removed")] {
            if !names.is_empty() {
                write!(f, "; listeners {what}: {}", names.join(", "))?;
            }
        }
        if !self.applied.is_empty() {
            write!(f, "; applied: {}", self.applied.join(", "))?;
        }
        if !self.new_connections.is_empty() {
            write!(f, "; for new connections: {}", self.new_connections.join(", "))?;
        }
        if !self.after_restart.is_empty() {
            write!(f, "; after a restart: {}", self.after_restart.join(", "))?;
        }
        Ok(())
    }
}

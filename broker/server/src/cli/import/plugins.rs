//! Plugins of mosquitto. Those that read password and ACL files have a counterpart here.

use std::path::Path;

use super::listener::Security;
use super::outcome::{OptionOutcome, noted};

const UNSUPPORTED: &str =
    "plugins are not supported; auth.hook_url authenticates clients with a service, and acl.file defines access rules";
const UNKNOWN_PLUGIN: &str = "no plugin with this name was loaded above";

/// The plugins so far.
#[derive(Debug, Default)]
pub(super) struct Plugins {
    all: Vec<Plugin>,
    /// Plugins for all listeners, as indices.
    common: Vec<usize>,
    /// The plugin that the following options belong to.
    current: Option<usize>,
}

#[derive(Debug)]
struct Plugin {
    /// The name by which listeners refer to it.
    name: Option<String>,
    kind: Kind,
    file: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It reads a password file.
    Users,
    /// It reads an ACL file.
    AccessRules,
    /// It stores the state.
    State,
    /// It may control authentication and access.
    Other,
}

impl Plugins {
    /// Applies the plugins to the settings of a listener: the common ones, then its own.
    pub(super) fn apply(&self, own: &[usize], security: &mut Security) {
        for plugin in self.common.iter().chain(own).filter_map(|index| self.all.get(*index)) {
            match (plugin.kind, &plugin.file) {
                (Kind::Users, Some(file)) => security.password_file = Some(file.clone()),
                (Kind::AccessRules, Some(file)) => security.acl_file = Some(file.clone()),
                (Kind::Other, _) => security.is_controlled_by_plugin = true,
                (Kind::State, _) | (_, None) => {}
            }
        }
    }

    fn load(&mut self, name: Option<&str>, path: &str) -> (usize, OptionOutcome) {
        let stem = Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let (kind, outcome) = match &*stem {
            "mosquitto_password_file" => (Kind::Users, OptionOutcome::Translated),
            "mosquitto_acl_file" => (Kind::AccessRules, OptionOutcome::Translated),
            "mosquitto_dynamic_security" => {
                let why = "its file is not imported: add users with `tautwire user`, and write roles in acl.file";
                (Kind::Other, noted(why))
            }
            "mosquitto_persist_sqlite" => (Kind::State, noted("not needed: acknowledged data is on disk already")),
            _ => (Kind::Other, noted(UNSUPPORTED)),
        };
        self.all.push(Plugin { name: name.map(str::to_owned), kind, file: None });
        let index = self.all.len() - 1;
        self.current = Some(index);
        (index, outcome)
    }

    /// Translates an option about plugins. `own`: the plugins of the current listener.
    pub(super) fn read(
        &mut self,
        key: &str,
        value: &str,
        per_listener: bool,
        own: &mut Vec<usize>,
    ) -> Option<OptionOutcome> {
        match key {
            "global_plugin" => {
                let (index, outcome) = self.load(None, value);
                self.common.push(index);
                Some(outcome)
            }
            "plugin" | "auth_plugin" => {
                let (index, outcome) = self.load(None, value);
                if per_listener {
                    own.push(index);
                } else {
                    self.common.push(index);
                }
                Some(outcome)
            }
            "plugin_load" => {
                let (name, path) = value.split_once([' ', '\t']).unwrap_or((value, ""));
                Some(self.load(Some(name), path.trim()).1)
            }
            "plugin_use" => {
                let found = self.all.iter().position(|plugin| plugin.name.as_deref() == Some(value));
                let Some(index) = found else { return Some(noted(UNKNOWN_PLUGIN)) };
                self.current = Some(index);
                own.push(index);
                Some(if self.all[index].kind == Kind::Other { noted(UNSUPPORTED) } else { OptionOutcome::Translated })
            }
            _ => {
                let option = key.strip_prefix("plugin_opt_").or_else(|| key.strip_prefix("auth_opt_"))?;
                let current = self.current.and_then(|index| self.all.get_mut(index));
                match (current, option) {
                    (Some(plugin @ Plugin { kind: Kind::Users, .. }), "password_file")
                    | (Some(plugin @ Plugin { kind: Kind::AccessRules, .. }), "acl_file") => {
                        plugin.file = Some(value.to_owned());
                        Some(OptionOutcome::Translated)
                    }
                    _ => Some(noted(UNSUPPORTED)),
                }
            }
        }
    }
}

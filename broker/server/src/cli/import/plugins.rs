//! Plugins of mosquitto. Those that read password and ACL files have a counterpart here.

use std::path::Path;

use super::listener::Security;
use super::mosquitto::ParsedConfig;
use super::options::OptionOutcome;

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
                (Kind::Other, OptionOutcome::Noted(why.into()))
            }
            "mosquitto_persist_sqlite" => {
                (Kind::State, OptionOutcome::Noted("not needed: acknowledged data is on disk already".into()))
            }
            _ => (Kind::Other, OptionOutcome::Noted(UNSUPPORTED.into())),
        };
        self.all.push(Plugin { name: name.map(str::to_owned), kind, file: None });
        let index = self.all.len() - 1;
        self.current = Some(index);
        (index, outcome)
    }
}

/// Translates an option about plugins.
pub(super) fn read(config: &mut ParsedConfig, key: &str, value: &str) -> Option<OptionOutcome> {
    match key {
        "global_plugin" => {
            let (index, outcome) = config.plugins.load(None, value);
            config.plugins.common.push(index);
            Some(outcome)
        }
        "plugin" | "auth_plugin" => {
            let (index, outcome) = config.plugins.load(None, value);
            if config.per_listener {
                config.listener().plugins.push(index);
            } else {
                config.plugins.common.push(index);
            }
            Some(outcome)
        }
        "plugin_load" => {
            let (name, path) = value.split_once([' ', '\t']).unwrap_or((value, ""));
            Some(config.plugins.load(Some(name), path.trim()).1)
        }
        "plugin_use" => {
            let found = config.plugins.all.iter().position(|plugin| plugin.name.as_deref() == Some(value));
            let Some(index) = found else { return Some(OptionOutcome::Noted(UNKNOWN_PLUGIN.into())) };
            config.plugins.current = Some(index);
            config.listener().plugins.push(index);
            Some(if config.plugins.all[index].kind == Kind::Other {
                OptionOutcome::Noted(UNSUPPORTED.into())
            } else {
                OptionOutcome::Translated
            })
        }
        _ => {
            let option = key.strip_prefix("plugin_opt_").or_else(|| key.strip_prefix("auth_opt_"))?;
            let current = config.plugins.current.and_then(|index| config.plugins.all.get_mut(index));
            match (current, option) {
                (Some(plugin @ Plugin { kind: Kind::Users, .. }), "password_file")
                | (Some(plugin @ Plugin { kind: Kind::AccessRules, .. }), "acl_file") => {
                    plugin.file = Some(value.to_owned());
                    Some(OptionOutcome::Translated)
                }
                _ => Some(OptionOutcome::Noted(UNSUPPORTED.into())),
            }
        }
    }
}

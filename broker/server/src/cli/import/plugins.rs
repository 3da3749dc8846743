//! Plugins of mosquitto: those that read files of users and of access rules are what we do, too.

use std::path::Path;

use super::listener::Security;
use super::mosquitto::Reading;
use super::options::OptionOutcome;

const NONE: &str =
    "there are no plugins; auth.hook_url asks a service who clients are, and acl.file says what they may do";
const NO_SUCH: &str = "no plugin above has this name";

/// The plugins that have been named so far.
#[derive(Debug, Default)]
pub(super) struct Plugins {
    all: Vec<Plugin>,
    /// Those that are for all listeners.
    common: Vec<usize>,
    /// What options are for.
    current: Option<usize>,
}

#[derive(Debug)]
struct Plugin {
    /// By which listeners use it.
    name: Option<String>,
    kind: Kind,
    file: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It has a file of users.
    Users,
    /// It has a file of access rules.
    WebSocketConfig,
    /// It keeps the state.
    State,
    /// It may decide who connects and what they may do.
    Other,
}

impl Plugins {
    /// What plugins say of a listener, those that are for it alone behind those that are for all.
    pub(super) fn apply(&self, own: &[usize], security: &mut Security) {
        for plugin in self.common.iter().chain(own).filter_map(|index| self.all.get(*index)) {
            match (plugin.kind, &plugin.file) {
                (Kind::Users, Some(file)) => security.password_file = Some(file.clone()),
                (Kind::WebSocketConfig, Some(file)) => security.acl_file = Some(file.clone()),
                (Kind::Other, _) => security.plugin_decides = true,
                (Kind::State, _) | (_, None) => {}
            }
        }
    }

    fn load(&mut self, name: Option<&str>, path: &str) -> (usize, OptionOutcome) {
        let stem = Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let (kind, answer) = match &*stem {
            "mosquitto_password_file" => (Kind::Users, OptionOutcome::Translated),
            "mosquitto_acl_file" => (Kind::WebSocketConfig, OptionOutcome::Translated),
            "mosquitto_dynamic_security" => {
                let why = "its file is not read: add users by `tautwire user`, and write roles in acl.file";
                (Kind::Other, OptionOutcome::Noted(why.into()))
            }
            "mosquitto_persist_sqlite" => {
                (Kind::State, OptionOutcome::Noted("needless: what is acknowledged is on disk already".into()))
            }
            _ => (Kind::Other, OptionOutcome::Noted(NONE.into())),
        };
        self.all.push(Plugin { name: name.map(str::to_owned), kind, file: None });
        let index = self.all.len() - 1;
        self.current = Some(index);
        (index, answer)
    }
}

/// Takes a line that is about plugins.
pub(super) fn read(reading: &mut Reading, key: &str, value: &str) -> Option<OptionOutcome> {
    match key {
        "global_plugin" => {
            let (index, answer) = reading.plugins.load(None, value);
            reading.plugins.common.push(index);
            Some(answer)
        }
        "plugin" | "auth_plugin" => {
            let (index, answer) = reading.plugins.load(None, value);
            if reading.per_listener {
                reading.listener().plugins.push(index);
            } else {
                reading.plugins.common.push(index);
            }
            Some(answer)
        }
        "plugin_load" => {
            let (name, path) = value.split_once([' ', '\t']).unwrap_or((value, ""));
            Some(reading.plugins.load(Some(name), path.trim()).1)
        }
        "plugin_use" => {
            let found = reading.plugins.all.iter().position(|plugin| plugin.name.as_deref() == Some(value));
            let Some(index) = found else { return Some(OptionOutcome::Noted(NO_SUCH.into())) };
            reading.plugins.current = Some(index);
            reading.listener().plugins.push(index);
            Some(if reading.plugins.all[index].kind == Kind::Other {
                OptionOutcome::Noted(NONE.into())
            } else {
                OptionOutcome::Translated
            })
        }
        _ => {
            let option = key.strip_prefix("plugin_opt_").or_else(|| key.strip_prefix("auth_opt_"))?;
            let current = reading.plugins.current.and_then(|index| reading.plugins.all.get_mut(index));
            match (current, option) {
                (Some(plugin @ Plugin { kind: Kind::Users, .. }), "password_file")
                | (Some(plugin @ Plugin { kind: Kind::WebSocketConfig, .. }), "acl_file") => {
                    plugin.file = Some(value.to_owned());
                    Some(OptionOutcome::Translated)
                }
                _ => Some(OptionOutcome::Noted(NONE.into())),
            }
        }
    }
}

//! The file mosquitto.conf, read line by line.

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use tautwire_access::import::mosquitto_acl;
use tautwire_mosquitto::MountPoints;

use super::options::{self, Answer};
use super::plugins::Plugins;
use crate::files;
use crate::json::push_string;

/// Longest file that is read.
const FILE_MAX_BYTES: usize = 16 << 20;
/// Files of `include_dir` that are read.
const INCLUDED_MAX: usize = 256;
/// Where mosquitto listens when nothing is said.
const DEFAULT_PORT: u16 = 1883;

/// What has come of a configuration.
pub(super) struct Imported {
    pub(super) configuration: String,
    /// Files of access rules by their names, one for each file that there was.
    pub(super) rules: Vec<(String, String)>,
    /// What has no counterpart, in the order of the lines.
    pub(super) notes: Vec<String>,
    /// Where Mosquitto keeps its state, where it does.
    pub(super) database: Option<PathBuf>,
    pub(super) mount_points: MountPoints,
}

/// A listener of mosquitto, with what was said of it. Before the first `listener` line, the one at the default port.
#[derive(Debug, Default)]
pub(super) struct Listener {
    pub(super) port: Option<u16>,
    pub(super) address: Option<String>,
    pub(super) is_websocket: bool,
    /// IPv4 or IPv6, where one is named.
    pub(super) domain: Option<Domain>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
    pub(super) authorities: Option<String>,
    pub(super) revoked: Option<String>,
    pub(super) requires_certificate: bool,
    pub(super) takes_name_of_certificate: bool,
    pub(super) minimum_version: Option<&'static str>,
    pub(super) connections: Option<u64>,
    pub(super) max_qos: Option<u64>,
    pub(super) topic_aliases: Option<u64>,
    /// Pages that may connect by WebSocket; all where none is named.
    pub(super) origins: Vec<String>,
    pub(super) mount_point: Option<String>,
    /// `listener_allow_anonymous`, which goes before all else.
    pub(super) anonymous: Option<bool>,
    pub(super) security: Security,
    /// Those that are for it alone, by their places in [`Plugins`].
    pub(super) plugins: Vec<usize>,
    /// It is no listener of MQTT.
    pub(super) is_http_api: bool,
}

/// What addresses a listener without one has: without this, of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Domain {
    V4,
    V6,
}

/// Who may come and do what: of all listeners, or of each with `per_listener_settings`.
#[derive(Debug, Default, Clone)]
pub(super) struct Security {
    pub(super) anonymous: Option<bool>,
    pub(super) password_file: Option<String>,
    pub(super) acl_file: Option<String>,
}

/// Where Mosquitto keeps its state.
#[derive(Debug, Default)]
pub(super) struct StateFile {
    pub(super) is_kept: bool,
    pub(super) folder: Option<String>,
    pub(super) name: Option<String>,
}

/// Everything that has been read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// The first is that of the lines before any `listener`.
    pub(super) listeners: Vec<Listener>,
    pub(super) per_listener: bool,
    pub(super) common: Security,
    pub(super) plugins: Plugins,
    /// Keys of ours that hold for all, with values as TOML.
    pub(super) keys: Vec<(&'static str, String)>,
    pub(super) state: StateFile,
    /// The most that `log_type` names.
    pub(super) log_level: Option<log::Level>,
    notes: Vec<String>,
    included: usize,
    /// Lines belong to a bridge.
    in_bridge: bool,
}

/// Reads a configuration of mosquitto, and all files that it includes. `data`: the data directory that is made of the state.
///
/// # Errors
/// A file cannot be read.
pub(super) fn read(file: &Path, data: Option<&Path>) -> Result<Imported, String> {
    let mut reading = Reading { listeners: vec![Listener::default()], ..Reading::default() };
    reading.file(file)?;
    reading.finish(file, data)
}

impl Reading {
    fn file(&mut self, file: &Path) -> Result<(), String> {
        let text = text(file)?;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = line.split_once([' ', '\t']).map_or((line, ""), |(key, value)| (key, value.trim()));
            let place = format!("{}:{}", file.display(), index + 1);
            if key == "include_dir" {
                self.folder(Path::new(value), &place)?;
                continue;
            }
            if key == "connection" {
                self.in_bridge = true;
                self.note(&place, line, "there are no bridges");
                continue;
            }
            match options::read(self, key, value) {
                Answer::Taken => self.in_bridge &= key != "listener",
                Answer::Noted(why) => self.note(&place, line, why),
                Answer::Unknown if self.in_bridge => self.note(&place, line, "there are no bridges"),
                Answer::Unknown => self.note(&place, line, "is not known"),
            }
        }
        Ok(())
    }

    fn folder(&mut self, folder: &Path, place: &str) -> Result<(), String> {
        let entries = fs::read_dir(folder).map_err(|error| format!("{place}: {}: {error}", folder.display()))?;
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
        files.sort();
        for file in files {
            self.included += 1;
            if self.included > INCLUDED_MAX {
                return Err(format!("{place}: more than {INCLUDED_MAX} files are included"));
            }
            self.file(&file)?;
        }
        Ok(())
    }

    fn note(&mut self, place: &str, line: &str, why: &str) {
        let key = line.split([' ', '\t']).next().unwrap_or_default();
        // Passwords of bridges, keys, and what plugins are told are nobody's business who reads over a shoulder.
        let is_secret = key.contains("opt_") || key.contains("psk") || key.contains("pass") && key != "password_file";
        self.notes.push(format!("{place}: {}: {why}", if is_secret { key } else { line }));
    }

    /// The listener that lines are about now.
    pub(super) fn listener(&mut self) -> &mut Listener {
        let last = self.listeners.len() - 1;
        &mut self.listeners[last]
    }

    /// Who may come and do what, where it is said now.
    pub(super) fn security(&mut self) -> &mut Security {
        if self.per_listener { &mut self.listener().security } else { &mut self.common }
    }

    pub(super) fn set(&mut self, key: &'static str, value: impl ToString) {
        self.keys.retain(|(known, _)| *known != key);
        self.keys.push((key, value.to_string()));
    }

    fn finish(mut self, file: &Path, data: Option<&Path>) -> Result<Imported, String> {
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let database = self.state.path(&folder);
        match (data, &database) {
            (Some(data), _) => self.set("data.path", quoted(&whole(data.to_owned()).display().to_string())),
            (None, Some(database)) => self.notes.push(format!(
                "{}: sessions and messages stay there; `tautwire import mosquitto --data DIR {}` takes them over once Mosquitto is stopped",
                database.display(),
                database.display()
            )),
            (None, None) => {}
        }
        let mounted = self.listeners.iter().filter_map(|listener| {
            let port = listener.port.unwrap_or(DEFAULT_PORT);
            listener.mount_point.clone().map(|mount_point| (port, mount_point))
        });
        let mount_points = mounted.collect();
        let has_listeners = self.listeners.len() > 1;
        let first = &self.listeners[0];
        // With a `listener` line, the default one is there only if something was said of it.
        let keeps_first = !has_listeners || first.is_spoken_of();
        if has_listeners && keeps_first && first.port.is_none() {
            self.notes.push(format!(
                "{}: options before the first listener: Mosquitto serves port {DEFAULT_PORT} by them, too, and so does the new file",
                file.display()
            ));
        }
        let first = &self.listeners[0];
        let skipped = usize::from(!keeps_first);
        // Without any, mosquitto serves this machine alone, and lets in everybody.
        let is_local = !has_listeners && first.port.is_none() && first.address.is_none();
        let mut listeners: Vec<Listener> = self.listeners.drain(..).skip(skipped).collect();
        listeners.retain(|listener| !listener.is_http_api);
        for listener in &mut listeners {
            let mut security = if self.per_listener { listener.security.clone() } else { self.common.clone() };
            self.plugins.apply(&listener.plugins, &mut security);
            security.anonymous = listener.anonymous.or(security.anonymous);
            listener.security = security;
        }
        self.join_options(&listeners, file);
        if let Some(level) = self.log_level {
            self.set("log.level", quoted(&level.as_str().to_ascii_lowercase()));
        }
        let rules = self.rules(&listeners, &folder)?;
        // One file for all is said once.
        let is_common =
            |file: &String| listeners.iter().all(|listener| listener.security.acl_file.as_ref() == Some(file));
        let common_rules = rules.iter().find(|rules| is_common(&rules.file)).map(|rules| rules.name.clone());
        let mut text = format!("# Made from {} of mosquitto.\n\n", file.display());
        if let Some(name) = &common_rules {
            self.set("acl.file", quoted(name));
        }
        let mut section = String::new();
        self.keys.sort_by_key(|(key, _)| key.split_once('.').map(|(table, _)| table_order(table)));
        for (key, value) in &self.keys {
            let (table, leaf) = key.split_once('.').unwrap_or(("", key));
            if table != section {
                let _ = writeln!(text, "[{table}]");
                section = table.to_owned();
            }
            let _ = writeln!(text, "{leaf} = {value}");
        }
        for listener in &listeners {
            text.push('\n');
            let own = rules.iter().find(|rules| Some(&rules.file) == listener.security.acl_file.as_ref());
            let own = own.filter(|_| common_rules.is_none()).map(|rules| &*rules.name);
            listener.write(&mut text, own, is_local, &folder);
        }
        let rules = rules.into_iter().map(|rules| (rules.name, rules.text)).collect();
        Ok(Imported { configuration: text, rules, notes: self.notes, database, mount_points })
    }

    /// Options of each listener there that are one for all here.
    fn join_options(&mut self, listeners: &[Listener], file: &Path) {
        type Number = fn(&Listener) -> Option<u64>;
        let numbers: [(&str, &'static str, Number, u64); 2] = [
            ("max_qos", "mqtt.max_qos", |listener| listener.max_qos, 2),
            ("max_topic_alias", "mqtt.topic_alias_maximum", |listener| listener.topic_aliases, 10),
        ];
        for (theirs, ours, of, default) in numbers {
            let values: Vec<u64> = listeners.iter().map(|listener| of(listener).unwrap_or(default)).collect();
            let (Some(most), Some(least)) = (values.iter().max(), values.iter().min()) else { continue };
            if listeners.iter().any(|listener| of(listener).is_some()) {
                self.set(ours, most);
            }
            if most != least {
                self.notes.push(format!(
                    "{}: {theirs}: {ours} is one for all listeners, and {most} is the highest of theirs",
                    file.display()
                ));
            }
        }
        let by_websocket = || listeners.iter().filter(|listener| listener.is_websocket);
        let mut origins: Vec<String> = by_websocket().flat_map(|listener| listener.origins.iter().cloned()).collect();
        origins.sort_unstable();
        origins.dedup();
        if !origins.is_empty() {
            let list: Vec<String> = origins.iter().map(|origin| quoted(origin)).collect();
            self.set("websocket.origins", format!("[{}]", list.join(", ")));
        }
        if by_websocket().any(|listener| listener.origins.is_empty()) {
            self.notes.push(format!(
                "{}: protocol websockets without websockets_origin: Mosquitto lets pages of all origins in; here name others than those of this machine in websocket.origins",
                file.display()
            ));
        } else if by_websocket().any(|listener| listener.origins.len() < origins.len()) {
            self.notes.push(format!(
                "{}: websockets_origin: websocket.origins is one for all listeners, and has those of all",
                file.display()
            ));
        }
    }

    /// Access rules, a file of ours for each that the listeners have.
    fn rules(&mut self, listeners: &[Listener], folder: &Path) -> Result<Vec<Rules>, String> {
        let mut all: Vec<Rules> = Vec::new();
        for file in listeners.iter().filter_map(|listener| listener.security.acl_file.as_ref()) {
            if all.iter().any(|rules| rules.file == *file) {
                continue;
            }
            let path = seen_from(folder, file);
            let imported = mosquitto_acl(&text(&path)?);
            let notes = imported.notes.iter().map(|note| format!("{}:{}: {}", path.display(), note.line, note.message));
            self.notes.extend(notes);
            let number = if all.is_empty() { String::new() } else { format!("-{}", all.len() + 1) };
            all.push(Rules { file: file.clone(), name: format!("access{number}.toml"), text: imported.text });
        }
        Ok(all)
    }
}

impl StateFile {
    /// The file, if there is one.
    fn path(&self, folder: &Path) -> Option<PathBuf> {
        const DEFAULT_NAME: &str = "mosquitto.db";
        let place = self.folder.as_ref().map_or(folder.to_owned(), |place| folder.join(place));
        self.is_kept.then(|| whole(place.join(self.name.as_deref().unwrap_or(DEFAULT_NAME))))
    }
}

/// Access rules of some listeners.
struct Rules {
    /// Where they were.
    file: String,
    /// Where they are now.
    name: String,
    text: String,
}

impl Listener {
    /// Whether Mosquitto opens the default listener because of this, although there are others.
    fn is_spoken_of(&self) -> bool {
        let Listener { port, address, certificate, key, authorities, revoked, connections, mount_point, .. } = self;
        let texts = [address, certificate, key, authorities, revoked, mount_point, &self.security.password_file];
        port.is_some()
            || connections.is_some()
            || texts.into_iter().any(Option::is_some)
            || self.is_websocket
            || self.domain.is_some()
            || self.requires_certificate
            || self.takes_name_of_certificate
            || self.max_qos.is_some_and(|qos| qos < 2)
    }

    /// `rules`: the file of access rules that is for this listener and not for all.
    fn write(&self, text: &mut String, rules: Option<&str>, is_local: bool, folder: &Path) {
        let security = &self.security;
        let path = |file: &str| quoted(&seen_from(folder, file).display().to_string());
        let is_secured = self.certificate.is_some();
        let scheme = match (is_secured, self.is_websocket) {
            (false, false) => "mqtt",
            (true, false) => "mqtts",
            (false, true) => "ws",
            (true, true) => "wss",
        };
        let mut is_on_this_machine = is_local;
        let address = match (self.port, &self.address) {
            (Some(0), Some(socket)) if socket.starts_with('/') => {
                is_on_this_machine = true;
                format!("unix:{socket}")
            }
            (port, address) => {
                // IPv6, and IPv4 as well.
                let everywhere = if self.domain == Some(Domain::V4) { "0.0.0.0" } else { "::" };
                let host = address.as_deref().unwrap_or(if is_local { "127.0.0.1" } else { everywhere });
                let host = if host == "localhost" { "127.0.0.1" } else { host };
                is_on_this_machine |= host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback());
                let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
                format!("{scheme}://{host}:{}", port.unwrap_or(DEFAULT_PORT))
            }
        };
        let _ = writeln!(text, "[[listener]]\naddress = {}", quoted(&address));
        if let Some(connections) = self.connections {
            let _ = writeln!(text, "connections = {connections}");
        }
        if let Some(prefix) = &self.mount_point {
            let _ = writeln!(text, "mount_point = {}", quoted(prefix));
        }
        let anonymous = security.anonymous.unwrap_or(is_local);
        let _ = writeln!(text, "auth.anonymous = {anonymous}");
        if let Some(file) = &security.password_file {
            let _ = writeln!(text, "auth.password_file = {}", path(file));
            if !is_secured && !is_on_this_machine {
                text.push_str("# As before, passwords can be read by others on their way. Better serve TLS.\nauth.plain_passwords = true\n");
            }
        }
        if let Some(name) = rules {
            let _ = writeln!(text, "acl.file = {}", quoted(name));
        }
        if !is_secured {
            return;
        }
        let client_certificates = if self.requires_certificate { "required" } else { "none" };
        if self.requires_certificate && !self.takes_name_of_certificate {
            text.push_str("auth.certificate = \"nobody\"\n");
        }
        let files = [("certificate", &self.certificate), ("key", &self.key), ("revoked", &self.revoked)];
        for (key, file) in files {
            if let Some(file) = file {
                let _ = writeln!(text, "tls.{key} = {}", path(file));
            }
        }
        let _ = writeln!(text, "tls.client_certificates = \"{client_certificates}\"");
        if let Some(authorities) = self.authorities.as_ref().filter(|_| self.requires_certificate) {
            let _ = writeln!(text, "tls.client_ca = {}", path(authorities));
        }
        if let Some(version) = self.minimum_version {
            let _ = writeln!(text, "tls.minimum_version = \"{version}\"");
        }
    }
}

/// Keys of one table stand together, in a fixed order.
fn table_order(table: &str) -> Option<usize> {
    ["mqtt", "websocket", "acl", "data", "memory", "limits", "sys", "log"].iter().position(|known| *known == table)
}

/// Paths in the new file are whole, since it may lie elsewhere.
fn seen_from(folder: &Path, file: &str) -> PathBuf {
    whole(folder.join(file))
}

fn whole(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    push_string(&mut quoted, text);
    quoted
}

fn text(path: &Path) -> Result<String, String> {
    files::text(path, FILE_MAX_BYTES).map_err(|why| format!("{} {why}", path.display()))
}

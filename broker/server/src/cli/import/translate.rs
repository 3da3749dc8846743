//! Converts a parsed mosquitto.conf to our files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tautwire_access::import::mosquitto_acl;
use tautwire_mosquitto::{BridgeSessions, MountPoints};

use super::authorities::authority_files;
use super::listener::{CLOSED_RULES, Listener, NO_USERS, ReferencedFiles};
use super::mosquitto::text;
use super::output_text::{absolute, quoted, relative_to};
use super::parsed_config::ParsedConfig;
use super::staging::NewFile;
use crate::certificates;

/// Name of the configuration file.
pub(super) const CONFIGURATION: &str = "tautwire.toml";

/// A converted configuration.
pub(super) struct Imported {
    /// The configuration first.
    pub(super) files: Vec<NewFile>,
    /// Options without an exact counterpart, in the order of the lines.
    pub(super) notes: Vec<String>,
    /// The path of Mosquitto's state, if it is persistent.
    pub(super) database: Option<PathBuf>,
    pub(super) mount_points: MountPoints,
    pub(super) bridge_sessions: BridgeSessions,
}

/// Access rules of one or more listeners.
struct RulesFile {
    /// The file of mosquitto; `None` for rules that deny everything.
    file: Option<String>,
    /// The name of the new file.
    name: String,
    text: String,
}

/// Rules that deny everything, like an empty `acl_file`.
const DENY_ALL: &str = "
[[role]]
name = \"nothing\"
rules = [{ deny = [\"publish\", \"subscribe\"], topics = \"#\" }]

[[assign]]
everyone = true
roles = \"nothing\"
";

impl ParsedConfig {
    /// Converts the configuration read from `file`. `data` is the data directory for the state, if it is imported.
    ///
    /// # Errors
    /// A file that cannot be read, or all options that would be weaker here.
    pub(super) fn translate(mut self, file: &Path, data: Option<&Path>) -> Result<Imported, Vec<String>> {
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let database = self.state.path(&folder);
        self.state.is_imported = data.is_some();
        match (data, &database) {
            (Some(data), _) => self.set("data.path", quoted(&absolute(data.to_owned()).display().to_string())),
            (None, Some(database)) => self.notes.push(format!(
                "{}: sessions and messages are not imported; stop Mosquitto and run `tautwire import mosquitto --data DIR {}` to import them",
                database.display(),
                database.display()
            )),
            (None, None) => {}
        }
        let mounted = self.listeners.iter();
        let mounted = mounted.filter_map(|listener| Some((listener.port(), listener.mount_point.clone()?)));
        let mount_points = mounted.collect();
        let (listeners, is_local) = self.take_listeners(file);
        if listeners.is_empty() {
            self.refusals.push(format!("{}: no MQTT listener is left; add one with `listener PORT`", file.display()));
        }
        self.join_origins(&listeners, file);
        if let Some(level) = self.log_level {
            self.set("log.level", quoted(&level.as_str().to_ascii_lowercase()));
        }
        let mut rules = self.rules(&listeners, &folder).map_err(|error| vec![error])?;
        // A file for all listeners becomes the common one.
        let is_common = |rules: &&RulesFile| listeners.iter().all(|listener| rules.apply_to(listener));
        let common_rules = rules.iter().find(is_common).map(|rules| rules.name.clone());
        if let Some(name) = &common_rules {
            self.set("acl.file", quoted(name));
        }
        // Without rules, everybody may publish retained messages.
        if !rules.is_empty() {
            self.set("acl.check_retained_publisher", self.checks_retain_source.unwrap_or(true));
        }
        let mut configuration = format!("# Imported from {} of mosquitto.\n\n", file.display());
        self.write_keys(&mut configuration);
        let mut files = Vec::new();
        for listener in &listeners {
            self.check_listener(listener, is_local, &folder, file);
            let chain = self.chain(listener, &folder, &mut files);
            let own = rules.iter().find(|rules| common_rules.is_none() && rules.apply_to(listener));
            let with = ReferencedFiles {
                rules: own.map(|rules| &*rules.name),
                chain: chain.as_deref(),
                client_authorities: self.client_authorities(listener, &folder),
            };
            match listener.address(is_local) {
                Ok(address) => {
                    configuration.push('\n');
                    listener.write(&mut configuration, &address, is_local, &folder, &with);
                }
                Err(why) => self.refusals.push(format!("{}: {why}", file.display())),
            }
        }
        let bridge_rules = rules.iter_mut().find(|rules| common_rules.as_ref() == Some(&rules.name));
        let bridge_sessions =
            self.write_bridges(&folder, &mut configuration, &mut files, bridge_rules.map(|rules| &mut rules.text));
        if !self.refusals.is_empty() {
            return Err(self.refusals);
        }
        if listeners.iter().any(|listener| listener.is_closed(is_local)) {
            files.push(NewFile::new(NO_USERS, String::new()));
        }
        files.extend(rules.into_iter().map(|rules| NewFile::new(rules.name, rules.text)));
        files.insert(0, NewFile::new(CONFIGURATION, configuration));
        Ok(Imported { files, notes: self.notes, database, mount_points, bridge_sessions })
    }

    /// Returns the listeners with their security settings.
    ///
    /// The flag is true if only this machine is served because no listener was configured.
    fn take_listeners(&mut self, file: &Path) -> (Vec<Listener>, bool) {
        let has_listeners = self.listeners.len() > 1;
        let first = &self.listeners[0];
        // With a `listener` line, the default listener exists only if it was configured.
        let has_default_listener = !has_listeners || first.is_default_listener_configured();
        if has_listeners && has_default_listener && first.port.is_none() {
            self.notes.push(format!(
                "{}: options before the first listener: Mosquitto also listens on port {} because of them, and so does the new file",
                file.display(),
                first.port()
            ));
        }
        // Without a listener, mosquitto serves only this machine and accepts everybody.
        let first = &self.listeners[0];
        let is_local = !has_listeners && first.port.is_none() && first.address.is_none();
        let skipped = usize::from(!has_default_listener);
        let mut listeners: Vec<Listener> = self.listeners.drain(..).skip(skipped).collect();
        listeners.retain(|listener| !listener.is_http_api);
        for listener in &mut listeners {
            let mut security = if self.per_listener { listener.security.clone() } else { self.common.clone() };
            self.plugins.apply(&listener.plugins, &mut security);
            security.anonymous = listener.anonymous.or(security.anonymous);
            listener.security = security;
        }
        (listeners, is_local)
    }

    /// Writes the common keys, grouped by table.
    fn write_keys(&mut self, configuration: &mut String) {
        let mut section = String::new();
        self.keys.sort_by_key(|(key, _)| key.split_once('.').map(|(table, _)| table_order(table)));
        for (key, value) in &self.keys {
            let (table, leaf) = key.split_once('.').unwrap_or(("", key));
            if table != section {
                let _ = writeln!(configuration, "[{table}]");
                section = table.to_owned();
            }
            let _ = writeln!(configuration, "{leaf} = {value}");
        }
    }

    /// Adds notes and refusals about combinations of options of a listener.
    fn check_listener(&mut self, listener: &Listener, is_local: bool, folder: &Path, file: &Path) {
        let named = format!("{}: listener {}", file.display(), listener.port());
        if listener.security.is_controlled_by_plugin {
            self.notes.push(format!(
                "{named}: its plugin controlled authentication and access. Everything is denied here until you configure users (auth.password_file, \
                 auth.hook_url) and rules (acl.file); if the plugin did not control access, remove acl.file = \"{CLOSED_RULES}\" and set auth.anonymous"
            ));
        }
        if listener.is_closed(is_local) {
            self.notes.push(format!(
                "{named}: it has no users and refuses anonymous clients, so no client can connect, as with Mosquitto; \
                 `tautwire user add --file {NO_USERS} NAME` adds a user"
            ));
        }
        if listener.is_for_proxies {
            self.notes.push(format!(
                "{named}: enable_proxy_protocol trusts every address; here only proxies on this machine can connect until you set proxy.trusted_networks"
            ));
        }
        if listener.identifies_by_certificate && listener.is_secured() && !listener.requires_certificate {
            self.refusals.push(format!(
                "{named}: use_identity_as_username without require_certificate: Mosquitto refuses every client, because none presents a certificate, \
                 but passwords would be accepted here; add require_certificate true, or remove use_identity_as_username"
            ));
        }
        let has_certificates = listener.requires_certificate && listener.identifies_by_certificate;
        if let Some(place) = listener.uses_username_as_client_id.as_ref().filter(|_| !has_certificates) {
            self.refusals.push(format!(
                "{place}: use_username_as_clientid: only names in certificates can become client identifiers here (auth.certificate_identity), so one user \
                 could take over the session of another; remove the line if you accept that"
            ));
        }
        let key = listener.key.as_ref().filter(|_| listener.is_secured()).map(|key| relative_to(folder, key));
        if let Some(key) = key.filter(|key| text(key).is_ok_and(|pem| is_encrypted(&pem))) {
            self.refusals.push(format!(
                "{named}: {} is encrypted, and the broker does not support passphrases; decrypt it with `openssl pkey -in {0} -out NEW`, \
                 protect NEW by its file mode, and set keyfile to it",
                key.display()
            ));
        }
    }

    /// Adds a file with the certificate and its chain to `files` and returns its name; `None` if the certificate can be used unchanged.
    ///
    /// OpenSSL completes the chain from `cafile` if `certfile` contains only the certificate.
    fn chain(&mut self, listener: &Listener, folder: &Path, files: &mut Vec<NewFile>) -> Option<String> {
        let own = relative_to(folder, listener.certificate.as_ref()?);
        let authorities = listener.authorities.iter().map(|file| relative_to(folder, file));
        let authorities: Vec<PathBuf> =
            authorities.chain(authority_files(listener.authority_folder.as_deref(), folder)).collect();
        let own_pem = text(&own).ok()?;
        let mut known = String::new();
        for path in authorities {
            match text(&path) {
                Ok(pem) => known.extend([pem, "\n".to_owned()]),
                Err(why) => self.refusals.push(format!("cafile: {why}; it may contain the chain of {}", own.display())),
            }
        }
        let chain = certificates::completed_chain(&own_pem, &known)?;
        let name = format!("chain-{}.pem", listener.port());
        self.notes.push(format!(
            "{}: it has no chain, which OpenSSL completes from cafile; {name} contains both. It is a copy: when the certificate is renewed, write the \
             certificate and its chain to it, or set tls.certificate to a file that contains both",
            own.display()
        ));
        if !files.iter().any(|file| file.name == name) {
            files.push(NewFile::new(&*name, chain));
        }
        Some(name)
    }

    /// The certificate authorities of clients.
    fn client_authorities(&mut self, listener: &Listener, folder: &Path) -> Vec<String> {
        let shown = |path: PathBuf| path.display().to_string();
        listener
            .authorities
            .iter()
            .cloned()
            .chain(authority_files(listener.authority_folder.as_deref(), folder).map(shown))
            .collect()
    }

    /// Sets the allowed origins, which are common to all listeners here: those that each listener allows.
    fn join_origins(&mut self, listeners: &[Listener], file: &Path) {
        let by_websocket = || listeners.iter().filter(|listener| listener.is_websocket);
        let lists: Vec<&Vec<String>> = by_websocket().filter_map(|listener| listener.origins.as_ref()).collect();
        if let Some((first, others)) = lists.split_first() {
            let mut origins: Vec<&String> =
                first.iter().filter(|origin| others.iter().all(|list| list.contains(origin))).collect();
            origins.sort_unstable();
            origins.dedup();
            let list: Vec<String> = origins.iter().map(|origin| quoted(origin)).collect();
            let is_shorter = lists.iter().any(|list| list.len() > origins.len());
            self.set("websocket.allowed_origins", format!("[{}]", list.join(", ")));
            if is_shorter {
                self.notes.push(format!(
                    "{}: websockets_origin: websocket.allowed_origins is common to all listeners; it contains the origins that each of them accepts",
                    file.display()
                ));
            }
        }
        if by_websocket().any(|listener| listener.origins.is_none()) {
            self.notes.push(format!(
                "{}: protocol websockets without websockets_origin: Mosquitto accepts web pages of all origins; here only those of this machine and \
                 of websocket.allowed_origins can connect",
                file.display()
            ));
        }
    }

    /// Converts the access rules: one file for each file of the listeners.
    fn rules(&mut self, listeners: &[Listener], folder: &Path) -> Result<Vec<RulesFile>, String> {
        let mut all: Vec<RulesFile> = Vec::new();
        let files = listeners.iter().filter(|listener| !listener.security.is_controlled_by_plugin);
        for file in files.filter_map(|listener| listener.security.acl_file.as_ref()) {
            if all.iter().any(|rules| rules.file.as_ref() == Some(file)) {
                continue;
            }
            let path = relative_to(folder, file);
            let mut imported = mosquitto_acl(&text(&path)?);
            let notes = imported.notes.iter().map(|note| format!("{}:{}: {}", path.display(), note.line, note.message));
            self.notes.extend(notes);
            if !imported.text.contains("\n[[role]]\n") {
                self.notes
                    .push(format!("{}: it allows nothing, so no client may publish or subscribe", path.display()));
                imported.text.push_str(DENY_ALL);
            }
            let number = if all.is_empty() { String::new() } else { format!("-{}", all.len() + 1) };
            all.push(RulesFile { file: Some(file.clone()), name: format!("access{number}.toml"), text: imported.text });
        }
        if listeners.iter().any(|listener| listener.security.is_controlled_by_plugin) {
            let text = format!("# A plugin of mosquitto controlled access. Everything is denied.\n{DENY_ALL}");
            all.push(RulesFile { file: None, name: CLOSED_RULES.to_owned(), text });
        }
        Ok(all)
    }
}

impl RulesFile {
    /// Whether the rules apply to a listener.
    fn apply_to(&self, listener: &Listener) -> bool {
        match &self.file {
            None => listener.security.is_controlled_by_plugin,
            Some(file) => {
                !listener.security.is_controlled_by_plugin && listener.security.acl_file.as_ref() == Some(file)
            }
        }
    }
}

/// The order of the tables.
fn table_order(table: &str) -> Option<usize> {
    ["mqtt", "websocket", "acl", "data", "memory", "limits", "sys", "log"].iter().position(|known| *known == table)
}

/// Whether a private key in PEM is encrypted (PKCS #8 or the older OpenSSL format).
fn is_encrypted(pem: &str) -> bool {
    pem.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || pem.contains("Proc-Type: 4,ENCRYPTED")
}

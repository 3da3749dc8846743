//! What has been read of mosquitto.conf, as files of ours.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tautwire_access::import::mosquitto_acl;
use tautwire_mosquitto::MountPoints;

use super::listener::{CLOSED_RULES, Listener, NO_USERS, ReferencedFiles};
use super::mosquitto::{Reading, quoted, relative_to, text, whole};
use crate::certificates;

/// The configuration among the files.
pub(super) const CONFIGURATION: &str = "tautwire.toml";
/// Files of `capath` that are looked at.
const AUTHORITIES_MAX: usize = 1_024;

/// What has come of a configuration.
pub(super) struct Imported {
    /// The files by their names, the configuration first.
    pub(super) files: Vec<(String, String)>,
    /// What has no counterpart, in the order of the lines.
    pub(super) notes: Vec<String>,
    /// Where Mosquitto keeps its state, where it does.
    pub(super) database: Option<PathBuf>,
    pub(super) mount_points: MountPoints,
}

/// Access rules of some listeners.
struct WebSocketConfig {
    /// Where they were; `None` for those that deny everything.
    file: Option<String>,
    /// Where they are now.
    name: String,
    text: String,
}

/// Rules by which nobody may do anything, as with an empty `acl_file`.
const DENY_ALL: &str = "
[[role]]
name = \"nothing\"
rules = [{ deny = [\"publish\", \"subscribe\"], topics = \"#\" }]

[[assign]]
everyone = true
roles = \"nothing\"
";

impl Reading {
    /// Makes files of what `file` had. `data`: the data directory that is made of the state.
    ///
    /// # Errors
    /// What cannot be read, or everything that would be weaker here than it was.
    pub(super) fn translate(mut self, file: &Path, data: Option<&Path>) -> Result<Imported, Vec<String>> {
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
        let mounted = self.listeners.iter();
        let mounted = mounted.filter_map(|listener| Some((listener.port(), listener.mount_point.clone()?)));
        let mount_points = mounted.collect();
        let (listeners, is_local) = self.take_listeners(file);
        if listeners.is_empty() {
            self.refusals.push(format!("{}: no listener of MQTT is left; name one by `listener PORT`", file.display()));
        }
        self.join_origins(&listeners, file);
        if let Some(level) = self.log_level {
            self.set("log.level", quoted(&level.as_str().to_ascii_lowercase()));
        }
        let rules = self.rules(&listeners, &folder).map_err(|error| vec![error])?;
        // One file for all is said once.
        let is_common = |rules: &&WebSocketConfig| listeners.iter().all(|listener| rules.are_of(listener));
        let common_rules = rules.iter().find(is_common).map(|rules| rules.name.clone());
        if let Some(name) = &common_rules {
            self.set("acl.file", quoted(name));
        }
        // Without rules, everybody may publish what is retained.
        if !rules.is_empty() {
            self.set("acl.check_retained_publisher", self.checks_retain_source.unwrap_or(true));
        }
        let mut configuration = format!("# Made from {} of mosquitto.\n\n", file.display());
        self.write_keys(&mut configuration);
        let mut files = Vec::new();
        for listener in &listeners {
            self.check_listener(listener, is_local, &folder, file);
            let chain = self.chain(listener, &folder, &mut files);
            let own = rules.iter().find(|rules| common_rules.is_none() && rules.are_of(listener));
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
        if !self.refusals.is_empty() {
            return Err(self.refusals);
        }
        if listeners.iter().any(|listener| listener.is_closed(is_local)) {
            files.push((NO_USERS.to_owned(), String::new()));
        }
        files.extend(rules.into_iter().map(|rules| (rules.name, rules.text)));
        files.insert(0, (CONFIGURATION.to_owned(), configuration));
        Ok(Imported { files, notes: self.notes, database, mount_points })
    }

    /// The listeners that there are, with who may come by each; and whether nothing but this machine is served, because nothing was said.
    fn take_listeners(&mut self, file: &Path) -> (Vec<Listener>, bool) {
        let has_listeners = self.listeners.len() > 1;
        let first = &self.listeners[0];
        // With a `listener` line, the default one is there only if something was said of it.
        let keeps_first = !has_listeners || first.is_default_listener_configured();
        if has_listeners && keeps_first && first.port.is_none() {
            self.notes.push(format!(
                "{}: options before the first listener: Mosquitto serves port {} by them, too, and so does the new file",
                file.display(),
                first.port()
            ));
        }
        // Without any, mosquitto serves this machine alone, and lets in everybody.
        let first = &self.listeners[0];
        let is_local = !has_listeners && first.port.is_none() && first.address.is_none();
        let skipped = usize::from(!keeps_first);
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

    /// Writes the keys that hold for all, those of one table together.
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

    /// Notes, or refuses, what is only seen of a listener as a whole.
    fn check_listener(&mut self, listener: &Listener, is_local: bool, folder: &Path, file: &Path) {
        let named = format!("{}: listener {}", file.display(), listener.port());
        if listener.security.plugin_decides {
            self.notes.push(format!(
                "{named}: its plugin decided who may connect and do what. Nobody may do anything here until you give users (auth.password_file, \
                 auth.hook_url) and rules (acl.file); if the plugin decided nothing, remove acl.file = \"{CLOSED_RULES}\" and set auth.anonymous"
            ));
        }
        if listener.is_closed(is_local) {
            self.notes.push(format!(
                "{named}: it names no users and allows no anonymous clients, so nobody can connect, as with Mosquitto; \
                 `tautwire user add --file {NO_USERS} NAME` adds a user"
            ));
        }
        if listener.is_for_proxies {
            self.notes.push(format!(
                "{named}: enable_proxy_protocol trusts every address; here only proxies of this machine can connect until proxy.trusted names yours"
            ));
        }
        if listener.takes_name_of_certificate && listener.is_secured() && !listener.requires_certificate {
            self.refusals.push(format!(
                "{named}: use_identity_as_username without require_certificate: Mosquitto refuses every client, because none shows a certificate, \
                 and passwords would be accepted here; add require_certificate true, or remove use_identity_as_username"
            ));
        }
        let has_certificates = listener.requires_certificate && listener.takes_name_of_certificate;
        if let Some(place) = listener.takes_user_as_client_id.as_ref().filter(|_| !has_certificates) {
            self.refusals.push(format!(
                "{place}: use_username_as_clientid: only the names in certificates can be client identifiers here (auth.certificate), so one user \
                 could take over the session of another; remove the line if you accept that"
            ));
        }
        let key = listener.key.as_ref().filter(|_| listener.is_secured()).map(|key| relative_to(folder, key));
        if let Some(key) = key.filter(|key| text(key).is_ok_and(|pem| is_encrypted(&pem))) {
            self.refusals.push(format!(
                "{named}: {} is encrypted, and the broker asks for no passphrase; decrypt it with `openssl pkey -in {0} -out NEW`, \
                 protect NEW by its file mode, and name it in keyfile",
                key.display()
            ));
        }
    }

    /// The name of a file with the certificate and its chain, which is added to `files`; `None` where the certificate stays as it is.
    ///
    /// OpenSSL completes a chain from `cafile` where `certfile` has nothing but the certificate.
    fn chain(&mut self, listener: &Listener, folder: &Path, files: &mut Vec<(String, String)>) -> Option<String> {
        let own = relative_to(folder, listener.certificate.as_ref()?);
        let authorities = listener.authorities.iter().map(|file| relative_to(folder, file));
        let authorities: Vec<PathBuf> = authorities.chain(self.folder_of(listener, folder)).collect();
        let own_pem = text(&own).ok()?;
        let mut known = String::new();
        for path in authorities {
            match text(&path) {
                Ok(pem) => known.extend([pem, "\n".to_owned()]),
                Err(why) => self.refusals.push(format!("cafile: {why}; the chain of {} may be in it", own.display())),
            }
        }
        let chain = certificates::completed_chain(&own_pem, &known)?;
        let name = format!("chain-{}.pem", listener.port());
        self.notes.push(format!(
            "{}: it has no chain, which OpenSSL completes from cafile; {name} has both. It is a copy: when the certificate is renewed, write the \
             certificate and its chain there, or name a file that has both in tls.certificate",
            own.display()
        ));
        if !files.iter().any(|(known, _)| *known == name) {
            files.push((name.clone(), chain));
        }
        Some(name)
    }

    /// The authorities whose certificates clients show.
    fn client_authorities(&mut self, listener: &Listener, folder: &Path) -> Vec<String> {
        let shown = |path: PathBuf| path.display().to_string();
        listener.authorities.iter().cloned().chain(self.folder_of(listener, folder).map(shown)).collect()
    }

    /// The files of `capath`, as OpenSSL finds them: by the hash of the name.
    fn folder_of(&self, listener: &Listener, folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
        let path = listener.authority_folder.as_ref().map(|path| relative_to(folder, path));
        let entries = path.and_then(|path| fs::read_dir(path).ok()).into_iter().flatten();
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let is_hash = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('.'));
            name.is_some_and(|(hash, number)| {
                hash.len() == 8
                    && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
                    && number.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        let mut found: Vec<PathBuf> = paths.filter(is_hash).take(AUTHORITIES_MAX).collect();
        found.sort();
        found.into_iter()
    }

    /// Pages that may connect, which is one list for all listeners here: those that may by each.
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
            self.set("websocket.origins", format!("[{}]", list.join(", ")));
            if is_shorter {
                self.notes.push(format!(
                    "{}: websockets_origin: websocket.origins is one list for all listeners; it has the origins that each of them accepts",
                    file.display()
                ));
            }
        }
        if by_websocket().any(|listener| listener.origins.is_none()) {
            self.notes.push(format!(
                "{}: protocol websockets without websockets_origin: Mosquitto accepts pages of all origins; here only those of this machine and \
                 of websocket.origins can connect",
                file.display()
            ));
        }
    }

    /// Access rules, a file of ours for each that the listeners have.
    fn rules(&mut self, listeners: &[Listener], folder: &Path) -> Result<Vec<WebSocketConfig>, String> {
        let mut all: Vec<WebSocketConfig> = Vec::new();
        let files = listeners.iter().filter(|listener| !listener.security.plugin_decides);
        for file in files.filter_map(|listener| listener.security.acl_file.as_ref()) {
            if all.iter().any(|rules| rules.file.as_ref() == Some(file)) {
                continue;
            }
            let path = relative_to(folder, file);
            let mut imported = mosquitto_acl(&text(&path)?);
            let notes = imported.notes.iter().map(|note| format!("{}:{}: {}", path.display(), note.line, note.message));
            self.notes.extend(notes);
            if !imported.text.contains("\n[[role]]\n") {
                self.notes.push(format!("{}: it allows nothing, so nobody may publish or subscribe", path.display()));
                imported.text.push_str(DENY_ALL);
            }
            let number = if all.is_empty() { String::new() } else { format!("-{}", all.len() + 1) };
            all.push(WebSocketConfig {
                file: Some(file.clone()),
                name: format!("access{number}.toml"),
                text: imported.text,
            });
        }
        if listeners.iter().any(|listener| listener.security.plugin_decides) {
            let text = format!("# A plugin of mosquitto decided who may do what. Nobody may do anything.\n{DENY_ALL}");
            all.push(WebSocketConfig { file: None, name: CLOSED_RULES.to_owned(), text });
        }
        Ok(all)
    }
}

impl WebSocketConfig {
    /// Whether they hold for a listener.
    fn are_of(&self, listener: &Listener) -> bool {
        match &self.file {
            None => listener.security.plugin_decides,
            Some(file) => !listener.security.plugin_decides && listener.security.acl_file.as_ref() == Some(file),
        }
    }
}

/// Keys of one table stand together, in a fixed order.
fn table_order(table: &str) -> Option<usize> {
    ["mqtt", "websocket", "acl", "data", "memory", "limits", "sys", "log"].iter().position(|known| *known == table)
}

/// Whether a private key in PEM needs a passphrase (PKCS #8, and the older form of OpenSSL).
fn is_encrypted(pem: &str) -> bool {
    pem.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || pem.contains("Proc-Type: 4,ENCRYPTED")
}

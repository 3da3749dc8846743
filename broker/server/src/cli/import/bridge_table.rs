//! Converts bridges of mosquitto to `[[bridge]]` tables, and to roles for them.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;

use rustix::system::uname;
use tautwire_mosquitto::BridgeSessions;

use super::authorities::authority_files;
use super::bridge::{Bridge, BridgeTopic};
use super::mosquitto::text;
use super::output_text::{quoted, relative_to};
use super::parsed_config::ParsedConfig;
use super::staging::NewFile;

/// Longest name of a bridge.
const NAME_MAX_BYTES: usize = 64;
/// No client can publish below this topic.
const RESERVED: &str = "$SYS/";

/// A bridge with its name here.
struct NamedBridge {
    name: String,
    /// The client identifier at the other broker.
    client_id: String,
    bridge: Bridge,
}

impl ParsedConfig {
    /// Appends the bridges to `configuration`, and their passwords and certificate authorities to `files`. `rules` is the text of the common
    /// access rules, which get a role for each bridge. Returns what the sessions of the bridges are called in Mosquitto and here.
    pub(super) fn write_bridges(
        &mut self,
        folder: &Path,
        configuration: &mut String,
        files: &mut Vec<NewFile>,
        mut rules: Option<&mut String>,
    ) -> BridgeSessions {
        let bridges = std::mem::take(&mut self.bridges);
        let mut names: Vec<String> = Vec::new();
        let mut roles = String::new();
        let mut sessions = BridgeSessions::new();
        for bridge in bridges {
            let named = NamedBridge::new(bridge, &names);
            names.push(named.name.clone());
            sessions.insert(named.session_in_mosquitto(), format!("bridge/{}", named.name));
            self.notes.extend(named.notes(self.state.is_imported));
            self.refusals.extend(named.refusals());
            let _ = writeln!(configuration, "\n[[bridge]]\nname = {}", quoted(&named.name));
            named.write_connection(configuration, files);
            named.write_status(configuration);
            if let Some(user) = &named.bridge.local_user {
                let _ = writeln!(configuration, "user = {}", quoted(user));
            }
            if rules.is_some() {
                let _ = writeln!(configuration, "roles = [{}]", quoted(&named.role_name()));
                roles.push_str(&named.role());
            }
            if let Err(why) = named.write_tls(configuration, folder, files) {
                self.refusals.push(format!("{}: {why}", named.bridge.place));
            }
            named.write_rules(configuration);
        }
        // The first rule that matches decides, so these come first.
        if let Some(rules) = rules.as_mut() {
            let at = rules.find("\n[[role]]\n").unwrap_or(rules.len());
            rules.insert_str(at, &roles);
        }
        sessions
    }
}

impl NamedBridge {
    fn new(bridge: Bridge, names: &[String]) -> NamedBridge {
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let mut name: String =
            bridge.name.chars().map(|letter| if is_allowed(letter) { letter } else { '-' }).collect();
        name.truncate(NAME_MAX_BYTES - 4);
        if name.is_empty() {
            name.push_str("bridge");
        }
        let first = name.clone();
        let mut number = 1;
        while names.contains(&name) {
            number += 1;
            name = format!("{first}-{number}");
        }
        let host = || uname().nodename().to_string_lossy().into_owned();
        let client_id = bridge.client_id.clone().unwrap_or_else(|| format!("{}.{}", host(), bridge.name));
        NamedBridge { name, client_id, bridge }
    }

    /// What is not as before.
    fn notes(&self, is_state_imported: bool) -> Vec<String> {
        let NamedBridge { name, client_id, bridge } = self;
        let mut notes = Vec::new();
        let mut note = |text: String| notes.push(format!("{}: connection {}: {text}", bridge.place, bridge.name));
        if *name != bridge.name {
            note(format!("its name here is {name}"));
        }
        if bridge.client_id.is_none() {
            note(format!(
                "client_id is {client_id}, as Mosquitto names it on this machine; if Mosquitto runs on another one, write the name of that one"
            ));
        }
        if !bridge.is_clean && !is_state_imported {
            note(
                "without its session of mosquitto.db (--data), the first connection discards Mosquitto's session at the other broker, with the \
                 messages that wait there"
                    .to_owned(),
            );
        }
        let has_tls = bridge.tls.is_on() || bridge.addresses.iter().all(|(host, _)| is_this_machine(host));
        if bridge.password.is_some() && bridge.user_name.is_some() && !has_tls {
            note("its password is sent unencrypted, as before; use TLS (mqtts:// in addresses)".to_owned());
        }
        if bridge.local_is_clean.unwrap_or(bridge.is_clean) {
            note(
                "local_cleansession true: messages wait for the other broker while the bridge is not connected"
                    .to_owned(),
            );
        }
        if !bridge.status.are_off && self.status_topic() != self.remote_status_topic() {
            note(format!(
                "clients cannot publish to {}, so its status here is at {}",
                self.remote_status_topic(),
                self.status_topic()
            ));
        }
        let into_reserved =
            |topic: &&BridgeTopic| topic.direction != "out" && topic.local_filter().starts_with(RESERVED);
        if let Some(topic) = bridge.topics.iter().find(into_reserved) {
            note(format!(
                "topic {}: messages from the other broker are refused, because clients cannot publish below $SYS",
                topic.local_filter()
            ));
        }
        if bridge.tls.certificate.is_some() && !bridge.tls.is_on() {
            note("without bridge_cafile and bridge_capath, Mosquitto uses no TLS, and neither does the new bridge: bridge_certfile is ignored; write \
                  mqtts:// in addresses to change that".to_owned());
        }
        notes
    }

    fn refusals(&self) -> Vec<String> {
        let bridge = &self.bridge;
        let wrong = |text: &str| format!("{}: connection {}: {text}", bridge.place, bridge.name);
        let mut refusals = Vec::new();
        if bridge.addresses.is_empty() {
            refusals.push(wrong("it has no address; add one, or remove the bridge"));
        }
        if bridge.topics.is_empty() {
            refusals.push(wrong("it has no topic, so it forwards nothing; add one, or remove the bridge"));
        }
        refusals
    }

    fn write_connection(&self, text: &mut String, files: &mut Vec<NewFile>) {
        let bridge = &self.bridge;
        let scheme = if bridge.tls.is_on() { "mqtts" } else { "mqtt" };
        let address = |(host, port): &(String, u16)| match host.contains(':') {
            true => quoted(&format!("{scheme}://[{host}]:{port}")),
            false => quoted(&format!("{scheme}://{host}:{port}")),
        };
        let addresses: Vec<String> = bridge.addresses.iter().map(address).collect();
        let _ = writeln!(text, "addresses = [{}]", addresses.join(", "));
        let mut line = |key: &str, value: String| {
            let _ = writeln!(text, "{key} = {value}");
        };
        if bridge.is_round_robin {
            line("address_order", quoted("round_robin"));
        }
        line("protocol", quoted(if bridge.is_v5 { "5.0" } else { "3.1.1" }));
        if bridge.hides_bridge {
            line("bridge_bit", false.to_string());
        }
        line("client_id", quoted(&self.client_id));
        if let Some(user) = &bridge.user_name {
            line("user_name", quoted(user));
        }
        // Mosquitto sends no password without a user name.
        if let Some(password) = bridge.password.as_ref().filter(|_| bridge.user_name.is_some()) {
            let file = format!("bridge-{}.password", self.name);
            line("password_file", quoted(&file));
            files.push(NewFile::secret(file, format!("{password}\n")));
        }
        if bridge.is_clean {
            line("clean_start", true.to_string());
        }
        if bridge.is_lazy {
            line("start", quoted("lazy"));
        }
        for (key, value) in &bridge.numbers {
            line(key, value.to_string());
        }
    }

    fn write_status(&self, text: &mut String) {
        let status = &self.bridge.status;
        if status.are_off {
            return;
        }
        let _ = writeln!(text, "status_topic = {}", quoted(&self.status_topic()));
        if !status.are_local {
            let _ = writeln!(text, "remote_status_topic = {}", quoted(&self.remote_status_topic()));
        }
    }

    fn remote_status_topic(&self) -> String {
        let topic = self.bridge.status.topic.clone();
        topic.unwrap_or_else(|| format!("$SYS/broker/connection/{}/state", self.client_id))
    }

    /// The topic of the status at this broker.
    fn status_topic(&self) -> String {
        Some(self.remote_status_topic())
            .filter(|topic| !topic.starts_with(RESERVED))
            .unwrap_or_else(|| format!("bridge/{}/state", self.name))
    }

    fn write_tls(&self, into: &mut String, folder: &Path, files: &mut Vec<NewFile>) -> Result<(), String> {
        let tls = &self.bridge.tls;
        if !tls.is_on() {
            return Ok(());
        }
        let path = |file: &str| quoted(&relative_to(folder, file).display().to_string());
        if let Some(authority_folder) = &tls.authority_folder {
            let own = tls.authorities.iter().map(|file| relative_to(folder, file));
            let mut pem = String::new();
            for path in authority_files(Some(authority_folder), folder).chain(own) {
                pem.extend([text(&path)?, "\n".to_owned()]);
            }
            if pem.is_empty() {
                return Err(format!(
                    "bridge_capath {authority_folder}: it has no files that `openssl rehash` has named"
                ));
            }
            let file = format!("bridge-{}-ca.pem", self.name);
            let _ = writeln!(
                into,
                "# A copy of the certificates of bridge_capath: update it when they change.\ntls.ca = {}",
                quoted(&file)
            );
            files.push(NewFile::new(file, pem));
        } else if let Some(file) = &tls.authorities {
            let _ = writeln!(into, "tls.ca = {}", path(file));
        }
        for (key, file) in [("certificate", &tls.certificate), ("key", &tls.key)] {
            if let Some(file) = file {
                let _ = writeln!(into, "tls.{key} = {}", path(file));
            }
        }
        if let Some(protocol) = &tls.alpn {
            let _ = writeln!(into, "tls.alpn = [{}]", quoted(protocol));
        }
        Ok(())
    }

    fn write_rules(&self, text: &mut String) {
        text.push_str("rules = [\n");
        for topic in &self.bridge.topics {
            // Only outbound messages lose their RETAIN flag.
            let directions: &[&str] = match topic.direction {
                "both" if self.bridge.clears_retain => &["out", "in"],
                "both" => &["both"],
                "in" => &["in"],
                _ => &["out"],
            };
            for direction in directions {
                topic.write(text, direction, self.bridge.clears_retain && *direction == "out");
            }
        }
        text.push_str("]\n");
    }

    /// The client identifier of the bridge at its own broker.
    fn session_in_mosquitto(&self) -> String {
        self.bridge.local_client_id.clone().unwrap_or_else(|| format!("local.{}", self.client_id))
    }

    fn role_name(&self) -> String {
        format!("bridge {}", self.name)
    }

    /// A role that allows what the bridge forwards. Mosquitto applies no access rules to its own bridges.
    fn role(&self) -> String {
        let mut role = format!("\n[[role]]\nname = {}\nrules = [\n", quoted(&self.role_name()));
        let mut allow = |what: &str, topics: &str| {
            let _ = writeln!(role, "    {{ allow = {}, topics = {} }},", quoted(what), quoted(topics));
        };
        for topic in &self.bridge.topics {
            if topic.direction != "in" {
                allow("subscribe", &topic.local_filter());
            }
            if topic.direction != "out" {
                allow("publish", &topic.local_filter());
            }
        }
        if !self.bridge.status.are_off {
            allow("publish", &self.status_topic());
        }
        role.push_str("]\n");
        role
    }
}

impl BridgeTopic {
    fn local_filter(&self) -> String {
        format!("{}{}", self.local_prefix, self.filter)
    }

    fn write(&self, text: &mut String, direction: &str, clears_retain: bool) {
        let _ = write!(
            text,
            "    {{ filter = {}, direction = {}, qos = {}",
            quoted(&self.filter),
            quoted(direction),
            self.qos
        );
        for (key, prefix) in [("local_prefix", &self.local_prefix), ("remote_prefix", &self.remote_prefix)] {
            if !prefix.is_empty() {
                let _ = write!(text, ", {key} = {}", quoted(prefix));
            }
        }
        text.push_str(if clears_retain { ", retain = \"clear\" },\n" } else { " },\n" });
    }
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

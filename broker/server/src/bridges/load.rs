//! Bridges of the configuration, with the files that they name.

use std::fmt::Write as _;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use tautwire_bridge::{LinkSettings, LocalOffer, Rules, StatusTopics};
use tautwire_client::Tls;

use super::plan::{BridgePlan, RemoteServer, StartMode};
use crate::config::Config;
use crate::config::bridge_config::{BridgeConfig, BridgeStart, KEYS};
use crate::config::value::FilePath;
use crate::files;

/// Largest file with a password.
const PASSWORD_MAX_BYTES: usize = 64 << 10;
/// Largest file with certificates or keys.
const PEM_MAX_BYTES: usize = 16 << 20;

/// Reads the bridges of a configuration.
///
/// # Errors
/// All errors in the files, one per line.
pub(crate) fn read(config: &Config) -> Result<Vec<BridgePlan>, Vec<String>> {
    let (mut plans, mut errors) = (Vec::new(), Vec::new());
    for bridge in &config.bridge {
        match plan(config, bridge) {
            Ok(plan) => plans.push(plan),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(plans) } else { Err(errors) }
}

fn plan(config: &Config, bridge: &BridgeConfig) -> Result<BridgePlan, String> {
    let name = bridge.name.as_ref().map_or("", |name| name.as_str());
    let fail = |error: String| format!("bridge {name}: {error}");
    let rules = Rules::new(bridge.rules.get().to_vec()).map_err(|error| fail(error.to_string()))?;
    let topic = |topic: &str| (!topic.is_empty()).then(|| topic.to_owned());
    let link = LinkSettings {
        client_id: bridge.client_id.as_ref().map_or_else(String::new, |id| id.as_str().to_owned()),
        version: bridge.protocol.0,
        bridge_bit: bridge.bridge_bit,
        user_name: bridge.user_name.clone(),
        password: password(&bridge.password_file).map_err(fail)?,
        clean_start: bridge.clean_start,
        session_expiry_s: bridge.session_expiry_s,
        keep_alive_s: bridge.keep_alive_s,
        response_timeout_ms: u64::from(bridge.connect_timeout_s) * 1000,
        packet_max_bytes: bridge.maximum_packet_size,
        local: LocalOffer {
            receive_maximum: NonZeroU16::new(config.mqtt.receive_maximum).unwrap_or(NonZeroU16::MAX),
            packet_max_bytes: config.mqtt.maximum_packet_size,
        },
        rules,
        status: StatusTopics {
            local: topic(bridge.status_topic.as_str()),
            remote: topic(bridge.remote_status_topic.as_str()),
        },
        hops_max: bridge.hops_max,
        ..LinkSettings::new(name, "")
    };
    let tls = tls(bridge).map_err(fail)?;
    let server = |(address, server): &(String, tautwire_client::Server)| RemoteServer {
        address: address.clone(),
        server: server.clone(),
        tls: tls.clone(),
    };
    Ok(BridgePlan {
        name: name.into(),
        servers: bridge.addresses.get().iter().map(server).collect(),
        connect_timeout: Duration::from_secs(bridge.connect_timeout_s.into()),
        order: bridge.address_order,
        start: match bridge.start {
            BridgeStart::Automatic => StartMode::Automatic,
            BridgeStart::Lazy => StartMode::Lazy(Duration::from_secs(bridge.idle_timeout_s.into())),
            BridgeStart::Scheduled => StartMode::Scheduled(bridge.schedule.clone()),
        },
        retry_min: Duration::from_secs(bridge.retry_min_s.into()),
        retry_max: Duration::from_secs(bridge.retry_max_s.into()),
        link: Arc::new(link),
        user: bridge.user.as_deref().map(Arc::from),
        roles: bridge.roles.0.clone(),
        mount_point: bridge.mount_point.clone(),
        ack_level: bridge.ack.unwrap_or(config.ack()),
        fingerprint: fingerprint(config, bridge),
    })
}

/// The first line of the file.
fn password(file: &FilePath) -> Result<Option<Vec<u8>>, String> {
    let Some(path) = file.get() else { return Ok(None) };
    let text =
        files::text(path, PASSWORD_MAX_BYTES).map_err(|error| format!("{}: {error}", file.setting("password_file")))?;
    Ok(Some(text.lines().next().unwrap_or_default().as_bytes().to_vec()))
}

fn tls(bridge: &BridgeConfig) -> Result<Tls, String> {
    let settings = &bridge.tls;
    let fail = |key: &str, error: tautwire_client::Error| format!("{key}: {error}");
    let mut tls = Tls::default();
    if let Some(path) = settings.ca.get() {
        tls = tls.trust_file(path).map_err(|error| fail("tls.ca", error))?;
    }
    if let (Some(chain), Some(key)) = (settings.certificate.get(), settings.key.get()) {
        tls = tls.identity_files(chain, key).map_err(|error| fail("tls.certificate", error))?;
    }
    for path in settings.crl.iter() {
        tls = tls.revoked_file(path).map_err(|error| fail("tls.crl", error))?;
    }
    if let Some(name) = &settings.server_name {
        tls = tls.server_name(name.clone());
    }
    if !settings.alpn.0.is_empty() {
        tls = tls.alpn(settings.alpn.0.iter().map(|protocol| protocol.as_bytes().to_vec()));
    }
    Ok(tls)
}

/// What the bridge depends on, as text: its keys, digests of its files, and the common settings that it uses.
fn fingerprint(config: &Config, bridge: &BridgeConfig) -> String {
    let mut text = String::new();
    for key in KEYS {
        let _ = writeln!(text, "{} = {}", key.name, (key.show)(bridge));
    }
    let tls = &bridge.tls;
    let paths = [&bridge.password_file, &tls.ca, &tls.certificate, &tls.key].into_iter().filter_map(FilePath::get);
    for path in paths.chain(tls.crl.iter()) {
        let _ = writeln!(text, "{}: {}", path.display(), content_digest(path));
    }
    let _ = writeln!(text, "{} {} {:?}", config.mqtt.receive_maximum, config.mqtt.maximum_packet_size, config.ack());
    text
}

fn content_digest(path: &Path) -> String {
    let content = files::bytes(path, PEM_MAX_BYTES).unwrap_or_default();
    digest(&SHA256, &content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

//! Translates the options of mosquitto.

use tautwire_engine::MountPoint;
use tautwire_websocket::AllowedOrigin;

use super::bridge::Bridge;
use super::listener::{Domain, Listener};
use super::outcome::{OptionOutcome, noted, refused};
use super::output_text::quoted;
use super::parsed_config::ParsedConfig;
use super::unsupported;
use super::values::is_true;

/// Minimum of `mqtt.maximum_packet_size`, and the largest packet in MQTT.
const PACKET_MIN_BYTES: u64 = 64;
const MAX_PACKET_SIZE_BYTES: u64 = 268_435_460;
/// Minimum of `limits.session_queue_bytes`.
const QUEUE_MIN_BYTES: u64 = 1_024;

/// Translates a line.
pub(super) fn read(config: &mut ParsedConfig, key: &str, value: &str) -> OptionOutcome {
    read_listener_option(config, key, value)
        .or_else(|| read_access_option(config, key, value))
        .or_else(|| read_plugin_option(config, key, value))
        .or_else(|| read_broker_option(config, key, value))
        .or_else(|| read_bridge_option(config, key, value))
        .or_else(|| unsupported::counterpart(key).map(noted))
        .unwrap_or(OptionOutcome::Unknown)
}

/// Addresses, protocols and TLS.
fn read_listener_option(config: &mut ParsedConfig, key: &str, value: &str) -> Option<OptionOutcome> {
    let text = || Some(value.to_owned());
    match key {
        "listener" => {
            let mut words = value.splitn(2, ' ');
            let port = words.next().and_then(|port| port.parse().ok());
            let address = words.next().map(|address| address.trim().to_owned());
            config.listeners.push(Listener { port, address, ..Listener::default() });
            if port.is_none() {
                return Some(refused("the port is invalid; write `listener PORT` or `listener PORT ADDRESS`"));
            }
        }
        "port" => match value.parse() {
            Ok(port) => config.listeners[0].port = Some(port),
            Err(_) => return Some(refused("the port is invalid; write a number from 0 to 65535")),
        },
        "bind_address" => config.listeners[0].address = text(),
        "protocol" => match value {
            "mqtt" => {}
            "websockets" => config.listener().is_websocket = true,
            "http_api" => {
                config.listener().is_http_api = true;
                return Some(noted("this listener is omitted; admin.listen serves our API and dashboard instead"));
            }
            _ => return Some(refused("unknown protocol; write mqtt or websockets")),
        },
        "socket_domain" => match value {
            "ipv4" => config.listener().domain = Some(Domain::V4),
            "ipv6" => {
                config.listener().domain = Some(Domain::V6);
                return Some(noted("[::] serves IPv4 as well, unless the system has net.ipv6.bindv6only"));
            }
            _ => return Some(noted("the value must be ipv4 or ipv6")),
        },
        "max_qos" | "maximum_qos" => config.listener().max_qos = Some(value.parse::<u64>().ok()?.min(2)),
        "max_topic_alias" => config.listener().topic_aliases = Some(value.parse::<u64>().ok()?.min(65_535)),
        "websockets_origin" => {
            let origins = config.listener().origins.get_or_insert_default();
            if AllowedOrigin::new(value).is_none() {
                return Some(noted(
                    "it is omitted: browsers send SCHEME://HOST[:PORT] as the origin of a page, so it matches none, neither with Mosquitto nor here",
                ));
            }
            origins.push(value.to_owned());
        }
        "certfile" => config.listener().certificate = text(),
        "keyfile" => config.listener().key = text(),
        "cafile" => config.listener().authorities = text(),
        "capath" => config.listener().authority_folder = text(),
        "crlfile" => config.listener().revoked = text(),
        "require_certificate" => config.listener().requires_certificate = is_true(value),
        "use_identity_as_username" => config.listener().identifies_by_certificate = is_true(value),
        "tls_version" => match value {
            "tlsv1.3" => config.listener().minimum_version = Some("1.3"),
            "tlsv1.2" => config.listener().minimum_version = Some("1.2"),
            _ => return Some(noted("TLS versions below 1.2 are not supported")),
        },
        "use_subject_as_username" if is_true(value) => {
            return Some(refused(
                "the subject of a certificate cannot be the user name here, so other rules would apply; remove the line and identify users \
                 by the common name (use_identity_as_username), or by auth.certificate_rules afterwards",
            ));
        }
        "use_username_as_clientid" if is_true(value) => {
            config.listener().uses_username_as_client_id = Some(config.place.clone());
        }
        "psk_hint" => {
            return Some(refused(
                "TLS with pre-shared keys is not supported, so the listener would not use TLS; set certfile and keyfile, or remove the \
                 listener",
            ));
        }
        "bind_interface" if config.listener().address.is_some() => {
            return Some(noted("the listener is bound to its address only; the interface is ignored"));
        }
        "bind_interface" => {
            return Some(refused(
                "a listener is bound to an address, not to an interface, and would listen on all networks; write `listener PORT ADDRESS` with an \
                 address of the interface",
            ));
        }
        "mount_point" => match MountPoint::new(value) {
            Some(_) => config.listener().mount_point = text(),
            None => {
                return Some(refused(format!(
                    "a mount point consists of complete topic levels here: it ends with / and does not begin with $, has no wildcards and at most {} \
                     bytes; without it, clients of this listener would see all topics. Write `mount_point {}/` if all clients can use it",
                    MountPoint::MAX_BYTES,
                    value.trim_end_matches('/')
                )));
            }
        },
        "accept_protocol_versions" => {
            let versions: Vec<_> = value.split([',', ' ', '\t']).filter_map(version).collect();
            if versions.is_empty() {
                return Some(refused("no valid version; write 3, 4 and 5 with commas between them"));
            }
            config.listener().versions = Some(versions);
        }
        "enable_proxy_protocol" => config.listener().is_for_proxies = matches!(value, "1" | "2"),
        "proxy_protocol_v2_require_tls" => config.listener().proxies_require_tls = is_true(value),
        "listener_auto_id_prefix" => config.listener().client_id_prefix = text(),
        "max_connections" => config.listener().connections = value.parse().ok().filter(|count| *count > 0),
        _ => return None,
    }
    Some(OptionOutcome::Translated)
}

/// Authentication and access control.
fn read_access_option(config: &mut ParsedConfig, key: &str, value: &str) -> Option<OptionOutcome> {
    match key {
        "per_listener_settings" => config.per_listener = is_true(value),
        "listener_allow_anonymous" => config.listener().anonymous = Some(is_true(value)),
        "allow_anonymous" => config.security().anonymous = Some(is_true(value)),
        "password_file" => config.security().password_file = Some(value.to_owned()),
        "acl_file" => config.security().acl_file = Some(value.to_owned()),
        "allow_zero_length_clientid" if config.per_listener => {
            config.listener().allows_empty_client_id = Some(is_true(value));
        }
        "allow_zero_length_clientid" => config.set("mqtt.allow_empty_client_id", is_true(value)),
        "auto_id_prefix" if config.per_listener => config.listener().client_id_prefix = Some(value.to_owned()),
        "auto_id_prefix" => config.set("mqtt.assigned_client_id_prefix", quoted(value)),
        "clientid_prefixes" => {
            return Some(refused(
                "clients with other identifiers could connect; restrict them with rules by client_id in acl.file, and remove the line",
            ));
        }
        _ => return None,
    }
    Some(OptionOutcome::Translated)
}

fn read_plugin_option(config: &mut ParsedConfig, key: &str, value: &str) -> Option<OptionOutcome> {
    let ParsedConfig { plugins, listeners, per_listener, .. } = config;
    let own = &mut listeners.last_mut()?.plugins;
    plugins.read(key, value, *per_listener, own)
}

fn read_bridge_option(config: &mut ParsedConfig, key: &str, value: &str) -> Option<OptionOutcome> {
    if key == "connection" {
        let place = config.place.clone();
        config.bridges.push(Bridge { place, name: value.to_owned(), ..Bridge::default() });
        return Some(OptionOutcome::Translated);
    }
    match config.bridges.last_mut() {
        Some(bridge) => bridge.read(key, value),
        None => Bridge::default()
            .read(key, value)
            .map(|_| noted("it has no effect, as in Mosquitto: there is no `connection` line above")),
    }
}

/// Options of the whole broker.
fn read_broker_option(config: &mut ParsedConfig, key: &str, value: &str) -> Option<OptionOutcome> {
    let number = value.parse::<u64>().ok();
    let wrong = || Some(refused(format!("\"{value}\" is not a valid number for this option")));
    if NUMBERS.contains(&key) && number.is_none() {
        return wrong();
    }
    match key {
        "persistence" | "retained_persistence" => {
            config.state.is_persistent = is_true(value);
            config.set("data.path", quoted(if is_true(value) { "auto" } else { "" }));
        }
        "persistence_location" => config.state.folder = Some(value.to_owned()),
        "persistence_file" => config.state.name = Some(value.to_owned()),
        "persistent_client_expiration" => match seconds(value) {
            Some(seconds) => config.set("mqtt.max_session_expiry_s", seconds),
            None => return wrong(),
        },
        "max_keepalive" => config.set("mqtt.max_keep_alive_s", number?.min(65_535)),
        "max_packet_size" => {
            let bytes = number?;
            let most =
                if bytes == 0 { MAX_PACKET_SIZE_BYTES } else { bytes.clamp(PACKET_MIN_BYTES, MAX_PACKET_SIZE_BYTES) };
            config.set("mqtt.maximum_packet_size", most);
            if (1..PACKET_MIN_BYTES).contains(&bytes) {
                return Some(noted(format!(
                    "the minimum of mqtt.maximum_packet_size is {PACKET_MIN_BYTES}, so packets of up to {PACKET_MIN_BYTES} bytes are accepted"
                )));
            }
        }
        "message_size_limit" => config.set("limits.payload_bytes", number?.min(MAX_PACKET_SIZE_BYTES - 5)),
        "retain_available" => config.set("mqtt.retain_available", is_true(value)),
        "check_retain_source" => config.checks_retain_source = Some(is_true(value)),
        // It applies in both directions: CONNACK contains it as Receive Maximum.
        "max_inflight_messages" => {
            let count = Some(number?).filter(|count| *count > 0).map_or(65_535, |count| count.min(65_535));
            config.set("limits.in_flight_per_client", count);
            config.set("mqtt.receive_maximum", count);
        }
        "max_inflight_bytes" => config.set("limits.in_flight_bytes_per_client", number?.min(1 << 40)),
        "max_queued_messages" => match number? {
            0 => config.set("limits.session_queue_messages", 1_000_000_000),
            count => config.set("limits.session_queue_messages", count.min(1_000_000_000)),
        },
        "max_queued_bytes" => {
            let bytes = number?;
            // 0 means no limit.
            let most = if bytes == 0 { 1 << 40 } else { bytes.clamp(QUEUE_MIN_BYTES, 1 << 40) };
            config.set("limits.session_queue_bytes", most);
            if (1..QUEUE_MIN_BYTES).contains(&bytes) {
                return Some(noted(format!(
                    "the minimum of limits.session_queue_bytes is {QUEUE_MIN_BYTES}, so more can be queued for a client"
                )));
            }
        }
        "global_max_connections" => {
            if let Some(count) = number.filter(|count| *count > 0) {
                config.set("limits.connections", count.min(100_000_000));
            }
        }
        // It counts offline clients, too.
        "global_max_clients" => {
            if let Some(count) = number.filter(|count| *count > 0) {
                config.set("limits.sessions", count.min(1_000_000_000));
            }
        }
        "memory_limit" => match number {
            Some(0) => {}
            Some(bytes) if bytes >= 64 << 20 => config.set("memory.limit", bytes),
            Some(_) => {
                config.set("memory.limit", 64 << 20);
                return Some(noted(
                    "the broker needs 64 MiB, so memory.limit is 64 MiB: more than Mosquitto was allowed",
                ));
            }
            None => return wrong(),
        },
        "sys_interval" => config.set("sys.interval_s", number?.min(86_400)),
        "log_type" => match LOG_TYPES.iter().find(|(name, _)| *name == value) {
            Some((_, level)) => config.log_level = config.log_level.max(Some(*level)),
            None => return Some(noted("use log.level instead")),
        },
        _ => return None,
    }
    Some(OptionOutcome::Translated)
}

/// Values of `log_type` with the corresponding log levels. In mosquitto, naming some turns off the others.
const LOG_TYPES: &[(&str, log::Level)] = &[
    ("error", log::Level::Error),
    ("warning", log::Level::Warn),
    ("notice", log::Level::Info),
    ("information", log::Level::Info),
    ("subscribe", log::Level::Debug),
    ("unsubscribe", log::Level::Debug),
    ("websockets", log::Level::Debug),
    ("debug", log::Level::Debug),
    ("all", log::Level::Debug),
];

/// Options that require a number.
const NUMBERS: &[&str] = &[
    "max_keepalive",
    "max_topic_alias",
    "max_qos",
    "maximum_qos",
    "max_packet_size",
    "message_size_limit",
    "max_inflight_bytes",
    "max_inflight_messages",
    "max_queued_messages",
    "max_queued_bytes",
    "global_max_connections",
    "global_max_clients",
    "sys_interval",
];

/// An MQTT version by its protocol level.
fn version(level: &str) -> Option<&'static str> {
    Some(match level {
        "3" => "3.1",
        "4" => "3.1.1",
        "5" => "5.0",
        _ => return None,
    })
}

/// Parses a time such as `14d`: seconds, hours, days, weeks, months or years.
fn seconds(value: &str) -> Option<u64> {
    let (number, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    const DAY_S: u64 = 86_400;
    let unit_s = match unit {
        "s" => 1,
        "h" => 3_600,
        "d" => DAY_S,
        "w" => 7 * DAY_S,
        "m" => 30 * DAY_S,
        "y" => 365 * DAY_S,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()?.saturating_mul(unit_s).min(u64::from(u32::MAX)))
}

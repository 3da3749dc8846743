//! What each option of mosquitto is here.

use std::borrow::Cow;

use tautwire_engine::MountPoint;
use tautwire_websocket::AllowedOrigin;

use super::listener::{Domain, Listener};
use super::mosquitto::{Reading, quoted};
use super::{plugins, unsupported};

/// What bridges come to.
pub(super) const NO_BRIDGES: &str = "there are no bridges, so no messages go to or come from that broker; docs/guides/from-mosquitto.md#bridges says what to do";

/// What has come of a line.
pub(super) enum OptionOutcome {
    Translated,
    /// There is no counterpart, or it is not quite the same.
    Noted(Cow<'static, str>),
    /// Without it, clients could do more than before, so nothing is written.
    Refused(Cow<'static, str>),
    /// Mosquitto has no such option, as far as we know.
    Unknown,
}

/// The least that `mqtt.maximum_packet_size` takes, and the largest packet that there can be.
const PACKET_MIN_BYTES: u64 = 64;
const MAX_PACKET_SIZE_BYTES: u64 = 268_435_460;
/// The least that `limits.session_queue_bytes` takes.
const QUEUE_MIN_BYTES: u64 = 1_024;

/// Takes a line.
pub(super) fn read(reading: &mut Reading, key: &str, value: &str) -> OptionOutcome {
    of_listeners(reading, key, value)
        .or_else(|| of_clients(reading, key, value))
        .or_else(|| plugins::read(reading, key, value))
        .or_else(|| of_all(reading, key, value))
        .or_else(|| unsupported::counterpart(key).map(noted))
        .unwrap_or(OptionOutcome::Unknown)
}

fn noted(why: impl Into<Cow<'static, str>>) -> OptionOutcome {
    OptionOutcome::Noted(why.into())
}

fn refused(why: impl Into<Cow<'static, str>>) -> OptionOutcome {
    OptionOutcome::Refused(why.into())
}

/// Where it listens, and TLS.
fn of_listeners(reading: &mut Reading, key: &str, value: &str) -> Option<OptionOutcome> {
    let text = || Some(value.to_owned());
    match key {
        "listener" => {
            let mut words = value.splitn(2, ' ');
            let port = words.next().and_then(|port| port.parse().ok());
            let address = words.next().map(|address| address.trim().to_owned());
            reading.listeners.push(Listener { port, address, ..Listener::default() });
            if port.is_none() {
                return Some(refused("the port is not understood; write `listener PORT` or `listener PORT ADDRESS`"));
            }
        }
        "port" => match value.parse() {
            Ok(port) => reading.listeners[0].port = Some(port),
            Err(_) => return Some(refused("the port is not understood; write a number from 0 to 65535")),
        },
        "bind_address" => reading.listeners[0].address = text(),
        "protocol" => match value {
            "mqtt" => {}
            "websockets" => reading.listener().is_websocket = true,
            "http_api" => {
                reading.listener().is_http_api = true;
                return Some(noted("this listener is left out; admin.listen serves an API and a dashboard of our own"));
            }
            _ => return Some(refused("there is no such protocol; write mqtt or websockets")),
        },
        "socket_domain" => match value {
            "ipv4" => reading.listener().domain = Some(Domain::V4),
            "ipv6" => {
                reading.listener().domain = Some(Domain::V6);
                return Some(noted("[::] serves IPv4 as well, unless the system has net.ipv6.bindv6only"));
            }
            _ => return Some(noted("it is ipv4 or ipv6")),
        },
        "max_qos" | "maximum_qos" => reading.listener().max_qos = Some(value.parse::<u64>().ok()?.min(2)),
        "max_topic_alias" => reading.listener().topic_aliases = Some(value.parse::<u64>().ok()?.min(65_535)),
        "websockets_origin" => {
            let origins = reading.listener().origins.get_or_insert_default();
            if AllowedOrigin::new(value).is_none() {
                return Some(noted(
                    "it is left out: browsers send SCHEME://HOST[:PORT] as the origin of a page, so it matches none, with Mosquitto as here",
                ));
            }
            origins.push(value.to_owned());
        }
        "certfile" => reading.listener().certificate = text(),
        "keyfile" => reading.listener().key = text(),
        "cafile" => reading.listener().authorities = text(),
        "capath" => reading.listener().authority_folder = text(),
        "crlfile" => reading.listener().revoked = text(),
        "require_certificate" => reading.listener().requires_certificate = is_true(value),
        "use_identity_as_username" => reading.listener().takes_name_of_certificate = is_true(value),
        "tls_version" => match value {
            "tlsv1.3" => reading.listener().minimum_version = Some("1.3"),
            "tlsv1.2" => reading.listener().minimum_version = Some("1.2"),
            _ => return Some(noted("TLS before 1.2 is not served")),
        },
        "use_subject_as_username" if is_true(value) => {
            return Some(refused(
                "a user cannot be named by the whole subject of a certificate here, so other rules would hold; remove the line and name users \
                 by the common name (use_identity_as_username), or by auth.certificate_rules afterwards",
            ));
        }
        "use_username_as_clientid" if is_true(value) => {
            reading.listener().takes_user_as_client_id = Some(reading.place.clone());
        }
        "psk_hint" => {
            return Some(refused(
                "TLS with pre-shared keys is not served, and the listener would speak without TLS; give it certfile and keyfile, or remove the \
                 listener",
            ));
        }
        "bind_interface" if reading.listener().address.is_some() => {
            return Some(noted("the listener is bound to its address only; the interface is not looked at"));
        }
        "bind_interface" => {
            return Some(refused(
                "a listener is bound to an address, not to an interface, and would serve all networks; write `listener PORT ADDRESS` with an \
                 address of the interface",
            ));
        }
        "mount_point" => match MountPoint::new(value) {
            Some(_) => reading.listener().mount_point = text(),
            None => {
                return Some(refused(format!(
                    "a mount point is whole levels of topics here: it ends with / and does not begin with $, has no wildcards and at most {} \
                     bytes; without it, clients of this listener would see all topics. Write `mount_point {}/` if all clients can move there",
                    MountPoint::MAX_BYTES,
                    value.trim_end_matches('/')
                )));
            }
        },
        "accept_protocol_versions" => {
            let versions: Vec<_> = value.split([',', ' ', '\t']).filter_map(version).collect();
            if versions.is_empty() {
                return Some(refused("it accepts no version; write 3, 4 and 5 with commas between them"));
            }
            reading.listener().versions = Some(versions);
        }
        "enable_proxy_protocol" => reading.listener().is_for_proxies = matches!(value, "1" | "2"),
        "proxy_protocol_v2_require_tls" => reading.listener().proxies_require_tls = is_true(value),
        "listener_auto_id_prefix" => reading.listener().client_id_prefix = text(),
        "max_connections" => reading.listener().connections = value.parse().ok().filter(|count| *count > 0),
        _ => return None,
    }
    Some(OptionOutcome::Translated)
}

/// Who may come, and do what.
fn of_clients(reading: &mut Reading, key: &str, value: &str) -> Option<OptionOutcome> {
    match key {
        "per_listener_settings" => reading.per_listener = is_true(value),
        "listener_allow_anonymous" => reading.listener().anonymous = Some(is_true(value)),
        "allow_anonymous" => reading.security().anonymous = Some(is_true(value)),
        "password_file" => reading.security().password_file = Some(value.to_owned()),
        "acl_file" => reading.security().acl_file = Some(value.to_owned()),
        "allow_zero_length_clientid" if reading.per_listener => {
            reading.listener().allows_empty_client_id = Some(is_true(value));
        }
        "allow_zero_length_clientid" => reading.set("mqtt.allow_empty_client_id", is_true(value)),
        "auto_id_prefix" if reading.per_listener => reading.listener().client_id_prefix = Some(value.to_owned()),
        "auto_id_prefix" => reading.set("mqtt.assigned_client_id_prefix", quoted(value)),
        "clientid_prefixes" => {
            return Some(refused(
                "clients with other identifiers could connect; write rules by client_id in acl.file for what they may do, and remove the line",
            ));
        }
        _ => return None,
    }
    Some(OptionOutcome::Translated)
}

/// What holds for the whole broker.
fn of_all(reading: &mut Reading, key: &str, value: &str) -> Option<OptionOutcome> {
    let number = value.parse::<u64>().ok();
    let wrong = || Some(refused(format!("\"{value}\" is not a number that this option takes")));
    if NUMBERS.contains(&key) && number.is_none() {
        return wrong();
    }
    match key {
        "persistence" | "retained_persistence" => {
            reading.state.is_persistent = is_true(value);
            reading.set("data.path", quoted(if is_true(value) { "auto" } else { "" }));
        }
        "persistence_location" => reading.state.folder = Some(value.to_owned()),
        "persistence_file" => reading.state.name = Some(value.to_owned()),
        "persistent_client_expiration" => match seconds(value) {
            Some(seconds) => reading.set("mqtt.max_session_expiry_s", seconds),
            None => return wrong(),
        },
        "max_keepalive" => reading.set("mqtt.max_keep_alive_s", number?.min(65_535)),
        "max_packet_size" => {
            let bytes = number?;
            let most =
                if bytes == 0 { MAX_PACKET_SIZE_BYTES } else { bytes.clamp(PACKET_MIN_BYTES, MAX_PACKET_SIZE_BYTES) };
            reading.set("mqtt.maximum_packet_size", most);
            if (1..PACKET_MIN_BYTES).contains(&bytes) {
                return Some(noted(format!(
                    "the least that mqtt.maximum_packet_size takes is {PACKET_MIN_BYTES}, so packets of up to {PACKET_MIN_BYTES} bytes are accepted"
                )));
            }
        }
        "message_size_limit" => reading.set("limits.payload_bytes", number?.min(MAX_PACKET_SIZE_BYTES - 5)),
        "retain_available" => reading.set("mqtt.retain_available", is_true(value)),
        "check_retain_source" => reading.checks_retain_source = Some(is_true(value)),
        // It holds in both directions: CONNACK has it as Receive Maximum.
        "max_inflight_messages" => {
            let count = Some(number?).filter(|count| *count > 0).map_or(65_535, |count| count.min(65_535));
            reading.set("limits.in_flight_per_client", count);
            reading.set("mqtt.receive_maximum", count);
        }
        "max_inflight_bytes" => reading.set("limits.in_flight_bytes_per_client", number?.min(1 << 40)),
        "max_queued_messages" => match number? {
            0 => reading.set("limits.session_queue_messages", 1_000_000_000),
            count => reading.set("limits.session_queue_messages", count.min(1_000_000_000)),
        },
        "max_queued_bytes" => {
            let bytes = number?;
            // 0 is no limit.
            let most = if bytes == 0 { 1 << 40 } else { bytes.clamp(QUEUE_MIN_BYTES, 1 << 40) };
            reading.set("limits.session_queue_bytes", most);
            if (1..QUEUE_MIN_BYTES).contains(&bytes) {
                return Some(noted(format!(
                    "the least that limits.session_queue_bytes takes is {QUEUE_MIN_BYTES}, so more can wait for a client"
                )));
            }
        }
        "global_max_connections" => {
            if let Some(count) = number.filter(|count| *count > 0) {
                reading.set("limits.connections", count.min(100_000_000));
            }
        }
        // It counts clients that are offline, too.
        "global_max_clients" => {
            if let Some(count) = number.filter(|count| *count > 0) {
                reading.set("limits.sessions", count.min(1_000_000_000));
            }
        }
        "memory_limit" => match number {
            Some(0) => {}
            Some(bytes) if bytes >= 64 << 20 => reading.set("memory.limit", bytes),
            Some(_) => {
                reading.set("memory.limit", 64 << 20);
                return Some(noted(
                    "the broker needs 64 MiB, and memory.limit is that: it may use more memory than Mosquitto was allowed",
                ));
            }
            None => return wrong(),
        },
        "sys_interval" => reading.set("sys.interval_s", number?.min(86_400)),
        "log_type" => match LOG_TYPES.iter().find(|(name, _)| *name == value) {
            Some((_, level)) => reading.log_level = reading.log_level.max(Some(*level)),
            None => return Some(noted("log.level says how much is logged")),
        },
        _ => return None,
    }
    Some(OptionOutcome::Translated)
}

/// What is logged, and the level at which that is here. Whoever names some is not told the others.
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

/// Options that are of no use without a number.
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

pub(super) fn is_true(value: &str) -> bool {
    matches!(value, "true" | "1")
}

/// A version of MQTT by its protocol level.
fn version(level: &str) -> Option<&'static str> {
    Some(match level {
        "3" => "3.1",
        "4" => "3.1.1",
        "5" => "5.0",
        _ => return None,
    })
}

/// A time such as `14d`: seconds, hours, days, weeks, months or years.
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

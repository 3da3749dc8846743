//! What each option of mosquitto is here.

use tautwire_engine::MountPoint;

use super::mosquitto::{Domain, Listener, Reading, quoted};
use super::plugins;

/// What has come of a line.
pub(super) enum Answer {
    Taken,
    /// There is no counterpart, or it is not quite the same.
    Noted(&'static str),
    /// Mosquitto has no such option, as far as we know.
    Unknown,
}

/// Takes a line.
pub(super) fn read(reading: &mut Reading, key: &str, value: &str) -> Answer {
    of_listeners(reading, key, value)
        .or_else(|| of_clients(reading, key, value))
        .or_else(|| plugins::read(reading, key, value))
        .or_else(|| of_all(reading, key, value))
        .or_else(|| without_counterpart(key).map(Answer::Noted))
        .unwrap_or(Answer::Unknown)
}

/// Where it listens, and TLS.
fn of_listeners(reading: &mut Reading, key: &str, value: &str) -> Option<Answer> {
    let text = || Some(value.to_owned());
    match key {
        "listener" => {
            let mut words = value.splitn(2, ' ');
            let port = words.next().and_then(|port| port.parse().ok());
            let address = words.next().map(|address| address.trim().to_owned());
            reading.listeners.push(Listener { port, address, ..Listener::default() });
            if port.is_none() {
                return Some(Answer::Noted("the port is not understood"));
            }
        }
        "port" => match value.parse() {
            Ok(port) => reading.listeners[0].port = Some(port),
            Err(_) => return Some(Answer::Noted("the port is not understood")),
        },
        "bind_address" => reading.listeners[0].address = text(),
        "protocol" => match value {
            "mqtt" => {}
            "websockets" => reading.listener().is_websocket = true,
            "http_api" => {
                reading.listener().is_http_api = true;
                return Some(Answer::Noted(
                    "this listener is left out; admin.listen serves an API and a dashboard of our own",
                ));
            }
            _ => return Some(Answer::Noted("there is no such protocol")),
        },
        "socket_domain" => match value {
            "ipv4" => reading.listener().domain = Some(Domain::V4),
            "ipv6" => {
                reading.listener().domain = Some(Domain::V6);
                return Some(Answer::Noted("[::] serves IPv4 as well, unless the system has net.ipv6.bindv6only"));
            }
            _ => return Some(Answer::Noted("it is ipv4 or ipv6")),
        },
        "max_qos" | "maximum_qos" => reading.listener().max_qos = Some(value.parse::<u64>().ok()?.min(2)),
        "max_topic_alias" => reading.listener().topic_aliases = Some(value.parse::<u64>().ok()?.min(65_535)),
        "websockets_origin" => reading.listener().origins.push(value.to_owned()),
        "certfile" => reading.listener().certificate = text(),
        "keyfile" => reading.listener().key = text(),
        "cafile" => reading.listener().authorities = text(),
        "crlfile" => reading.listener().revoked = text(),
        "require_certificate" => reading.listener().requires_certificate = is_true(value),
        "use_identity_as_username" => reading.listener().takes_name_of_certificate = is_true(value),
        "tls_version" => match value {
            "tlsv1.3" => reading.listener().minimum_version = Some("1.3"),
            "tlsv1.2" => reading.listener().minimum_version = Some("1.2"),
            _ => return Some(Answer::Noted("TLS before 1.2 is not served")),
        },
        "mount_point" => match MountPoint::new(value) {
            Some(_) => reading.listener().mount_point = text(),
            None => return Some(Answer::Noted("a mount point ends with / and does not begin with $")),
        },
        "max_connections" => reading.listener().connections = value.parse().ok().filter(|count| *count > 0),
        _ => return None,
    }
    Some(Answer::Taken)
}

/// Who may come, and do what.
fn of_clients(reading: &mut Reading, key: &str, value: &str) -> Option<Answer> {
    match key {
        "per_listener_settings" => reading.per_listener = is_true(value),
        "listener_allow_anonymous" => reading.listener().anonymous = Some(is_true(value)),
        "allow_anonymous" => reading.security().anonymous = Some(is_true(value)),
        "password_file" => reading.security().password_file = Some(value.to_owned()),
        "acl_file" => reading.security().acl_file = Some(value.to_owned()),
        _ => return None,
    }
    Some(Answer::Taken)
}

/// What holds for the whole broker.
fn of_all(reading: &mut Reading, key: &str, value: &str) -> Option<Answer> {
    let number = value.parse::<u64>().ok();
    let wrong = Some(Answer::Noted("the number is not understood"));
    if NUMBERS.contains(&key) && number.is_none() {
        return wrong;
    }
    match key {
        "persistence" | "retained_persistence" => {
            reading.state.is_kept = is_true(value);
            reading.set("data.path", quoted(if is_true(value) { "auto" } else { "" }));
        }
        "persistence_location" => reading.state.folder = Some(value.to_owned()),
        "persistence_file" => reading.state.name = Some(value.to_owned()),
        "persistent_client_expiration" => match seconds(value) {
            Some(seconds) => reading.set("mqtt.max_session_expiry_s", seconds),
            None => return wrong,
        },
        "max_keepalive" => reading.set("mqtt.max_keep_alive_s", number?.min(65_535)),
        "max_packet_size" => match number {
            Some(bytes) if bytes >= 64 => reading.set("mqtt.maximum_packet_size", bytes.min(268_435_460)),
            _ => return wrong,
        },
        "retain_available" => reading.set("mqtt.retain_available", is_true(value)),
        "max_inflight_messages" => match number? {
            0 => reading.set("limits.in_flight_per_client", 65_535),
            count => reading.set("limits.in_flight_per_client", count.min(65_535)),
        },
        "max_queued_messages" => match number? {
            0 => reading.set("limits.session_queue_messages", 1_000_000_000),
            count => reading.set("limits.session_queue_messages", count.min(1_000_000_000)),
        },
        "max_queued_bytes" => {
            if let Some(bytes) = number.filter(|bytes| *bytes > 0) {
                reading.set("limits.session_queue_bytes", bytes.clamp(1_024, 1 << 40));
            }
        }
        "global_max_connections" | "global_max_clients" => {
            if let Some(count) = number.filter(|count| *count > 0) {
                reading.set("limits.connections", count.min(100_000_000));
            }
        }
        "memory_limit" => match number {
            Some(0) => {}
            Some(bytes) if bytes >= 64 << 20 => reading.set("memory.limit", bytes),
            _ => return Some(Answer::Noted("the broker needs 64 MiB to be of use; memory.limit is left as it is")),
        },
        "sys_interval" => reading.set("sys.interval_s", number?.min(86_400)),
        "log_type" => match LOG_TYPES.iter().find(|(name, _)| *name == value) {
            Some((_, level)) => reading.log_level = reading.log_level.max(Some(*level)),
            None => return Some(Answer::Noted("log.level says how much is logged")),
        },
        _ => return None,
    }
    Some(Answer::Taken)
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
    "max_inflight_messages",
    "max_queued_messages",
    "max_queued_bytes",
    "global_max_connections",
    "global_max_clients",
    "sys_interval",
];

/// Options of bridges, which begin with `bridge_` or are one of these.
const OF_BRIDGES: &[&str] = &[
    "address",
    "addresses",
    "cleansession",
    "clientid",
    "connection",
    "idle_timeout",
    "keepalive_interval",
    "local_cleansession",
    "local_clientid",
    "local_password",
    "local_username",
    "notification_topic",
    "notifications",
    "notifications_local_only",
    "password",
    "remote_clientid",
    "remote_password",
    "remote_username",
    "restart_timeout",
    "round_robin",
    "start_type",
    "threshold",
    "topic",
    "try_private",
    "username",
];

/// Options that are known and have no counterpart, with the reason.
fn without_counterpart(key: &str) -> Option<&'static str> {
    Some(match key {
        "autosave_interval" | "autosave_on_changes" => "needless: what is acknowledged is on disk already",
        "message_size_limit" => "mqtt.maximum_packet_size bounds the whole packet",
        "queue_qos0_messages" => "messages of QoS 0 are never queued for clients that are away",
        "set_tcp_nodelay" => "needless: it is always so",
        "upgrade_outgoing_qos" => "messages keep the lower QoS, as the standard says",
        "allow_zero_length_clientid" => "clients without an identifier are given one, as the standard says",
        "auto_id_prefix" | "listener_auto_id_prefix" => "identifiers that the broker gives begin with auto-",
        "clientid_prefixes" => "a rule by client_id says what such clients may do",
        "use_username_as_clientid" => {
            "auth.certificate and auth.jwt_client_id_claim tie identifiers to what clients show"
        }
        "use_subject_as_username" => "the common name alone is taken from a certificate",
        "capath" => "name the files of authorities in tls.client_ca",
        "ciphers" | "ciphers_tls1.3" => "all suites that are served are safe; tls.cipher_suites chooses among them",
        "dhparamfile" | "tls_engine" | "tls_engine_kpass_sha1" | "tls_keyform" | "keyform" => "TLS has no such setting",
        "psk_file" | "psk_hint" => "TLS by shared keys is not served",
        "check_retain_source" => "a retained message stays when its publisher may not publish any more",
        "retain_expiry_interval" => "retained messages expire by their own expiry interval",
        "max_inflight_bytes" => "limits.client_bytes bounds all that is held for a client",
        "bind_interface" => "listen at an address of the interface",
        "http_dir" => "files are not served",
        "websockets_log_level" | "websockets_headers_size" => "WebSocket has no such setting",
        "user" => "name it in user where the broker is started as root; under a service manager it need not be",
        "pid_file" => "the service manager does that: see packaging/systemd",
        "log_dest" => "the log goes to standard error",
        "log_facility" | "log_timestamp" | "log_timestamp_format" | "connection_messages" => {
            "the log has no such setting"
        }
        "auth_plugin_deny_special_chars" => "needless: names with wildcards never widen a rule",
        "accept_protocol_versions" => "all versions are served: 3.1, 3.1.1 and 5.0",
        "disable_client_cert_date_checks" => "certificates that have expired are always refused",
        "enable_proxy_protocol" | "proxy_protocol_v2_require_tls" => {
            "say in proxy.trusted of this listener at which addresses the proxies are; until then their clients cannot connect"
        }
        "max_topic_alias_broker" => "topics to clients are aliased as far as they allow it",
        "packet_buffer_size" => "buffers have no such setting",
        "enable_control_api" | "allow_duplicate_messages" | "max_log_entries" | "retry_interval" => {
            "there is no such setting"
        }
        key if key.starts_with("bridge_") || OF_BRIDGES.contains(&key) => "there are no bridges",
        _ => return None,
    })
}

fn is_true(value: &str) -> bool {
    matches!(value, "true" | "1")
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

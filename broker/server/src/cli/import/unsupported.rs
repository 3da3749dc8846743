//! Options that have no counterpart: why, and what follows for those who had them.

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

/// Why an option has no counterpart, and what follows.
pub(super) fn counterpart(key: &str) -> Option<&'static str> {
    Some(match key {
        "autosave_interval" | "autosave_on_changes" => "needless: what is acknowledged is on disk already",
        "queue_qos0_messages" => {
            "messages of QoS 0 are never queued, so clients that are offline do not get them; publish with QoS 1 what they need"
        }
        "set_tcp_nodelay" => "needless: it is always so",
        "upgrade_outgoing_qos" => {
            "a message keeps the lower QoS of publisher and subscriber, as the standard says, so it may arrive with a lower one than before"
        }
        "use_username_as_clientid" | "use_subject_as_username" => "false is how it is here",
        "ciphers" | "ciphers_tls1.3" => {
            "the suites of TLS 1.2 and 1.3 with forward secrecy are served; clients that have no other cannot connect; tls.cipher_suites chooses among them"
        }
        "dhparamfile" | "tls_engine" | "tls_engine_kpass_sha1" | "tls_keyform" | "keyform" => {
            "TLS has no such setting; a key that is not a file in PEM cannot be used"
        }
        "psk_file" => "TLS with pre-shared keys is not served, so clients that use them cannot connect",
        "retain_expiry_interval" => "retained messages expire by their own expiry interval",
        "http_dir" => "files are not served; serve them by a web server",
        "websockets_log_level" | "websockets_headers_size" => "WebSocket has no such setting",
        "user" => "name it in user where the broker is started as root; under a service manager it need not be",
        "pid_file" => "the service manager does that: see packaging/systemd",
        "log_dest" => "the log goes to standard error",
        "log_facility" | "log_timestamp" | "log_timestamp_format" | "connection_messages" => {
            "the log has no such setting"
        }
        "auth_plugin_deny_special_chars" => "needless: names with wildcards never widen a rule",
        "disable_client_cert_date_checks" => "clients whose certificates have expired are always refused",
        "max_topic_alias_broker" => "topics to clients are aliased as far as they allow it, with at most 64 aliases",
        "packet_buffer_size" => "buffers have no such setting",
        "allow_duplicate_messages" => {
            "a client gets a message once, however many of its subscriptions match, as with allow_duplicate_messages false"
        }
        "enable_control_api" => "there are no topics below $CONTROL; the admin API does what they do (admin.listen)",
        "max_log_entries" | "retry_interval" => "older versions had it; it has no effect in Mosquitto 2 either",
        key if key.starts_with("bridge_") || OF_BRIDGES.contains(&key) => super::options::NO_BRIDGES,
        _ => return None,
    })
}

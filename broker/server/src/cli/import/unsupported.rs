//! Options without a counterpart, with the reason and the consequence.

/// The reason why an option has no counterpart, and the consequence.
pub(super) fn counterpart(key: &str) -> Option<&'static str> {
    Some(match key {
        "autosave_interval" | "autosave_on_changes" => "not needed: acknowledged data is on disk already",
        "queue_qos0_messages" => {
            "QoS 0 messages are never queued, so offline clients do not get them; use QoS 1 for messages that they need"
        }
        "set_tcp_nodelay" => "not needed: it is always set",
        "upgrade_outgoing_qos" => {
            "a message is delivered with the lower QoS of publisher and subscription, as the standard requires, so the QoS may be lower than before"
        }
        "use_username_as_clientid" | "use_subject_as_username" => "false is the behavior here",
        "ciphers" | "ciphers_tls1.3" => {
            "only cipher suites of TLS 1.2 and 1.3 with forward secrecy are supported, so clients without these cannot connect; tls.cipher_suites selects among them"
        }
        "dhparamfile" | "tls_engine" | "tls_engine_kpass_sha1" | "tls_keyform" | "keyform" => {
            "there is no such TLS setting; keys must be PEM files"
        }
        "psk_file" => "TLS with pre-shared keys is not supported, so clients that use it cannot connect",
        "retain_expiry_interval" => "retained messages expire only by their own expiry interval",
        "http_dir" => "files are not served; use a web server",
        "websockets_log_level" | "websockets_headers_size" => "there is no such WebSocket setting",
        "user" => "set user if the broker is started as root; a service manager makes it unnecessary",
        "pid_file" => "use a service manager: see packaging/systemd",
        "log_dest" => "the log goes to standard error",
        "log_facility" | "log_timestamp" | "log_timestamp_format" | "connection_messages" => {
            "there is no such log setting"
        }
        "auth_plugin_deny_special_chars" => "not needed: wildcards in names never widen a rule",
        "disable_client_cert_date_checks" => "clients whose certificates have expired are always refused",
        "max_topic_alias_broker" => "topic aliases are used for clients that allow them, at most 64",
        "packet_buffer_size" => "there is no such buffer setting",
        "allow_duplicate_messages" => {
            "a client gets a message once, however many of its subscriptions match, as with allow_duplicate_messages false"
        }
        "enable_control_api" => "there are no topics below $CONTROL; use the admin API instead (admin.listen)",
        "max_log_entries" | "retry_interval" => "an option of older versions; it has no effect in Mosquitto 2 either",
        _ => return None,
    })
}

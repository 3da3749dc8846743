//! Bridges of mosquitto: the lines after `connection`.

use super::outcome::{OptionOutcome, noted, refused};
use super::values::{DEFAULT_PORT, is_true};

/// The keep alive that a bridge of mosquitto can have.
const KEEP_ALIVE_MIN_S: u64 = 5;
/// Minimum of `bridge.maximum_packet_size`, and the largest packet in MQTT.
const PACKET_MIN_BYTES: u64 = 256;
const MAX_PACKET_SIZE_BYTES: u64 = 268_435_460;
/// Maximum of `bridge.retry_max_s` and `bridge.idle_timeout_s`.
const DAY_S: u64 = 86_400;
/// Maximum of `bridge.retry_min_s`.
const HOUR_S: u64 = 3_600;

/// A bridge with its options.
#[derive(Debug, Default)]
pub(super) struct Bridge {
    /// The line of `connection`, as FILE:NUMBER.
    pub(super) place: String,
    pub(super) name: String,
    /// Each as host and port.
    pub(super) addresses: Vec<(String, u16)>,
    pub(super) topics: Vec<BridgeTopic>,
    pub(super) client_id: Option<String>,
    pub(super) local_client_id: Option<String>,
    pub(super) user_name: Option<String>,
    pub(super) password: Option<String>,
    pub(super) local_user: Option<String>,
    pub(super) is_clean: bool,
    pub(super) local_is_clean: Option<bool>,
    /// The version is 5.0 instead of 3.1.1.
    pub(super) is_v5: bool,
    pub(super) hides_bridge: bool,
    pub(super) is_round_robin: bool,
    pub(super) is_lazy: bool,
    pub(super) clears_retain: bool,
    pub(super) status: BridgeNotifications,
    /// Our keys with numbers.
    pub(super) numbers: Vec<(&'static str, u64)>,
    pub(super) tls: BridgeTls,
}

/// Where the status of the bridge is published.
#[derive(Debug, Default)]
pub(super) struct BridgeNotifications {
    pub(super) are_off: bool,
    pub(super) are_local: bool,
    pub(super) topic: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct BridgeTls {
    pub(super) authorities: Option<String>,
    pub(super) authority_folder: Option<String>,
    pub(super) uses_system_authorities: bool,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
    pub(super) alpn: Option<String>,
}

impl BridgeTls {
    /// Whether mosquitto uses TLS.
    pub(super) fn is_on(&self) -> bool {
        self.authorities.is_some() || self.authority_folder.is_some() || self.uses_system_authorities
    }
}

/// A line `topic`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BridgeTopic {
    pub(super) filter: String,
    pub(super) direction: &'static str,
    pub(super) qos: u8,
    pub(super) local_prefix: String,
    pub(super) remote_prefix: String,
}

impl Bridge {
    /// Translates an option; `None` if it is not one of bridges.
    pub(super) fn read(&mut self, key: &str, value: &str) -> Option<OptionOutcome> {
        self.read_remote(key, value)
            .or_else(|| self.read_schedule(key, value))
            .or_else(|| self.read_tls(key, value))
            .or_else(|| counterpart(key, value))
    }

    /// The other broker, the sessions at both, and the messages.
    fn read_remote(&mut self, key: &str, value: &str) -> Option<OptionOutcome> {
        let text = || Some(value.to_owned());
        match key {
            "address" | "addresses" => match value.split_whitespace().map(address).collect() {
                Some(addresses) => self.addresses = addresses,
                None => return Some(refused("the port is invalid; write HOST or HOST:PORT")),
            },
            "topic" => match BridgeTopic::parse(value) {
                Ok(topic) if self.topics.contains(&topic) => {}
                Ok(topic) => self.topics.push(topic),
                Err(why) => return Some(refused(why)),
            },
            "remote_clientid" | "clientid" => self.client_id = text(),
            "remote_username" | "username" => self.user_name = text(),
            "remote_password" | "password" => self.password = text(),
            "local_username" => self.local_user = text(),
            "local_password" => return Some(noted("not needed: a bridge does not log in at its own broker")),
            "local_clientid" => {
                self.local_client_id = text();
                return Some(noted("the session of a bridge at its own broker has the client identifier bridge/NAME"));
            }
            "cleansession" => self.is_clean = is_true(value),
            "local_cleansession" => self.local_is_clean = Some(is_true(value)),
            "try_private" => self.hides_bridge = !is_true(value),
            "bridge_outgoing_retain" => self.clears_retain = !is_true(value),
            "notifications" => self.status.are_off = !is_true(value),
            "notifications_local_only" => self.status.are_local = is_true(value),
            "notification_topic" => self.status.topic = text(),
            "bridge_protocol_version" => match value {
                "mqttv50" => self.is_v5 = true,
                "mqttv311" => self.is_v5 = false,
                _ => {
                    self.is_v5 = false;
                    return Some(noted("bridges use MQTT 3.1.1 or 5.0; the new one uses 3.1.1"));
                }
            },
            _ => return None,
        }
        Some(OptionOutcome::Translated)
    }

    /// When it connects, and limits.
    fn read_schedule(&mut self, key: &str, value: &str) -> Option<OptionOutcome> {
        let number = || value.parse::<u64>().ok();
        let wrong = || Some(refused(format!("\"{value}\" is not a valid number for this option")));
        match key {
            "round_robin" => self.is_round_robin = is_true(value),
            "start_type" => match value {
                "automatic" => self.is_lazy = false,
                "lazy" => self.is_lazy = true,
                "once" => return Some(noted("a bridge connects again when its connection has failed")),
                _ => return Some(refused("unknown start type; write automatic or lazy")),
            },
            "threshold" => return Some(noted("a lazy bridge connects as soon as one message waits")),
            "keepalive_interval" => match number() {
                Some(seconds) => self.set("keep_alive_s", seconds.clamp(KEEP_ALIVE_MIN_S, 65_535)),
                None => return wrong(),
            },
            "idle_timeout" => match number() {
                Some(seconds) => self.set("idle_timeout_s", seconds.clamp(1, DAY_S)),
                None => return wrong(),
            },
            "restart_timeout" => {
                let numbers: Option<Vec<u64>> = value.split_whitespace().map(|word| word.parse().ok()).collect();
                let (Some([first, ..]), Some([.., last])) = (numbers.as_deref(), numbers.as_deref()) else {
                    return wrong();
                };
                let first = (*first).clamp(1, HOUR_S);
                self.set("retry_min_s", first);
                self.set("retry_max_s", (*last).clamp(first, DAY_S));
            }
            "bridge_session_expiry_interval" => match number() {
                Some(seconds) => self.set("session_expiry_s", seconds.min(u64::from(u32::MAX))),
                None => return wrong(),
            },
            "bridge_max_packet_size" => match number() {
                Some(0) => {}
                Some(bytes) => {
                    self.set("maximum_packet_size", bytes.clamp(PACKET_MIN_BYTES, MAX_PACKET_SIZE_BYTES));
                    if bytes < PACKET_MIN_BYTES {
                        return Some(noted(format!(
                            "the minimum of maximum_packet_size is {PACKET_MIN_BYTES}, so packets of up to {PACKET_MIN_BYTES} bytes are sent"
                        )));
                    }
                }
                None => return wrong(),
            },
            _ => return None,
        }
        Some(OptionOutcome::Translated)
    }

    fn read_tls(&mut self, key: &str, value: &str) -> Option<OptionOutcome> {
        let text = || Some(value.to_owned());
        match key {
            "bridge_cafile" => self.tls.authorities = text(),
            "bridge_capath" => self.tls.authority_folder = text(),
            "bridge_tls_use_os_certs" => self.tls.uses_system_authorities = is_true(value),
            "bridge_certfile" => self.tls.certificate = text(),
            "bridge_keyfile" => self.tls.key = text(),
            "bridge_alpn" => self.tls.alpn = text(),
            "bridge_tls_version" => match value {
                "tlsv1.2" => {}
                "tlsv1.3" => {
                    return Some(refused(
                        "a bridge also accepts TLS 1.2 from the other broker; allow only 1.3 there, and remove the line",
                    ));
                }
                _ => return Some(noted("TLS versions below 1.2 are not supported")),
            },
            "bridge_insecure" if is_true(value) => {
                return Some(noted(
                    "the name in the certificate of the other broker is always verified, so the bridge does not connect if it differs from the \
                     address; set tls.server_name to the name in the certificate",
                ));
            }
            "bridge_insecure" => {}
            "bridge_require_ocsp" if is_true(value) => {
                return Some(refused(
                    "OCSP is not supported, so a revoked certificate of the other broker would be accepted; remove the line, and name lists of \
                     revoked certificates with tls.crl of the bridge afterwards",
                ));
            }
            "bridge_require_ocsp" => {}
            "bridge_psk" => {
                return Some(refused(
                    "TLS with pre-shared keys is not supported, so the bridge would not use TLS; use certificates (bridge_cafile), or remove the \
                     bridge",
                ));
            }
            _ => return None,
        }
        Some(OptionOutcome::Translated)
    }

    fn set(&mut self, key: &'static str, value: u64) {
        self.numbers.retain(|(known, _)| *known != key);
        self.numbers.push((key, value));
    }
}

/// The reason why an option of bridges has no counterpart, and the consequence.
fn counterpart(key: &str, value: &str) -> Option<OptionOutcome> {
    Some(noted(match key {
        "bridge_attempt_unsubscribe" if is_true(value) => {
            "a bridge unsubscribes only from the filters that a reload removes; set clean_start for one connection to end older subscriptions"
        }
        "bridge_attempt_unsubscribe" => {
            "a bridge unsubscribes only from the filters that a reload removes from its rules"
        }
        "bridge_bind_address" => "the system chooses the local address of the connection; use routes instead",
        "bridge_ciphers" | "bridge_ciphers_tls1.3" => {
            "only cipher suites with forward secrecy are used, so the other broker must support one of these"
        }
        "bridge_identity" => "TLS with pre-shared keys is not supported",
        "bridge_max_topic_alias" => "bridges use no topic aliases",
        "bridge_receive_maximum" => "mqtt.receive_maximum applies to bridges, too",
        "bridge_reload_type" => "a reload restarts the bridges that have changed, at once",
        "bridge_tcp_keepalive" | "bridge_tcp_user_timeout" => {
            "a connection that is dead is noticed by keep_alive_s and connect_timeout_s of the bridge"
        }
        key if key.starts_with("bridge_") => "there is no such setting of bridges",
        _ => return None,
    }))
}

/// Parses `HOST` or `HOST:PORT`. An IPv6 address must have a port, so the last colon separates it.
fn address(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
        None => (text, DEFAULT_PORT),
    };
    Some((host.trim_matches(['[', ']']).to_owned(), port))
}

impl BridgeTopic {
    /// Parses `PATTERN [[[DIRECTION] QOS] LOCAL-PREFIX REMOTE-PREFIX]`. Two quotation marks mean an empty text.
    fn parse(line: &str) -> Result<BridgeTopic, &'static str> {
        let mut words = line.split_whitespace().map(|word| if word == "\"\"" { "" } else { word });
        let filter = words.next().unwrap_or_default().to_owned();
        let direction = match words.next() {
            None | Some("out") => "out",
            Some("in") => "in",
            Some("both") => "both",
            Some(_) => return Err("the direction is invalid; write in, out or both"),
        };
        let qos = match words.next().map(str::parse) {
            None => 0,
            Some(Ok(qos @ 0..=2)) => qos,
            Some(_) => return Err("the QoS is invalid; write 0, 1 or 2"),
        };
        let mut prefix = || words.next().unwrap_or_default().to_owned();
        let (local_prefix, remote_prefix) = (prefix(), prefix());
        Ok(BridgeTopic { filter, direction, qos, local_prefix, remote_prefix })
    }
}

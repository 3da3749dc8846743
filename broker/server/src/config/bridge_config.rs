//! `[[bridge]]` tables: connections to other brokers.

use std::ops::RangeInclusive;
use std::path::Path;

use tautwire_client::Server;
use tautwire_engine::MountPoint;
use tautwire_protocol::ProtocolVersion;
use tautwire_session::AckLevel;
use toml::de::DeValue;

use super::bridge_rules::BridgeRules;
use super::registry::settings;
use super::tls::FilePaths;
use super::value::{Choice, FilePath, Setting, TopicPrefix, ValueError, quoted, text, texts};
use crate::bridges::{AddressOrder, Schedule};

/// Longest name of a bridge.
const NAME_MAX_BYTES: usize = 64;
/// The most addresses of one bridge.
const ADDRESSES_MAX: usize = 16;

settings! {
    /// A connection to another broker, over which messages are forwarded; see [bridges](operating/bridges.md). The table can appear several
    /// times.
    BridgeConfig {
        /// The name in the log, in metrics and in the API; it must be unique. Required. The session of the bridge at this broker has the
        /// client identifier `bridge/NAME`.
        name: Option<BridgeName> = None;
        /// The addresses of the other broker, such as `mqtts://broker.example:8883`: `mqtt`, `mqtts`, `ws` or `wss`. Required.
        addresses: BridgeAddresses = BridgeAddresses::default();
        /// Which address is tried first: `failover` begins with the first one each time, `round_robin` with the next one.
        address_order: AddressOrder = AddressOrder::Failover;
        /// The version of MQTT at the other broker. 3.1.1 has no properties, so messages lose theirs.
        protocol: BridgeProtocol = BridgeProtocol(ProtocolVersion::V5);
        /// With 3.1.1, tells the other broker that this is a bridge (bit 0x80 of the protocol level): it does not send messages back, and
        /// keeps their RETAIN flag. Mosquitto, FlashMQ and EMQX know it; set it to false for a broker that refuses the connection.
        bridge_bit: bool = true;
        /// The client identifier at the other broker. Default: `tautwire-`, the identifier of this broker, and the name.
        client_id: Option<BridgeClientId> = None;
        /// The user name at the other broker.
        user_name: Option<String> = None;
        /// A file with the password at the other broker, in its first line.
        password_file: FilePath = FilePath::default();
        /// Discards the session at the other broker at each connection: messages that it sends meanwhile are lost.
        clean_start: bool = false;
        /// How long the other broker keeps the session while the bridge is not connected. 4,294,967,295 means without a limit.
        session_expiry_s: u32 = u32::MAX, in 0..=4_294_967_295;
        /// The keep alive of the connection to the other broker. A connection that is dead is noticed after it and `connect_timeout_s`.
        keep_alive_s: u16 = 60, in 5..=65_535;
        /// The longest time to connect to an address, and for an answer of the other broker.
        connect_timeout_s: u32 = 10, in 1..=600;
        /// The pause after the first failure; it doubles with each further one.
        retry_min_s: u32 = 1, in 1..=3_600;
        /// The longest pause between two attempts.
        retry_max_s: u32 = 60, in 1..=86_400;
        /// When the bridge is connected: `automatic` always, `lazy` when messages wait for the other broker, `scheduled` at the times of
        /// `schedule`.
        start: BridgeStart = BridgeStart::Automatic;
        /// With `lazy`: disconnects after this time without messages.
        idle_timeout_s: u32 = 60, in 1..=86_400;
        /// With `scheduled`: periods of the day in UTC, such as `22:00-04:30`.
        schedule: Schedule = Schedule::default();
        /// The user whose rights the bridge has at this broker: what it may subscribe to for the other broker, and publish from it.
        user: Option<String> = None;
        /// Roles of the bridge in the access rules, in addition to those of `user`.
        roles: BridgeRoles = BridgeRoles::default();
        /// Prefix of all topics of the bridge at this broker, as for a listener.
        mount_point: Option<MountPoint> = None;
        /// What acknowledgements to the other broker wait for; overrides `data.ack`.
        ack: Option<AckLevel> = None;
        /// The largest packet that is sent to the other broker, if that does not set a lower limit.
        maximum_packet_size: u32 = 268_435_460, in 256..=268_435_460, unit "bytes";
        /// A topic at this broker with a retained message that says whether the bridge is connected: `1` or `0`. Empty for none.
        status_topic: TopicPrefix = TopicPrefix::default();
        /// The same at the other broker.
        remote_status_topic: TopicPrefix = TopicPrefix::default();
        /// The most bridges that a message passes; one that would pass more is dropped. In a ring of N brokers in one direction, N - 1 delivers
        /// each message once; where all brokers have bridges to each other, 1 does.
        hops_max: usize = 16, in 1..=1_000;
        /// Which messages are forwarded: a list of `{ filter, direction, qos, local_prefix, remote_prefix, retain, rate }`. Required.
        rules: BridgeRules = BridgeRules::default();
    }

    /// TLS of the connection to the other broker, for addresses with `mqtts` and `wss`.
    tls: BridgeTls {
        /// Certification authorities of the other broker. Default: those of the system.
        ca: FilePath = FilePath::default();
        /// The certificate chain of the bridge.
        certificate: FilePath = FilePath::default();
        /// The key of that certificate.
        key: FilePath = FilePath::default();
        /// Lists of revoked certificates.
        crl: FilePaths = FilePaths::default();
        /// The name that the certificate of the other broker must have, and that is sent to it (SNI). Default: the host of the address.
        server_name: Option<String> = None;
        /// Protocols to request by ALPN, such as `x-amzn-mqtt-ca` for AWS IoT on port 443.
        alpn: AlpnProtocols = AlpnProtocols::default();
    }
}

/// The name of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BridgeName(String);

impl BridgeName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Setting for BridgeName {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        format!("1 to {NAME_MAX_BYTES} letters, digits, `-`, `_` and `.`")
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let name = text::<Self>(value)?;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if (1..=NAME_MAX_BYTES).contains(&name.len()) && name.bytes().all(is_allowed) {
            return Ok(BridgeName(name.to_owned()));
        }
        Err(ValueError::Range(format!("\"{}\" is not a name; write {}", name.escape_debug(), Self::accepts(range))))
    }

    fn to_toml(&self) -> String {
        quoted(&self.0)
    }
}

/// The addresses of the other broker, as written and parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BridgeAddresses(Vec<(String, Server)>);

impl BridgeAddresses {
    pub(crate) fn get(&self) -> &[(String, Server)] {
        &self.0
    }
}

impl Setting for BridgeAddresses {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        format!("list of 1 to {ADDRESSES_MAX} addresses such as \"mqtts://HOST:PORT\"")
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let parse = |text: &str| match Server::parse(text) {
            Ok(server) => Ok((text.to_owned(), server)),
            Err(error) => Err(ValueError::Range(error.to_string())),
        };
        let addresses = texts::<Self>(value)?.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if (1..=ADDRESSES_MAX).contains(&addresses.len()) {
            return Ok(BridgeAddresses(addresses));
        }
        Err(ValueError::Range(format!("there are {} addresses; write 1 to {ADDRESSES_MAX}", addresses.len())))
    }

    fn to_toml(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        format!("[{}]", self.0.iter().map(|(address, _)| quoted(address)).collect::<Vec<_>>().join(", "))
    }
}

impl Choice for AddressOrder {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("failover", AddressOrder::Failover), ("round_robin", AddressOrder::RoundRobin)];
}

/// The version of MQTT at the other broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BridgeProtocol(pub(crate) ProtocolVersion);

impl Choice for BridgeProtocol {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("5.0", BridgeProtocol(ProtocolVersion::V5)), ("3.1.1", BridgeProtocol(ProtocolVersion::V3_1_1))];
}

/// When a bridge is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BridgeStart {
    Automatic,
    Lazy,
    Scheduled,
}

impl Choice for BridgeStart {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("automatic", BridgeStart::Automatic), ("lazy", BridgeStart::Lazy), ("scheduled", BridgeStart::Scheduled)];
}

/// The client identifier at the other broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BridgeClientId(String);

impl BridgeClientId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Setting for BridgeClientId {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "text of 1 to 65535 bytes".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let id = text::<Self>(value)?;
        if id.is_empty() || id.len() > usize::from(u16::MAX) || id.contains('\0') {
            return Err(ValueError::Range(format!("not a client identifier; write {}", Self::accepts(range))));
        }
        Ok(BridgeClientId(id.to_owned()))
    }

    fn to_toml(&self) -> String {
        quoted(&self.0)
    }
}

impl Setting for String {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "text".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        text::<Self>(value).map(str::to_owned)
    }

    fn to_toml(&self) -> String {
        quoted(self)
    }
}

/// Names of roles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BridgeRoles(pub(crate) Vec<Box<str>>);

/// Names of protocols.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AlpnProtocols(pub(crate) Vec<Box<str>>);

macro_rules! list_of_texts {
    ($name:ident, $accepts:literal) => {
        impl Setting for $name {
            fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
                $accepts.to_owned()
            }

            fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
                Ok($name(texts::<Self>(value)?.into_iter().map(Box::from).collect()))
            }

            fn to_toml(&self) -> String {
                format!("[{}]", self.0.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
            }
        }
    };
}
list_of_texts!(BridgeRoles, "list of names");
list_of_texts!(AlpnProtocols, "list of names of protocols");

impl Setting for Schedule {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"HH:MM-HH:MM\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let mut schedule = Schedule::default();
        for period in texts::<Self>(value)? {
            schedule.add(period).map_err(ValueError::Range)?;
        }
        Ok(schedule)
    }

    fn to_toml(&self) -> String {
        let periods = self.periods();
        format!("[{}]", periods.iter().map(|period| quoted(period)).collect::<Vec<_>>().join(", "))
    }
}

impl BridgeConfig {
    /// Makes paths absolute; relative ones are relative to `folder`.
    pub(super) fn make_paths_absolute(&mut self, folder: &Path) {
        let tls = &mut self.tls;
        for path in [&mut self.password_file, &mut tls.ca, &mut tls.certificate, &mut tls.key] {
            path.relative_to(folder);
        }
        tls.crl.relative_to(folder);
    }
}

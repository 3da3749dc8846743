//! The names in certificates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rcgen::SanType;
use rustls_pki_types::DnsName;

/// Longest common name of a certificate (RFC 5280, upper bounds).
pub(super) const COMMON_NAME_MAX_CHARACTERS: usize = 64;

/// A host name or an address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerName {
    /// For example `broker.example.org`, or the wildcard `*.example.org`.
    Dns(String),
    Address(IpAddr),
}

impl ServerName {
    /// Parses a name from the command line.
    ///
    /// # Errors
    /// The reason why the name is invalid.
    pub(crate) fn parse(text: &str) -> Result<ServerName, String> {
        if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(ServerName::Address(address));
        }
        match DnsName::try_from(text.strip_prefix("*.").unwrap_or(text)) {
            Ok(_) => Ok(ServerName::Dns(text.to_owned())),
            Err(_) => Err(format!(
                "\"{}\" is neither a host name nor an IP address; write it without scheme and port",
                text.escape_debug()
            )),
        }
    }

    pub(super) fn to_alternative_name(&self) -> Result<SanType, rcgen::Error> {
        Ok(match self {
            ServerName::Dns(name) => SanType::DnsName(name.as_str().try_into()?),
            ServerName::Address(address) => SanType::IpAddress(*address),
        })
    }
}

impl std::fmt::Display for ServerName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerName::Dns(name) => f.write_str(name),
            ServerName::Address(address) => write!(f, "{address}"),
        }
    }
}

/// The default names of a broker on this machine: those of the loopback interface, and the host name if it is valid.
pub(super) fn default_names() -> Vec<ServerName> {
    let mut names = vec![
        ServerName::Dns("localhost".to_owned()),
        ServerName::Address(Ipv4Addr::LOCALHOST.into()),
        ServerName::Address(Ipv6Addr::LOCALHOST.into()),
    ];
    if let Some(Ok(name)) = machine_name().as_deref().map(ServerName::parse)
        && !names.contains(&name)
    {
        names.push(name);
    }
    names
}

#[cfg(unix)]
fn machine_name() -> Option<String> {
    rustix::system::uname().nodename().to_str().ok().map(str::to_ascii_lowercase)
}

#[cfg(not(unix))]
fn machine_name() -> Option<String> {
    None
}

/// The name of a client: the common name of its certificate, and the name of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientName(String);

impl ClientName {
    /// Parses a name from the command line.
    ///
    /// # Errors
    /// The reason why the name is invalid.
    pub(crate) fn parse(text: &str) -> Result<ClientName, String> {
        let wrong = |what: &str| Err(format!("\"{}\" {what}", text.escape_debug()));
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
        if text.is_empty() || text.len() > COMMON_NAME_MAX_CHARACTERS {
            return wrong(&format!("has {} characters; 1 to {COMMON_NAME_MAX_CHARACTERS} are allowed", text.len()));
        }
        if !text.chars().all(is_allowed) || text.starts_with(['.', '-']) {
            return wrong("cannot be a file name; use letters, digits, ., _, - and @, and do not start with . or -");
        }
        if ["ca", "server", "revoked"].iter().any(|reserved| text.eq_ignore_ascii_case(reserved)) {
            return wrong("is reserved for other files of the folder; choose another name");
        }
        Ok(ClientName(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_distinguished() {
        assert_eq!(ServerName::parse("127.0.0.1"), Ok(ServerName::Address(Ipv4Addr::LOCALHOST.into())));
        assert_eq!(ServerName::parse("[::1]"), Ok(ServerName::Address(Ipv6Addr::LOCALHOST.into())));
        for name in ["localhost", "a.example.org", "*.example.org", "raspberry_pi.local"] {
            assert_eq!(ServerName::parse(name), Ok(ServerName::Dns(name.to_owned())));
        }
        for wrong in ["", "mqtts://a", "a:8883", "a b", "*.", "*", "a.*.b", "ä.example.org"] {
            assert!(ServerName::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_client_name_must_be_a_valid_file_name() {
        for name in ["sensor-7", "me@example.org", "a", &"x".repeat(64)] {
            assert_eq!(ClientName::parse(name).expect("a name").as_str(), name);
        }
        for wrong in ["", "a/b", "..", ".a", "-a", "a b", "CA", "server", "revoked", "ä", &"x".repeat(65)] {
            assert!(ClientName::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_default_name_is_the_loopback() {
        let names: Vec<String> = default_names().iter().map(ToString::to_string).collect();
        assert_eq!(names[..3], ["localhost", "127.0.0.1", "::1"]);
    }
}

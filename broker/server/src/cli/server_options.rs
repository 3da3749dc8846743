//! The options for the address of the broker and for TLS.

use std::path::PathBuf;

use tautwire_client::{Error, Scheme, Server, Tls};

use super::CommandExit;
use super::arguments::{Arguments, OptionSpec, flag, value};

pub(super) const TLS_OPTIONS: &[OptionSpec] = &[
    flag(None, "tls", "Use TLS, and trust the certificate authorities of the system."),
    value(
        None,
        "ca",
        "FILE",
        "Use TLS, and trust the certificate authorities in this PEM file instead, such as tls/ca.pem of `tautwire cert`.",
    ),
    value(None, "cert", "FILE", "Client certificate (PEM). Needs --key."),
    value(None, "key", "FILE", "The private key of the certificate (PEM, not encrypted)."),
    value(None, "crl", "FILE", "Certificate revocation list (PEM): refuse a broker whose certificate is on it."),
    value(
        None,
        "server-name",
        "NAME",
        "Server name for SNI and for verification of the certificate. Default: the host.",
    ),
    value(None, "alpn", "PROTOCOL", "Offer this ALPN protocol, for example mqtt. May be repeated."),
    flag(
        None,
        "dangerously-accept-any-certificate",
        "Skip verification of the certificate. Anyone on the path can read and change everything, including the password.",
    ),
];

const PORT: u16 = 1883;
const TLS_PORT: u16 = 8883;

/// The values of the options.
#[derive(Debug, Default)]
pub(super) struct ServerOptions {
    url: Option<Server>,
    host: Option<String>,
    port: Option<u16>,
    is_tls: bool,
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    revoked: Option<PathBuf>,
    server_name: Option<String>,
    alpn: Vec<String>,
    accepts_any_certificate: bool,
}

impl ServerOptions {
    /// Reads the option if it is one of these.
    pub(super) fn take(&mut self, name: &str, arguments: &mut Arguments) -> Result<bool, CommandExit> {
        match name {
            "url" => {
                let url = Server::parse(&arguments.string()?);
                self.url = Some(url.map_err(|error| arguments.failure(&error.to_string()))?);
            }
            "host" => self.host = Some(arguments.string()?),
            "port" => self.port = Some(arguments.number(1..=65_535)?),
            "tls" => self.is_tls = true,
            "ca" => self.ca = Some(arguments.os_string()?.into()),
            "cert" => self.certificate = Some(arguments.os_string()?.into()),
            "key" => self.key = Some(arguments.os_string()?.into()),
            "crl" => self.revoked = Some(arguments.os_string()?.into()),
            "server-name" => self.server_name = Some(arguments.string()?),
            "alpn" => self.alpn.push(arguments.string()?),
            "dangerously-accept-any-certificate" => self.accepts_any_certificate = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The address of the broker and the TLS settings.
    ///
    /// # Errors
    /// Conflicting options, or files that cannot be used.
    pub(super) fn resolve(&self, arguments: &Arguments) -> Result<(Server, Tls), CommandExit> {
        let fail = |message: &str| Err(arguments.command_failure(message));
        if self.url.is_some() && (self.host.is_some() || self.port.is_some()) {
            return fail("--url includes host and port; use one of them");
        }
        if self.certificate.is_some() != self.key.is_some() {
            return fail("--cert and --key go together: a certificate and its private key");
        }
        let local = self.host.as_ref().filter(|host| host.starts_with("unix:")).map(|host| Server::parse(host));
        let local = local.transpose().map_err(|error| arguments.command_failure(&error.to_string()))?;
        if local.is_some() && self.port.is_some() {
            return fail("a Unix socket has no port; remove --port");
        }
        let named = self.url.as_ref().or(local.as_ref());
        if self.uses_tls() && named.is_some_and(|server| server.scheme == Scheme::Unix) {
            return fail("a Unix socket has no TLS; remove the TLS options");
        }
        if self.accepts_any_certificate && (self.ca.is_some() || self.revoked.is_some()) {
            return fail("--dangerously-accept-any-certificate ignores certificates; remove --ca and --crl");
        }
        let server = match named {
            Some(server) if self.uses_tls() && !server.scheme.is_tls() => {
                return fail("the TLS options need mqtts:// or wss:// in --url");
            }
            Some(server) => server.clone(),
            None => {
                let (scheme, port) = if self.uses_tls() { (Scheme::Mqtts, TLS_PORT) } else { (Scheme::Mqtt, PORT) };
                let host = self.host.clone().unwrap_or_else(|| "localhost".to_owned());
                Server { scheme, host, port: self.port.unwrap_or(port), path: String::new() }
            }
        };
        let tls = self.tls().map_err(|error| arguments.command_failure(&error.to_string()))?;
        Ok((server, tls))
    }

    fn uses_tls(&self) -> bool {
        self.is_tls
            || self.accepts_any_certificate
            || [&self.ca, &self.certificate, &self.revoked].iter().any(|file| file.is_some())
            || self.server_name.is_some()
            || !self.alpn.is_empty()
    }

    fn tls(&self) -> Result<Tls, Error> {
        let mut tls = Tls::default().alpn(self.alpn.iter().map(String::as_str));
        if let Some(ca) = &self.ca {
            tls = tls.trust_file(ca)?;
        }
        if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            tls = tls.identity_files(certificate, key)?;
        }
        if let Some(revoked) = &self.revoked {
            tls = tls.revoked_file(revoked)?;
        }
        if let Some(name) = &self.server_name {
            tls = tls.server_name(name);
        }
        Ok(if self.accepts_any_certificate { tls.dangerously_accept_any_certificate() } else { tls })
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::message;
    use super::super::arguments::{Argument, Command, OptionGroup};
    use super::*;

    static DEMO: Command = Command {
        name: "demo",
        usage: &[""],
        about: "",
        groups: &[
            OptionGroup { title: "TLS", options: TLS_OPTIONS },
            OptionGroup {
                title: "",
                options: &[value(None, "url", "", ""), value(None, "host", "", ""), value(None, "port", "", "")],
            },
        ],
        notes: &[],
    };

    fn resolved(given: &[&str]) -> Result<(Scheme, String, u16), String> {
        let mut arguments = super::super::arguments::tests::arguments(&DEMO, given);
        let mut options = ServerOptions::default();
        while let Some(Argument::Option(name)) = arguments.next().expect("an option") {
            assert!(options.take(name, &mut arguments).map_err(message)?, "{name}");
        }
        let (server, _) = options.resolve(&arguments).map_err(message)?;
        Ok((server.scheme, server.host, server.port))
    }

    #[test]
    fn tls_options_enable_tls_and_its_port() {
        let localhost = |scheme, port| Ok((scheme, "localhost".to_owned(), port));
        assert_eq!(resolved(&[]), localhost(Scheme::Mqtt, 1883));
        for given in [
            &["--tls"][..],
            &["--server-name", "a"],
            &["--alpn", "mqtt"],
            &["--dangerously-accept-any-certificate"],
            &["--url", "mqtts://localhost"],
        ] {
            assert_eq!(resolved(given), localhost(Scheme::Mqtts, 8883), "{given:?}");
        }
        assert_eq!(resolved(&["--host", "unix:/s"]), Ok((Scheme::Unix, String::new(), 0)));
        assert_eq!(resolved(&["--url", "mqtt+unix:///s"]), Ok((Scheme::Unix, String::new(), 0)));
        assert_eq!(resolved(&["--tls", "--port", "1"]), localhost(Scheme::Mqtts, 1));
        assert_eq!(resolved(&["--url", "wss://a:2/p", "--tls"]), Ok((Scheme::Wss, "a".to_owned(), 2)));
    }

    #[test]
    fn conflicting_options_are_refused() {
        for (given, expected) in [
            (&["--url", "mqtt://a", "--tls"][..], "need mqtts:// or wss://"),
            (&["--url", "mqtt://a", "--host", "b"], "use one of them"),
            (&["--cert", "a"], "--cert and --key go together"),
            (&["--key", "a"], "--cert and --key go together"),
            (&["--ca", "a", "--dangerously-accept-any-certificate"], "remove --ca"),
            (&["--ca", "no-such-file"], "no-such-file"),
            (&["--host", "unix:/s", "--port", "1"], "has no port"),
            (&["--host", "unix:/s", "--tls"], "has no TLS"),
            (&["--url", "unix:/s", "--tls"], "has no TLS"),
            (&["--host", "unix:"], "the path of the socket is missing"),
            (&["--url", "http://a"], "the scheme must be mqtt, mqtts, ws or wss"),
        ] {
            let refused = resolved(given).expect_err("refused");
            assert!(refused.contains(expected), "{given:?}: {refused}");
        }
    }
}

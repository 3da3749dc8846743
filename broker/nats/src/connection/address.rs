//! Addresses of NATS servers in the configuration.

use std::str::FromStr;

use async_nats::ServerAddr;

use crate::error::Error;

const SCHEMES: [&str; 2] = ["nats", "tls"];

/// The address of a server. Contains no user name or password, so it may be logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// Parses a comma-separated list: `nats://a:4222,b`.
    ///
    /// # Errors
    /// An address is invalid, or contains a secret.
    pub fn list(text: &str) -> Result<Vec<Address>, Error> {
        text.split(',').enumerate().map(|(at, one)| Address::parse(at + 1, one.trim())).collect()
    }

    fn parse(number: usize, text: &str) -> Result<Address, Error> {
        let wrong = |why| Error::Address { number, why };
        let (scheme, rest) = text.split_once("://").unwrap_or(("nats", text));
        if !SCHEMES.contains(&scheme) {
            return Err(wrong("has a scheme other than nats and tls"));
        }
        if rest.contains('@') {
            return Err(wrong("contains a user name or a password, which would be logged; put it into a file"));
        }
        let text = format!("{scheme}://{}", rest.trim_end_matches('/'));
        match ServerAddr::from_str(&text) {
            Ok(server) if !server.host().is_empty() => Ok(Address(text)),
            _ => Err(wrong("is invalid")),
        }
    }

    pub(super) fn server(&self) -> Result<ServerAddr, Error> {
        ServerAddr::from_str(&self.0).map_err(|_| Error::Address { number: 1, why: "is invalid" })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let addresses = Address::list("nats://a:4222, b,tls://[::1]:4223/").expect("addresses");
        assert_eq!(
            addresses.iter().map(Address::to_string).collect::<Vec<_>>(),
            ["nats://a:4222", "nats://b", "tls://[::1]:4223"]
        );
    }

    #[test]
    fn invalid_addresses_are_refused_without_their_secrets() {
        for text in ["", "a,", "http://a", "nats://", "nats://a:b", "nats://a b"] {
            assert!(Address::list(text).is_err(), "{text}");
        }
        let error = Address::list("a,nats://me:geheim@b").expect_err("a password").to_string();
        assert!(error.contains("address 2") && error.ends_with("[cluster_address]") && !error.contains("geheim"));
    }
}

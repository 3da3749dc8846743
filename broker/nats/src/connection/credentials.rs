//! The credentials of a node for the NATS servers, from the files that the configuration names.

use std::path::Path;

use async_nats::Auth;
use nkeys::KeyPair;

use crate::error::Error;
use crate::settings::Credentials;

const FILE: &str = "a JWT and the seed of an NKey, as nsc writes them";
const NKEY: &str = "the seed of an NKey, which begins with SU";
const PASSWORD: &str = "a password";
const TOKEN: &str = "a token";

/// Checks whether the files can be used.
pub(super) fn check(credentials: &Credentials) -> Result<(), Error> {
    authenticate(credentials, b"x").map(|_| ())
}

/// Returns the answer to a server's `nonce`. Reads the files for each connection, on the node's own thread, which serves no client.
pub(super) fn authenticate(credentials: &Credentials, nonce: &[u8]) -> Result<Auth, Error> {
    let mut auth = Auth::new();
    match credentials {
        Credentials::None => {}
        Credentials::Password { user, file } => {
            auth.username = Some(user.clone());
            auth.password = Some(secret(file, PASSWORD)?);
        }
        Credentials::Token(file) => auth.token = Some(secret(file, TOKEN)?),
        Credentials::NKey(file) => {
            let key = key_pair(&secret(file, NKEY)?, file, NKEY)?;
            auth.nkey = Some(key.public_key());
            auth.signature = Some(sign(&key, nonce, file, NKEY)?);
        }
        Credentials::File(file) => {
            let text = secret(file, FILE)?;
            let (Some(jwt), Some(seed)) = (section(&text, "JWT"), section(&text, "NKEY SEED")) else {
                return Err(unusable(file, FILE, "the JWT or the seed is missing"));
            };
            let key = key_pair(seed, file, FILE)?;
            auth.jwt = Some(jwt.to_owned());
            auth.signature = Some(sign(&key, nonce, file, FILE)?);
        }
    }
    Ok(auth)
}

/// Returns the text between the begin line and the end line: `-----BEGIN NATS USER JWT-----`, `------END NATS USER JWT------`.
fn section<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| line.starts_with("---") && line.contains("BEGIN") && line.contains(name))?;
    lines.find(|line| !line.is_empty()).filter(|line| !line.starts_with("---"))
}

fn secret(path: &Path, what: &'static str) -> Result<String, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| unusable(path, what, &error.to_string()))?;
    let text = text.trim();
    if text.is_empty() { Err(unusable(path, what, "the file is empty")) } else { Ok(text.to_owned()) }
}

fn key_pair(seed: &str, path: &Path, what: &'static str) -> Result<KeyPair, Error> {
    KeyPair::from_seed(seed).map_err(|_| unusable(path, what, "the seed is not an NKey seed"))
}

fn sign(key: &KeyPair, nonce: &[u8], path: &Path, what: &'static str) -> Result<Vec<u8>, Error> {
    key.sign(nonce).map_err(|_| unusable(path, what, "the key cannot sign"))
}

fn unusable(path: &Path, what: &'static str, why: &str) -> Error {
    Error::File { what, path: path.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the NKeys documentation; no server accepts it.
    const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";

    #[test]
    fn credentials_files_of_nsc_are_parsed() {
        let text = format!(
            "-----BEGIN NATS USER JWT-----\neyJ0.e30.x\n------END NATS USER JWT------\n\n*** IMPORTANT ***\n\n-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
        );
        assert_eq!(section(&text, "JWT"), Some("eyJ0.e30.x"));
        assert_eq!(section(&text, "NKEY SEED"), Some(SEED));
        assert_eq!(section("-----BEGIN NATS USER JWT-----\n------END NATS USER JWT------", "JWT"), None);
    }

    #[test]
    fn an_error_names_the_file_without_secrets() {
        let missing = Credentials::NKey("missing.nk".into());
        let error = check(&missing).expect_err("no file").to_string();
        assert!(
            error.starts_with("missing.nk, which must contain the seed") && error.ends_with("[cluster_file]"),
            "{error}"
        );
        let error = key_pair("SUAgeheim", Path::new("a.nk"), NKEY).expect_err("no seed").to_string();
        assert!(!error.contains("geheim"), "{error}");
    }
}

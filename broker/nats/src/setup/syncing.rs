//! Whether servers write to disk before they confirm. No client is told: it is known from their monitoring addresses, or because an
//! operator says it.

use std::collections::{BTreeMap, BTreeSet};

use log::warn;
use tautwire_json::{Value, parse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::monitoring_wait;
use crate::error::Error;
use crate::settings::{Syncing, Times};

/// The largest answer that is read: a server with all its monitoring has some kilobytes.
const ANSWER_MAX_BYTES: u64 = 1024 * 1024;

/// `holders` are the servers that hold streams.
pub(super) async fn check(syncing: &Syncing, holders: &BTreeSet<String>, times: &Times) -> Result<(), Error> {
    match syncing {
        Syncing::Promised => Ok(()),
        Syncing::Weaker => {
            warn!(
                "NATS servers may confirm before they have written to disk: a power cut may lose what was acknowledged"
            );
            Ok(())
        }
        Syncing::Monitored(addresses) => {
            let mut known = BTreeMap::new();
            for address in addresses {
                let (name, is_always) = look(address, times).await?;
                known.insert(name, is_always);
            }
            judge(&known, holders)
        }
    }
}

fn judge(known: &BTreeMap<String, bool>, holders: &BTreeSet<String>) -> Result<(), Error> {
    if known.is_empty() {
        let why = "whether the NATS servers write to disk before they confirm is not known: name the monitoring addresses of all of them, or say in the configuration that they do".to_owned();
        return Err(Error::Unsynced { why });
    }
    if let Some((name, _)) = known.iter().find(|(_, is_always)| !**is_always) {
        return Err(Error::Unsynced { why: format!("NATS server {name} confirms before it has written to disk") });
    }
    match holders.iter().find(|name| !known.contains_key(*name)) {
        Some(name) => {
            let why = format!(
                "NATS server {name} holds streams, and its monitoring address is not named: whether it writes to disk before it confirms is not known"
            );
            Err(Error::Unsynced { why })
        }
        None => Ok(()),
    }
}

/// The name of the server at a monitoring address, and whether it always writes to disk first.
async fn look(address: &str, times: &Times) -> Result<(String, bool), Error> {
    let unknown =
        |why: String| Error::Unsynced { why: format!("the monitoring address {address} does not say it: {why}") };
    let answer = timeout(monitoring_wait(times), get(address, "/varz")).await;
    let answer = answer.map_err(|_| unknown("no answer in time".to_owned()))?;
    let answer = answer.map_err(|error| unknown(error.to_string()))?;
    read(&answer).ok_or_else(|| unknown("it does not answer as a NATS server with JetStream".to_owned()))
}

/// By HTTP/1.0, so that the server says all in one piece and then closes.
async fn get(address: &str, path: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer).await?;
    Ok(answer)
}

fn read(answer: &[u8]) -> Option<(String, bool)> {
    let (head, body) = str::from_utf8(answer).ok()?.split_once("\r\n\r\n")?;
    head.split_once(' ').filter(|(_, rest)| rest.starts_with("200"))?;
    let value = parse(body).ok()?;
    let name = value.text("server_name");
    let config = value.get("jetstream")?.get("config")?;
    let is_always = config.get("sync_always") == Some(&Value::Bool(true));
    (!name.is_empty()).then(|| (name.to_owned(), is_always))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_apart_by_what_they_say() {
        let answer = |config: &str| {
            format!("HTTP/1.0 200 OK\r\nX: y\r\n\r\n{{\"server_name\":\"a\",\"jetstream\":{{\"config\":{config}}}}}")
        };
        assert_eq!(read(answer(r#"{"sync_always":true}"#).as_bytes()), Some(("a".to_owned(), true)));
        assert_eq!(read(answer(r#"{"sync_interval":120000000000}"#).as_bytes()), Some(("a".to_owned(), false)));
        assert_eq!(read(b"HTTP/1.0 404 Not Found\r\n\r\n{}"), None);
        assert_eq!(read(b"HTTP/1.0 200 OK\r\n\r\n{\"server_name\":\"a\",\"jetstream\":{}}"), None);
    }

    #[test]
    fn one_server_that_is_weaker_or_not_known_is_named() {
        let known = |pairs: &[(&str, bool)]| pairs.iter().map(|(name, always)| ((*name).to_owned(), *always)).collect();
        let holders = ["a".to_owned(), "b".to_owned()].into();
        assert_eq!(judge(&known(&[("a", true), ("b", true), ("c", true)]), &holders), Ok(()));
        for (pairs, named) in
            [(&[("a", true), ("b", false)][..], "server b"), (&[("a", true)], "server b"), (&[], "not known")]
        {
            let error = judge(&known(pairs), &holders).expect_err("weaker").to_string();
            assert!(error.contains(named) && error.ends_with("[cluster_unsynced]"), "{error}");
        }
    }
}

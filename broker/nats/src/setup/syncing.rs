//! Checks whether servers write to disk before they confirm. The protocol does not tell: it is known from their monitoring addresses, or
//! because an operator guarantees it.

use std::collections::{BTreeMap, BTreeSet};

use log::warn;
use tautwire_json::{Value, parse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::monitoring_wait;
use crate::error::Error;
use crate::settings::{Syncing, Times};

/// Advice for a server that does not.
const SYNC_ALWAYS: &str = "set `sync_interval: always` in the jetstream block of each server, or accept data loss in a power failure with cluster.sync = \"relaxed\"";
/// Advice for a server about which nothing is known.
const NAME_ALL: &str = "list the monitoring addresses of all servers in cluster.monitoring_addresses, or guarantee that all servers do with cluster.sync = \"trust\"";

/// The largest answer that is read. A server with all its monitoring data sends some kilobytes.
const ANSWER_MAX_BYTES: u64 = 1024 * 1024;

/// Checks the servers. `holders` are the servers that hold streams.
pub(super) async fn check(syncing: &Syncing, holders: &BTreeSet<String>, times: &Times) -> Result<(), Error> {
    match syncing {
        Syncing::Promised => Ok(()),
        Syncing::Weaker => {
            warn!(
                "NATS servers may confirm before they have written to disk: a power failure may lose acknowledged messages"
            );
            Ok(())
        }
        Syncing::Monitored(addresses) => {
            let (mut known, mut silent) = (BTreeMap::new(), Vec::new());
            for address in addresses {
                match probe(address, times).await? {
                    Ok((name, is_always)) => {
                        known.insert(name, is_always);
                    }
                    Err(why) => silent.push(format!("{address}: {why}")),
                }
            }
            judge(&known, &silent, holders)
        }
    }
}

/// Evaluates the answers. A server that is down must not keep brokers from starting as long as most answer: it is assumed to be unchanged.
fn judge(known: &BTreeMap<String, bool>, silent: &[String], holders: &BTreeSet<String>) -> Result<(), Error> {
    if known.len() <= silent.len() && !silent.is_empty() {
        let why = format!("most monitoring addresses of the NATS servers do not answer ({})", silent.join("; "));
        return Err(Error::Connection { why });
    }
    if known.is_empty() {
        let why = format!("cannot verify that the NATS servers write to disk before they confirm; {NAME_ALL}");
        return Err(Error::Unsynced { why });
    }
    if let Some((name, _)) = known.iter().find(|(_, is_always)| !**is_always) {
        let why = format!("NATS server {name} confirms before it has written to disk; {SYNC_ALWAYS}");
        return Err(Error::Unsynced { why });
    }
    let mut not_known = holders.iter().filter(|name| !known.contains_key(*name));
    for why in silent {
        warn!("cannot verify now that a NATS server writes to disk before it confirms, trusting it: {why}");
        not_known.next();
    }
    match not_known.next() {
        Some(name) => {
            let why = format!(
                "cannot verify that NATS server {name}, which holds streams, writes to disk before it confirms; {NAME_ALL}"
            );
            Err(Error::Unsynced { why })
        }
        None => Ok(()),
    }
}

/// Returns the name of the server at a monitoring address and whether it always writes to disk first, or why there is no answer.
async fn probe(address: &str, times: &Times) -> Result<Result<(String, bool), String>, Error> {
    let answer = match timeout(monitoring_wait(times), get(address, "/varz")).await {
        Err(_) => return Ok(Err("no answer in time".to_owned())),
        Ok(Err(error)) => return Ok(Err(error.to_string())),
        Ok(Ok(answer)) => answer,
    };
    let why = || {
        format!(
            "the monitoring address {address} is not that of a NATS server with JetStream; correct cluster.monitoring_addresses"
        )
    };
    read(&answer).map(Ok).ok_or_else(|| Error::Unsynced { why: why() })
}

/// Uses HTTP/1.0, so that the server sends the answer in one piece and then closes.
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
    fn servers_are_identified_by_their_info() {
        let answer = |config: &str| {
            format!("HTTP/1.0 200 OK\r\nX: y\r\n\r\n{{\"server_name\":\"a\",\"jetstream\":{{\"config\":{config}}}}}")
        };
        assert_eq!(read(answer(r#"{"sync_always":true}"#).as_bytes()), Some(("a".to_owned(), true)));
        assert_eq!(read(answer(r#"{"sync_interval":120000000000}"#).as_bytes()), Some(("a".to_owned(), false)));
        assert_eq!(read(b"HTTP/1.0 404 Not Found\r\n\r\n{}"), None);
        assert_eq!(read(b"HTTP/1.0 200 OK\r\n\r\n{\"server_name\":\"a\",\"jetstream\":{}}"), None);
    }

    #[test]
    fn a_weaker_or_unknown_server_is_reported() {
        let known = |pairs: &[(&str, bool)]| pairs.iter().map(|(name, always)| ((*name).to_owned(), *always)).collect();
        let holders = ["a".to_owned(), "b".to_owned()].into();
        assert_eq!(judge(&known(&[("a", true), ("b", true), ("c", true)]), &[], &holders), Ok(()));
        for (pairs, named, advice) in [
            (&[("a", true), ("b", false)][..], "server b", SYNC_ALWAYS),
            (&[("a", true)], "server b", NAME_ALL),
            (&[], "cannot verify that the NATS servers write to disk", NAME_ALL),
        ] {
            let error = judge(&known(pairs), &[], &holders).expect_err("relaxed").to_string();
            assert!(error.contains(named) && error.ends_with(&format!("; {advice} [cluster_unsynced]")), "{error}");
        }
    }

    #[test]
    fn an_unreachable_server_is_trusted_while_a_majority_responds() {
        let known = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), true)).collect();
        let silent = |count: usize| vec!["127.0.0.1:1: refused".to_owned(); count];
        let holders = ["a".to_owned(), "b".to_owned(), "c".to_owned()].into();
        assert_eq!(judge(&known(&["a", "b"]), &silent(1), &holders), Ok(()));
        let error = judge(&known(&["a"]), &silent(2), &holders).expect_err("most are silent");
        assert!(error.is_transient(), "{error}");
        // One address is silent, and two servers are unknown.
        assert!(judge(&known(&["a", "d"]), &silent(1), &holders).is_err_and(|error| !error.is_transient()));
    }
}

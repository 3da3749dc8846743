//! The cluster settings with the content of their files.

use std::path::{Path, PathBuf};

use ring::digest::{self, Context, SHA256};
use tautwire_cluster::SharesOf;
use tautwire_engine::shares_of;
use tautwire_nats::{Access, Address, Credentials, Limits, Settings, Storage, Syncing, Times, Tls};

use crate::config::Config;
use crate::config::cluster::ClusterSync;
use crate::config::settings::ClusterConfig;
use crate::config::value::FilePath;
use crate::files;

/// Largest accepted file with credentials, a certificate or a key.
const FILE_MAX_BYTES: usize = 1 << 20;

/// The cluster settings. Two plans are equal if the settings and the content of all files are.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    config: ClusterConfig,
    servers: Vec<Address>,
    credentials: Credentials,
    certificate: Option<(PathBuf, PathBuf)>,
    /// The digest of all files, which the NATS client reads by itself.
    digest: Box<[u8]>,
}

impl Plan {
    /// Reads the settings of a configuration; `None` for a broker without a cluster.
    ///
    /// # Errors
    /// All errors, one per line. Never contains secrets.
    pub(crate) fn read(config: &Config) -> Result<Option<Plan>, Vec<String>> {
        let config = &config.cluster;
        let servers: Vec<&str> = config.servers().collect();
        if servers.is_empty() {
            return Ok(None);
        }
        let servers = Address::list(&servers.join(",")).map_err(|error| format!("cluster.servers: {error}"));
        match (servers, credentials(config), certificate(config), digest(config)) {
            (Ok(servers), Ok(credentials), Ok(certificate), Ok(digest)) => {
                Ok(Some(Plan { config: config.clone(), servers, credentials, certificate, digest }))
            }
            (servers, credentials, certificate, digest) => {
                let first = [servers.err(), credentials.err(), certificate.err()].into_iter().flatten();
                Err(first.chain(digest.err().into_iter().flatten()).collect())
            }
        }
    }

    /// The servers, and the credentials of this node.
    pub(super) fn access(&self) -> Access {
        Access {
            servers: self.servers.clone(),
            credentials: self.credentials.clone(),
            tls: Tls {
                is_required: self.config.tls,
                authorities: path(&self.config.ca),
                certificate: self.certificate.clone(),
            },
        }
    }

    /// The settings for a broker with this many threads.
    pub(super) fn settings(&self, threads: usize) -> Settings {
        let config = &self.config;
        let monitors = || config.monitoring_addresses.0.iter().filter(|text| !text.is_empty()).cloned().collect();
        let syncing = match config.sync {
            ClusterSync::Verify => Syncing::Monitored(monitors()),
            ClusterSync::Trust => Syncing::Promised,
            ClusterSync::Relaxed => Syncing::Weaker,
        };
        let reference = config.server_reference.0.clone();
        Settings {
            access: self.access(),
            node_name: self.name(),
            member: tautwire_cluster::Settings {
                shards: threads,
                reference,
                shares_of: SharesOf(shares_of),
                ..Default::default()
            },
            storage: Storage {
                // The configuration key allows at most 5.
                replicas: u8::try_from(config.replicas).unwrap_or(u8::MAX),
                syncing,
                log_max_age_s: config.log_max_age_s,
                log_max_bytes: config.log_max_bytes,
            },
            times: Times::default(),
            limits: Limits::default(),
        }
    }

    /// The node name for operators.
    pub(super) fn name(&self) -> String {
        match &*self.config.name.0 {
            "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            name => name.to_owned(),
        }
    }
}

fn path(file: &FilePath) -> Option<PathBuf> {
    file.get().map(Path::to_owned)
}

fn credentials(config: &ClusterConfig) -> Result<Credentials, String> {
    let ClusterConfig { credentials_file, nkey_file, user, password_file, token_file, .. } = config;
    let methods = [path(credentials_file), path(nkey_file), path(password_file), path(token_file)];
    if methods.iter().flatten().count() > 1 {
        return Err(
            "cluster.credentials_file, nkey_file, password_file and token_file exclude each other: keep one of them"
                .to_owned(),
        );
    }
    if user.0.is_empty() == methods[2].is_some() {
        return Err("cluster.user and cluster.password_file must be set together".to_owned());
    }
    Ok(match methods {
        [Some(file), ..] => Credentials::File(file),
        [_, Some(file), ..] => Credentials::NKey(file),
        [_, _, Some(file), _] => Credentials::Password { user: user.0.clone(), file },
        [_, _, _, Some(file)] => Credentials::Token(file),
        [None, None, None, None] => Credentials::None,
    })
}

fn certificate(config: &ClusterConfig) -> Result<Option<(PathBuf, PathBuf)>, String> {
    match (path(&config.certificate), path(&config.key)) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        _ => {
            Err("cluster.certificate and cluster.key must be set together: a certificate and its private key"
                .to_owned())
        }
    }
}

/// The digest of the content of all files, to detect changes.
fn digest(config: &ClusterConfig) -> Result<Box<[u8]>, Vec<String>> {
    let ClusterConfig { credentials_file, nkey_file, password_file, token_file, ca, certificate, key, .. } = config;
    let files = [
        ("credentials_file", credentials_file),
        ("nkey_file", nkey_file),
        ("password_file", password_file),
        ("token_file", token_file),
        ("ca", ca),
        ("certificate", certificate),
        ("key", key),
    ];
    let (mut hash, mut errors) = (Context::new(&SHA256), Vec::new());
    for (name, file) in files {
        let Some(path) = file.get() else { continue };
        match files::text(path, FILE_MAX_BYTES) {
            Ok(text) => hash.update(digest::digest(&SHA256, text.as_ref()).as_ref()),
            Err(why) => errors.push(format!("cluster.{name}: {}: {why}", path.display())),
        }
    }
    if errors.is_empty() { Ok(hash.finish().as_ref().into()) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Override;

    fn read(settings: &[&str]) -> Result<Option<Plan>, Vec<String>> {
        let overrides: Vec<_> =
            settings.iter().map(|text| Override::from_argument(text).expect("a key and a value")).collect();
        Plan::read(&Config::load(None, &overrides).expect("a valid configuration"))
    }

    #[test]
    fn a_broker_is_single_unless_servers_are_configured() {
        assert!(read(&[]).is_ok_and(|plan| plan.is_none()));
        assert!(read(&["cluster.servers="]).is_ok_and(|plan| plan.is_none()));
        let plan = read(&["cluster.servers=nats://a:4222,b", "cluster.name=n", "cluster.server_reference=x:1"]);
        let plan = plan.expect("a valid plan").expect("a cluster");
        let settings = plan.settings(3);
        assert_eq!(
            settings.access.servers.iter().map(Address::to_string).collect::<Vec<_>>(),
            ["nats://a:4222", "nats://b"]
        );
        assert_eq!((settings.node_name.as_str(), settings.member.shards, settings.storage.replicas), ("n", 3, 3));
        assert_eq!(settings.member.reference, "x:1");
    }

    #[test]
    fn errors_are_reported_at_once_and_without_secrets() {
        let Err(errors) = read(&[
            "cluster.servers=nats://me:geheim@a",
            "cluster.nkey_file=/no/such/file",
            "cluster.token_file=/no/such/file",
            "cluster.key=/no/such/key",
        ]) else {
            panic!("accepted")
        };
        let text = errors.join("\n");
        for part in [
            "cluster.servers: NATS server address 1",
            "keep one of them",
            "cluster.certificate and cluster.key",
            "cluster.nkey_file: /no/such/file",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("geheim"), "{text}");
    }
}

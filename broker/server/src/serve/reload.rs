//! What is read again while the broker runs. All of it is read and checked first; then all of it holds, or nothing has changed.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tautwire_access::Policy;
use tautwire_contracts::Catalogue;
use tautwire_identity::Banned;
use tautwire_reactor::Control;

use super::tls::{PreparedTls, TlsServers};
use crate::config::settings::AuthConfig;
use crate::config::{self, Config, Override};
use crate::contracts::Store;
use crate::identity::{Chains, Porter};
use crate::rules;

/// Keys that hold at once.
const APPLIED: [&str; 2] = ["acl.file", "log.level"];
/// Of the table `auth`, all others hold at once, too.
const AUTH_AFTER_RESTART: [&str; 3] = ["auth.threads", "auth.https_ca", "auth.ban"];

/// Where the configuration comes from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub(crate) file: Option<PathBuf>,
    pub(crate) overrides: Vec<Override>,
}

impl Source {
    /// Reads it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn load(&self) -> Result<Config, Vec<config::ConfigError>> {
        Config::load(self.file.as_deref(), &self.overrides)
    }
}

/// Reads again what the broker runs with.
pub(crate) struct Reloader {
    source: Source,
    control: Control,
    store: Option<Arc<Store>>,
    tls: TlsServers,
    porter: Arc<Porter>,
    /// What the broker has been started with, but for what has been applied since.
    running: Mutex<Config>,
}

/// What a reload has come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reloaded {
    /// Keys that have changed and hold now.
    pub(crate) applied: Vec<&'static str>,
    /// Keys that have changed and hold after a restart.
    pub(crate) after_restart: Vec<&'static str>,
    /// How many contracts there are, where there is a folder of them.
    pub(crate) contracts: Option<usize>,
    /// How many access rules there are, where there is a file of them.
    pub(crate) rules: Option<usize>,
}

impl Reloader {
    pub(crate) fn new(
        source: Source,
        running: Config,
        control: Control,
        store: Option<Arc<Store>>,
        tls: TlsServers,
        porter: Arc<Porter>,
    ) -> Reloader {
        Reloader { source, control, store, tls, porter, running: Mutex::new(running) }
    }

    /// Who finds out who clients are.
    pub(crate) fn porter(&self) -> &Porter {
        &self.porter
    }

    /// Reads everything again, and says what a reload would come to.
    ///
    /// # Errors
    /// Everything that is wrong, a line each with file, line and reason.
    pub(crate) fn compare(&self) -> Result<Reloaded, Vec<String>> {
        let contracts = self.store.as_ref().map(|store| store.read_again());
        let running = self.running();
        self.prepare(contracts).map(|ready| ready.compared_with(&running))
    }

    /// Reads everything again, and has it hold.
    ///
    /// # Errors
    /// Everything that is wrong, likewise. Nothing has changed then.
    pub(crate) fn reload(&self) -> Result<Reloaded, Vec<String>> {
        let result = match &self.store {
            Some(store) => store.reload(|contracts| self.adopt(Some(contracts))),
            None => self.adopt(None),
        };
        let (is_done, what) = match &result {
            Ok(reloaded) => ("yes", reloaded.to_string()),
            Err(errors) => ("no", errors.join("; ")),
        };
        log::error!(target: crate::log::audit::TARGET, event = "reload", done = is_done, what = &*what; "");
        result
    }

    /// Somebody has been banned: clients are asked who they are from now on, and those who are there are looked at.
    pub(crate) fn enforce_bans(&self) {
        self.control.set_asks(true);
        self.review_clients(self.porter.chains());
    }

    /// Whether clients have to be asked anything.
    fn asks(&self, chains: &Chains, policy: &Policy) -> bool {
        chains.ask() || !policy.is_open() || !self.porter.bans().list(self.porter.now()).is_empty()
    }

    /// Disconnects those who are not known any more, or banned.
    fn review_clients(&self, chains: Arc<Chains>) {
        let porter = self.porter.clone();
        self.control.review_clients(Arc::new(move |identity, client_id| {
            let (bans, now) = (porter.bans(), porter.now());
            let user = identity.and_then(|identity| identity.user.as_deref());
            let user = user.map(|user| Banned::User(user.into()));
            let is_banned =
                user.is_some_and(|user| bans.has(&user, now)) || bans.has(&Banned::ClientId(client_id.into()), now);
            !is_banned && chains.know(identity)
        }));
    }

    fn prepare(&self, contracts: Option<Contracts>) -> Result<Ready, Vec<String>> {
        let config = self.source.load();
        let config = config.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let tls = self.tls.read_again().map_err(|error| vec![error]);
        let policy = rules::load_all(&config);
        let chains = self.porter.read(&config);
        match (tls, policy, chains, contracts.transpose()) {
            (Ok(tls), Ok(policy), Ok(chains), Ok(contracts)) => {
                Ok(Ready { config, tls, policy, chains: Arc::new(chains), contracts })
            }
            (tls, policy, chains, contracts) => {
                let lists = [tls.err(), policy.err(), chains.err(), contracts.err()];
                Err(lists.into_iter().flatten().flatten().collect())
            }
        }
    }

    fn adopt(&self, contracts: Option<Contracts>) -> Result<Reloaded, Vec<String>> {
        // One at a time, whoever asks for it.
        let mut running = self.running();
        let ready = self.prepare(contracts)?;
        let reloaded = ready.compared_with(&running);
        // From here on nothing can fail.
        let Ready { config, tls, policy, chains, contracts } = ready;
        tls.adopt();
        self.porter.adopt(chains.clone());
        self.control.set_asks(self.asks(&chains, &policy));
        self.review_clients(chains);
        self.control.set_policy(policy);
        if let Some(catalogue) = contracts {
            self.control.set_contracts(catalogue);
        }
        log::set_max_level(config.log.level.to_level_filter());
        running.acl = config.acl;
        running.auth = AuthConfig {
            threads: running.auth.threads,
            https_ca: running.auth.https_ca.clone(),
            ban: running.auth.ban.clone(),
            ..config.auth
        };
        running.log.level = config.log.level;
        Ok(reloaded)
    }

    fn running(&self) -> MutexGuard<'_, Config> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Contracts, or what is wrong with them.
type Contracts = Result<Arc<Catalogue>, Vec<String>>;

/// All that has been read, and is right.
struct Ready {
    config: Config,
    tls: PreparedTls,
    policy: Arc<Policy>,
    chains: Arc<Chains>,
    contracts: Option<Arc<Catalogue>>,
}

impl Ready {
    fn compared_with(&self, running: &Config) -> Reloaded {
        let is_applied =
            |key: &&str| APPLIED.contains(key) || (key.starts_with("auth.") && !AUTH_AFTER_RESTART.contains(key));
        let (applied, after_restart) = config::changed_keys(running, &self.config).into_iter().partition(is_applied);
        Reloaded {
            applied,
            after_restart,
            contracts: self.contracts.as_ref().map(|catalogue| catalogue.contracts().len()),
            rules: (!self.policy.is_open()).then(|| self.policy.rule_count()),
        }
    }
}

impl Reloaded {
    /// As an object of JSON.
    pub(crate) fn to_json(&self) -> String {
        let list = |keys: &[&str]| keys.iter().map(|key| format!("\"{key}\"")).collect::<Vec<_>>().join(",");
        let number = |count: Option<usize>| count.map_or("null".to_owned(), |count| count.to_string());
        format!(
            "{{\"applied\":[{}],\"after_restart\":[{}],\"contracts\":{},\"rules\":{}}}\n",
            list(&self.applied),
            list(&self.after_restart),
            number(self.contracts),
            number(self.rules)
        )
    }
}

impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration and the files it names are read")?;
        if let Some(count) = self.rules {
            write!(f, "; {count} rules")?;
        }
        if let Some(count) = self.contracts {
            write!(f, "; {count} contracts")?;
        }
        if !self.applied.is_empty() {
            write!(f, "; new: {}", self.applied.join(", "))?;
        }
        if !self.after_restart.is_empty() {
            write!(f, "; after a restart: {}", self.after_restart.join(", "))?;
        }
        Ok(())
    }
}

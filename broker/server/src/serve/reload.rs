//! What is read again while the broker runs. All of it is read and checked first; then all of it holds, or nothing has changed.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tautwire_access::Policy;
use tautwire_contracts::Catalogue;
use tautwire_identity::Banned;
use tautwire_reactor::Control;

use super::settings;
use super::tls::{PreparedTls, TlsServers};
use crate::config::applies::{self, Applies};
use crate::config::{self, Config, Override};
use crate::contracts::Store;
use crate::identity::{Chains, Porter, Reading};
use crate::rules;

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
    /// Keys that have changed and hold for those who connect from now on.
    pub(crate) new_connections: Vec<&'static str>,
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

    /// The configuration that holds now, as a file.
    pub(crate) fn running_toml(&self) -> String {
        config::to_toml(&self.running())
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
        self.prepare(&running, contracts).map(|ready| ready.compared_with(&running))
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

    fn prepare(&self, running: &Config, contracts: Option<Contracts>) -> Result<Ready, Vec<String>> {
        let read = self.source.load();
        let read = read.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let config = running.reloaded(&read);
        let tls = self.tls.read_again().map_err(|error| vec![error]);
        let policy = rules::load(config.acl.file.get());
        let chains = self.porter.read(&config);
        match (tls, policy, chains, contracts.transpose()) {
            (Ok(tls), Ok(policy), Ok(chains), Ok(contracts)) => {
                Ok(Ready { read, config, tls, policy, chains, contracts })
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
        let ready = self.prepare(&running, contracts)?;
        let reloaded = ready.compared_with(&running);
        // From here on nothing can fail.
        let Ready { read: _, config, tls, policy, chains, contracts } = ready;
        tls.adopt();
        let known = chains.chains.clone();
        self.porter.adopt(chains);
        let (engine, retained) = settings::of(&config);
        self.control.set_settings(engine, retained, config.limits.tls_handshakes);
        self.control.set_disk_limit(settings::disk_limit(&config));
        self.control.set_asks(self.asks(&known, &policy));
        self.review_clients(known);
        self.control.set_policy(policy);
        if let Some(catalogue) = contracts {
            self.control.set_contracts(catalogue);
        }
        crate::log::adopt(&config.log);
        *running = config;
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
    /// As it is written.
    read: Config,
    /// As it is to hold: what needs a restart is as before.
    config: Config,
    tls: PreparedTls,
    policy: Arc<Policy>,
    chains: Reading,
    contracts: Option<Arc<Catalogue>>,
}

impl Ready {
    fn compared_with(&self, running: &Config) -> Reloaded {
        let of = |applies| -> Vec<&'static str> {
            let changed = applies::changed(running, &self.read).map(|key| key.name);
            changed.filter(|key| Applies::of(key) == applies).collect()
        };
        let tables = (running.listener != self.read.listener).then_some("listener");
        Reloaded {
            applied: of(Applies::AtOnce),
            new_connections: of(Applies::NewConnections),
            after_restart: of(Applies::Restart).into_iter().chain(tables).collect(),
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
            "{{\"applied\":[{}],\"new_connections\":[{}],\"after_restart\":[{}],\"contracts\":{},\"rules\":{}}}\n",
            list(&self.applied),
            list(&self.new_connections),
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
        if !self.new_connections.is_empty() {
            write!(f, "; new for those who connect from now on: {}", self.new_connections.join(", "))?;
        }
        if !self.after_restart.is_empty() {
            write!(f, "; after a restart: {}", self.after_restart.join(", "))?;
        }
        Ok(())
    }
}

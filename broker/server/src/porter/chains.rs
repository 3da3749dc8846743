//! What each listener asks, made of the configuration and the files that it names.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tautwire_access::Identity;
use tautwire_identity::{
    Anonymous, CertificateRule, CertificateRules, Chain, Link, PasswordFile, Settings, Template, limits,
};

use crate::config::auth::CertificateNames;
use crate::config::listener::Listener;

/// The chain of each listener.
pub(crate) struct Chains {
    by_listener: HashMap<Arc<str>, Asked>,
    settings: Settings,
    /// Somebody has to show who it is.
    ask: bool,
}

struct Asked {
    chain: Arc<Chain>,
    passwords: Option<Arc<PasswordFile>>,
}

impl Chains {
    /// Reads what the listeners name.
    ///
    /// # Errors
    /// Everything that is wrong with it, a line each.
    pub(crate) fn read(listeners: &[Listener], settings: &Settings) -> Result<Chains, Vec<String>> {
        let mut files: HashMap<PathBuf, Arc<PasswordFile>> = HashMap::new();
        let (mut by_listener, mut errors) = (HashMap::new(), Vec::new());
        for listener in listeners {
            let passwords = listener.auth.password_file.get().map(|path| match files.get(path) {
                Some(file) => Ok(file.clone()),
                None => read(path).map(|file| files.entry(path.to_owned()).or_insert(Arc::new(file)).clone()),
            });
            match passwords.transpose() {
                Ok(passwords) => {
                    let chain = chain(listener, passwords.clone(), settings);
                    by_listener.insert(listener.name.as_str().into(), Asked { chain, passwords });
                }
                // Said once for a file that several listeners name.
                Err(wrong) => {
                    errors.extend(wrong.into_iter().filter(|line| !errors.contains(line)).collect::<Vec<_>>())
                }
            }
        }
        let ask = listeners.iter().any(|listener| listener.knows_clients() || !listener.lets_in_anonymous());
        if errors.is_empty() { Ok(Chains { by_listener, settings: settings.clone(), ask }) } else { Err(errors) }
    }

    /// The same settings, for chains that come after these.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether there is anything to ask: otherwise everybody is let in as nobody.
    pub(crate) fn ask(&self) -> bool {
        self.ask
    }

    pub(crate) fn of(&self, listener: &str) -> Option<Arc<Chain>> {
        self.by_listener.get(listener).map(|asked| asked.chain.clone())
    }

    /// Whether these still know a client that has been let in before.
    pub(crate) fn know(&self, identity: &Identity) -> bool {
        let Some(asked) = self.by_listener.get(&identity.listener) else { return true };
        match (identity.by, &identity.user, &asked.passwords) {
            ("password_file", Some(user), passwords) => {
                passwords.as_ref().is_some_and(|passwords| passwords.user(user).is_some())
            }
            _ => true,
        }
    }
}

fn chain(listener: &Listener, passwords: Option<Arc<PasswordFile>>, settings: &Settings) -> Arc<Chain> {
    let mut links = Vec::new();
    if listener.knows_certificates() {
        links.push(Link::Certificate(Arc::new(certificate_rules(listener.auth.certificate))));
    }
    links.extend(passwords.map(Link::PasswordFile));
    if listener.lets_in_anonymous() {
        // Where nobody can show who it is, it does not matter what clients say.
        let anonymous = if links.is_empty() { Anonymous::Everybody } else { Anonymous::WithoutCredentials };
        links.push(Link::Anonymous(anonymous));
    }
    let is_open = matches!(links[..], [Link::Anonymous(Anonymous::Everybody)]);
    let allows_plain_passwords = listener.auth.plain_passwords || is_open;
    let chain = Chain::new(links, Settings { allows_plain_passwords, ..settings.clone() });
    Arc::new(chain.expect("three links are fewer than may be"))
}

fn certificate_rules(names: CertificateNames) -> CertificateRules {
    let name = || Template::new("{cn}").expect("a template");
    let client_id = (names == CertificateNames::UserAndClientId).then(name);
    CertificateRules { rules: vec![CertificateRule { user: Some(name()), client_id, ..CertificateRule::default() }] }
}

fn read(path: &Path) -> Result<PasswordFile, Vec<String>> {
    let name = path.display().to_string();
    let failed = |why: String| vec![format!("{name}: {why} [password_file_unreadable]")];
    let file = fs::File::open(path).map_err(|error| failed(format!("cannot be opened: {error}")))?;
    let mut text = String::new();
    // One byte more than may be there, so that the file is refused for it.
    file.take(limits::PASSWORD_FILE_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| failed(format!("cannot be read: {error}")))?;
    PasswordFile::parse(&name, &text).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

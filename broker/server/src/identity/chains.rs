//! Chains as the configuration describes them, one for each listener.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tautwire_identity::{
    Algorithm, Anonymous, Bans, CertificateRule, CertificateRules, Chain, FailureRule, Hook, HookSettings, Jwks,
    JwksSettings, Jwt, JwtSettings, KeySet, Keys, Link, PasswordFile, Pattern, Secret, Settings, Template,
    limits::{JWKS_BYTES_MAX, PASSWORD_FILE_BYTES_MAX},
};

/// Longest file with a secret.
const SECRET_FILE_MAX_BYTES: usize = 16 << 10;

/// How clients prove who they are. Each field is a key of the configuration, `auth.` before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AuthSettings {
    /// Which links there are, in their order, where it is not that of [`LinkName::ALL`]; a link of this list must be configured.
    pub(crate) order: Vec<LinkName>,
    /// Listeners at which clients need not say who they are. `None`: those of this machine, where no other link is configured.
    pub(crate) anonymous: Option<Vec<ListenerPattern>>,
    /// Listeners at which passwords may come unencrypted from other machines.
    pub(crate) plain_passwords: Vec<ListenerPattern>,
    /// Files of users.
    pub(crate) password_file: Vec<PathBuf>,
    /// What the holder of a certificate is called.
    pub(crate) certificate: Option<CertificateSettings>,
    /// Which tokens are taken.
    pub(crate) jwt: Option<TokenSettings>,
    /// Which service is asked.
    pub(crate) hook: Option<HookSettings>,
    /// Who fails so often is banned.
    pub(crate) bans: Vec<FailureRule>,
}

/// A link, as the configuration calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkName {
    PasswordFile,
    Certificate,
    Jwt,
    Hook,
}

impl LinkName {
    /// In the order in which they are asked: first what takes no time, last what others must answer.
    pub(crate) const ALL: [LinkName; 4] =
        [LinkName::Certificate, LinkName::Jwt, LinkName::PasswordFile, LinkName::Hook];
}

/// Which listeners are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerPattern {
    All,
    /// Those that other machines cannot reach.
    Loopback,
    /// The one that listens there.
    At(SocketAddr),
}

/// One rule for certificates. Empty texts say nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateSettings {
    /// `field = pattern`, for example `o = Works`.
    pub(crate) when: Vec<String>,
    /// For example `{cn}`.
    pub(crate) user: String,
    pub(crate) client_id: String,
    pub(crate) roles: Vec<String>,
}

/// Which tokens are taken. What is empty is as by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TokenSettings {
    /// A file with a JWKS or public keys in PEM, or a URL.
    pub(crate) keys: String,
    /// A file with the secret of HS256, HS384 and HS512.
    pub(crate) secret_file: Option<PathBuf>,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) issuers: Vec<String>,
    pub(crate) audiences: Vec<String>,
    pub(crate) leeway_s: u64,
    pub(crate) user_claim: String,
    pub(crate) client_id_claim: String,
    pub(crate) roles_claim: String,
}

/// Keys of a URL are fetched anew after this time.
const JWKS_REFRESH_S: u64 = 600;
/// While the URL is down, keys count for this time.
const JWKS_KEEP_S: u64 = 86_400;
/// How long fetching may take.
const JWKS_TIMEOUT_MS: u64 = 5_000;

/// What outlives a reload: bans, and what hooks and URLs have answered.
#[derive(Debug)]
pub(crate) struct Lasting {
    key: [u8; 32],
    bans: Arc<Bans>,
    hook: Option<(HookSettings, Arc<Hook>)>,
    jwks: Option<(JwksSettings, Arc<Jwks>)>,
}

/// The chains of a configuration.
#[derive(Debug)]
pub(crate) struct Chains {
    /// With anonymous clients or without, with plain passwords or without.
    kinds: [[Arc<Chain>; 2]; 2],
    anonymous: Vec<ListenerPattern>,
    plain_passwords: Vec<ListenerPattern>,
}

impl Lasting {
    /// Nothing is known yet. `key` is random.
    pub(crate) fn new(key: [u8; 32], rules: Vec<FailureRule>) -> Lasting {
        Lasting { key, bans: Arc::new(Bans::new(rules)), hook: None, jwks: None }
    }

    pub(crate) fn bans(&self) -> &Arc<Bans> {
        &self.bans
    }

    /// The hook, anew if it is another one.
    fn hook(&mut self, settings: &HookSettings) -> Result<Arc<Hook>, String> {
        match &self.hook {
            Some((known, hook)) if known == settings => Ok(hook.clone()),
            _ => {
                let hook = Hook::new(settings.clone(), &self.key).map(Arc::new).map_err(|error| error.to_string())?;
                self.hook = Some((settings.clone(), hook.clone()));
                Ok(hook)
            }
        }
    }

    /// The keys of a URL, anew if it is another one.
    fn jwks(&mut self, settings: &JwksSettings) -> Result<Arc<Jwks>, String> {
        match &self.jwks {
            Some((known, jwks)) if known == settings => Ok(jwks.clone()),
            _ => {
                let jwks = Jwks::new(settings.clone()).map(Arc::new).map_err(|error| error.to_string())?;
                self.jwks = Some((settings.clone(), jwks.clone()));
                Ok(jwks)
            }
        }
    }
}

impl Chains {
    /// Reads the files that the settings name, and puts the chains together.
    ///
    /// # Errors
    /// Everything that is wrong. What `lasting` has stays as it is, but for a hook or a URL that is new.
    pub(crate) fn read(settings: &AuthSettings, lasting: &mut Lasting) -> Result<Chains, Vec<String>> {
        let (mut links, mut errors) = (Vec::new(), Vec::new());
        let order = if settings.order.is_empty() { &LinkName::ALL[..] } else { &settings.order };
        for name in order {
            match read_links(*name, settings, lasting) {
                Ok(mut more) => {
                    if more.is_empty() && !settings.order.is_empty() {
                        errors.push(format!("auth.order names {name:?}, which is not configured"));
                    }
                    links.append(&mut more);
                }
                Err(mut more) => errors.append(&mut more),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let is_alone = links.is_empty();
        let anonymous = settings.anonymous.clone().unwrap_or_else(|| match is_alone {
            true => vec![ListenerPattern::Loopback],
            false => Vec::new(),
        });
        // Where nobody checks user names and passwords, clients may have some all the same.
        let who = if is_alone { Anonymous::Everybody } else { Anonymous::WithoutCredentials };
        let chain = |is_anonymous: bool, allows_plain_passwords: bool| {
            let first = is_anonymous.then_some(Link::Anonymous(who));
            let settings = Settings { allows_plain_passwords, key: lasting.key, bans: lasting.bans.clone() };
            Chain::new(first.into_iter().chain(links.iter().cloned()).collect(), settings)
                .map(Arc::new)
                .ok_or_else(|| vec!["there are too many links; name fewer password files".to_owned()])
        };
        Ok(Chains {
            kinds: [[chain(false, false)?, chain(false, true)?], [chain(true, false)?, chain(true, true)?]],
            anonymous,
            plain_passwords: settings.plain_passwords.clone(),
        })
    }

    /// The chain of a listener, by the address as it stands in `listen`.
    pub(crate) fn of(&self, listener: SocketAddr) -> Arc<Chain> {
        let has = |patterns: &[ListenerPattern]| usize::from(patterns.iter().any(|pattern| pattern.has(listener)));
        self.kinds[has(&self.anonymous)][has(&self.plain_passwords)].clone()
    }
}

impl ListenerPattern {
    fn has(self, listener: SocketAddr) -> bool {
        match self {
            ListenerPattern::All => true,
            ListenerPattern::Loopback => listener.ip().to_canonical().is_loopback(),
            ListenerPattern::At(address) => address == listener,
        }
    }
}

fn read_links(name: LinkName, settings: &AuthSettings, lasting: &mut Lasting) -> Result<Vec<Link>, Vec<String>> {
    let one = |link: Result<Link, String>| link.map(|link| vec![link]).map_err(|error| vec![error]);
    match name {
        LinkName::PasswordFile => settings.password_file.iter().map(|path| password_file(path)).collect(),
        LinkName::Certificate => settings.certificate.as_ref().map_or(Ok(Vec::new()), |settings| {
            one(certificate(settings).map(|rule| Link::Certificate(Arc::new(CertificateRules { rules: vec![rule] }))))
        }),
        LinkName::Jwt => settings
            .jwt
            .as_ref()
            .map_or(Ok(Vec::new()), |settings| one(jwt(settings, lasting).map(|jwt| Link::Jwt(Arc::new(jwt))))),
        LinkName::Hook => {
            settings.hook.as_ref().map_or(Ok(Vec::new()), |settings| one(lasting.hook(settings).map(Link::Hook)))
        }
    }
}

fn password_file(path: &Path) -> Result<Link, Vec<String>> {
    let text = read_text(path, PASSWORD_FILE_BYTES_MAX).map_err(|error| vec![error])?;
    PasswordFile::parse(&path.display().to_string(), &text)
        .map(|file| Link::PasswordFile(Arc::new(file)))
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn certificate(settings: &CertificateSettings) -> Result<CertificateRule, String> {
    let pattern = |text: &String| {
        let (field, pattern) =
            text.split_once('=').ok_or_else(|| format!("auth.certificate_when: {text}: write it like o = Works"))?;
        Pattern::new(field.trim(), pattern.trim()).map_err(|error| format!("auth.certificate_when: {error}"))
    };
    let template = |key: &str, text: &str| match text {
        "" => Ok(None),
        text => Template::new(text).map(Some).map_err(|error| format!("auth.{key}: {error}")),
    };
    Ok(CertificateRule {
        when: settings.when.iter().map(pattern).collect::<Result<_, _>>()?,
        user: template("certificate_user", &settings.user)?,
        client_id: template("certificate_client_id", &settings.client_id)?,
        roles: settings.roles.iter().map(|role| role.as_str().into()).collect(),
    })
}

fn jwt(settings: &TokenSettings, lasting: &mut Lasting) -> Result<Jwt, String> {
    let told = |error: &dyn std::fmt::Display| format!("auth.jwt_keys: {error}");
    let keys = match (&*settings.keys, &settings.secret_file) {
        ("", Some(path)) => {
            let text = read_text(path, SECRET_FILE_MAX_BYTES)?;
            let secret = Secret::new(text.trim_end_matches(['\r', '\n']));
            KeySet::of_secret(secret)
                .map(|keys| Keys::Fixed(Arc::new(keys)))
                .map_err(|error| format!("auth.jwt_secret_file: {}: {error}", path.display()))?
        }
        ("", None) => {
            return Err("auth.jwt_keys or auth.jwt_secret_file says by which keys tokens are checked".to_owned());
        }
        (_, Some(_)) => return Err("auth.jwt_keys and auth.jwt_secret_file are two kinds of keys; keep one".to_owned()),
        (url, None) if url.contains("://") => Keys::Url(lasting.jwks(&JwksSettings {
            url: url.into(),
            refresh_s: JWKS_REFRESH_S,
            keep_s: JWKS_KEEP_S,
            timeout_ms: JWKS_TIMEOUT_MS,
        })?),
        (path, None) => {
            let text = read_text(Path::new(path), JWKS_BYTES_MAX)?;
            KeySet::of_file(&text).map(|keys| Keys::Fixed(Arc::new(keys))).map_err(|error| told(&error))?
        }
    };
    let default = JwtSettings::default();
    let texts = |texts: &[String]| texts.iter().map(|text| text.as_str().into()).collect();
    let some = |text: &str| (!text.is_empty()).then(|| text.into());
    let algorithms = match (settings.algorithms.is_empty(), &settings.secret_file) {
        (false, _) => settings.algorithms.clone(),
        (true, None) => default.algorithms,
        (true, Some(_)) => vec![Algorithm::Hs256, Algorithm::Hs384, Algorithm::Hs512],
    };
    let settings = JwtSettings {
        algorithms,
        issuers: texts(&settings.issuers),
        audiences: texts(&settings.audiences),
        leeway_s: settings.leeway_s,
        user_claim: some(&settings.user_claim).unwrap_or(default.user_claim),
        client_id_claim: some(&settings.client_id_claim),
        roles_claim: some(&settings.roles_claim),
        needs_expiry: true,
    };
    Jwt::new(settings, keys).map_err(|error| told(&error))
}

fn read_text(path: &Path, bytes_max: usize) -> Result<String, String> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(bytes_max as u64 + 1).read_to_string(&mut text))
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    if text.len() > bytes_max { Err(format!("{} has more than {bytes_max} bytes", path.display())) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use tautwire_identity::{Attempt, Now, Origin, Refusal, Step};

    use super::*;

    /// `dave` with the password `password`.
    const USERS: &str = "dave:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4\n";
    const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1883);
    const OPEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 1884);

    fn file(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tautwire-chains-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("it is written");
        path
    }

    fn lasting() -> Lasting {
        Lasting::new([7; 32], Vec::new())
    }

    /// `dave`, or nobody, at a listener, from another machine.
    fn outcome(chains: &Chains, listener: SocketAddr, has_password: bool) -> Result<Option<Arc<str>>, Refusal> {
        let origin = Origin {
            listener: "l".into(),
            address: Some([192, 0, 2, 7].into()),
            is_encrypted: false,
            certificate: None,
            peer_uid: None,
        };
        let attempt = Attempt {
            origin: Arc::new(origin),
            client_id: "c".into(),
            user_name: has_password.then(|| "dave".into()),
            password: has_password.then(|| Secret::new("password")),
            method: None,
            data: None,
            is_v5: true,
            current: None,
        };
        let now = Now::default();
        let mut step = chains.of(listener).begin(attempt, now, &mut |_| {});
        loop {
            step = match step {
                Step::Admit { principal, .. } => return Ok(principal.user),
                Step::Refuse(refusal) => return Err(refusal),
                Step::Work(work) => work.run(&(), now),
                Step::Challenge { .. } => panic!("a challenge"),
            };
        }
    }

    #[test]
    fn without_settings_this_machine_is_open_and_others_are_not() {
        let chains = Chains::read(&AuthSettings::default(), &mut lasting()).expect("chains");
        assert_eq!(outcome(&chains, LOCAL, false), Ok(None));
        assert!(outcome(&chains, OPEN, false).is_err());
        let settings = AuthSettings { anonymous: Some(vec![ListenerPattern::At(OPEN)]), ..AuthSettings::default() };
        let chains = Chains::read(&settings, &mut lasting()).expect("chains");
        assert_eq!(outcome(&chains, OPEN, false), Ok(None));
        assert!(outcome(&chains, LOCAL, false).is_err());
    }

    #[test]
    fn users_log_in_and_listeners_say_what_else_is_allowed() {
        let path = file("users", USERS);
        let settings = AuthSettings { password_file: vec![path.clone()], ..AuthSettings::default() };
        let chains = Chains::read(&settings, &mut lasting()).expect("chains");
        assert!(outcome(&chains, LOCAL, false).is_err(), "with users, nobody comes without a name");
        let refusal = outcome(&chains, OPEN, true).expect_err("refused");
        assert_eq!(refusal.code.as_str(), "auth_plain_password");
        let settings = AuthSettings {
            plain_passwords: vec![ListenerPattern::At(OPEN)],
            anonymous: Some(vec![ListenerPattern::All]),
            ..settings
        };
        let chains = Chains::read(&settings, &mut lasting()).expect("chains");
        assert_eq!(outcome(&chains, OPEN, true), Ok(Some("dave".into())));
        assert_eq!(outcome(&chains, OPEN, false), Ok(None));
        assert!(outcome(&chains, LOCAL, true).is_err());
        let _ = std::fs::remove_file(path);
    }

    #[test]
    fn everything_that_is_wrong_is_said() {
        let (users, secret) = (file("wrong", "dave:hunter2\n"), file("secret", "too-short\n"));
        let settings = AuthSettings {
            order: vec![LinkName::PasswordFile, LinkName::Certificate, LinkName::Jwt, LinkName::Hook],
            password_file: vec![users.clone()],
            certificate: Some(CertificateSettings {
                when: vec!["o: Works".to_owned()],
                user: "{cn}".to_owned(),
                client_id: String::new(),
                roles: Vec::new(),
            }),
            jwt: Some(TokenSettings { secret_file: Some(secret.clone()), ..TokenSettings::default() }),
            ..AuthSettings::default()
        };
        let errors = Chains::read(&settings, &mut lasting()).expect_err("wrong").join("\n");
        for expected in [
            ":1: there is no hash behind the user name",
            "auth.certificate_when: o: Works: write it like o = Works",
            "a secret for HS256 has 32 bytes at least",
            "auth.order names Hook, which is not configured",
        ] {
            assert!(errors.contains(expected), "{errors}");
        }
        assert!(!errors.contains("hunter2") && !errors.contains("too-short"), "{errors}");
        for path in [users, secret] {
            let _ = std::fs::remove_file(path);
        }
    }

    #[test]
    fn what_a_hook_has_answered_outlives_a_reload_unless_it_is_another() {
        let settings = |url: &str| AuthSettings { hook: Some(HookSettings::new(url)), ..AuthSettings::default() };
        let mut lasting = lasting();
        let mut hook = |url: &str| {
            Chains::read(&settings(url), &mut lasting).expect("chains");
            lasting.hook.as_ref().expect("a hook").1.clone()
        };
        let (first, again, other) = (hook("https://a/"), hook("https://a/"), hook("https://b/"));
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
        assert!(lasting.bans().list(Now::default()).is_empty());
    }
}

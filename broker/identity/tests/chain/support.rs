//! Attempts and chains for tests.

use std::net::IpAddr;
use std::sync::Arc;

use tautwire_identity::{
    AuthAttempt, AuthBackend, AuthStep, Bans, Chain, ClientOrigin, Now, PasswordFile, Principal, Refusal, Secret,
    Settings, VerifiedPasswords,
};

pub(crate) const NOW: Now = Now { unix_s: 1_800_000_000, steady_ms: 1_000 };

pub(crate) fn chain(links: Vec<AuthBackend>) -> Arc<Chain> {
    chain_with(links, &Arc::default())
}

/// A chain with a cache of verified passwords.
pub(crate) fn chain_with_cache(links: Vec<AuthBackend>, verified: &Arc<VerifiedPasswords>) -> Arc<Chain> {
    let settings =
        Settings { allows_plain_passwords: false, key: [7; 32], bans: Arc::default(), verified: verified.clone() };
    Arc::new(Chain::new(links, settings).expect("a chain"))
}

pub(crate) fn chain_with(links: Vec<AuthBackend>, bans: &Arc<Bans>) -> Arc<Chain> {
    let settings =
        Settings { allows_plain_passwords: false, key: [7; 32], bans: bans.clone(), verified: Arc::default() };
    Arc::new(Chain::new(links, settings).expect("a chain"))
}

/// A local client without credentials.
pub(crate) fn nobody() -> AuthAttempt {
    let origin = ClientOrigin {
        listener: "tcp".into(),
        address: Some(IpAddr::from([127, 0, 0, 1])),
        is_encrypted: false,
        certificate: None,
        peer_uid: None,
    };
    AuthAttempt {
        origin: Arc::new(origin),
        client_id: "c".into(),
        user_name: None,
        password: None,
        method: None,
        data: None,
        is_v5: true,
    }
}

pub(crate) fn user(name: &str, password: &str) -> AuthAttempt {
    AuthAttempt { user_name: Some(name.into()), password: Some(Secret::new(password)), ..nobody() }
}

pub(crate) fn from(attempt: AuthAttempt, change: impl FnOnce(&mut ClientOrigin)) -> AuthAttempt {
    let mut origin = (*attempt.origin).clone();
    change(&mut origin);
    AuthAttempt { origin: Arc::new(origin), ..attempt }
}

/// The final result, and the number of steps that needed a worker thread.
pub(crate) fn ends(chain: &Arc<Chain>, attempt: AuthAttempt) -> (Result<Principal, Refusal>, usize) {
    ends_at(chain, attempt, NOW)
}

pub(crate) fn ends_at(chain: &Arc<Chain>, attempt: AuthAttempt, now: Now) -> (Result<Principal, Refusal>, usize) {
    let mut work = 0;
    let mut step = chain.begin(attempt, now, &mut |bytes| {
        bytes.fill(9);
        Ok(())
    });
    loop {
        step = match step {
            AuthStep::Admit { principal, .. } => return (Ok(principal), work),
            AuthStep::Refuse(refusal) => return (Err(refusal), work),
            AuthStep::AuthWork(next) => {
                work += 1;
                next.run(&(), now)
            }
            AuthStep::Challenge { exchange, .. } => exchange.go_on(b"", now),
        };
    }
}

pub(crate) fn admitted(chain: &Arc<Chain>, attempt: AuthAttempt) -> Principal {
    ends(chain, attempt).0.expect("admitted")
}

pub(crate) fn refused(chain: &Arc<Chain>, attempt: AuthAttempt) -> Refusal {
    ends(chain, attempt).0.expect_err("refused")
}

/// Users in the formats of Mosquitto and of this broker: alice, bob, carol and dave with passwords `pass-one` to `pass-three`, and
/// `password`.
pub(crate) const USERS: &str = "\
# of two brokers
alice:$6$Jztc1tU8uBHqv2KZ$jGDlSsQlGKK5KV1/CkIrBOJu/E7wKlPMdiyBg+443/2xOuVpg6Ntpex2liTK/0Bwditdjpp5DQIfd9yz7JvUZA==
bob:$7$101$Um4+bXZYv0FWZhqc$jVnvtqyXP18TLJK0EwzoMVtdm1RVW1lDp1FJrSDygW4tpusRDkikhKWUcJpcUiYPIsaHN5lDOnx4/9aWdcZ8cQ==

dave:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4
erin:$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc
";

pub(crate) fn users() -> AuthBackend {
    AuthBackend::PasswordFile(Arc::new(PasswordFile::parse("users", USERS).expect("a password file")))
}

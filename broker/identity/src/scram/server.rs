//! The server side of a SCRAM exchange.

use std::borrow::Cow;
use std::sync::Arc;

use base64ct::{Base64, Encoding as _};

use super::message::{ClientFinal, ClientFirst};
use super::{ScramHash, ScramKeys, prepared};
use crate::decision::BackendDecision;
use crate::{PasswordFile, Principal, Refusal, RefusalCode};

/// The state of an exchange after the client's first message.
pub(crate) struct ScramServer {
    hash: ScramHash,
    keys: ScramKeys,
    user: Arc<str>,
    /// The GS2 header of the client's first message, which its last one must repeat.
    header: Box<str>,
    /// The nonces of client and server, in this order.
    nonce: String,
    /// The beginning of AuthMessage: the client's first message and the server's.
    messages: String,
    /// The refusal at the end, whatever the client proves: the exchange is a decoy.
    refusal: Option<Refusal>,
}

/// The answer to the client's first message.
pub(crate) struct ScramChallenge {
    /// The Authentication Data of the AUTH.
    pub(crate) data: Vec<u8>,
    /// Verifies the response.
    pub(crate) scram_server: Box<ScramServer>,
    /// Whether the file has the user.
    pub(crate) is_user_known: bool,
}

impl ScramServer {
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn hash(&self) -> ScramHash {
        self.hash
    }

    /// Processes the client's first message. If the file does not have the user or keys for it, the exchange still takes place, and ends
    /// with a refusal.
    pub(crate) fn begin(
        hash: ScramHash,
        file: &PasswordFile,
        data: &[u8],
        user_name: Option<&str>,
        server_nonce: &str,
        key: &[u8; 32],
    ) -> Result<ScramChallenge, Refusal> {
        let first = match ClientFirst::parse(data) {
            Ok(first) if user_name.is_none_or(|name| prepared::are_same(name, &first.user)) => first,
            Ok(_) => return Err(malformed("the user name of CONNECT differs")),
            Err(why) => return Err(malformed(why)),
        };
        let user = name_in(file, &first.user);
        let account = file.user(&user);
        let keys = account.and_then(|account| account.scram(hash)).cloned();
        let shown: String = user.chars().take(64).flat_map(char::escape_debug).collect();
        let refusal = match (account, &keys) {
            (_, Some(_)) => None,
            (None, _) => Some(Refusal::new(RefusalCode::UnknownUser, format!("there is no user {shown}"))),
            (Some(_), None) => Some(Refusal::new(
                RefusalCode::NoScramKeys,
                format!(
                    "user {shown} has no keys for {}, for example after a migration from Mosquitto; set its password with tautwire user passwd",
                    hash.method()
                ),
            )),
        };
        let is_user_known = account.is_some();
        let keys = keys.unwrap_or_else(|| file.scram_decoy(key, hash, &user));
        let nonce = format!("{}{server_nonce}", first.nonce);
        let challenge = format!("r={nonce},s={},i={}", Base64::encode_string(&keys.salt), keys.iterations);
        let scram_server = Box::new(ScramServer {
            hash,
            keys,
            user: (&*user).into(),
            header: first.header.into(),
            nonce,
            messages: format!("{},{challenge}", first.bare),
            refusal,
        });
        Ok(ScramChallenge { data: challenge.into_bytes(), scram_server, is_user_known })
    }

    /// Processes the client's last message.
    pub(crate) fn finish(self, data: &[u8]) -> BackendDecision {
        let last = match ClientFinal::parse(data) {
            Ok(last) => last,
            Err(why) => return malformed(why).into(),
        };
        if last.nonce != self.nonce {
            return malformed("the nonce differs").into();
        }
        if last.binding != self.header.as_bytes() {
            return malformed("the header of the last message differs from the first").into();
        }
        let message = format!("{},{}", self.messages, last.without_proof);
        let is_proof = self.keys.is_proof(self.hash, message.as_bytes(), &last.proof);
        if let Some(refusal) = self.refusal {
            return refusal.into();
        }
        if !is_proof {
            let log = format!("wrong password for user {}", self.user.escape_debug());
            return Refusal::new(RefusalCode::WrongPassword, log).into();
        }
        let signature = self.keys.server_signature(self.hash, message.as_bytes());
        BackendDecision::Yes {
            principal: Principal { user: Some(self.user), backend: "password_file", ..Principal::default() },
            data: Some(format!("v={}", Base64::encode_string(&signature)).into_bytes()),
        }
    }
}

/// The name in the file of the user that a client calls `given`: the exact name, or one that is equal when prepared.
fn name_in<'n>(file: &PasswordFile, given: &'n str) -> Cow<'n, str> {
    match prepared::name(given) {
        Some(prepared) if file.user(given).is_none() && file.user(&prepared).is_some() => prepared,
        _ => Cow::Borrowed(given),
    }
}

fn malformed(why: &'static str) -> Refusal {
    Refusal::new(RefusalCode::Scram, format!("invalid SCRAM message: {why}"))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";

    /// A file with the user of RFC 7677, section 3.
    fn file() -> PasswordFile {
        let salt = Base64::decode_vec("W22ZaJ0SNY7soEsUEjb6gQ==").expect("Base64");
        let iterations = NonZeroU32::new(4_096).expect("not zero");
        let keys = ScramHash::ALL.map(|hash| ScramKeys::derive(hash, b"pencil", &salt, iterations).in_file(hash));
        let hash = "$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA";
        PasswordFile::parse("users", &format!("user:{hash}:{}\nother:{hash}", keys.join(":"))).expect("a file")
    }

    fn begin(hash: ScramHash, message: &str) -> Result<ScramChallenge, Refusal> {
        ScramServer::begin(hash, &file(), message.as_bytes(), None, SERVER_NONCE, &[7; 32])
    }

    fn challenged(begun: Result<ScramChallenge, Refusal>) -> (String, Box<ScramServer>) {
        match begun {
            Ok(ScramChallenge { data, scram_server, .. }) => (String::from_utf8(data).expect("text"), scram_server),
            Err(_) => panic!("no challenge"),
        }
    }

    fn refused(decision: BackendDecision) -> RefusalCode {
        match decision {
            BackendDecision::No(refusal) => refusal.code,
            _ => panic!("not refused"),
        }
    }

    #[test]
    fn the_example_exchange_of_the_standard_succeeds() {
        // SHA-256 is from RFC 7677; SHA-512 is the same with the other hash.
        for (hash, proof, signature) in [
            (
                ScramHash::Sha256,
                "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
                "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            ),
            (
                ScramHash::Sha512,
                "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==",
                "ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==",
            ),
        ] {
            let (challenge, scram_server) = challenged(begin(hash, &format!("n,,n=user,r={CLIENT_NONCE}")));
            assert_eq!(challenge, format!("r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
            let last = format!("c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p={proof}");
            let BackendDecision::Yes { principal, data } = scram_server.finish(last.as_bytes()) else {
                panic!("refused")
            };
            assert_eq!(principal.user.as_deref(), Some("user"));
            assert_eq!(data, Some(format!("v={signature}").into_bytes()));
        }
    }

    #[test]
    fn a_changed_message_is_refused() {
        let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let nonce = format!("{CLIENT_NONCE}{SERVER_NONCE}");
        for (last, expected) in [
            (format!("c=biws,r={nonce},p=eHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), RefusalCode::WrongPassword),
            (format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndQ=="), RefusalCode::WrongPassword),
            (format!("c=biws,r={nonce},p="), RefusalCode::WrongPassword),
            // The correct proof with an extra byte.
            (format!("c=biws,r={nonce},p={}A", proof.trim_end_matches('=')), RefusalCode::WrongPassword),
            (format!("c=biws,r={nonce},x=y,p={proof}"), RefusalCode::WrongPassword),
            (format!("c=eSws,r={nonce},p={proof}"), RefusalCode::Scram),
            (format!("c=biws,r={CLIENT_NONCE},p={proof}"), RefusalCode::Scram),
            (format!("c=biws,r={nonce}"), RefusalCode::Scram),
            (String::new(), RefusalCode::Scram),
        ] {
            let (_, scram_server) = challenged(begin(ScramHash::Sha256, &format!("n,,n=user,r={CLIENT_NONCE}")));
            assert_eq!(refused(scram_server.finish(last.as_bytes())), expected, "{last}");
        }
    }

    #[test]
    fn an_unknown_user_is_challenged_like_a_known_one() {
        let salt = |challenge: &str| challenge.split(',').nth(1).expect("a salt").to_owned();
        let mut salts = Vec::new();
        for (user, expected) in [("mallory", RefusalCode::UnknownUser), ("other", RefusalCode::NoScramKeys)] {
            let message = format!("n,,n={user},r=x");
            let (first, scram_server) = challenged(begin(ScramHash::Sha512, &message));
            let (again, _) = challenged(begin(ScramHash::Sha512, &message));
            assert_eq!(first, again);
            assert!(first.ends_with(",i=4096"), "{first}");
            let proof = Base64::encode_string(&[0; 64]);
            let last = format!("c=biws,r=x{SERVER_NONCE},p={proof}");
            assert_eq!(refused(scram_server.finish(last.as_bytes())), expected);
            salts.push(salt(&first));
        }
        assert_ne!(salts[0], salts[1]);
        assert_eq!(salts[0].len(), "s=W22ZaJ0SNY7soEsUEjb6gQ==".len());
    }

    /// The keys are of the prepared password, and the client is the user of the file.
    #[test]
    fn names_and_passwords_are_normalized() {
        let hash = "$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA";
        let keys = ScramKeys::new(ScramHash::Sha256, "pe\u{301}ncil".as_bytes(), &mut |bytes| bytes.fill(7));
        let composed = ScramKeys::new(ScramHash::Sha256, "p\u{e9}ncil".as_bytes(), &mut |bytes| bytes.fill(7));
        assert!(keys == composed);
        let text = format!("us\u{e9}r:{hash}:{}", keys.in_file(ScramHash::Sha256));
        let file = PasswordFile::parse("users", &text).expect("a file");
        for (name, in_connect) in [("us\u{e9}r", None), ("use\u{301}r", None), ("use\u{301}r", Some("us\u{e9}r"))] {
            let message = format!("n,,n={name},r=x");
            let begun =
                ScramServer::begin(ScramHash::Sha256, &file, message.as_bytes(), in_connect, SERVER_NONCE, &[7; 32]);
            let (_, scram_server) = challenged(begun);
            assert_eq!(&*scram_server.user, "us\u{e9}r");
            assert!(scram_server.refusal.is_none(), "{name:?}");
        }
    }

    #[test]
    fn the_user_name_of_connect_must_be_the_same() {
        let begin = |name| {
            let message = b"n,,n=user,r=x";
            ScramServer::begin(ScramHash::Sha256, &file(), message, Some(name), SERVER_NONCE, &[7; 32])
        };
        challenged(begin("user"));
        assert_eq!(begin("admin").err().map(|refusal| refusal.code), Some(RefusalCode::Scram));
    }
}

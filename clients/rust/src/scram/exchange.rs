use std::fmt;
use std::num::NonZeroU32;

use base64ct::{Base64, Encoding as _};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use super::ScramFault;
use super::keys::{Hash, Keys};
use super::message::{ServerFirst, escaped, server_signature};
use crate::{Authenticator, Error};

/// The minimum number of iterations, as RFC 7677 requires.
const ITERATIONS_MIN: u32 = 4_096;
/// The maximum number of iterations, unless [`Scram::iterations_max`] is set.
const ITERATIONS_MAX: u32 = 100_000;
/// Random bytes of a nonce.
const NONCE_BYTES: usize = 18;
/// The GS2 header: no channel binding.
const HEADER: &str = "n,,";

/// An authenticator for SCRAM-SHA-256 and SCRAM-SHA-512: it proves that it knows the password without sending it. A server that does
/// not know the password is refused, too ([`ScramFault::ServerSignature`]).
///
/// The keys derived from the password are cached: as long as the server uses the same salt and iterations, later connections and
/// re-authentications are cheap. The first one computes the iterations on the thread that drives the client.
///
/// Names and passwords are prepared by SASLprep (RFC 4013), so that different ways of typing them give the same result. There is no
/// channel binding.
///
/// ```
/// # use tautwire_client::{Options, Scram};
/// let user = Scram::sha256("ann", "correct horse battery staple")?;
/// let options = Options::new("mqtt://localhost:1883")?.authenticator(user);
/// # Ok::<(), tautwire_client::Error>(())
/// ```
pub struct Scram {
    hash: Hash,
    user: String,
    password: Zeroizing<Vec<u8>>,
    iterations_max: u32,
    keys: Option<Keys>,
    step: Step,
}

/// The state of an exchange.
enum Step {
    None,
    /// The first message has been sent.
    First {
        bare: String,
        nonce: String,
    },
    /// The proof has been sent; the server has to send this signature.
    Last {
        signature: hmac::Tag,
    },
}

impl Scram {
    /// SCRAM-SHA-256.
    ///
    /// # Errors
    /// [`ScramFault::Credentials`]: user name or password is empty, is not text, or has characters that SASLprep does not allow.
    pub fn sha256(user: &str, password: impl AsRef<[u8]>) -> Result<Scram, Error> {
        Scram::new(Hash::Sha256, user, password.as_ref())
    }

    /// SCRAM-SHA-512.
    ///
    /// # Errors
    /// As [`Scram::sha256`].
    pub fn sha512(user: &str, password: impl AsRef<[u8]>) -> Result<Scram, Error> {
        Scram::new(Hash::Sha512, user, password.as_ref())
    }

    /// The maximum number of iterations that a server may request, so that no server can keep this client computing. Default:
    /// 100,000. Fewer than 4,096 are never accepted.
    #[must_use]
    pub fn iterations_max(mut self, iterations: u32) -> Scram {
        self.iterations_max = iterations;
        self
    }

    fn new(hash: Hash, user: &str, password: &[u8]) -> Result<Scram, Error> {
        let user = prepared(user).ok_or(ScramFault::Credentials(
            "the user name is empty or contains characters that SCRAM does not allow, such as control characters",
        ))?;
        let password = str::from_utf8(password).ok().and_then(prepared).ok_or(ScramFault::Credentials(
            "the password is empty, is not text, or contains characters that SCRAM does not allow, such as control characters",
        ))?;
        Ok(Scram {
            hash,
            user: user.to_string(),
            password: Zeroizing::new(password.as_bytes().to_vec()),
            iterations_max: ITERATIONS_MAX,
            keys: None,
            step: Step::None,
        })
    }

    pub(super) fn begin_with(&mut self, nonce: String) -> Vec<u8> {
        let bare = format!("n={},r={nonce}", escaped(&self.user));
        let message = format!("{HEADER}{bare}").into_bytes();
        self.step = Step::First { bare, nonce };
        message
    }

    fn prove(&mut self, data: Option<&[u8]>) -> Result<Vec<u8>, ScramFault> {
        let Step::First { bare, nonce } = std::mem::replace(&mut self.step, Step::None) else {
            return Err(ScramFault::Malformed("unexpected message"));
        };
        let first = ServerFirst::parse(data, &nonce)?;
        let (least, most) = (ITERATIONS_MIN, self.iterations_max);
        let iterations = NonZeroU32::new(first.iterations).filter(|count| (least..=most).contains(&count.get()));
        let iterations = iterations.ok_or(ScramFault::Iterations { least, most })?;
        let keys = match self.keys.take() {
            Some(keys) if keys.are_for(&first.salt, iterations) => keys,
            _ => Keys::derive(self.hash, &self.password, first.salt, iterations),
        };
        let without_proof = format!("c={},r={}", Base64::encode_string(HEADER.as_bytes()), first.nonce);
        let auth_message = format!("{bare},{},{without_proof}", first.text);
        self.step = Step::Last { signature: keys.server_signature(auth_message.as_bytes()) };
        let proof = Base64::encode_string(&keys.proof(auth_message.as_bytes()));
        self.keys = Some(keys);
        Ok(format!("{without_proof},p={proof}").into_bytes())
    }

    fn check(&mut self, data: Option<&[u8]>) -> Result<(), ScramFault> {
        // Success before the proof proves nothing.
        let Step::Last { signature: expected } = std::mem::replace(&mut self.step, Step::None) else {
            return Err(ScramFault::ServerSignature);
        };
        let signature = server_signature(data)?;
        are_same(expected.as_ref(), &signature).then_some(()).ok_or(ScramFault::ServerSignature)
    }

    #[cfg(test)]
    pub(super) fn forget_password(&mut self) {
        self.password = Zeroizing::default();
    }
}

/// A name or password after SASLprep (RFC 5802, section 5.1); `None` if it is not allowed.
fn prepared(text: &str) -> Option<Zeroizing<String>> {
    let prepared = stringprep::saslprep(text).ok().filter(|prepared| !prepared.is_empty())?;
    Some(Zeroizing::new(prepared.into_owned()))
}

/// Compares in a time that depends only on the lengths.
fn are_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

impl Authenticator for Scram {
    fn method(&self) -> &str {
        self.hash.mechanism()
    }

    fn begin(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut random = [0; NONCE_BYTES];
        SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| Error::Authentication("the system cannot provide random bytes".into()))?;
        Ok(Some(self.begin_with(Base64::encode_string(&random))))
    }

    fn respond(&mut self, data: Option<&[u8]>) -> Result<Option<Vec<u8>>, Error> {
        Ok(Some(self.prove(data)?))
    }

    fn finish(&mut self, data: Option<&[u8]>) -> Result<(), Error> {
        Ok(self.check(data)?)
    }
}

/// Omits secrets.
impl fmt::Debug for Scram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scram")
            .field("mechanism", &self.hash.mechanism())
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

//! SCRAM keys of a password file.

use std::num::NonZeroU32;

use base64ct::{Base64Unpadded, Encoding as _};
use ring::{digest, hmac, pbkdf2};
use zeroize::Zeroizing;

use super::ScramHash;
use crate::error::ErrorCode;
use crate::keyed_number::keyed_number;
use crate::limits::SCRAM_ITERATIONS;
use crate::secret::are_same;

/// Iterations for a new user. A client computes them each time it connects: a small device needs a second or less for 4,096.
const ITERATIONS_NEW: NonZeroU32 = NonZeroU32::new(16_384).expect("it is not zero");
const SALT_BYTES_NEW: usize = 16;

/// Salt, iterations, StoredKey and ServerKey of section 3 of RFC 5802. Anybody who has them can guess passwords at the cost of the
/// iterations, and can impersonate the server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ScramKeys {
    pub(crate) iterations: NonZeroU32,
    pub(crate) salt: Box<[u8]>,
    stored_key: Box<[u8]>,
    server_key: Box<[u8]>,
}

impl ScramHash {
    fn bytes(self) -> usize {
        self.digest().output_len()
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }

    fn in_file(self) -> &'static str {
        match self {
            Self::Sha256 => "scram-sha-256",
            Self::Sha512 => "scram-sha-512",
        }
    }
}

impl ScramKeys {
    /// The keys of a password, which is [prepared](super::prepared::password) first.
    pub(crate) fn new(hash: ScramHash, password: &[u8], random: &mut dyn FnMut(&mut [u8])) -> ScramKeys {
        let mut salt = [0; SALT_BYTES_NEW];
        random(&mut salt);
        Self::derive(hash, &super::prepared::password(password), &salt, ITERATIONS_NEW)
    }

    pub(crate) fn derive(hash: ScramHash, password: &[u8], salt: &[u8], iterations: NonZeroU32) -> ScramKeys {
        let mut salted = Zeroizing::new(vec![0; hash.bytes()]);
        pbkdf2::derive(hash.pbkdf2(), iterations, salt, password, &mut salted);
        let salted = hmac::Key::new(hash.hmac(), &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let server_key = hmac::sign(&salted, b"Server Key");
        ScramKeys {
            iterations,
            salt: salt.into(),
            stored_key: digest::digest(hash.digest(), client_key.as_ref()).as_ref().into(),
            server_key: server_key.as_ref().into(),
        }
    }

    /// Keys that match no password. The salt is the same for a name each time.
    pub(crate) fn decoy(hash: ScramHash, iterations: Option<NonZeroU32>, key: &[u8; 32], name: &str) -> ScramKeys {
        let [salt @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = keyed_number(key, hash.in_file(), name);
        let nothing = vec![0; hash.bytes()].into_boxed_slice();
        ScramKeys {
            iterations: iterations.unwrap_or(ITERATIONS_NEW),
            salt: salt.into(),
            stored_key: nothing.clone(),
            server_key: nothing,
        }
    }

    /// Whether `proof` is ClientKey xor HMAC(StoredKey, message), which only a client with the password can compute.
    pub(crate) fn is_proof(&self, hash: ScramHash, message: &[u8], proof: &[u8]) -> bool {
        let signature = hmac::sign(&hmac::Key::new(hash.hmac(), &self.stored_key), message);
        let client_key: Zeroizing<Vec<u8>> =
            Zeroizing::new(signature.as_ref().iter().zip(proof).map(|(a, b)| a ^ b).collect());
        let has_length = proof.len() == hash.bytes();
        are_same(digest::digest(hash.digest(), &client_key).as_ref(), &self.stored_key) & has_length
    }

    /// The signature that proves to the client that the server has the keys of the password.
    pub(crate) fn server_signature(&self, hash: ScramHash, message: &[u8]) -> Vec<u8> {
        hmac::sign(&hmac::Key::new(hash.hmac(), &self.server_key), message).as_ref().to_vec()
    }

    /// Parses `$scram-sha-256$i=…$salt$StoredKey$ServerKey`.
    pub(crate) fn parse(text: &str) -> Result<(ScramHash, ScramKeys), (ErrorCode, String)> {
        use crate::password_file::hash::{bytes, cost, number, salt_of, syntax};
        let fields: Vec<&str> = text.split('$').collect();
        let ["", kind, iterations, salt, stored_key, server_key] = fields.as_slice() else {
            return Err(syntax("after the password hash there must be SCRAM keys or nothing"));
        };
        let hash = ScramHash::ALL.into_iter().find(|hash| hash.in_file() == *kind).ok_or_else(|| {
            (ErrorCode::UnknownHash, "SCRAM keys must be $scram-sha-256$ or $scram-sha-512$".to_owned())
        })?;
        let iterations = iterations.strip_prefix("i=").ok_or_else(|| syntax("the SCRAM iterations must be i=…"))?;
        let iterations = number(iterations)?;
        let iterations = NonZeroU32::new(iterations)
            .filter(|iterations| SCRAM_ITERATIONS.contains(&iterations.get()))
            .ok_or_else(|| cost("iterations i", iterations, &SCRAM_ITERATIONS))?;
        let salt = salt_of(bytes::<Base64Unpadded>(salt))?;
        let (stored_key, server_key) = (bytes::<Base64Unpadded>(stored_key)?, bytes::<Base64Unpadded>(server_key)?);
        if stored_key.len() != hash.bytes() || server_key.len() != hash.bytes() {
            return Err(syntax("a SCRAM key must be as long as its hash"));
        }
        Ok((hash, ScramKeys { iterations, salt, stored_key, server_key }))
    }

    /// In the form of the file.
    pub(crate) fn in_file(&self, hash: ScramHash) -> String {
        let [salt, stored_key, server_key] =
            [&self.salt, &self.stored_key, &self.server_key].map(|bytes| Base64Unpadded::encode_string(bytes));
        format!("${}$i={}${salt}${stored_key}${server_key}", hash.in_file(), self.iterations)
    }
}

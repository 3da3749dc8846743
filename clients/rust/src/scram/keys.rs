//! The keys derived from a password. They stay the same while the server keeps its salt.

use std::num::NonZeroU32;

use ring::{digest, hmac, pbkdf2};
use zeroize::Zeroizing;

/// The hash of a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    pub(super) const fn mechanism(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }

    fn hmac(self, key: &[u8], message: &[u8]) -> hmac::Tag {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), message)
    }
}

/// ClientKey and ServerKey (RFC 5802, section 3), with the salt and the iterations they were
/// derived from.
pub(super) struct Keys {
    hash: Hash,
    salt: Vec<u8>,
    iterations: NonZeroU32,
    client_key: Zeroizing<Vec<u8>>,
    server_key: Zeroizing<Vec<u8>>,
}

impl Keys {
    /// The time grows with the iterations: 16,384 take a few milliseconds.
    pub(super) fn derive(hash: Hash, password: &[u8], salt: Vec<u8>, iterations: NonZeroU32) -> Keys {
        let mut salted = Zeroizing::new(vec![0; hash.digest().output_len()]);
        pbkdf2::derive(hash.pbkdf2(), iterations, &salt, password, &mut salted);
        let key = |name: &[u8]| Zeroizing::new(hash.hmac(&salted, name).as_ref().to_vec());
        Keys { hash, client_key: key(b"Client Key"), server_key: key(b"Server Key"), salt, iterations }
    }

    pub(super) fn are_for(&self, salt: &[u8], iterations: NonZeroU32) -> bool {
        self.salt == salt && self.iterations == iterations
    }

    /// ClientProof: ClientKey xor ClientSignature.
    pub(super) fn proof(&self, auth_message: &[u8]) -> Vec<u8> {
        let stored_key = digest::digest(self.hash.digest(), &self.client_key);
        let signature = self.hash.hmac(stored_key.as_ref(), auth_message);
        self.client_key.iter().zip(signature.as_ref()).map(|(key, signature)| key ^ signature).collect()
    }

    pub(super) fn server_signature(&self, auth_message: &[u8]) -> hmac::Tag {
        self.hash.hmac(&self.server_key, auth_message)
    }
}

//! A verification key.

use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};

use super::{Algorithm, JwtError};
use crate::Secret;

/// A verification key with its restrictions.
pub(super) struct Key {
    pub(super) kid: Option<Box<str>>,
    /// The only algorithm that the key set allows for it.
    pub(super) algorithm: Option<Algorithm>,
    pub(super) material: Material,
}

/// The key material. It alone determines the possible algorithms, never a token.
pub(super) enum Material {
    Symmetric(Secret),
    /// Modulus and exponent, big-endian.
    Rsa {
        n: Box<[u8]>,
        e: Box<[u8]>,
    },
    /// An uncompressed point.
    P256(Box<[u8]>),
    P384(Box<[u8]>),
    Ed25519(Box<[u8]>),
}

/// Accepted sizes of RSA moduli, in bytes.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1_024;

impl Key {
    /// Whether the key may be used with this algorithm.
    pub(super) fn fits(&self, algorithm: Algorithm) -> bool {
        use Algorithm::{EdDsa, Es256, Es384, Hs256, Hs384, Hs512, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};
        let can = match &self.material {
            // RFC 7518, section 3.2: the key must be at least as long as the hash.
            Material::Symmetric(secret) => match algorithm {
                Hs256 => secret.expose().len() >= 32,
                Hs384 => secret.expose().len() >= 48,
                Hs512 => secret.expose().len() >= 64,
                _ => false,
            },
            Material::Rsa { .. } => matches!(algorithm, Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512),
            Material::P256(_) => algorithm == Es256,
            Material::P384(_) => algorithm == Es384,
            Material::Ed25519(_) => algorithm == EdDsa,
        };
        can && self.algorithm.is_none_or(|only| only == algorithm)
    }

    /// Verifies a signature. Returns `false` for an algorithm that does not match the key.
    pub(super) fn verify(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        if !self.fits(algorithm) {
            return false;
        }
        match &self.material {
            Material::Symmetric(secret) => {
                let hash = match algorithm {
                    Algorithm::Hs256 => hmac::HMAC_SHA256,
                    Algorithm::Hs384 => hmac::HMAC_SHA384,
                    _ => hmac::HMAC_SHA512,
                };
                hmac::verify(&hmac::Key::new(hash, secret.expose()), signed, signature).is_ok()
            }
            Material::Rsa { n, e } => {
                let parameters: &RsaParameters = match algorithm {
                    Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
                    _ => &RSA_PSS_2048_8192_SHA512,
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, signed, signature).is_ok()
            }
            Material::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature).is_ok()
            }
            Material::P384(point) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(signed, signature).is_ok()
            }
            Material::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(signed, signature).is_ok(),
        }
    }
}

impl Material {
    pub(super) fn symmetric(secret: Secret) -> Result<Material, JwtError> {
        if secret.expose().len() < 32 {
            return Err(JwtError(
                "a secret for HS256 must have at least 32 bytes; create one with: head -c 48 /dev/urandom | base64"
                    .to_owned(),
            ));
        }
        Ok(Material::Symmetric(secret))
    }

    pub(super) fn rsa(n: &[u8], e: &[u8]) -> Result<Material, JwtError> {
        let (n, e) = (without_zeros(n), without_zeros(e));
        if !RSA_BYTES.contains(&n.len()) || e.is_empty() || e.len() > 8 {
            return Err(JwtError("an RSA key must have 2,048 to 8,192 bits".to_owned()));
        }
        Ok(Material::Rsa { n: n.into(), e: e.into() })
    }

    /// An uncompressed point: 4, x, y.
    pub(super) fn point(curve: Curve, point: &[u8]) -> Result<Material, JwtError> {
        let bytes = match curve {
            Curve::P256 => 32,
            Curve::P384 => 48,
        };
        if point.len() != 1 + 2 * bytes || point.first() != Some(&4) {
            return Err(JwtError("a curve point has the wrong length, or is compressed".to_owned()));
        }
        Ok(match curve {
            Curve::P256 => Material::P256(point.into()),
            Curve::P384 => Material::P384(point.into()),
        })
    }

    pub(super) fn ed25519(key: &[u8]) -> Result<Material, JwtError> {
        if key.len() == 32 {
            Ok(Material::Ed25519(key.into()))
        } else {
            Err(JwtError("an Ed25519 key must have 32 bytes".to_owned()))
        }
    }
}

/// An ECDSA curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    P256,
    P384,
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

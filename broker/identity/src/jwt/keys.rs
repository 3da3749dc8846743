//! Sets of verification keys.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use tautwire_json::Value;

use super::key::{Curve, Key, Material};
use super::{Algorithm, JwtError, pem};
use crate::Secret;
use crate::limits::{JWKS_BYTES_MAX, JWKS_KEYS_MAX, JWT_KEYS_TRIED_MAX};

/// The keys of an issuer.
#[derive(Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

impl KeySet {
    /// Parses a JWKS (RFC 7517). Keys that are not for signatures, or of an unknown kind, are skipped.
    ///
    /// # Errors
    /// The text is not a JWKS, exceeds a limit, or has no usable key.
    pub fn of_jwks(text: &str) -> Result<KeySet, JwtError> {
        if text.len() > JWKS_BYTES_MAX {
            return Err(JwtError(format!("the key set is longer than {JWKS_BYTES_MAX} bytes")));
        }
        let value = tautwire_json::parse(text)
            .map_err(|error| JwtError(format!("the key set is not JSON: {}", error.message)))?;
        let Some(Value::List(items)) = value.get("keys") else {
            return Err(JwtError("the key set has no list \"keys\"".to_owned()));
        };
        if items.len() > JWKS_KEYS_MAX {
            return Err(JwtError(format!("the key set has more than {JWKS_KEYS_MAX} keys")));
        }
        let (mut keys, mut why) = (Vec::new(), "it is empty".to_owned());
        for item in items {
            match jwk(item) {
                Ok(key) => keys.push(key),
                Err(JwtError(error)) => why = error,
            }
        }
        if keys.is_empty() {
            Err(JwtError(format!("the key set has no usable key: {why}")))
        } else {
            Ok(KeySet { keys })
        }
    }

    /// As [`Self::of_jwks`], without secrets: what anybody can fetch is no secret.
    pub(super) fn of_public_jwks(text: &str) -> Result<KeySet, JwtError> {
        let mut set = Self::of_jwks(text)?;
        set.keys.retain(|key| !matches!(key.material, Material::Symmetric(_)));
        if set.keys.is_empty() { Err(JwtError("the key set has only secrets".to_owned())) } else { Ok(set) }
    }

    /// Parses public keys in PEM. They have no names, so each is tried.
    ///
    /// # Errors
    /// A key cannot be parsed, or there is none.
    pub fn of_pem(text: &str) -> Result<KeySet, JwtError> {
        let keys = pem::keys(text)?;
        Ok(KeySet { keys: keys.into_iter().map(|material| Key { kid: None, algorithm: None, material }).collect() })
    }

    /// A secret for HS256, HS384 and HS512, used as it is.
    ///
    /// # Errors
    /// It is too short, or it is a public key: anybody who has that could sign tokens.
    pub fn of_secret(secret: Secret) -> Result<KeySet, JwtError> {
        if secret.expose().windows(5).any(|window| window == b"-----") {
            return Err(JwtError("the secret is a key in PEM, which is not a secret".to_owned()));
        }
        Ok(KeySet { keys: vec![Key { kid: None, algorithm: None, material: Material::symmetric(secret)? }] })
    }

    /// Parses a file: a JWKS, or public keys in PEM.
    ///
    /// # Errors
    /// It is neither.
    pub fn of_file(text: &str) -> Result<KeySet, JwtError> {
        if text.trim_start().starts_with('{') { Self::of_jwks(text) } else { Self::of_pem(text) }
    }

    /// Whether the set has a key with the name in a token.
    pub(super) fn has(&self, kid: Option<&str>) -> bool {
        kid.is_some() && self.keys.iter().any(|key| key.kid.as_deref() == kid)
    }

    /// Whether a key of the set verifies the signature. `None`: no key matches the token.
    pub(super) fn verify(
        &self,
        algorithm: Algorithm,
        kid: Option<&str>,
        signed: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let is_named = |key: &&Key| match (kid, &key.kid) {
            (Some(kid), Some(known)) => kid == &**known,
            _ => true,
        };
        // A key without a name is used for a token with one only if no key has that name.
        let exact = |key: &&Key| kid.is_some() && key.kid.as_deref() == kid;
        let has_exact = self.has(kid);
        let fitting = self
            .keys
            .iter()
            .filter(|key| key.fits(algorithm) && if has_exact { exact(key) } else { is_named(key) })
            .take(JWT_KEYS_TRIED_MAX);
        let mut found = None;
        for key in fitting {
            found = Some(key.verify(algorithm, signed, signature));
            if found == Some(true) {
                break;
            }
        }
        found
    }
}

/// Parses a key of a set (RFC 7517, RFC 7518 section 6, RFC 8037).
fn jwk(value: &Value) -> Result<Key, JwtError> {
    let text = |name: &str| value.get(name).and_then(Value::as_text);
    if text("use").is_some_and(|r#use| r#use != "sig") {
        return Err(JwtError("a key is not for signatures".to_owned()));
    }
    let bytes = |name: &str| {
        let field = text(name).ok_or_else(|| JwtError(format!("a key has no {name}")))?;
        Base64UrlUnpadded::decode_vec(field).map_err(|_| JwtError(format!("the {name} of a key is not Base64url")))
    };
    let material = match (text("kty"), text("crv")) {
        (Some("oct"), _) => Material::symmetric(Secret::new(bytes("k")?))?,
        (Some("RSA"), _) => Material::rsa(&bytes("n")?, &bytes("e")?)?,
        (Some("EC"), Some("P-256")) => Material::point(Curve::P256, &[vec![4], bytes("x")?, bytes("y")?].concat())?,
        (Some("EC"), Some("P-384")) => Material::point(Curve::P384, &[vec![4], bytes("x")?, bytes("y")?].concat())?,
        (Some("OKP"), Some("Ed25519")) => Material::ed25519(&bytes("x")?)?,
        _ => return Err(JwtError("a key is not RSA, P-256, P-384, Ed25519 or a secret".to_owned())),
    };
    let algorithm = match text("alg") {
        None => None,
        Some(name) => Some(
            Algorithm::named(name)
                .ok_or_else(|| JwtError(format!("a key has the unknown algorithm {}", name.escape_debug())))?,
        ),
    };
    Ok(Key { kid: text("kid").map(Into::into), algorithm, material })
}

/// Shows only the number of keys.
impl std::fmt::Debug for KeySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeySet").field("keys", &self.keys.len()).finish()
    }
}

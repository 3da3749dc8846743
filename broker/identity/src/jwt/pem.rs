//! Public keys in PEM (RFC 7468).

use base64ct::{Base64, Encoding as _};
use x509_cert::der::asn1::{ObjectIdentifier, UintRef};
use x509_cert::der::{Decode as _, Reader as _, SliceReader, Tag, Tagged as _, asn1::AnyRef};
use x509_cert::spki::SubjectPublicKeyInfoRef;

use super::JwtError;
use super::key::{Curve, Material};

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";

/// The public keys of a file, in order. Text around them is ignored.
pub(super) fn keys(text: &str) -> Result<Vec<Material>, JwtError> {
    if text.contains("PRIVATE KEY-----") {
        return Err(JwtError(
            "this is a private key; the broker needs only the public key: openssl pkey -pubout".to_owned(),
        ));
    }
    let mut keys = Vec::new();
    for block in text.split(BEGIN).skip(1) {
        let (base64, _) = block.split_once(END).ok_or_else(|| JwtError("a public key has no END line".to_owned()))?;
        let base64: String = base64.split_ascii_whitespace().collect();
        let der = Base64::decode_vec(&base64).map_err(|_| JwtError("a public key is not Base64".to_owned()))?;
        keys.push(key(&der)?);
    }
    if keys.is_empty() { Err(JwtError(format!("there is no public key; a key begins with {BEGIN}"))) } else { Ok(keys) }
}

fn key(der: &[u8]) -> Result<Material, JwtError> {
    let wrong = || JwtError("a public key cannot be parsed".to_owned());
    let info = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| wrong())?;
    let bytes = info.subject_public_key.as_bytes().ok_or_else(wrong)?;
    match info.algorithm.oid {
        RSA => {
            let (n, e) = rsa(bytes).ok_or_else(wrong)?;
            Material::rsa(n, e)
        }
        EC => match info.algorithm.parameters_oid() {
            Ok(P256) => Material::point(Curve::P256, bytes),
            Ok(P384) => Material::point(Curve::P384, bytes),
            _ => Err(JwtError("the curve of a public key is not P-256 or P-384".to_owned())),
        },
        ED25519 => Material::ed25519(bytes),
        _ => Err(JwtError("a public key is not RSA, P-256, P-384 or Ed25519".to_owned())),
    }
}

/// Modulus and exponent of an RSAPublicKey (RFC 8017, appendix A.1.1).
fn rsa(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let sequence = AnyRef::from_der(der).ok().filter(|any| any.tag() == Tag::Sequence)?;
    let mut reader = SliceReader::new(sequence.value()).ok()?;
    let (n, e) = (UintRef::decode(&mut reader).ok()?, UintRef::decode(&mut reader).ok()?);
    reader.is_finished().then(|| (n.as_bytes(), e.as_bytes()))
}

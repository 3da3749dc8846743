//! Password hashes of a password file.

use std::fmt;
use std::num::NonZeroU32;

use argon2::{Algorithm, Argon2, Params, Version};
use base64ct::{Base64, Base64Unpadded, Encoding as _};
use ring::{digest, pbkdf2};
use zeroize::Zeroizing;

use crate::error::ErrorCode;
use crate::limits::{ARGON2_ITERATIONS, ARGON2_LANES, ARGON2_MEMORY_KIB, HASH_BYTES, PBKDF2_ITERATIONS, SALT_BYTES};
use crate::secret::are_same;

const SHA512_BYTES: usize = 64;
const SALT_BYTES_NEW: usize = 16;
const HASH_BYTES_NEW: usize = 32;

/// The cost of an Argon2id hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Argon2Cost {
    pub(crate) memory_kib: u32,
    pub(crate) iterations: u32,
    pub(crate) lanes: u32,
}

/// As OWASP recommends: 19 MiB, two iterations, one lane.
impl Default for Argon2Cost {
    fn default() -> Argon2Cost {
        Argon2Cost { memory_kib: 19_456, iterations: 2, lanes: 1 }
    }
}

/// The cost of a new hash: slower to log in with, and harder to guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PasswordCost(pub(crate) Argon2Cost);

impl PasswordCost {
    const LEVELS: [(&'static str, Argon2Cost); 3] = [
        // For long random passwords, which cannot be guessed in any case.
        ("low", Argon2Cost { memory_kib: 4_096, iterations: 1, lanes: 1 }),
        // As OWASP recommends: 19 MiB, two iterations, one lane.
        ("default", Argon2Cost { memory_kib: 19_456, iterations: 2, lanes: 1 }),
        // The second choice of RFC 9106, section 4, on one lane.
        ("high", Argon2Cost { memory_kib: 65_536, iterations: 3, lanes: 1 }),
    ];

    /// Parses `low`, `default`, `high`, or a cost of Argon2id such as `m=19456,t=2,p=1`.
    ///
    /// # Errors
    /// The text is not a valid cost.
    pub fn parse(text: &str) -> Result<PasswordCost, String> {
        let level = Self::LEVELS.iter().find(|(name, _)| *name == text);
        let cost = match level {
            Some((_, cost)) => Ok(*cost),
            None if text.contains('=') => argon2_cost(text).map_err(|(_, message)| message),
            None => Err("the cost must be low, default, high, or m=…,t=…,p=… of Argon2id".to_owned()),
        };
        cost.map(PasswordCost)
    }
}

/// In the form that [`PasswordCost::parse`] reads.
impl fmt::Display for PasswordCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::LEVELS.iter().find(|(_, cost)| *cost == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "m={},t={},p={}", self.0.memory_kib, self.0.iterations, self.0.lanes),
        }
    }
}

/// A password hash with its parameters.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum PasswordHash {
    /// `$argon2id$v=19$m=…,t=…,p=…$salt$hash`
    Argon2id { cost: Argon2Cost, salt: Box<[u8]>, hash: Box<[u8]> },
    /// `$7$iterations$salt$hash` of Mosquitto: PBKDF2 with HMAC-SHA-512.
    Pbkdf2Sha512 { iterations: NonZeroU32, salt: Box<[u8]>, hash: Box<[u8]> },
    /// `$6$salt$hash` of Mosquitto: SHA-512 of password and salt. This is not the `$6$` of `crypt`.
    SaltedSha512 { salt: Box<[u8]>, hash: Box<[u8]> },
}

impl PasswordHash {
    /// An Argon2id hash of a password.
    pub(crate) fn new(password: &[u8], cost: Argon2Cost, random: &mut dyn FnMut(&mut [u8])) -> Option<PasswordHash> {
        let mut salt = [0; SALT_BYTES_NEW];
        random(&mut salt);
        let mut hash = [0; HASH_BYTES_NEW];
        argon2id(cost, password, &salt, &mut hash)?;
        Some(PasswordHash::Argon2id { cost, salt: salt.into(), hash: hash.into() })
    }

    /// A hash that matches no password, of the same cost.
    pub(crate) fn decoy(&self) -> PasswordHash {
        let mut decoy = self.clone();
        match &mut decoy {
            PasswordHash::Argon2id { salt, hash, .. }
            | PasswordHash::Pbkdf2Sha512 { salt, hash, .. }
            | PasswordHash::SaltedSha512 { salt, hash } => {
                salt.fill(0x5a);
                hash.fill(0);
            }
        }
        decoy
    }

    /// The hash to verify for an unknown user if a file has no users.
    pub(crate) fn default_decoy() -> PasswordHash {
        PasswordHash::Argon2id {
            cost: Argon2Cost::default(),
            salt: [0x5a; SALT_BYTES_NEW].into(),
            hash: [0; HASH_BYTES_NEW].into(),
        }
    }

    /// Verifies a password. Takes long: the file determines the cost.
    pub(crate) fn verify(&self, password: &[u8]) -> bool {
        match self {
            PasswordHash::Argon2id { cost, salt, hash } => {
                let mut computed = Zeroizing::new(vec![0; hash.len()]);
                argon2id(*cost, password, salt, &mut computed).is_some() && are_same(hash, &computed)
            }
            PasswordHash::Pbkdf2Sha512 { iterations, salt, hash } => {
                let mut computed = Zeroizing::new(vec![0; hash.len()]);
                pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA512, *iterations, salt, password, &mut computed);
                are_same(hash, &computed)
            }
            PasswordHash::SaltedSha512 { salt, hash } => {
                let mut context = digest::Context::new(&digest::SHA512);
                context.update(password);
                context.update(salt);
                are_same(hash, context.finish().as_ref())
            }
        }
    }

    /// The kind of hash.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            PasswordHash::Argon2id { .. } => "argon2id",
            PasswordHash::Pbkdf2Sha512 { .. } => "mosquitto $7$",
            PasswordHash::SaltedSha512 { .. } => "mosquitto $6$",
        }
    }

    /// Parses a hash in the form of the file.
    ///
    /// # Errors
    /// A message that does not contain the hash.
    pub(crate) fn parse(text: &str) -> Result<PasswordHash, (ErrorCode, String)> {
        let mut fields = text.split('$');
        let (before, kind) = (fields.next(), fields.next());
        let fields: Vec<&str> = fields.collect();
        match (before, kind, fields.as_slice()) {
            (Some(""), Some("argon2id"), ["v=19", cost, salt, hash]) => {
                let cost = argon2_cost(cost)?;
                let (salt, hash) = (salt_of(bytes::<Base64Unpadded>(salt))?, bytes::<Base64Unpadded>(hash)?);
                if !HASH_BYTES.contains(&hash.len()) {
                    return Err(syntax("an Argon2id hash must have 16 to 64 bytes"));
                }
                Ok(PasswordHash::Argon2id { cost, salt, hash })
            }
            (Some(""), Some("7"), [iterations, salt, hash]) => {
                let iterations = number(iterations)?;
                let iterations = NonZeroU32::new(iterations)
                    .filter(|iterations| PBKDF2_ITERATIONS.contains(&iterations.get()))
                    .ok_or_else(|| cost("iterations", iterations, &PBKDF2_ITERATIONS))?;
                let (salt, hash) = (salt_of(bytes::<Base64>(salt))?, sha512(bytes::<Base64>(hash)?)?);
                Ok(PasswordHash::Pbkdf2Sha512 { iterations, salt, hash })
            }
            (Some(""), Some("6"), [salt, hash]) => {
                let (salt, hash) = (salt_of(bytes::<Base64>(salt))?, sha512(bytes::<Base64>(hash)?)?);
                Ok(PasswordHash::SaltedSha512 { salt, hash })
            }
            (Some(""), Some("6"), [_, _, _]) | (Some(""), Some("1" | "2a" | "2b" | "2y" | "5" | "y"), _) => Err((
                ErrorCode::UnknownHash,
                "this is a hash of crypt(3), which is not supported; set a new password with tautwire user passwd"
                    .to_owned(),
            )),
            (Some(""), Some("argon2id" | "7" | "6"), _) => Err(syntax("the hash has a missing or an extra field")),
            (Some(""), Some(_), _) => Err((
                ErrorCode::UnknownHash,
                "unknown kind of hash; known kinds are $argon2id$, $7$ and $6$".to_owned(),
            )),
            // It may be a plaintext password, so it is not part of the message.
            _ => Err((
                ErrorCode::NoHash,
                "there is no hash after the user name; set the password with tautwire user passwd".to_owned(),
            )),
        }
    }
}

/// In the form of the file.
impl fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PasswordHash::Argon2id { cost: Argon2Cost { memory_kib, iterations, lanes }, salt, hash } => {
                let (salt, hash) = (Base64Unpadded::encode_string(salt), Base64Unpadded::encode_string(hash));
                write!(f, "$argon2id$v=19$m={memory_kib},t={iterations},p={lanes}${salt}${hash}")
            }
            PasswordHash::Pbkdf2Sha512 { iterations, salt, hash } => {
                write!(f, "$7${iterations}${}${}", Base64::encode_string(salt), Base64::encode_string(hash))
            }
            PasswordHash::SaltedSha512 { salt, hash } => {
                write!(f, "$6${}${}", Base64::encode_string(salt), Base64::encode_string(hash))
            }
        }
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PasswordHash({})", self.kind())
    }
}

fn argon2id(cost: Argon2Cost, password: &[u8], salt: &[u8], hash: &mut [u8]) -> Option<()> {
    let params = Params::new(cost.memory_kib, cost.iterations, cost.lanes, Some(hash.len())).ok()?;
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params).hash_password_into(password, salt, hash).ok()
}

fn argon2_cost(text: &str) -> Result<Argon2Cost, (ErrorCode, String)> {
    let mut parts = text.split(',');
    let mut part = |name: &str| {
        let value = parts.next().and_then(|part| part.strip_prefix(name)?.strip_prefix('='));
        number(value.ok_or_else(|| syntax("the cost of Argon2id must be m=…,t=…,p=…"))?)
    };
    let (memory_kib, iterations, lanes) = (part("m")?, part("t")?, part("p")?);
    if parts.next().is_some() {
        return Err(syntax("the cost of Argon2id must be m=…,t=…,p=…"));
    }
    let checks = [
        ("memory m", memory_kib, &ARGON2_MEMORY_KIB),
        ("iterations t", iterations, &ARGON2_ITERATIONS),
        ("lanes p", lanes, &ARGON2_LANES),
    ];
    for (name, value, range) in checks {
        if !range.contains(&value) {
            return Err(cost(name, value, range));
        }
    }
    // RFC 9106, section 3.1: each lane has at least eight blocks of 1 KiB.
    if memory_kib < 8 * lanes {
        return Err((ErrorCode::Cost, "the memory m of Argon2id must be at least eight times its lanes p".to_owned()));
    }
    Ok(Argon2Cost { memory_kib, iterations, lanes })
}

pub(crate) fn cost(name: &str, value: u32, range: &std::ops::RangeInclusive<u32>) -> (ErrorCode, String) {
    let message = format!("{name} is {value}; it must be from {} to {}", range.start(), range.end());
    (ErrorCode::Cost, message)
}

pub(crate) fn syntax(message: &str) -> (ErrorCode, String) {
    (ErrorCode::Syntax, message.to_owned())
}

/// A number without sign, as `Display` writes it.
pub(crate) fn number(text: &str) -> Result<u32, (ErrorCode, String)> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !(text.len() > 1 && text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain).ok_or_else(|| syntax("a number in the hash is not valid"))
}

pub(crate) fn bytes<E: base64ct::Encoding>(text: &str) -> Result<Box<[u8]>, (ErrorCode, String)> {
    E::decode_vec(text).map(Vec::into_boxed_slice).map_err(|_| syntax("a field of the hash is not Base64"))
}

pub(crate) fn salt_of(salt: Result<Box<[u8]>, (ErrorCode, String)>) -> Result<Box<[u8]>, (ErrorCode, String)> {
    let salt = salt?;
    if SALT_BYTES.contains(&salt.len()) { Ok(salt) } else { Err(syntax("a salt must have 8 to 64 bytes")) }
}

fn sha512(hash: Box<[u8]>) -> Result<Box<[u8]>, (ErrorCode, String)> {
    if hash.len() == SHA512_BYTES { Ok(hash) } else { Err(syntax("a SHA-512 hash must have 64 bytes")) }
}

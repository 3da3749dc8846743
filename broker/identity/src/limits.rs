//! Limits on files, and on the work of one authentication.

use std::ops::RangeInclusive;

/// Maximum length of a password file, in bytes.
pub const PASSWORD_FILE_BYTES_MAX: usize = 256 << 20;
/// Maximum length of a line of a password file, in bytes.
pub const LINE_BYTES_MAX: usize = 4_096;
/// Maximum number of users in a password file.
pub const USERS_MAX: usize = 500_000;
/// Maximum length of a user name, in bytes, also of one from a certificate, a token or a hook.
pub const USER_NAME_BYTES_MAX: usize = 1_024;
/// Maximum length of a Client Identifier that authentication assigns, in bytes.
pub const CLIENT_ID_BYTES_MAX: usize = 1_024;
/// Maximum number of errors reported for one file.
pub const ERRORS_MAX: usize = 100;
/// Maximum length of a password that is verified, in bytes; the maximum of MQTT.
pub const PASSWORD_BYTES_MAX: usize = 65_535;

/// Memory of Argon2id in a file, in KiB. Each thread that verifies passwords uses as much.
pub const ARGON2_MEMORY_KIB: RangeInclusive<u32> = 8..=262_144;
/// Iterations of Argon2id in a file.
pub const ARGON2_ITERATIONS: RangeInclusive<u32> = 1..=16;
/// Lanes of Argon2id in a file.
pub const ARGON2_LANES: RangeInclusive<u32> = 1..=16;
/// Iterations of PBKDF2-SHA512 (`$7$`) in a file. Mosquitto writes 101, and more in later versions.
pub const PBKDF2_ITERATIONS: RangeInclusive<u32> = 1..=2_000_000;
/// Iterations of SCRAM in a file. RFC 7677 requires at least 4,096. The client computes them each time it connects.
pub const SCRAM_ITERATIONS: RangeInclusive<u32> = 4_096..=1_000_000;
/// Length of a salt in a file, in bytes.
pub const SALT_BYTES: RangeInclusive<usize> = 8..=64;
/// Length of an Argon2id hash in a file, in bytes.
pub const HASH_BYTES: RangeInclusive<usize> = 16..=64;

/// Maximum length of a password that is cached as verified, in bytes.
pub const VERIFIED_PASSWORD_BYTES_MAX: usize = 4 << 10;

/// Maximum length of a certificate that is parsed, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 64 << 10;
/// Maximum number of names read from one certificate; further ones are ignored.
pub const CERTIFICATE_NAMES_MAX: usize = 64;
/// Maximum number of backends in a chain.
pub const BACKENDS_MAX: usize = 16;

/// Maximum length of a SCRAM message, in bytes.
pub const SCRAM_MESSAGE_BYTES_MAX: usize = 4_096;
/// Maximum length of a client's nonce, in bytes.
pub const SCRAM_NONCE_BYTES_MAX: usize = 256;

/// Maximum number of bans.
pub const BANS_MAX: usize = 65_536;
/// Maximum length of the reason for a ban, in bytes.
pub const BAN_REASON_BYTES_MAX: usize = 256;
/// Maximum `count` of a failure rule.
pub const FAILURES_COUNTED_MAX: usize = 32;
/// Maximum number of addresses, users or Client Identifiers with recorded failures, for each rule. Further ones are not recorded until some
/// entries expire.
pub const FAILURES_KEYS_MAX: usize = 16_384;

/// Maximum length of a token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Maximum length of the header of a token, in bytes.
pub const TOKEN_HEADER_BYTES_MAX: usize = 4 << 10;
/// Maximum length of a JWKS, in bytes.
pub const JWKS_BYTES_MAX: usize = 256 << 10;
/// Maximum number of keys in a JWKS.
pub const JWKS_KEYS_MAX: usize = 256;
/// Maximum number of keys that are tried for a token that does not name its key.
pub const JWT_KEYS_TRIED_MAX: usize = 8;
/// Maximum number of claims of a client for access rules; further ones are dropped.
pub const CLAIMS_MAX: usize = 128;
/// Maximum length of a claim for access rules, name and value, in bytes; a longer one is dropped.
pub const CLAIM_BYTES_MAX: usize = 2_048;
/// Maximum number of roles that authentication grants; further ones are dropped.
pub const ROLES_MAX: usize = 64;
/// Maximum clock skew, in seconds.
pub const LEEWAY_S_MAX: u64 = 300;

/// The timeout of a hook, in milliseconds.
pub const HOOK_TIMEOUT_MS: RangeInclusive<u64> = 50..=60_000;
/// Maximum number of requests in flight to a hook.
pub const HOOK_CONCURRENCY_MAX: usize = 1_024;
/// Maximum length of a response of a hook, in bytes.
pub const HOOK_ANSWER_BYTES_MAX: usize = 64 << 10;
/// Maximum length of a cached response of a hook, in bytes.
pub const HOOK_CACHED_ANSWER_BYTES_MAX: usize = 4 << 10;
/// Maximum length of a password for which a response is cached, in bytes.
pub const HOOK_CACHED_PASSWORD_BYTES_MAX: usize = 4 << 10;
/// Maximum number of cached responses of a hook.
pub const HOOK_CACHE_ENTRIES_MAX: usize = 1_000_000;
/// Maximum time that a response of a hook is cached, in seconds.
pub const HOOK_CACHE_S_MAX: u64 = 86_400;
/// Maximum number of headers in each request to a hook.
pub const HOOK_FIELDS_MAX: usize = 32;

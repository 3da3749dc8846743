//! How much files may hold, and how much work one check may be.

use std::ops::RangeInclusive;

/// Longest password file, in bytes.
pub const PASSWORD_FILE_BYTES_MAX: usize = 256 << 20;
/// Longest line of a password file, in bytes.
pub const LINE_BYTES_MAX: usize = 4_096;
/// Most users in a password file.
pub const USERS_MAX: usize = 500_000;
/// Longest name of a user, in bytes, also of one that a certificate, a token or a hook gives.
pub const USER_NAME_BYTES_MAX: usize = 1_024;
/// Longest Client Identifier that authentication gives, in bytes.
pub const CLIENT_ID_BYTES_MAX: usize = 1_024;
/// Most errors reported for one file.
pub const ERRORS_MAX: usize = 100;
/// Longest password that is looked at, in bytes; the longest of MQTT.
pub const PASSWORD_BYTES_MAX: usize = 65_535;

/// Memory of Argon2id in a file, in KiB. Each thread that checks passwords takes as much.
pub const ARGON2_MEMORY_KIB: RangeInclusive<u32> = 8..=262_144;
/// Iterations of Argon2id in a file.
pub const ARGON2_ITERATIONS: RangeInclusive<u32> = 1..=16;
/// Lanes of Argon2id in a file.
pub const ARGON2_LANES: RangeInclusive<u32> = 1..=16;
/// Iterations of PBKDF2-SHA512 (`$7$`) in a file. mosquitto writes 101, and more in later versions.
pub const PBKDF2_ITERATIONS: RangeInclusive<u32> = 1..=2_000_000;
/// Iterations of SCRAM in a file. RFC 7677 asks for 4,096 at least. The client computes them each time it connects.
pub const SCRAM_ITERATIONS: RangeInclusive<u32> = 4_096..=1_000_000;
/// Length of a salt in a file, in bytes.
pub const SALT_BYTES: RangeInclusive<usize> = 8..=64;
/// Length of an Argon2id hash in a file, in bytes.
pub const HASH_BYTES: RangeInclusive<usize> = 16..=64;

/// Longest password that is kept as verified, in bytes.
pub const VERIFIED_PASSWORD_BYTES_MAX: usize = 4 << 10;

/// Longest certificate that is read, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 64 << 10;
/// Most names that are taken from one certificate; further ones are not seen.
pub const CERTIFICATE_NAMES_MAX: usize = 64;
/// Most links in a chain.
pub const BACKENDS_MAX: usize = 16;

/// Longest message of SCRAM, in bytes.
pub const SCRAM_MESSAGE_BYTES_MAX: usize = 4_096;
/// Longest nonce of a client, in bytes.
pub const SCRAM_NONCE_BYTES_MAX: usize = 256;

/// Most bans.
pub const BANS_MAX: usize = 65_536;
/// Longest reason for a ban, in bytes.
pub const BAN_REASON_BYTES_MAX: usize = 256;
/// Most failures that a rule can wait for.
pub const FAILURES_COUNTED_MAX: usize = 32;
/// How many addresses, users or Client Identifiers failures are noted of at a time, for each rule. Those of further ones are not noted until
/// some are so old that they no longer count.
pub const FAILURES_KEYS_MAX: usize = 16_384;

/// Longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Longest header of a token, in bytes.
pub const TOKEN_HEADER_BYTES_MAX: usize = 4 << 10;
/// Longest JWKS, in bytes.
pub const JWKS_BYTES_MAX: usize = 256 << 10;
/// Most keys in a JWKS.
pub const JWKS_KEYS_MAX: usize = 256;
/// Most keys that are tried for one token that does not name its key.
pub const JWT_KEYS_TRIED_MAX: usize = 8;
/// Most claims that a client has for access rules; further ones are left out.
pub const CLAIMS_MAX: usize = 128;
/// Longest claim that access rules see, name and value, in bytes; a longer one is left out.
pub const CLAIM_BYTES_MAX: usize = 2_048;
/// Most roles that authentication gives; further ones are left out.
pub const ROLES_MAX: usize = 64;
/// How much clocks may differ, in seconds.
pub const LEEWAY_S_MAX: u64 = 300;

/// How long a hook may take to answer, in milliseconds.
pub const HOOK_TIMEOUT_MS: RangeInclusive<u64> = 50..=60_000;
/// Most requests to a hook that may be on their way at a time.
pub const HOOK_CONCURRENCY_MAX: usize = 1_024;
/// Longest answer of a hook, in bytes.
pub const HOOK_ANSWER_BYTES_MAX: usize = 64 << 10;
/// Longest answer of a hook that is kept, in bytes.
pub const HOOK_CACHED_ANSWER_BYTES_MAX: usize = 4 << 10;
/// Longest password with which an answer is kept, in bytes.
pub const HOOK_CACHED_PASSWORD_BYTES_MAX: usize = 4 << 10;
/// Most answers of a hook that are kept.
pub const HOOK_CACHE_ENTRIES_MAX: usize = 1_000_000;
/// Longest time that an answer of a hook is kept, in seconds.
pub const HOOK_CACHE_S_MAX: u64 = 86_400;
/// Most fields that are sent with each request to a hook.
pub const HOOK_FIELDS_MAX: usize = 32;

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

/// Longest certificate that is read, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 64 << 10;
/// Most names that are taken from one certificate; further ones are not seen.
pub const CERTIFICATE_NAMES_MAX: usize = 64;
/// Most links in a chain.
pub const LINKS_MAX: usize = 16;

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
/// How many addresses, users and Client Identifiers failures are noted of at a time. Those of further ones are not noted until some
/// are so old that they no longer count.
pub const FAILURES_KEYS_MAX: usize = 16_384;

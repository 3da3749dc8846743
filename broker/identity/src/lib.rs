//! Who a client is.
//!
//! * [`Chain`]: what a listener asks about a client that connects, link after link. Each says yes, no, or that the client is not its own.
//!   A chain never changes; threads share it by `Arc`.
//! * [`Attempt`]: what a client says of itself in CONNECT or AUTH, and its [`Provenance`].
//! * [`Step`]: what comes of it: the client is a [`Principal`], gets a [`Refusal`] or a challenge, or there is [`Work`] that takes too long
//!   for a thread that serves clients.
//! * [`PasswordFile`]: users and what proves them, read from a file; [`edit`]: such a file changed.
//! * [`Jwt`]: tokens, with a [`KeySet`] from a file, or [`Jwks`] from a URL by means of the [`Outside`].
//! * [`Hook`]: a service of the operator's that knows, asked by HTTP.
//! * [`Exchange`]: SCRAM, when the client has been challenged.
//! * [`Bans`]: who is not let in, whatever it proves.
//! * [`CertificateRules`]: names from certificates that TLS has verified.
//!
//! No I/O, no clock, no thread: the time and random bytes are arguments. Secrets are compared in constant time, never shown, and wiped
//! when they are dropped.
#![forbid(unsafe_code)]

mod attempt;
mod bans;
mod certificate;
mod chain;
pub mod edit;
mod error;
mod hook;
mod jwt;
pub mod limits;
mod outside;
mod password_file;
mod principal;
mod refusal;
mod scram;
mod secret;
mod verified;
mod work;

pub use attempt::{Attempt, Certificate, Now, Provenance};
pub use bans::{Ban, BanCounters, BanError, Banned, Bans, By, FailureRule, Network};
pub use certificate::{CertificateFields, CertificateRule, CertificateRules, Pattern, RuleError, Template};
pub use chain::{Anonymous, Chain, JWT_METHOD, Link, NoRandomBytes, Settings, Step};
pub use error::{ErrorCode, FileError};
pub use hook::{Hook, HookCounters, HookError, HookSettings, Unreachable};
pub use jwt::{Algorithm, Jwks, JwksSettings, JwksState, Jwt, JwtError, JwtSettings, KeySet, Keys};
pub use outside::{HttpAnswer, HttpFailure, HttpRequest, Outside, is_safe_url};
pub use password_file::{Account, PasswordCost, PasswordFile};
pub use principal::{Claims, Principal};
pub use refusal::{Refusal, RefusalCode};
pub use scram::{Exchange, ScramHash};
pub use secret::Secret;
pub use verified::VerifiedPasswords;
pub use work::{Kind, Work};

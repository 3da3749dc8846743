//! Who a client is.
//!
//! * [`Chain`]: what a listener asks about a client that connects, link after link. Each says yes, no, or that the client is not its own.
//!   A chain never changes; threads share it by `Arc`.
//! * [`AuthAttempt`]: what a client says of itself in CONNECT or AUTH, and its [`ClientOrigin`].
//! * [`AuthStep`]: what comes of it: the client is a [`Principal`], gets a [`Refusal`] or a challenge, or there is [`AuthWork`] that takes too long
//!   for a thread that serves clients.
//! * [`PasswordFile`]: users and what proves them, read from a file; [`edit`]: such a file changed.
//! * [`Jwt`]: tokens, with a [`KeySet`] from a file, or [`Jwks`] from a URL by means of the [`HttpClient`].
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
mod http_client;
mod jwt;
pub mod limits;
mod password_file;
mod principal;
mod refusal;
mod scram;
mod secret;
mod verified;
mod work;

pub use attempt::{AuthAttempt, Certificate, ClientOrigin, Now};
pub use bans::{Ban, BanCounters, BanError, BanTarget, Bans, FailureKey, FailureRule, Network};
pub use certificate::{CertificateFields, CertificateRule, CertificateRules, Pattern, RuleError, Template};
pub use chain::{Anonymous, AuthBackend, AuthStep, Chain, JWT_METHOD, RandomUnavailable, Settings};
pub use error::{ErrorCode, FileError};
pub use hook::{Hook, HookCounters, HookError, HookSettings, Unreachable};
pub use http_client::{HttpClient, HttpRequest, HttpRequestError, HttpResponse, is_safe_url};
pub use jwt::{Algorithm, Jwks, JwksSettings, JwksState, Jwt, JwtError, JwtSettings, KeySet, Keys};
pub use password_file::{Account, PasswordCost, PasswordFile};
pub use principal::{Claims, Principal};
pub use refusal::{Refusal, RefusalCode};
pub use scram::{Exchange, ScramHash};
pub use secret::Secret;
pub use verified::VerifiedPasswords;
pub use work::{AuthWork, WorkKind};

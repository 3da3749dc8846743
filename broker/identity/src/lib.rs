//! Authentication: establishes the identity of clients.
//!
//! * [`Chain`]: the authentication backends of a listener, in order. Each accepts a client, refuses it, or does not know it. A chain is
//!   immutable;
//!   threads share it in an `Arc`.
//! * [`AuthAttempt`]: the credentials of a client in CONNECT or AUTH, with its [`ClientOrigin`].
//! * [`AuthStep`]: the result of a step: the client is a [`Principal`], gets a [`Refusal`] or a challenge, or there is [`AuthWork`] that
//!   takes too
//!   long for a thread that serves clients.
//! * [`PasswordFile`]: users and their password hashes, read from a file; [`edit`]: changes of such a file.
//! * [`Jwt`]: tokens, with a [`KeySet`] from a file, or [`Jwks`] from a URL, fetched by the [`HttpClient`].
//! * [`Hook`]: an HTTP service of the operator that authenticates clients.
//! * [`Exchange`]: SCRAM, after the client has been challenged.
//! * [`Bans`]: clients that are refused whatever their credentials.
//! * [`CertificateRules`]: names from certificates that TLS has verified.
//!
//! No I/O, no clock, no thread: the time and random bytes are arguments. Secrets are compared in constant time, never shown, and zeroized
//! on drop.
#![forbid(unsafe_code)]

mod attempt;
mod backend;
mod bans;
mod certificate;
mod chain;
mod decision;
pub mod edit;
mod error;
mod hook;
mod http_client;
mod jwt;
mod keyed_number;
pub mod limits;
mod password_file;
mod principal;
mod refusal;
mod scram;
mod secret;
mod settings;
mod step;
mod text;
mod verified;
mod work;

pub use attempt::{AuthAttempt, Certificate, ClientOrigin, Now};
pub use backend::{Anonymous, AuthBackend, JWT_METHOD};
pub use bans::{Ban, BanCounters, BanError, BanTarget, Bans, FailureKey, FailureRule, Network};
pub use certificate::{CertificateFields, CertificateRule, CertificateRules, Pattern, RuleError, Template};
pub use chain::Chain;
pub use error::{ErrorCode, FileError};
pub use hook::{Hook, HookCounters, HookError, HookSettings, UnreachablePolicy};
pub use http_client::{HttpClient, HttpRequest, HttpRequestError, HttpResponse, is_safe_url};
pub use jwt::{Algorithm, Jwks, JwksSettings, JwksState, Jwt, JwtError, JwtSettings, KeySet, Keys};
pub use password_file::{Account, PasswordCost, PasswordFile};
pub use principal::{Claims, Principal};
pub use refusal::{Refusal, RefusalCode};
pub use scram::ScramHash;
pub use secret::Secret;
pub use settings::Settings;
pub use step::{AuthStep, AuthWork, Exchange, RandomUnavailable};
pub use verified::VerifiedPasswords;
pub use work::WorkKind;

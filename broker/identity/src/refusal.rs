//! Why a client is refused.

use std::borrow::Cow;
use std::fmt;

use tautwire_protocol::ConnectReason;

/// Why a client is refused: the response to it, and the text for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reason in CONNACK. Versions before 5.0 have fewer; the broker maps them.
    pub reason: ConnectReason,
    /// The kind of refusal.
    pub code: RefusalCode,
    /// For the operator. It has no secrets, but may reveal what the client must not learn, such as whether a user exists.
    pub log: Cow<'static, str>,
    /// For the client: Reason String of CONNACK. It is the same whether a user exists or not.
    pub client: &'static str,
}

macro_rules! codes {
    ($(#[doc = $doc:literal] $variant:ident = $name:literal, $reason:ident, $counts:literal, $client:literal;)*) => {
        /// Kinds of refusals, with stable names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum RefusalCode { $(#[doc = $doc] $variant,)* }

        impl RefusalCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable code.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The reason code of CONNACK.
            #[must_use]
            pub const fn reason(self) -> ConnectReason {
                match self { $(Self::$variant => ConnectReason::$reason,)* }
            }

            /// Whether it counts as a failure, too many of which lead to a ban.
            #[must_use]
            pub const fn counts_as_failure(self) -> bool {
                match self { $(Self::$variant => $counts,)* }
            }

            const fn client(self) -> &'static str {
                match self { $(Self::$variant => $client,)* }
            }
        }
    };
}

codes! {
    /// The client has no credentials, and anonymous clients are not accepted.
    NoCredentials = "auth_no_credentials", NotAuthorized, false, "this listener requires credentials";
    /// A password or a token was sent on a connection that others can read.
    PlainPassword = "auth_plain_password", NotAuthorized, false, "passwords and tokens are not accepted on an unencrypted connection";
    /// A user name without the required password.
    NoPassword = "auth_no_password", BadUserNameOrPassword, false, "the password is missing";
    /// No backend knows the user.
    UnknownUser = "auth_unknown_user", BadUserNameOrPassword, true, "user name or password is wrong";
    /// The password of a known user is wrong.
    WrongPassword = "auth_wrong_password", BadUserNameOrPassword, true, "user name or password is wrong";
    /// The certificate is valid, but no rule maps it to a user.
    NoRule = "auth_certificate_no_rule", NotAuthorized, false, "no rule matches this certificate";
    /// The certificate is valid for TLS, but cannot be parsed here.
    Certificate = "auth_certificate_unreadable", NotAuthorized, false, "the certificate cannot be read";
    /// The certificate was valid when the client presented it, before it resumed its TLS session.
    CertificateExpired = "auth_certificate_expired", NotAuthorized, false, "the certificate has expired";
    /// An Authentication Method that this listener does not support [MQTT-4.12.0-1].
    UnknownMethod = "auth_unknown_method", BadAuthenticationMethod, false, "the authentication method is not supported";
    /// A SCRAM message is invalid, or does not belong to its exchange.
    Scram = "auth_scram", NotAuthorized, true, "the authentication data is wrong";
    /// The user has a password, but no SCRAM keys.
    NoScramKeys = "auth_no_scram_keys", BadUserNameOrPassword, true, "user name or password is wrong";
    /// The token is malformed, its signature is wrong, or it is not for this broker.
    Token = "auth_token", BadUserNameOrPassword, true, "the token is not accepted";
    /// No key is available yet for a token whose keys are fetched. Its issuer may have rotated keys, so this does not count as a failure.
    TokenKey = "auth_token_key", BadUserNameOrPassword, false, "the token is not accepted";
    /// A valid token has expired.
    TokenExpired = "auth_token_expired", NotAuthorized, false, "the token has expired";
    /// There are no keys to verify tokens with.
    TokenKeys = "auth_token_keys", ServerUnavailable, false, "tokens cannot be verified at the moment";
    /// The hook has denied the client.
    HookDenied = "auth_hook_denied", BadUserNameOrPassword, true, "user name or password is wrong";
    /// The hook is unreachable, or gives no valid response.
    HookUnreachable = "auth_hook_unreachable", ServerUnavailable, false, "clients cannot be authenticated at the moment";
    /// Too many requests to the hook are in flight.
    HookBusy = "auth_hook_busy", ServerBusy, false, "too many clients are connecting";
    /// The system's random number generator failed, and an exchange without random bytes would be predictable.
    NoRandom = "auth_no_random", ServerUnavailable, false, "the server cannot authenticate clients at the moment";
    /// Too many attempts wait for a worker thread.
    Busy = "auth_busy", ServerBusy, false, "too many clients are connecting";
    /// The client, its user or its address is banned.
    Banned = "auth_banned", Banned, false, "banned";
    /// The Client Identifier that authentication assigns exceeds a limit.
    ClientId = "auth_client_id", ClientIdentifierNotValid, false, "the client identifier is not valid";
}

impl Refusal {
    /// A refusal by the caller of this crate, such as [`RefusalCode::Busy`]. `log` is for the operator, and has no secrets.
    #[must_use]
    pub fn new(code: RefusalCode, log: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { reason: code.reason(), code, log: log.into(), client: code.client() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.log, self.code.as_str())
    }
}

//! Why a client is not let in.

use std::borrow::Cow;
use std::fmt;

use tautwire_protocol::ConnectReason;

/// Why a client is not let in: what it is told, and what the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reason in CONNACK. Versions before 5.0 have fewer; the broker maps them.
    pub reason: ConnectReason,
    /// What kind of refusal it is.
    pub code: RefusalCode,
    /// For the operator. It has no secrets, and may say what the client must not learn, such as whether a user exists.
    pub log: Cow<'static, str>,
    /// For the client: Reason String of CONNACK. It is the same whether a user exists or not.
    pub client: &'static str,
}

macro_rules! codes {
    ($(#[doc = $doc:literal] $variant:ident = $name:literal, $reason:ident, $counts:literal, $client:literal;)*) => {
        /// Kinds of refusals, with names that stay.
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

            /// What CONNACK says.
            #[must_use]
            pub const fn reason(self) -> ConnectReason {
                match self { $(Self::$variant => ConnectReason::$reason,)* }
            }

            /// Whether it counts as a failed try to be somebody, of which too many lead to a ban.
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
    /// The client says nothing of who it is, and anonymous clients are not let in.
    NoCredentials = "auth_no_credentials", NotAuthorized, false, "this listener wants to know who you are";
    /// A password or a token came over a connection that others can read.
    PlainPassword = "auth_plain_password", NotAuthorized, false, "passwords and tokens are not taken over an unencrypted connection";
    /// A user name without a password, where a password is asked for.
    NoPassword = "auth_no_password", BadUserNameOrPassword, false, "the password is missing";
    /// No link knows the user.
    UnknownUser = "auth_unknown_user", BadUserNameOrPassword, true, "user name or password is wrong";
    /// The user is known, the password is another.
    WrongPassword = "auth_wrong_password", BadUserNameOrPassword, true, "user name or password is wrong";
    /// The certificate is valid, but no rule makes a user of it.
    NoRule = "auth_certificate_no_rule", NotAuthorized, false, "no rule names the holder of this certificate";
    /// The certificate is valid for TLS and not understood here.
    Certificate = "auth_certificate_unreadable", NotAuthorized, false, "the certificate cannot be read";
    /// The certificate was valid when the client showed it, before it resumed its session of TLS.
    CertificateExpired = "auth_certificate_expired", NotAuthorized, false, "the certificate has expired";
    /// An Authentication Method that this listener does not have [MQTT-4.12.0-1].
    UnknownMethod = "auth_unknown_method", BadAuthenticationMethod, false, "there is no such authentication method";
    /// A message of SCRAM is wrong, or does not belong to its exchange.
    Scram = "auth_scram", NotAuthorized, true, "the authentication data is wrong";
    /// The user has a password, but no keys for SCRAM.
    NoScramKeys = "auth_no_scram_keys", BadUserNameOrPassword, true, "user name or password is wrong";
    /// A token is no token, is signed by somebody else, or is for somebody else.
    Token = "auth_token", BadUserNameOrPassword, true, "the token is not accepted";
    /// No key is there yet for a token whose keys are fetched. Its issuer may have begun with a new one, so this is no failed try.
    TokenKey = "auth_token_key", BadUserNameOrPassword, false, "the token is not accepted";
    /// A token that was good has expired.
    TokenExpired = "auth_token_expired", NotAuthorized, false, "the token has expired";
    /// There are no keys to check tokens with.
    TokenKeys = "auth_token_keys", ServerUnavailable, false, "tokens cannot be checked now";
    /// The hook says no.
    HookDenied = "auth_hook_denied", BadUserNameOrPassword, true, "user name or password is wrong";
    /// The hook cannot be asked, or gives no answer.
    HookUnreachable = "auth_hook_unreachable", ServerUnavailable, false, "nobody can say now who you are";
    /// Too many requests to the hook are on their way.
    HookBusy = "auth_hook_busy", ServerBusy, false, "too many clients connect";
    /// The system gives no random bytes, and an exchange without them could be guessed.
    NoRandom = "auth_no_random", ServerUnavailable, false, "the server cannot authenticate clients now";
    /// Too many attempts wait for a thread.
    Busy = "auth_busy", ServerBusy, false, "too many clients connect";
    /// The client, its user or its address is banned.
    Banned = "auth_banned", Banned, false, "banned";
    /// The Client Identifier that authentication gives is longer than a limit.
    ClientId = "auth_client_id", ClientIdentifierNotValid, false, "the client identifier cannot be used";
}

impl Refusal {
    /// A refusal of who calls this crate, such as [`RefusalCode::Busy`]. `log` is for the operator, and has no secrets.
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

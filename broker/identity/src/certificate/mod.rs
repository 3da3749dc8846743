//! Names from client certificates. TLS has verified the certificate; here it is only parsed.

mod fields;
mod rules;

pub use fields::CertificateFields;
pub(crate) use fields::Field;
pub use rules::{CertificateRule, CertificateRules, Pattern, RuleError, Template};

//! The messages of the server (RFC 5802, section 7). They are visible ASCII, which is all that a server needs.

use base64ct::{Base64, Encoding as _};

use super::ScramFault;

/// The maximum length of a server message, in bytes.
const MESSAGE_BYTES_MAX: usize = 1_024;

/// The server's first message.
pub(super) struct ServerFirst<'m> {
    pub(super) text: &'m str,
    /// The nonces of client and server, in this order.
    pub(super) nonce: &'m str,
    pub(super) salt: Vec<u8>,
    pub(super) iterations: u32,
}

impl<'m> ServerFirst<'m> {
    pub(super) fn parse(data: Option<&'m [u8]>, client_nonce: &str) -> Result<ServerFirst<'m>, ScramFault> {
        let text = text(data)?;
        refusal(text)?;
        let mut fields = text.split(',');
        let mut field = |name, missing| {
            fields.next().and_then(|field| field.strip_prefix(name)).ok_or(ScramFault::Malformed(missing))
        };
        // A mandatory extension, `m=…`, would be in the place of the nonce.
        let nonce = field("r=", "the nonce is missing")?;
        let salt = bytes(field("s=", "the salt is missing")?)?;
        let iterations = number(field("i=", "the number of iterations is missing")?)?;
        if salt.is_empty() {
            return Err(ScramFault::Malformed("the salt is empty"));
        }
        if nonce.strip_prefix(client_nonce).is_none_or(str::is_empty) {
            return Err(ScramFault::Nonce);
        }
        Ok(ServerFirst { text, nonce, salt, iterations })
    }
}

/// The signature in the server's last message.
pub(super) fn server_signature(data: Option<&[u8]>) -> Result<Vec<u8>, ScramFault> {
    if data.is_none_or(<[u8]>::is_empty) {
        return Err(ScramFault::ServerSignature);
    }
    let text = text(data)?;
    refusal(text)?;
    let signature = text.split(',').next().and_then(|field| field.strip_prefix("v="));
    bytes(signature.ok_or(ScramFault::Malformed("the signature is missing"))?)
}

/// A user name in message form: `=2C` is a comma and `=3D` an equals sign.
pub(super) fn escaped(user: &str) -> String {
    user.replace('=', "=3D").replace(',', "=2C")
}

fn text(data: Option<&[u8]>) -> Result<&str, ScramFault> {
    let data = data.unwrap_or_default();
    if data.len() > MESSAGE_BYTES_MAX {
        return Err(ScramFault::Malformed("the message is longer than 1,024 bytes"));
    }
    str::from_utf8(data)
        .ok()
        .filter(|text| text.bytes().all(|byte| matches!(byte, b' '..=b'~')))
        .ok_or(ScramFault::Malformed("the message has bytes other than visible ASCII"))
}

fn refusal(text: &str) -> Result<(), ScramFault> {
    match text.strip_prefix("e=") {
        Some(why) => Err(ScramFault::Refused(why.into())),
        None => Ok(()),
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, ScramFault> {
    Base64::decode_vec(text).map_err(|_| ScramFault::Malformed("a field is not Base64"))
}

/// A number that is too large for its type becomes the largest, which is refused.
fn number(text: &str) -> Result<u32, ScramFault> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || text.len() > 1 && text.starts_with('0') {
        return Err(ScramFault::Malformed("the iterations are not a number"));
    }
    Ok(text.parse().unwrap_or(u32::MAX))
}

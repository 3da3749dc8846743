//! SCRAM messages (RFC 5802, section 7).

use std::borrow::Cow;

use base64ct::{Base64, Encoding as _};

use crate::limits::{SCRAM_MESSAGE_BYTES_MAX, SCRAM_NONCE_BYTES_MAX, USER_NAME_BYTES_MAX};

/// The first message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFirst<'m> {
    /// `n,,` or `y,,`, optionally with a name between the commas.
    pub(super) header: &'m str,
    /// The message without the header.
    pub(super) bare: &'m str,
    pub(super) user: Cow<'m, str>,
    pub(super) nonce: &'m str,
}

/// The last message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFinal<'m> {
    pub(super) without_proof: &'m str,
    /// The header of the first message, repeated.
    pub(super) binding: Vec<u8>,
    pub(super) nonce: &'m str,
    pub(super) proof: Vec<u8>,
}

impl<'m> ClientFirst<'m> {
    /// Parses the message, or returns what is wrong with it.
    pub(super) fn parse(bytes: &'m [u8]) -> Result<ClientFirst<'m>, &'static str> {
        let text = text(bytes)?;
        let (binding, rest) = text.split_once(',').ok_or("the message does not begin with n,, or y,,")?;
        match binding {
            // With `y` the client supports channel binding and assumes that the server does not, which is right.
            "n" | "y" => {}
            _ if binding.starts_with("p=") => return Err("channel binding is not offered"),
            _ => return Err("the message does not begin with n,, or y,,"),
        }
        let (other_user, bare) = rest.split_once(',').ok_or("the message ends after its header")?;
        let mut fields = bare.split(',');
        let user = fields.next().and_then(|field| field.strip_prefix("n=")).ok_or("the user name is missing")?;
        let user = name(user)?;
        let nonce = fields.next().and_then(|field| field.strip_prefix("r=")).ok_or("the nonce is missing")?;
        if nonce.is_empty() || nonce.len() > SCRAM_NONCE_BYTES_MAX || !nonce.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err("the nonce is empty, too long, or not of visible characters");
        }
        if !other_user.is_empty() {
            let other = other_user.strip_prefix("a=").ok_or("the header has something other than a name")?;
            if name(other)? != user {
                return Err("the client requests to act as another user");
            }
        }
        Ok(ClientFirst { header: &text[..text.len() - bare.len()], bare, user, nonce })
    }
}

impl<'m> ClientFinal<'m> {
    /// Parses the message, or returns what is wrong with it.
    pub(super) fn parse(bytes: &'m [u8]) -> Result<ClientFinal<'m>, &'static str> {
        let (without_proof, proof) = text(bytes)?.rsplit_once(",p=").ok_or("the proof is missing")?;
        let mut fields = without_proof.split(',');
        let binding =
            fields.next().and_then(|field| field.strip_prefix("c=")).ok_or("the channel binding is missing")?;
        let nonce = fields.next().and_then(|field| field.strip_prefix("r=")).ok_or("the nonce is missing")?;
        let decoded = |text| Base64::decode_vec(text).map_err(|_| "a field is not Base64");
        Ok(ClientFinal { without_proof, binding: decoded(binding)?, nonce, proof: decoded(proof)? })
    }
}

fn text(bytes: &[u8]) -> Result<&str, &'static str> {
    if bytes.len() > SCRAM_MESSAGE_BYTES_MAX {
        return Err("the message is too long");
    }
    str::from_utf8(bytes).map_err(|_| "the message is not UTF-8")
}

/// Decodes a name, in which `=2C` is a comma and `=3D` an equals sign.
fn name(text: &str) -> Result<Cow<'_, str>, &'static str> {
    let mut name = Cow::Borrowed(text);
    if text.contains('=') {
        let mut pieces = text.split('=');
        let mut decoded = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (sign, rest) = match piece.split_at_checked(2) {
                Some(("2C", rest)) => (',', rest),
                Some(("3D", rest)) => ('=', rest),
                _ => return Err("the user name contains an = that is neither =2C nor =3D"),
            };
            decoded.push(sign);
            decoded.push_str(rest);
        }
        name = Cow::Owned(decoded);
    }
    if name.is_empty() || name.len() > USER_NAME_BYTES_MAX {
        return Err("the user name is empty or too long");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_messages_of_the_standard_are_parsed() {
        let first = ClientFirst::parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").expect("a message");
        assert_eq!((first.header, first.bare), ("n,,", "n=user,r=rOprNGfwEbeRWgbNEkqO"));
        assert_eq!((&*first.user, first.nonce), ("user", "rOprNGfwEbeRWgbNEkqO"));
        let first = ClientFirst::parse(b"y,a=a=2Cb,n=a=2Cb,r=x,ext=1").expect("a message");
        assert_eq!((first.header, &*first.user), ("y,a=a=2Cb,", "a,b"));
        let last = ClientFinal::parse(b"c=biws,r=abc,x=y,p=AAAA").expect("a message");
        assert_eq!((last.without_proof, &*last.binding, last.nonce), ("c=biws,r=abc,x=y", &b"n,,"[..], "abc"));
    }

    #[test]
    fn other_messages_are_refused_with_a_reason() {
        for (message, why) in [
            ("", "does not begin"),
            ("n", "does not begin"),
            ("n,", "ends after its header"),
            ("p=tls-exporter,,n=user,r=x", "channel binding"),
            ("n,,m=ext,n=user,r=x", "user name is missing"),
            ("n,,n=,r=x", "empty"),
            ("n,,n=us=er,r=x", "neither =2C nor =3D"),
            ("n,,n=user=,r=x", "neither =2C nor =3D"),
            ("n,,n=user,r=", "the nonce is empty"),
            ("n,,n=user,r=a b", "the nonce is empty"),
            ("n,,n=user", "the nonce is missing"),
            ("n,a=admin,n=user,r=x", "act as another user"),
            ("n,admin,n=user,r=x", "something other"),
        ] {
            let reason = ClientFirst::parse(message.as_bytes()).expect_err("refused");
            assert!(reason.contains(why), "{message}: {reason}");
        }
        for (message, why) in [
            ("c=biws,r=abc", "the proof is missing"),
            ("r=abc,p=AAAA", "the channel binding is missing"),
            ("c=biws,p=AAAA", "the nonce is missing"),
            ("c=biws,r=abc,p=AAA", "not Base64"),
            ("c=b!ws,r=abc,p=AAAA", "not Base64"),
        ] {
            let reason = ClientFinal::parse(message.as_bytes()).expect_err("refused");
            assert!(reason.contains(why), "{message}: {reason}");
        }
    }
}

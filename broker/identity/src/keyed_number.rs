//! Numbers that look random, and are the same each time.

use ring::digest::{Context, SHA256};

/// A pseudorandom number that depends on the key and a name, the same each time.
pub(crate) fn keyed_number(key: &[u8; 32], purpose: &str, name: &str) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in [&key[..], purpose.as_bytes(), &[0], name.as_bytes()] {
        context.update(part);
    }
    let mut number = [0; 32];
    number.copy_from_slice(context.finish().as_ref());
    number
}

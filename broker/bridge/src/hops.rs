//! The brokers that a message has passed, in a user property, so that a ring of bridges does not forward it forever.

use tautwire_protocol::Properties;

/// The user property with the identifiers of the brokers that a message has passed, separated by commas, the first one first.
pub const HOPS_PROPERTY: &str = "tautwire-hops";

/// The hops of a message; empty if it has none.
pub(crate) fn hops_of<'a>(properties: &Properties<'a>) -> &'a str {
    properties.user_properties().find_map(|(name, value)| (name == HOPS_PROPERTY).then_some(value)).unwrap_or("")
}

/// Whether a message with these hops must not enter the broker.
pub(crate) fn is_loop(hops: &str, broker_id: &str, hops_max: usize) -> bool {
    !hops.is_empty() && (hops.split(',').count() > hops_max || hops.split(',').any(|hop| hop == broker_id))
}

/// Writes the hops with this broker appended.
pub(crate) fn append(hops: &str, broker_id: &str, into: &mut String) {
    into.clear();
    if !hops.is_empty() {
        into.push_str(hops);
        into.push(',');
    }
    into.push_str(broker_id);
}

#[cfg(test)]
mod tests {
    use super::{append, is_loop};

    #[test]
    fn a_message_that_passed_this_broker_is_a_loop() {
        assert!(!is_loop("", "a", 2));
        assert!(!is_loop("b,ab", "a", 2));
        assert!(is_loop("b,a", "a", 2));
        assert!(is_loop("b,c,d", "a", 2), "too many hops");
    }

    #[test]
    fn a_broker_is_appended() {
        let mut hops = String::from("old");
        append("", "a", &mut hops);
        assert_eq!(hops, "a");
        append("b,c", "a", &mut hops);
        assert_eq!(hops, "b,c,a");
    }
}

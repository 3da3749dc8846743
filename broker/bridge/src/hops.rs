//! The brokers that a message has passed, in a user property, so that a ring of bridges does not forward it forever.

use tautwire_protocol::Properties;

use crate::settings::LinkSettings;

/// The user property with a hop for each bridge that a message has passed, separated by commas, the first one first. A hop is the identifier
/// of the bridge's broker; `<` is before it if the message came from the other broker.
pub const HOPS_PROPERTY: &str = "tautwire-hops";

/// Marks a hop of an inbound message.
const INBOUND: char = '<';

/// The message has passed this broker already, or too many bridges.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Looped;

/// The hops of a message; empty if it has none.
pub(crate) fn hops_of<'a>(properties: &Properties<'a>) -> &'a str {
    properties.user_properties().find_map(|(name, value)| (name == HOPS_PROPERTY).then_some(value)).unwrap_or("")
}

/// Writes the hops of an inbound message, with this bridge appended.
pub(crate) fn append_in(hops: &str, settings: &LinkSettings, into: &mut String) -> Result<(), Looped> {
    let broker_id = settings.broker_id.as_str();
    if each(hops).any(|hop| hop.trim_start_matches(INBOUND) == broker_id) {
        return Err(Looped);
    }
    append(hops, settings, into, true)
}

/// Writes the hops of an outbound message, with this bridge appended. A message that has come from another broker is no loop, but one that
/// has left this broker before is.
pub(crate) fn append_out(hops: &str, settings: &LinkSettings, into: &mut String) -> Result<(), Looped> {
    if each(hops).any(|hop| hop == settings.broker_id) {
        return Err(Looped);
    }
    append(hops, settings, into, false)
}

fn append(hops: &str, settings: &LinkSettings, into: &mut String, is_inbound: bool) -> Result<(), Looped> {
    if each(hops).count() >= settings.hops_max {
        return Err(Looped);
    }
    into.clear();
    if !hops.is_empty() {
        into.push_str(hops);
        into.push(',');
    }
    if is_inbound {
        into.push(INBOUND);
    }
    into.push_str(&settings.broker_id);
    Ok(())
}

fn each(hops: &str) -> impl Iterator<Item = &str> {
    hops.split(',').filter(|hop| !hop.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Looped, append_in, append_out};
    use crate::settings::LinkSettings;

    fn settings() -> LinkSettings {
        LinkSettings { hops_max: 3, ..LinkSettings::new("hq", "a") }
    }

    #[test]
    fn a_message_that_has_left_or_entered_this_broker_does_not_enter() {
        let mut into = String::from("old");
        for (hops, result) in [("", Ok("<a")), ("b,<ab", Ok("b,<ab,<a")), ("b,a", Err(Looped)), ("b,<a", Err(Looped))] {
            assert_eq!(append_in(hops, &settings(), &mut into).map(|()| into.as_str()), result, "{hops}");
        }
    }

    #[test]
    fn a_message_that_has_left_this_broker_does_not_leave_again() {
        let mut into = String::from("old");
        for (hops, result) in [("", Ok("a")), ("b,<a", Ok("b,<a,a")), ("a,b", Err(Looped)), ("b,a", Err(Looped))] {
            assert_eq!(append_out(hops, &settings(), &mut into).map(|()| into.as_str()), result, "{hops}");
        }
    }

    #[test]
    fn a_message_passes_a_limited_number_of_bridges() {
        let mut into = String::new();
        assert_eq!(append_out("b,c", &settings(), &mut into), Ok(()));
        assert_eq!(append_out("b,c,<a", &settings(), &mut into), Err(Looped));
        assert_eq!(append_in("b,c,d", &settings(), &mut into), Err(Looped));
    }
}

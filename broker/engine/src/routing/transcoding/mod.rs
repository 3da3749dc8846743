//! Transcoding of payloads for subscribers that request another format.

mod steps;

use std::sync::atomic::{AtomicBool, Ordering};

use tautwire_message::Format;
use tautwire_protocol::{Subscribe, SubscribeReason, TopicFilter};

use crate::connection::mount::MountPoint;

/// The first level of a filter that names a format: `$as/json/sensors/#`.
const AS: &str = "$as/";

/// The user property of SUBSCRIBE that names a content type.
const ACCEPT: &str = "accept";

/// Whether any subscription of any shard has requested a payload format since the start.
#[derive(Debug, Default)]
pub(crate) struct RequestedFormats(AtomicBool);

impl RequestedFormats {
    pub(crate) fn request(&self) {
        self.0.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn are_requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A subscription's filter, and the requested payload format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormatRequest<'f> {
    /// The part of the filter that is matched against topics.
    pub(crate) filter: &'f str,
    pub(super) format: Option<Format>,
    /// The filter named the format.
    pub(super) format_from_filter: bool,
}

/// The format that a SUBSCRIBE packet requests for all of its filters.
pub(crate) fn accepted_format(subscribe: &Subscribe<'_>) -> Result<Option<Format>, SubscribeReason> {
    let mut accepted = subscribe.properties.user_properties().filter(|(name, _)| *name == ACCEPT).peekable();
    if accepted.peek().is_none() {
        return Ok(None);
    }
    // The first known one counts, as in other protocols.
    let format = accepted.find_map(|(_, value)| value.split(',').find_map(Format::of_content_type));
    format.map(Some).ok_or(SubscribeReason::ImplementationSpecificError)
}

/// The request of one filter. A format in the filter takes precedence over `accepted`.
pub(crate) fn requested_format(
    filter: TopicFilter<'_>,
    accepted: Option<Format>,
) -> Result<FormatRequest<'_>, SubscribeReason> {
    let matched = filter.matched();
    let Some(rest) = matched.strip_prefix(AS) else {
        return Ok(FormatRequest { filter: matched, format: accepted, format_from_filter: false });
    };
    let invalid = SubscribeReason::TopicFilterInvalid;
    let (level, filter) = rest.split_once('/').ok_or(invalid)?;
    let format = Format::of_filter_level(level).ok_or(invalid)?;
    let is_plain = TopicFilter::new(filter).is_ok_and(|filter| filter.share().is_none());
    if is_plain && !filter.starts_with(AS) {
        Ok(FormatRequest { filter, format: Some(format), format_from_filter: true })
    } else {
        Err(invalid)
    }
}

/// The full filter of a client with a mount point. The prefix comes after `$share/NAME/` and `$as/FORMAT/`.
///
/// # Errors
/// The filter is invalid or reserved.
pub(crate) fn mounted_filter(mount: &MountPoint, filter: TopicFilter<'_>) -> Result<String, SubscribeReason> {
    let invalid = SubscribeReason::TopicFilterInvalid;
    let matched = filter.matched();
    let share = filter.as_str().strip_suffix(matched).ok_or(invalid)?;
    let (format, own) = match matched.strip_prefix(AS) {
        None => ("", matched),
        Some(rest) => {
            let (level, own) = rest.split_once('/').ok_or(invalid)?;
            (&matched[..AS.len() + level.len() + 1], own)
        }
    };
    Ok(format!("{share}{format}{}", mount.filter(own)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_prefix_follows_share_and_format_prefixes() {
        let mount = MountPoint::new("factory-1/").expect("a mount point");
        let filter = |filter: &str| mounted_filter(&mount, TopicFilter::new(filter).expect("a filter"));
        for (own, full) in [
            ("#", "factory-1/#"),
            ("+/a", "factory-1/+/a"),
            ("$share/g/#", "$share/g/factory-1/#"),
            ("$share/g//a", "$share/g/factory-1//a"),
            ("$as/json/a/#", "$as/json/factory-1/a/#"),
            ("$share/g/$as/cbor/a", "$share/g/$as/cbor/factory-1/a"),
        ] {
            assert_eq!(filter(own), Ok(full.to_owned()));
        }
        for reserved in ["$SYS/#", "$quarantine/#", "$share/g/$SYS/#", "$as/json/$SYS/#", "$x", "$share"] {
            assert_eq!(filter(reserved), Err(SubscribeReason::NotAuthorized), "{reserved}");
        }
        for wrong in ["$as/json", "$as/json/"] {
            assert_eq!(filter(wrong), Err(SubscribeReason::TopicFilterInvalid), "{wrong}");
        }
    }
}

//! Requests that access rules decide.

use tautwire_protocol::{QoS, TopicFilter};

/// A request, for [`crate::Policy::explain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// A PUBLISH, or a will.
    Publish {
        /// The topic name.
        topic: &'a str,
        /// The QoS of the message.
        qos: QoS,
        /// The RETAIN flag of the message.
        retain: bool,
    },
    /// One filter of a SUBSCRIBE, including `$share/NAME/` and `$as/FORMAT/`.
    Subscribe {
        /// The filter.
        filter: TopicFilter<'a>,
        /// The requested QoS.
        qos: QoS,
    },
}

/// One of six publish or six subscribe actions: the QoS, and whether retained or shared. A rule applies to some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Action(u8);

/// A set of [`Action`]s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ActionSet(u8);

/// The part of a subscription's filter that topics are matched against: without `$share/NAME/` and `$as/FORMAT/`.
pub(crate) fn matched<'a>(filter: TopicFilter<'a>) -> &'a str {
    let matched = filter.matched();
    let inner = matched.strip_prefix("$as/").and_then(|rest| rest.split_once('/'));
    match inner {
        Some((format, inner)) if !format.is_empty() && !inner.is_empty() => inner,
        _ => matched,
    }
}

impl Action {
    /// `flag`: whether the message is retained, or the subscription is shared.
    #[inline]
    pub(crate) const fn new(qos: QoS, flag: bool) -> Self {
        Self(qos as u8 + if flag { 3 } else { 0 })
    }

    #[inline]
    pub(crate) const fn bit(self) -> u8 {
        1 << self.0
    }
}

impl ActionSet {
    /// `flag`: only with the flag or only without it, if given.
    pub(crate) fn new(qos: &[QoS], flag: Option<bool>) -> Self {
        let mut actions = 0;
        for &qos in qos {
            for value in [false, true] {
                if flag.is_none_or(|wanted| wanted == value) {
                    actions |= Action::new(qos, value).bit();
                }
            }
        }
        Self(actions)
    }

    /// The set of one action.
    #[inline]
    pub(crate) const fn one(action: Action) -> Self {
        Self(action.bit())
    }

    /// Each of them as a set of one.
    pub(crate) fn each(self) -> impl Iterator<Item = Self> {
        (0..8).map(move |bit| Self(self.0 & (1 << bit))).filter(|actions| !actions.is_empty())
    }

    #[inline]
    pub(crate) const fn contains_all(self, others: ActionSet) -> bool {
        self.0 & others.0 == others.0
    }

    #[inline]
    pub(crate) const fn contains(self, action: Action) -> bool {
        self.0 & action.bit() != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The QoS levels in the set.
    pub(crate) fn qos(self) -> Vec<QoS> {
        let all = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
        all.into_iter()
            .filter(|&qos| self.contains(Action::new(qos, false)) || self.contains(Action::new(qos, true)))
            .collect()
    }

    /// Whether the set has only retained or shared actions, or only others; `None` for both.
    pub(crate) fn flag(self) -> Option<bool> {
        let (without, with) = (self.0 & 0b111, self.0 >> 3);
        match (without, with) {
            (0, _) => Some(true),
            (_, 0) => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_formats_are_not_matched() {
        for (filter, expected) in [
            ("a/#", "a/#"),
            ("$share/g/a/#", "a/#"),
            ("$as/json/a/#", "a/#"),
            ("$share/g/$as/json/a/#", "a/#"),
            ("$share/g/$as/json/$SYS/#", "$SYS/#"),
            ("$as/json", "$as/json"),
            ("$as/json/", "$as/json/"),
            ("$as//a", "$as//a"),
            ("$SYS/#", "$SYS/#"),
        ] {
            assert_eq!(TopicFilter::new(filter).map(matched), Ok(expected), "{filter}");
        }
    }

    #[test]
    fn connection_types_round_trip() {
        for qos in [&[QoS::AtMostOnce][..], &[QoS::AtLeastOnce, QoS::ExactlyOnce]] {
            for flag in [None, Some(true), Some(false)] {
                let actions = ActionSet::new(qos, flag);
                assert_eq!((&*actions.qos(), actions.flag()), (qos, flag));
            }
        }
    }
}

//! What a link has done.

/// Counts since the link was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Messages sent to the remote broker, repetitions included.
    pub messages_out: u64,
    /// Messages passed to this broker, repetitions included.
    pub messages_in: u64,
    /// Messages that the remote broker refused.
    pub refused_out: u64,
    /// Messages that this broker refused: by access rules, contracts, quotas or limits.
    pub refused_in: u64,
    /// Messages dropped because they had passed this broker already, or too many bridges.
    pub looped: u64,
    /// Messages dropped because no rule applies to their topic.
    pub unmatched: u64,
    /// Messages dropped because with the other prefix their topic is invalid, or they are too large for the broker.
    pub unmappable: u64,
    /// Times a rule's rate paused a direction.
    pub rate_pauses: u64,
}

impl LinkCounters {
    /// Adds the counts of another link.
    pub fn add(&mut self, other: &LinkCounters) {
        let LinkCounters {
            messages_out,
            messages_in,
            refused_out,
            refused_in,
            looped,
            unmatched,
            unmappable,
            rate_pauses,
        } = other;
        self.messages_out += messages_out;
        self.messages_in += messages_in;
        self.refused_out += refused_out;
        self.refused_in += refused_in;
        self.looped += looped;
        self.unmatched += unmatched;
        self.unmappable += unmappable;
        self.rate_pauses += rate_pauses;
    }

    /// The counts since an earlier state of the same link.
    #[must_use]
    pub fn since(&self, before: &LinkCounters) -> LinkCounters {
        LinkCounters {
            messages_out: self.messages_out - before.messages_out,
            messages_in: self.messages_in - before.messages_in,
            refused_out: self.refused_out - before.refused_out,
            refused_in: self.refused_in - before.refused_in,
            looped: self.looped - before.looped,
            unmatched: self.unmatched - before.unmatched,
            unmappable: self.unmappable - before.unmappable,
            rate_pauses: self.rate_pauses - before.rate_pauses,
        }
    }
}

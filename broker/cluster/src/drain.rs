//! Moves clients to other nodes: all of them before the node ends, or some if it has more than its share.

use std::collections::BTreeMap;

use crate::mutant::{Mutant, is};
use crate::names::Incarnation;
use crate::operation::{Decision, Elsewhere};
use crate::sessions::{SessionContext, Sessions};

/// A node with an excess below this percentage keeps its clients, which would otherwise move back and forth.
const TOLERANCE_PERCENT: u64 = 5;

#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// The node is draining. Whether its clients must not return: 0x9D instead of 0x9C.
    draining: Option<bool>,
    /// The number of sessions that must still move so that others get their share.
    surplus: u32,
    /// For each node, the load it last reported and the clients sent to it since.
    sent: BTreeMap<Incarnation, (u32, u32)>,
    /// Clients that were told to move.
    pub(crate) moved: u64,
    pub(crate) is_retiring: bool,
}

impl Drain {
    pub(crate) fn begin(&mut self, is_for_good: bool) {
        self.draining.get_or_insert(is_for_good);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_some()
    }

    /// Moves the sessions that this node has above the average of the live nodes.
    pub(crate) fn rebalance(&mut self, sessions: &Sessions, cx: &SessionContext<'_>) {
        let others = cx.nodes.living(cx.now_ms, cx.settings).filter(|(_, load, reference)| {
            // Clients cannot be sent there.
            !load.is_closed && !reference.is_empty()
        });
        let mine = u64::from(sessions.owned()).saturating_sub(sessions.migrating() as u64);
        let (count, sum) =
            others.fold((1, mine), |(count, sum), (_, load, _)| (count + 1, sum + u64::from(load.sessions)));
        let share = sum.div_ceil(count);
        let is_worth_it = share + share * TOLERANCE_PERCENT / 100 < mine;
        self.surplus = if is_worth_it { u32::try_from(mine - share).unwrap_or(u32::MAX) } else { 0 };
    }

    /// Tells some clients to move, a bounded number at a time.
    pub(crate) fn advance(&mut self, sessions: &mut Sessions, cx: &mut SessionContext<'_>) {
        if !cx.is_serving || self.draining.is_none() && self.surplus == 0 {
            return;
        }
        while sessions.migrating() < cx.settings.migrations_max && (self.draining.is_some() || self.surplus > 0) {
            let Some(client) = sessions.next_to_migrate() else { return self.surplus = 0 };
            let to = self.elsewhere(cx);
            if to.is_none() && self.draining.is_none() {
                return self.surplus = 0;
            }
            self.surplus = self.surplus.saturating_sub(1);
            self.moved += 1;
            sessions.migrate(client, Decision::Migrate { client, to }, cx);
        }
    }

    /// Returns the best node for the next client: the one with the fewest sessions.
    pub(crate) fn elsewhere(&mut self, cx: &SessionContext<'_>) -> Option<Elsewhere> {
        let is_for_good = self.draining.unwrap_or_default();
        let expected = |node, load| match self.sent.get(&node) {
            // The load was reported before these clients were sent.
            Some((said, sent)) if *said == load => load.saturating_add(*sent),
            _ => load,
        };
        let (node, load, reference) = cx
            .nodes
            .living(cx.now_ms, cx.settings)
            .filter(|(_, load, reference)| !load.is_closed && !reference.is_empty())
            .min_by_key(|(node, load, _)| expected(*node, load.sessions))?;
        let sent = self.sent.entry(node).or_default();
        *sent = (load.sessions, if sent.0 == load.sessions { sent.1 + 1 } else { 1 });
        Some(Elsewhere { reference: reference.to_owned(), is_for_good })
    }

    /// Whether nothing is left here that other nodes could not take over from the removal record.
    pub(crate) fn is_done(&self, sessions: &Sessions) -> bool {
        self.is_draining() && (sessions.are_idle() || is(Mutant::RetiresTooEarly))
    }
}

//! Which replica leads a partition's writes for one coordinator. A lead is kept, because writes
//! to one batch and because a change may only happen when nothing is under way to the old one
//! (an operation could otherwise be applied twice, or after its successor). This file decides;
//! the caller settles.

use super::NodeId;

/// A lead has to be this many times slower than the best before it is left.
const WORSE: f64 = 3.0;
/// And by at least this much.
const WORSE_BY_NS: f64 = 2_000_000.0;
/// And for so long without a break.
const PATIENCE_NS: u64 = 500_000_000;

/// What to do about the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadMove {
    /// Send it to this node.
    Send(NodeId),
    /// Hold it: settle what is under way to `from` (answers, or fences where none come), and ask
    /// again once [`LeadChoice::on_settled`] has been told.
    Settle {
        /// The lead that is left.
        from: NodeId,
    },
}

/// One partition's sticky lead at one coordinator.
#[derive(Clone, Debug, Default)]
pub struct LeadChoice {
    lead: Option<NodeId>,
    under_way: u32,
    leaving: bool,
    worse_since_ns: Option<u64>,
}

impl LeadChoice {
    /// The lead in use.
    #[must_use]
    pub fn lead(&self) -> Option<NodeId> {
        self.lead
    }

    /// Decides for a write at `now_ns`. `costs` are the replicas that may lead with their expected
    /// times in ns ([`super::Selector::cost`] for writes); none where it is empty. A lead that is
    /// no longer among them is left at once.
    #[must_use]
    pub fn choose(&mut self, now_ns: u64, costs: &[(NodeId, f64)]) -> Option<LeadMove> {
        let best = costs.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        if let Some(lead) = self.lead {
            let cost = costs.iter().find(|(node, _)| *node == lead).map(|(_, cost)| *cost);
            self.leaving |= self.is_worse(now_ns, cost, best.1);
            if self.leaving && self.under_way > 0 {
                return Some(LeadMove::Settle { from: lead });
            }
        }
        if self.leaving || self.lead.is_none() {
            self.lead = Some(best.0);
            self.leaving = false;
            self.worse_since_ns = None;
        }
        self.lead.map(LeadMove::Send)
    }

    /// A write went to the lead.
    pub fn on_sent(&mut self) {
        self.under_way += 1;
    }

    /// A write's outcome is known for certain: answered, refused before its append, or fenced. A
    /// time-out alone is no outcome.
    pub fn on_settled(&mut self) {
        assert!(self.under_way > 0, "a write settles once");
        self.under_way -= 1;
    }

    fn is_worse(&mut self, now_ns: u64, cost: Option<f64>, best: f64) -> bool {
        let Some(cost) = cost else { return true };
        if cost <= best * WORSE || cost <= best + WORSE_BY_NS {
            self.worse_since_ns = None;
            return false;
        }
        let since_ns = *self.worse_since_ns.get_or_insert(now_ns);
        now_ns.saturating_sub(since_ns) >= PATIENCE_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;
    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);

    #[test]
    fn a_lead_is_kept_through_noise_and_left_when_it_stays_worse() {
        let mut choice = LeadChoice::default();
        assert_eq!(choice.choose(0, &[(A, MS), (B, 2.0 * MS)]), Some(LeadMove::Send(A)));
        // A little worse: kept. Much worse: kept for the patience, and a good moment resets it.
        assert_eq!(choice.choose(1, &[(A, 2.0 * MS), (B, MS)]), Some(LeadMove::Send(A)));
        let bad = [(A, 50.0 * MS), (B, MS)];
        assert_eq!(choice.choose(0, &bad), Some(LeadMove::Send(A)));
        assert_eq!(choice.choose(PATIENCE_NS / 2, &[(A, MS), (B, MS)]), Some(LeadMove::Send(A)));
        assert_eq!(choice.choose(PATIENCE_NS, &bad), Some(LeadMove::Send(A)));
        assert_eq!(choice.choose(2 * PATIENCE_NS, &bad), Some(LeadMove::Send(B)));
    }

    #[test]
    fn it_changes_only_after_settling() {
        let mut choice = LeadChoice::default();
        let _ = choice.choose(0, &[(A, MS), (B, MS)]);
        choice.on_sent();
        // The lead left the placement; what is under way to it comes first.
        let settle = Some(LeadMove::Settle { from: A });
        assert_eq!(choice.choose(1, &[(B, MS)]), settle);
        assert_eq!(choice.choose(2, &[(A, MS), (B, MS)]), settle, "no way back meanwhile");
        choice.on_settled();
        assert_eq!(choice.choose(3, &[(B, MS)]), Some(LeadMove::Send(B)));
        assert_eq!(choice.choose(4, &[]), None);
    }
}

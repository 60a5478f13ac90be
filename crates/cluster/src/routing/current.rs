//! Whether this node knows all that was acknowledged of the cluster's metadata, which tables there are among it.
//!
//! Each of its beats goes through the metadata's log: once one has come back and is followed, all is known here
//! that was acknowledged before it was sent. What another node changes is acknowledged once this one has said
//! that it follows it, or can no longer take itself for current. A node that was frozen, cut off or has just
//! begun asks the log before it says what there is not; the answer is good for those alone who came before the
//! question: the others may not know yet that there is this node to be waited for.

use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_base::time::Instant;

use super::{ACKNOWLEDGE_TIMEOUT, Router};
use crate::metadata::members::LEFT_AFTER_MS;

/// After this long a node asks before it takes itself for current: two beats may be lost. Less than those wait
/// who change the metadata ([`super::ACKNOWLEDGE_TIMEOUT`]), since no two clocks run alike.
const CURRENT_FOR: Duration = Duration::from_millis(1_800);
/// After this long without a beat of it the others may take a node for away, and leave it out of what all copies
/// are to do. Well before they do ([`LEFT_AFTER_MS`]): no two clocks run alike.
const HEARD_FOR: Duration = Duration::from_millis(LEFT_AFTER_MS * 2 / 3);
/// How long the log has to answer. Who asks in vain goes on with what is known here.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// After an answer that did not come, nobody waits for one for this long: searches go on without the log.
const GIVE_UP_TIME: Duration = Duration::from_secs(5);

impl Router {
    /// Whether all is known here that was acknowledged before this call, or a moment ago: who waited for
    /// [`Self::become_current`] may say what there is not.
    #[must_use]
    pub(crate) fn is_current(&self) -> bool {
        self.is_waited_for() || self.is_fresh(self.current.asked.load(Ordering::Acquire))
    }

    /// Whether nothing is acknowledged that is not known here.
    fn is_waited_for(&self) -> bool {
        self.replication.is_alone || self.is_fresh(self.current.beat.load(Ordering::Acquire))
    }

    fn is_fresh(&self, moment: u64) -> bool {
        moment > 0 && self.world.time.now() - Instant(moment) < CURRENT_FOR
    }

    /// Whether the others have heard of this node without a break since a moment: they asked it whatever all
    /// copies were to do.
    pub(crate) fn is_heard_since(&self, moment: Instant) -> bool {
        let from = self.current.heard_from.load(Ordering::Acquire);
        self.replication.is_alone || (self.is_heard() && moment.0 > from)
    }

    /// For how long no beat has come back; since the node began where none has.
    pub(crate) fn unheard(&self) -> Duration {
        if self.replication.is_alone {
            return Duration::ZERO;
        }
        self.world.time.now() - Instant(self.current.heard.load(Ordering::Acquire))
    }

    fn is_heard(&self) -> bool {
        let heard = self.current.heard.load(Ordering::Acquire);
        heard > 0 && self.world.time.now() - Instant(heard) < HEARD_FOR
    }

    /// A beat that was sent at this moment has come back.
    pub(crate) async fn beat_came_back(&self, sent: Instant) {
        if !self.is_heard() {
            // The others that are current by then have seen it.
            let known = self.world.time.now() + ACKNOWLEDGE_TIMEOUT;
            self.current.heard_from.store(known.0, Ordering::Release);
        }
        self.current.heard.fetch_max(sent.0, Ordering::AcqRel);
        if self.reconciled_to(self.metadata.applied().0, CURRENT_FOR).await {
            self.current.beat.fetch_max(sent.0, Ordering::AcqRel);
        }
    }

    /// Waits until all is known here that was acknowledged before this call, whether others waited for this node or
    /// not; false where that cannot be found out now.
    pub(crate) async fn hear_metadata(&self) -> bool {
        self.pass_metadata(ASK_TIMEOUT).await
    }

    /// Waits until all is known here that was acknowledged before this call; false where that cannot be found
    /// out now.
    pub(crate) async fn become_current(&self) -> bool {
        if self.is_waited_for() {
            return true;
        }
        let came = self.world.time.now();
        let mut in_vain = self.current.asking.lock().await;
        let now = self.world.time.now();
        if self.is_waited_for() || self.current.asked.load(Ordering::Acquire) > came.0 {
            return true;
        }
        if in_vain.is_some_and(|at| now - at < GIVE_UP_TIME) {
            return false;
        }
        let is_current = self.pass_metadata(ASK_TIMEOUT).await;
        *in_vain = (!is_current).then(|| self.world.time.now());
        if is_current {
            self.current.asked.store(now.0, Ordering::Release);
        }
        is_current
    }
}

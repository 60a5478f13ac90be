//! Asks the other nodes what time it is, and has this node's clock judged by it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::replication::service::Replication;
use crate::wire::{Question, Reply};

/// How long an answer is waited for: a later one would say little.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);

impl Replication {
    /// Compares this node's clock with those of the nodes that are there; done without waiting.
    pub(crate) fn compare_clocks(self: &Arc<Self>) {
        if self.is_alone {
            return;
        }
        let clock = Arc::clone(&self.clock);
        let begun_ms = clock.time().steady_ms();
        let others = self.members.others();
        self.world.tasks.spawn("clocks", async move {
            let is_alone = others.is_empty();
            let asked = others.into_iter().map(|member| {
                let clock = Arc::clone(&clock);
                async move {
                    let asked_ms = clock.time().wall_ms();
                    let answer = member.link.ask(Question::Clock, ANSWER_TIMEOUT, 0).await;
                    let (theirs_ms, is_in_doubt) = match answer {
                        Ok(Reply::Clock { now_ms }) => (now_ms, false),
                        Ok(Reply::DoubtfulClock { now_ms }) => (now_ms, true),
                        _ => return,
                    };
                    let answered_ms = clock.time().wall_ms();
                    clock.hear(member.number, [asked_ms, theirs_ms, answered_ms], is_in_doubt);
                }
            });
            join_all(asked).await;
            clock.judge(begun_ms, is_alone);
        });
    }
}

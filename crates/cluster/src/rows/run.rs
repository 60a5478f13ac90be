//! The requests of one connection, in their order: which run side by side, and where it ends.

use plimsoll_storage::Reply;

use super::Rows;
use super::beside::Together;
use super::plan::Plan;
use crate::replication::session::ClientSession;
use crate::wire::request::Request;

impl Rows {
    /// Answers requests in their order, each with one reply; ends where answers come to much.
    pub(crate) async fn run(
        &self,
        session: &mut ClientSession,
        db: u32,
        requests: &[Request],
        replies: &mut Vec<Reply>,
    ) {
        let mut rest = requests;
        while !rest.is_empty() {
            let count = match self.together(db, rest) {
                Together::Beside(count, places) => {
                    let answers = self.run_beside(session, db, &rest[..count], places).await;
                    replies.extend(answers);
                    count
                }
                Together::InOrder(count) => {
                    let wanted = replies.len() + count;
                    self.run_in_order(session, db, &rest[..count], replies).await;
                    if replies.len() < wanted {
                        return;
                    }
                    count
                }
            };
            rest = &rest[count..];
            if session.reads().is_full() {
                return;
            }
        }
    }

    /// Answers each request in order, and ends where answers come to much.
    pub(crate) async fn run_in_order(
        &self,
        session: &mut ClientSession,
        db: u32,
        requests: &[Request],
        replies: &mut Vec<Reply>,
    ) {
        let mut rest = requests;
        while let Some((request, after)) = rest.split_first() {
            let taken = match self.plan(db, request) {
                Plan::Reply(reply) => {
                    replies.push(reply);
                    after
                }
                Plan::Read(copies, command, argv) => {
                    replies.push(self.read(session.reads(), copies, &command, argv).await);
                    after
                }
                Plan::Write(ordinal, payload) => {
                    self.write(session, db, ordinal, payload, after, replies).await
                }
                Plan::Sliced(ordinal, slices, argv) => {
                    let reply = self.copy_in_slices(session, db, ordinal, &slices, argv).await;
                    replies.push(reply);
                    after
                }
                Plan::Scatter(command, argv) => {
                    replies.push(self.scatter(session, db, &command, argv).await);
                    after
                }
            };
            rest = taken;
            if session.reads().is_full() {
                return;
            }
        }
    }
}

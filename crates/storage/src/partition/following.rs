//! A replica that follows one of another cluster: it takes its leader's records, which this cluster's
//! log carries, and carries them out as the leader did: at the leader's positions, by the leader's
//! log time, under the leader's sessions and leads. So both contain the same at the same position of
//! the leader's log. Whatever else comes by this cluster's log changes nothing of the contents.
//!
//! What an operation takes is counted as the leader counted it, whichever records are carried out
//! together ([`super::overlay`]): a budget ends it on both sides or on none.
//!
//! [`Operation::Unfollow`] in this cluster's log ends it: from there on the replica is one as others
//! are. What comes before that in the same record is still refused, what comes after it runs.
//!
//! One whose leader's log was trimmed past it is levelled with a snapshot of the leader's instead
//! ([`super::difference`]): while that goes on no carried record is taken.
//!
//! How the records come here is not decided here, nor when a replica begins to follow.

use std::collections::HashMap;

use bytes::Bytes;
use plimsoll_log::LeadId;
use plimsoll_log::record::{Item, Record, RecordError};
use plimsoll_log::rules::carried::{Batch, Link, Verdict};
use plimsoll_log::rules::is_too_old;
use plimsoll_log::rules::leads::{self, LeadState, LeadVerdict};
use plimsoll_log::rules::sessions;

use super::application::{Application, FORGET_INTERVAL_MS, Moment, Staged};
use super::budget::OverBudget;
use super::difference;
use super::effect::{ApplyError, Effect, Observer, unreadable};
use super::system::{self, Leader};
use crate::operation::Operation;
use crate::rows::RowsWrite;
use crate::{ErrorKind, ErrorReply, Reply};

/// Of what a record's operations share, carried records take at most so much together before the
/// next of them waits for another record of this cluster's log, thousandths: what one takes
/// bounds what is held at once.
const SHARED_PERMILLE_MAX: u64 = 500;

/// The state of a replica that follows, beside the leader's.
pub(super) struct Following {
    pub leader: Leader,
    /// The leads of this cluster, which carry.
    pub own_leads: HashMap<LeadId, LeadState>,
}

/// What a record made of a [`Following`].
pub(super) enum Followed {
    /// It goes on from here; what became of each of its own leads that changed.
    On(Box<Leader>, HashMap<LeadId, Option<LeadState>>),
    /// It ended.
    Ended,
}

impl Following {
    /// Applies a record of this cluster's log, which its lead's sequence admits as `state`.
    pub fn apply(
        &self,
        application: &mut Application<'_>,
        log_time_ms: u64,
        record: &Record,
        state: LeadState,
        observer: &mut dyn Observer,
    ) -> Result<Followed, ApplyError> {
        let mut leader = self.leader.clone();
        for (place, item) in record.items.iter().enumerate() {
            let mut observe = |application: &Application<'_>, index: usize, effect: Effect| {
                let keys = application.stamp.keys;
                observer.operation((place, index), effect, &application.overlay, keys);
            };
            match item {
                Item::Carried { batch, records } => {
                    let carried = match batch.admit(&leader.position) {
                        // Its rows are of two moments: it is as with a gap.
                        Ok(_) if leader.levelling.is_some() => Ok(leader.position),
                        Ok(Verdict::Take { from }) => {
                            carry_out(application, &mut leader, (batch, from), records)?;
                            Ok(leader.position)
                        }
                        Ok(Verdict::Duplicate | Verdict::Gap | Verdict::Astride) => {
                            Ok(leader.position)
                        }
                        Err(fault) => Err(fault.into()),
                    };
                    observe(application, 0, Effect::Carried(carried));
                }
                Item::Difference { difference, changes } => {
                    difference::level(application, &mut leader, difference, changes)?;
                    observe(application, 0, Effect::Carried(Ok(leader.position)));
                }
                Item::Operations { payloads, .. } => {
                    for (index, payload) in payloads.iter().enumerate() {
                        if Operation::is_unfollow(payload) {
                            let at = Moment { lsn: application.stamp.position.lsn, log_time_ms };
                            application.unfollow(&self.own_leads, &leader);
                            let rest = ((place, index), state);
                            application.take_from(
                                at,
                                record,
                                rest,
                                OverBudget::Refuse,
                                observer,
                            )?;
                            return Ok(Followed::Ended);
                        }
                        observe(application, index, Effect::Ran(read_only()));
                    }
                }
                // Nothing is kept of this cluster's sessions, and what comes after the end of following
                // runs: no promise can be made.
                Item::Fence { .. } => {
                    observe(application, 0, Effect::Settled(sessions::Verdict::Forgotten));
                }
            }
        }
        let mut own_leads = Staged::new(&self.own_leads);
        if log_time_ms >= leader.swept_ms + FORGET_INTERVAL_MS {
            for id in own_leads.forget(|lead| is_too_old(lead.seen_ms, log_time_ms)) {
                application.overlay.delete(&system::own_lead_key(id));
            }
            leader.swept_ms = log_time_ms;
        }
        let lead = record.lead.lead;
        own_leads.put(lead, state);
        application.overlay.put_owned(&system::own_lead_key(lead), system::encode_lead(&state));
        application.overlay.put_owned(system::LEADER_KEY, leader.encode());
        Ok(Followed::On(Box::new(leader), own_leads.into_changed()))
    }
}

/// Takes the records of a batch from one of them on. Where that is much, it takes the first of it: it
/// is then in the middle of the batch, as after one that ended there.
fn carry_out(
    application: &mut Application<'_>,
    leader: &mut Leader,
    (batch, from): (&Batch, usize),
    records: &[Bytes],
) -> Result<(), ApplyError> {
    let mut taken = from;
    for (link, bytes) in batch.records.iter().zip(records).skip(from) {
        if application.shared_permille() >= SHARED_PERMILLE_MAX {
            break;
        }
        let record = Record::decode(bytes).map_err(unreadable("a carried record"))?;
        if record.partition != leader.partition {
            let error = RecordError::Malformed("it is of another partition");
            return Err(unreadable("a carried record")(error));
        }
        take(application, link, &record)?;
        taken += 1;
    }
    leader.position = batch.position(taken);
    Ok(())
}

/// Carries out one record as the leader's replicas did, or passes it over as they did.
fn take(application: &mut Application<'_>, link: &Link, record: &Record) -> Result<(), ApplyError> {
    let log_time_ms = link.log_time_ms;
    let lead = application.leads.get(record.lead.lead);
    match leads::admit(lead, &record.lead, record.stamp_ms, log_time_ms) {
        LeadVerdict::Take(state) => {
            let at = Moment { lsn: link.lsn, log_time_ms };
            application.take(at, record, state, OverBudget::Refuse, &mut ())
        }
        _ => Ok(()),
    }
}

/// What a write of this cluster's own is answered that came into the log all the same.
fn read_only() -> Reply {
    Reply::Error(ErrorReply::new(
        ErrorKind::ReadOnly,
        "You can't write against a read only replica.",
    ))
}

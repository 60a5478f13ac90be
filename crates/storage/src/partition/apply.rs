//! Apply: what a record of the log does to a replica. The same bytes at the same position have
//! the same effect on every replica, whatever clock or load it has.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use bytes::Bytes;
use plimsoll_log::record::{Item, Record, RecordError};
use plimsoll_log::rules::chain::Position;
use plimsoll_log::rules::is_too_old;
use plimsoll_log::rules::leads::{self, LeadState, LeadVerdict};
use plimsoll_log::rules::sessions::{RESULT_BYTES_MAX, SessionState, Verdict};
use plimsoll_log::{Incarnation, LeadId, Lsn, PartitionId, SessionId};
use rust_rocksdb::WriteBatch;
use xxhash_rust::xxh3::Xxh3Default;

use super::budget::{BUDGETED_SINCE, OverBudget};
use super::overlay::Overlay;
use super::resources::Resources;
use super::store::Store;
use super::system::{self, Stamp};
use super::touches;
use crate::execute::WriteContext;
use crate::operation::Operation;
use crate::reply::Reply;
use crate::rows::touch::Touches;
use crate::rows::{RowsRead, RowsWrite, StoreError};

/// How often, in log time, forgotten sessions and leads are removed, ms.
const FORGET_INTERVAL_MS: u64 = 60_000;

/// What became of one operation of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// It ran and answers this.
    Ran(Reply),
    /// It did not run: the session knows it already, or refuses it. Of a fence: the answer.
    Settled(Verdict),
}

/// Learns what each operation did, while later operations have not run yet.
pub trait Observer {
    /// The operation at (item, index; 0 of a fence) is through; `rows` is the state
    /// after it, and `keys` the number of keys in it.
    fn operation(&mut self, at: (usize, usize), effect: Effect, rows: &Overlay<'_>, keys: u64);
}

/// Nobody waits here for the answers.
impl Observer for () {
    fn operation(&mut self, _: (usize, usize), _: Effect, _: &Overlay<'_>, _: u64) {}
}

/// What apply did with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Its operations were applied.
    Taken,
    /// The replica contains it already.
    Contained,
    /// It was a no-op under the rule of leads.
    Passed(LeadVerdict),
}

/// Why a replica stops applying. Its rows stay as they were before the record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The disk is full or failing: the same record may be tried again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Bytes that this version cannot read, in the log or in the replica's own rows.
    #[error("{0}: {1}")]
    Unreadable(&'static str, RecordError),
    /// The replica contains a state that the log never had.
    #[error("the replica has {held:016x} at {position}, the log has {expected:016x}")]
    Forked {
        /// Where they were compared.
        position: plimsoll_log::Lsn,
        /// The replica's chain hash.
        held: u64,
        /// The log's chain hash.
        expected: u64,
    },
    /// An operation takes more than a record may, and it is not known that every replica refuses
    /// it: the same record may be tried again.
    #[error("an operation exceeds what a record may take, and not all nodes know that limit: {0}")]
    OverBudget(String),
}

/// Which documents of a copied replica the index here is to take in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToIndex {
    /// No index follows the rows.
    Nothing,
    /// All that are there: the index has none.
    All,
    /// What was touched after this position: the index came with the rows, and has the rest.
    After(Lsn),
}

/// One node's replica of a partition, at one position of its group's log.
pub struct Replica {
    id: PartitionId,
    store: Store,
    stamp: Stamp,
    sessions: HashMap<SessionId, SessionState>,
    leads: HashMap<LeadId, LeadState>,
    is_new: bool,
    notes_documents: bool,
    /// What the last record touched.
    touches: Option<Touches>,
    /// What the last record's operations took of what they share, thousandths.
    shared_permille: u64,
}

impl Replica {
    /// Opens the replica in `dir`, or makes an empty one that stands at `initial`.
    ///
    /// # Errors
    /// Where the folder cannot be opened or holds rows that this version cannot read.
    pub fn open(
        id: PartitionId,
        dir: &Path,
        resources: &Resources,
        incarnation: Incarnation,
        initial: Position,
    ) -> Result<Self, ApplyError> {
        let store = Store::open(dir, resources)?;
        let stamped = store.get(system::STAMP_KEY)?;
        let is_new = stamped.is_none();
        let stamp = match stamped {
            Some(bytes) => Stamp::decode(&bytes).map_err(unreadable("the stamp"))?,
            None => Stamp {
                incarnation,
                position: initial,
                sequence: 0,
                keys: 0,
                expires: 0,
                swept_ms: 0,
            },
        };
        let sessions = load(&store, system::SESSIONS_FROM, system::SESSIONS_TO, |id, value| {
            Ok((SessionId(id), system::decode_session(value)?))
        })?;
        let leads = load(&store, system::LEADS_FROM, system::LEADS_TO, |id, value| {
            Ok((LeadId(id), system::decode_lead(value)?))
        })?;
        let notes_documents = store.get(system::DOCUMENTS_KEY)?.is_some();
        if notes_documents {
            store.lay_out_for(true)?;
        }
        store.recent().restart(stamp.position.lsn);
        let (touches, shared_permille) = (None, 0);
        Ok(Self {
            id,
            store,
            stamp,
            sessions,
            leads,
            is_new,
            notes_documents,
            touches,
            shared_permille,
        })
    }

    /// Whether a replica's rows are in `dir`, whole or not; opening makes empty ones otherwise.
    #[must_use]
    pub fn is_in(dir: &Path) -> bool {
        Store::is_in(dir)
    }

    /// Which partition it is a replica of.
    #[must_use]
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// What it contains.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Its rows, to read.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Notes that the log up to `position` holds nothing more for this replica.
    pub fn pass(&mut self, position: Position) {
        if position.lsn > self.stamp.position.lsn {
            self.stamp.position = position;
        }
    }

    /// Whether nothing was ever stamped in its folder.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Writes the stamp also where no record did, and says which position it names: once
    /// [`Store::flush`] has returned after this, all up to there is durable.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn mark(&mut self) -> Result<Position, ApplyError> {
        let mut batch = WriteBatch::default();
        batch.put(system::STAMP_KEY, self.stamp.encode());
        self.store.write(&batch)?;
        self.is_new = false;
        Ok(self.stamp.position)
    }

    /// Says whether changes of documents are noted, because an index follows the rows; kept over
    /// restarts. Where it begins with rows that are there already, all of them are noted as
    /// changed at the present position. Where it ends, what was noted is forgotten.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn set_documents(&mut self, is_on: bool) -> Result<(), StoreError> {
        if is_on == self.notes_documents {
            return Ok(());
        }
        let mut batch = WriteBatch::default();
        // The position too, so that nothing is noted after the one that the rows name.
        batch.put(system::STAMP_KEY, self.stamp.encode());
        touches::switch(&self.store, self.stamp.position.lsn, is_on, &mut batch)?;
        self.store.write(&batch)?;
        self.store.recent().restart(self.stamp.position.lsn);
        self.store.lay_out_for(is_on)?;
        self.is_new = false;
        self.notes_documents = is_on;
        Ok(())
    }

    /// Makes a copy of another node's replica this node's own, at the position that it stands at:
    /// what that node kept for itself is forgotten (positions of groups, replicas held), and changes
    /// of documents are noted from now on where an index is to follow the rows. Of the touches that
    /// the copy has, those stay that an index which came with it has not taken. May be called again.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn adopt(&mut self, to_index: ToIndex) -> Result<Position, StoreError> {
        let noted_after = match to_index {
            // Where the other node noted nothing, nothing says what its index lacks.
            ToIndex::After(position) if self.notes_documents => Some(position),
            _ => None,
        };
        let has_documents = to_index != ToIndex::Nothing;
        let mut batch = WriteBatch::default();
        for [from, to] in system::OF_THE_NODE {
            let is_kept = from == system::DOCUMENTS_KEY || from == system::TOUCHES_FROM;
            if !is_kept || noted_after.is_none() {
                batch.delete_range(from, to);
            }
        }
        batch.put(system::STAMP_KEY, self.stamp.encode());
        match noted_after {
            Some(position) => touches::forget(position, &mut batch),
            None => {
                let at = self.stamp.position.lsn;
                touches::switch(&self.store, at, has_documents, &mut batch)?;
            }
        }
        self.store.write(&batch)?;
        self.store.lay_out_for(has_documents)?;
        self.is_new = false;
        self.notes_documents = has_documents;
        Ok(self.stamp.position)
    }

    /// Whether changes of documents are noted.
    #[must_use]
    pub fn notes_documents(&self) -> bool {
        self.notes_documents
    }

    /// Which documents the record applied last has changed: what [`Store::touches`] shows at its
    /// position. `None` where none did, where that is not noted, and from the second call on.
    pub fn take_touches(&mut self) -> Option<Touches> {
        self.touches.take()
    }

    /// What the operations of the record applied last took of the budget that a record's share,
    /// thousandths: how much heavier operations are than their own bytes say.
    #[must_use]
    pub fn shared_permille(&self) -> u64 {
        self.shared_permille
    }

    /// Applies the record that stands at `position` (the chain after it). What becomes of an
    /// operation that takes more than a record may is `over`'s to say where the record is of a time
    /// without a budget; later ones are all treated alike.
    ///
    /// # Errors
    /// The replica is as it was before the record, and may be given it again.
    pub fn apply(
        &mut self,
        position: Position,
        record: &Record,
        over: OverBudget,
        observer: &mut dyn Observer,
    ) -> Result<Applied, ApplyError> {
        let held = self.stamp.position;
        self.touches = None;
        self.shared_permille = 0;
        if position.lsn <= held.lsn {
            if position.lsn == held.lsn && position.hash != held.hash {
                return Err(ApplyError::Forked {
                    position: held.lsn,
                    held: held.hash,
                    expected: position.hash,
                });
            }
            return Ok(Applied::Contained);
        }
        let log_time_ms = position.log_time_ms;
        let lead = self.leads.get(&record.lead.lead);
        let state = match leads::admit(lead, &record.lead, record.stamp_ms, log_time_ms) {
            LeadVerdict::Take(state) => state,
            verdict => {
                self.stamp.position = position;
                return Ok(Applied::Passed(verdict));
            }
        };
        let mut application = Application::new(self, position, Rules::of(record, over));
        application.reserve(record);
        application.run(&self.sessions, record, observer)?;
        let Application { mut overlay, mut stamp, sessions, .. } = application;
        let shared_permille = overlay.shared_permille();
        // First, because a session or lead may be forgotten and new in the same record.
        let forgets = log_time_ms >= stamp.swept_ms + FORGET_INTERVAL_MS;
        if forgets {
            self.delete_forgotten(log_time_ms, &mut overlay);
            stamp.swept_ms = log_time_ms;
        }
        for (id, session) in &sessions {
            overlay.put_owned(&system::session_key(*id), system::encode_session(session));
        }
        overlay.put_owned(&system::lead_key(record.lead.lead), system::encode_lead(&state));
        overlay.put_owned(system::STAMP_KEY, stamp.encode());
        let touches = overlay.take_touches();
        let touches = touches.map(|(touches, sources)| {
            overlay.put(&system::touches_key(position.lsn), touches.as_bytes());
            // Before the rows show them: what is seen in the rows is known there.
            self.store.recent().push(position.lsn, &touches, sources);
            touches
        });
        let changes = overlay.into_changes();
        self.store.write_changes(changes, self.notes_documents)?;
        self.touches = touches;
        self.shared_permille = shared_permille;
        if forgets {
            self.sessions.retain(|_, session| !session.is_forgotten(log_time_ms));
            self.leads.retain(|_, lead| !is_too_old(lead.seen_ms, log_time_ms));
        }
        self.is_new = false;
        self.stamp = stamp;
        self.sessions.extend(sessions);
        self.leads.insert(record.lead.lead, state);
        Ok(Applied::Taken)
    }

    /// A hash of all that must be the same on every replica at the same position.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn digest(&self) -> Result<u64, StoreError> {
        let mut hash = Xxh3Default::new();
        hash.update(&self.stamp.encode());
        self.store.scan(&[0], &[0xff], &mut |key, value| {
            if key != system::STAMP_KEY && !system::is_of_the_node(key) {
                hash.update(&(key.len() as u64).to_le_bytes());
                hash.update(key);
                hash.update(&(value.len() as u64).to_le_bytes());
                hash.update(value);
            }
            ControlFlow::Continue(())
        })?;
        Ok(hash.digest())
    }

    /// Deletes the rows of what the window of log time has passed over.
    fn delete_forgotten(&self, now_ms: u64, rows: &mut Overlay<'_>) {
        for (id, session) in &self.sessions {
            if session.is_forgotten(now_ms) {
                rows.delete(&system::session_key(*id));
            }
        }
        for (id, lead) in &self.leads {
            if is_too_old(lead.seen_ms, now_ms) {
                rows.delete(&system::lead_key(*id));
            }
        }
    }
}

/// What holds for the operations of one record. It follows from the record, never from what this node
/// knows of the cluster's version when it applies it: others apply it at other times.
#[derive(Clone, Copy)]
struct Rules {
    over: OverBudget,
    /// Removals leave the rest to sweeps.
    is_bounded: bool,
}

impl Rules {
    fn of(record: &Record, over: OverBudget) -> Self {
        if record.version >= BUDGETED_SINCE {
            return Self { over: OverBudget::Refuse, is_bounded: true };
        }
        Self { over, is_bounded: false }
    }
}

/// A record on its way into a replica: everything changed so far, none of it written.
struct Application<'a> {
    overlay: Overlay<'a>,
    stamp: Stamp,
    sessions: HashMap<SessionId, SessionState>,
    log_time_ms: u64,
    rules: Rules,
}

impl<'a> Application<'a> {
    fn new(replica: &'a Replica, position: Position, rules: Rules) -> Self {
        let overlay = if replica.notes_documents {
            Overlay::with_touches(&replica.store)
        } else {
            Overlay::new(&replica.store)
        };
        Self {
            overlay,
            stamp: Stamp { position, ..replica.stamp },
            sessions: HashMap::new(),
            log_time_ms: position.log_time_ms,
            rules,
        }
    }

    /// Makes room at once for what most records come to: a row for each operation and item.
    fn reserve(&mut self, record: &Record) {
        let operations = |item: &Item| match item {
            Item::Operations { payloads, .. } => payloads.len(),
            Item::Fence { .. } => 0,
        };
        let items = record.items.len();
        self.overlay.reserve(record.items.iter().map(operations).sum::<usize>() + items + 2);
        self.sessions.reserve(items);
    }

    fn run(
        &mut self,
        known: &HashMap<SessionId, SessionState>,
        record: &Record,
        observer: &mut dyn Observer,
    ) -> Result<(), ApplyError> {
        for (at, item) in record.items.iter().enumerate() {
            match item {
                Item::Operations { session: id, first, acked, stamp_ms, payloads } => {
                    let mut session = self.session(known, *id);
                    session.acknowledge(*acked, self.log_time_ms);
                    for ((number, payload), index) in (*first..).zip(payloads).zip(0..) {
                        // Times count from the lead's stamp, which the log's rules keep right; that
                        // of the sender says only how late the operation is.
                        let stamps = (*stamp_ms, record.stamp_ms);
                        let effect = self.operation(&mut session, number, stamps, payload)?;
                        observer.operation((at, index), effect, &self.overlay, self.stamp.keys);
                    }
                    self.sessions.insert(*id, session);
                }
                Item::Fence { session: id, number, stamp_ms } => {
                    let mut session = self.session(known, *id);
                    let verdict = session.fence(*number, *stamp_ms, self.log_time_ms);
                    self.sessions.insert(*id, session);
                    let effect = Effect::Settled(verdict);
                    observer.operation((at, 0), effect, &self.overlay, self.stamp.keys);
                }
            }
        }
        Ok(())
    }

    /// The session's state so far; that of a session never seen is empty.
    fn session(&mut self, known: &HashMap<SessionId, SessionState>, id: SessionId) -> SessionState {
        if let Some(session) = self.sessions.remove(&id) {
            return session;
        }
        known.get(&id).cloned().unwrap_or_default()
    }

    fn operation(
        &mut self,
        session: &mut SessionState,
        number: u64,
        (sent_ms, stamp_ms): (u64, u64),
        payload: &Bytes,
    ) -> Result<Effect, ApplyError> {
        match session.admit(number, sent_ms, self.log_time_ms) {
            Verdict::Fresh => {}
            verdict => return Ok(Effect::Settled(verdict)),
        }
        let operation = Operation::decode(payload).map_err(unreadable("an operation"))?;
        let mut context = WriteContext {
            now_ms: self.log_time_ms,
            stamp_ms,
            seed: self.stamp.position.lsn.0 ^ number,
            sequence: self.stamp.sequence,
            keys: self.stamp.keys,
            expires: self.stamp.expires,
            is_bounded: self.rules.is_bounded,
        };
        self.overlay.begin(payload.len());
        let reply = match crate::operation::run(&operation, &mut self.overlay, &mut context) {
            Ok(reply) => self.overlay.end().map(|()| reply),
            Err(StoreError::Refused(refusal)) => {
                self.overlay.take_back();
                Err(refusal)
            }
            Err(error) => return Err(error.into()),
        };
        let reply = match reply {
            Ok(reply) => {
                self.stamp.sequence = context.sequence;
                self.stamp.keys = context.keys;
                self.stamp.expires = context.expires;
                reply
            }
            Err(refusal) if self.rules.over == OverBudget::Refuse => Reply::Error(refusal),
            Err(refusal) => return Err(ApplyError::OverBudget(refusal.message.into_owned())),
        };
        // A longer one is not kept: nothing more of it is needed than that it is longer.
        let result = crate::operation::encode_reply_within(&reply, RESULT_BYTES_MAX);
        session.finish(number, result, sent_ms, self.log_time_ms);
        Ok(Effect::Ran(reply))
    }
}

fn load<K: std::hash::Hash + Eq, V>(
    store: &Store,
    from: &[u8],
    to: &[u8],
    decode: impl Fn(u64, &[u8]) -> Result<(K, V), RecordError>,
) -> Result<HashMap<K, V>, ApplyError> {
    let mut states = HashMap::new();
    let mut fault = None;
    store.scan(from, to, &mut |key, value| {
        let id = system::id_of(key).ok_or(RecordError::Malformed("a key without an id"));
        match id.and_then(|id| decode(id, value)) {
            Ok((id, state)) => {
                states.insert(id, state);
                ControlFlow::Continue(())
            }
            Err(error) => {
                fault = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    match fault {
        Some(error) => Err(ApplyError::Unreadable("a session or lead", error)),
        None => Ok(states),
    }
}

fn unreadable(what: &'static str) -> impl Fn(RecordError) -> ApplyError {
    move |error| ApplyError::Unreadable(what, error)
}

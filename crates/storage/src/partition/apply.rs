//! Apply: what a record of the log does to a replica. The same bytes at the same position have
//! the same effect on every replica, whatever clock or load it has.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::ControlFlow;
use std::path::Path;

use plimsoll_log::record::{Record, RecordError};
use plimsoll_log::rules::carried::{LeaderPosition, Link};
use plimsoll_log::rules::chain::Position;
use plimsoll_log::rules::leads::{self, LeadState, LeadVerdict};
use plimsoll_log::rules::sessions::SessionState;
use plimsoll_log::{Incarnation, LeadId, Lsn, PartitionId, SessionId};
use xxhash_rust::xxh3::Xxh3Default;

use super::application::{Application, Moment};
use super::budget::OverBudget;
use super::effect::{Applied, ApplyError, Observer, unreadable};
use super::following::{Followed, Following};
use super::overlay::Overlay;
use super::resources::Resources;
use super::store::Store;
use super::system::{self, Leader, Stamp};
use super::touches;
use crate::rows::touch::Touches;
use crate::rows::{RowsRead, RowsWrite, StoreError};

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
    pub(super) store: Store,
    pub(super) stamp: Stamp,
    /// Where it follows a leader, these are the leader's.
    pub(super) sessions: HashMap<SessionId, SessionState>,
    pub(super) leads: HashMap<LeadId, LeadState>,
    following: Option<Following>,
    /// See [`Self::log_time_floor_ms`].
    pub(super) floor_ms: u64,
    is_new: bool,
    pub(super) notes_documents: bool,
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
        Self::of(id, Store::open(dir, resources)?, incarnation, initial)
    }

    /// The same of one that is looked at and closed again, as a copy is before it takes its place: its files
    /// are rewritten by nobody meanwhile.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_idle(
        id: PartitionId,
        dir: &Path,
        resources: &Resources,
        incarnation: Incarnation,
        initial: Position,
    ) -> Result<Self, ApplyError> {
        Self::of(id, Store::open_idle(dir, resources)?, incarnation, initial)
    }

    fn of(
        id: PartitionId,
        mut store: Store,
        incarnation: Incarnation,
        initial: Position,
    ) -> Result<Self, ApplyError> {
        if id == PartitionId::default() {
            store.keep_unpacked();
        }
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
        let leads = load_leads(&store, [system::LEADS_FROM, system::LEADS_TO])?;
        let following = match store.get(system::LEADER_KEY)? {
            Some(bytes) => Some(Following {
                leader: Leader::decode(&bytes).map_err(unreadable("the leader"))?,
                own_leads: load_leads(&store, [system::OWN_LEADS_FROM, system::OWN_LEADS_TO])?,
            }),
            None => None,
        };
        let floor_ms = match store.get(system::FLOOR_KEY)? {
            Some(bytes) => system::decode_floor(&bytes).map_err(unreadable("the floor"))?,
            None => 0,
        };
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
            following,
            floor_ms,
            is_new,
            notes_documents,
            touches,
            shared_permille,
        })
    }

    /// Whether a replica's rows are in `dir`, whole or not; opening makes empty ones otherwise.
    #[must_use]
    pub fn is_in(dir: &Path, resources: &Resources) -> bool {
        Store::is_in(dir, resources)
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
        self.store.put_unless_there(system::STAMP_KEY, &self.stamp.encode())?;
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
        let mut batch = self.store.batch();
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
        let mut batch = self.store.batch();
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

    /// Makes a copy of a leader's replica, opened as it came, one that follows it: `leader` is its
    /// name and log there, `position` where this cluster's log `incarnation` stands, from which on
    /// records are given to it. What the leader's node kept for itself is forgotten, as in
    /// [`Self::adopt`]. The first copy alone is made so, the others of it: two that began at different
    /// positions would know different leads.
    ///
    /// A position in `to_index` is of the leader's log: that of the index which came along, as it was
    /// persisted there. What was touched after it is then touched at `position`, and the index must be
    /// given the one just before that, `position.lsn - 1` (where that is 0, it is filled anew). One that
    /// was persisted at position 0 has nothing, for which there is [`ToIndex::All`].
    ///
    /// May be called again, with another position too, as long as no record of this cluster was
    /// applied: what is to be indexed is then as the first call left it, unless this one says that all
    /// is or nothing.
    ///
    /// # Errors
    /// Where the store fails, where the copy is of another log than `leader` says, and where it is of
    /// a replica that itself follows another.
    pub fn adopt_leader(
        &mut self,
        leader: (PartitionId, Incarnation),
        (incarnation, position): (Incarnation, Position),
        to_index: ToIndex,
    ) -> Result<(), StoreError> {
        let at = self.place_at(leader)?;
        let is_again = self.following.is_some();
        let (partition, swept_ms) = (leader.0, position.log_time_ms);
        let leader = Leader { partition, position: at, swept_ms, levelling: None };
        let mut batch = self.store.batch();
        let has_documents = to_index != ToIndex::Nothing;
        system::OF_THE_NODE
            .iter()
            .filter(|[from, _]| *from != system::TOUCHES_FROM)
            .for_each(|[from, to]| batch.delete_range(*from, *to));
        match to_index {
            ToIndex::After(after) if self.notes_documents => {
                // After the first call all touches are at a position of this cluster's log.
                let after = if is_again { Lsn(0) } else { after };
                touches::gather(&self.store, after, position.lsn, &mut batch)?;
            }
            _ => {
                batch.delete_range(system::TOUCHES_FROM, system::TOUCHES_TO);
                touches::switch(&self.store, position.lsn, has_documents, &mut batch)?;
            }
        }
        let stamp = Stamp { incarnation, position, ..self.stamp };
        batch.put(system::STAMP_KEY, stamp.encode());
        batch.put(system::LEADER_KEY, leader.encode());
        self.store.write(&batch)?;
        self.store.lay_out_for(has_documents)?;
        self.store.recent().restart(position.lsn);
        self.is_new = false;
        self.notes_documents = has_documents;
        self.stamp = stamp;
        self.following = Some(Following { leader, own_leads: HashMap::new() });
        Ok(())
    }

    /// Where a copy stands in the log of the leader that it is to follow.
    fn place_at(
        &self,
        (partition, incarnation): (PartitionId, Incarnation),
    ) -> Result<LeaderPosition, StoreError> {
        let at = match &self.following {
            None => {
                let Position { lsn, hash, log_time_ms } = self.stamp.position;
                let link = Link { lsn, hash, log_time_ms };
                LeaderPosition { incarnation: self.stamp.incarnation, link }
            }
            // Made to follow before, and nothing came of it.
            Some(it) if it.leader.partition == partition && it.own_leads.is_empty() => {
                it.leader.position
            }
            Some(_) => {
                return Err(StoreError::Failed("the leader follows another itself".into()));
            }
        };
        if at.incarnation == incarnation {
            return Ok(at);
        }
        let found = at.incarnation;
        Err(StoreError::Failed(format!(
            "the copy is of log {found}, the leader's is {incarnation}"
        )))
    }

    /// What it knows of its leader, where it follows one.
    #[must_use]
    pub fn leader(&self) -> Option<&Leader> {
        self.following.as_ref().map(|following| &following.leader)
    }

    /// The log time that the leader had when its following ended, ms since 1970: until this cluster's
    /// has passed it, what the replica does goes by this. 0 where there is none.
    #[must_use]
    pub fn log_time_floor_ms(&self) -> u64 {
        self.floor_ms
    }

    /// The log time that its contents are of, ms since 1970, which never goes back: reads go by no
    /// earlier one. Of the log, or that of a leader where that is later.
    #[must_use]
    pub fn log_time_ms(&self) -> u64 {
        let leader_ms = self.leader().map_or(0, |leader| leader.position.link.log_time_ms);
        self.stamp.position.log_time_ms.max(self.floor_ms).max(leader_ms)
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
        let own_leads = self.following.as_ref().map_or(&self.leads, |it| &it.own_leads);
        let lead = own_leads.get(&record.lead.lead);
        let state = match leads::admit(lead, &record.lead, record.stamp_ms, log_time_ms) {
            LeadVerdict::Take(state) => state,
            verdict => {
                self.stamp.position = position;
                return Ok(Applied::Passed(verdict));
            }
        };
        let mut application = self.application(position);
        let followed = match &self.following {
            None => {
                let at = Moment { lsn: position.lsn, log_time_ms };
                application.take(at, record, state, over, observer)?;
                None
            }
            Some(following) => {
                Some(following.apply(&mut application, log_time_ms, record, state, observer)?)
            }
        };
        let shared_permille = application.shared_permille();
        let Application { mut overlay, stamp, sessions, leads, floor_ms, .. } = application;
        let (sessions, leads) = (sessions.into_changed(), leads.into_changed());
        overlay.put_owned(system::STAMP_KEY, stamp.encode());
        let touches = overlay.take_touches();
        let touches = touches.map(|(touches, sources)| {
            overlay.put(&system::touches_key(position.lsn), touches.as_bytes());
            // Before the rows show them: what is seen in the rows is known there.
            self.store.recent().push(position.lsn, &touches, sources);
            touches
        });
        let changes = overlay.into_changes();
        // A leader's changes have its numbers.
        let new_from = if self.following.is_some() { u64::MAX } else { self.stamp.sequence + 1 };
        self.store.write_changes(changes, new_from, self.notes_documents)?;
        self.touches = touches;
        self.shared_permille = shared_permille;
        self.is_new = false;
        self.stamp = stamp;
        self.floor_ms = floor_ms;
        change(&mut self.sessions, sessions);
        change(&mut self.leads, leads);
        match (&mut self.following, followed) {
            (Some(following), Some(Followed::On(leader, own_leads))) => {
                following.leader = *leader;
                change(&mut following.own_leads, own_leads);
            }
            (following, Some(Followed::Ended)) => *following = None,
            (_, None) | (None, _) => {}
        }
        Ok(Applied::Taken)
    }

    /// A record's way into this replica, which stands at `position` then.
    fn application(&self, position: Position) -> Application<'_> {
        let overlay = if self.notes_documents {
            Overlay::with_touches(&self.store)
        } else {
            Overlay::new(&self.store)
        };
        let stamp = Stamp { position, ..self.stamp };
        Application::new(overlay, stamp, &self.sessions, &self.leads, self.floor_ms)
    }

    /// A hash of all that must be the same on every replica at the same position.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn digest(&self) -> Result<u64, StoreError> {
        Ok(self.digests()?.of_all)
    }

    /// A hash of all that must be the same on a leader's replica and on one that follows it, where
    /// both have come to the same position of the leader's log: everything but where they stand.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn content_digest(&self) -> Result<u64, StoreError> {
        Ok(self.digests()?.of_content)
    }

    /// Both, of one walk.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn digests(&self) -> Result<Digests, StoreError> {
        let Stamp { sequence, keys, expires, swept_ms, .. } = self.stamp;
        let counters = [sequence, keys, expires, swept_ms].map(u64::to_le_bytes).concat();
        let (mut all, mut content) = (Xxh3Default::new(), Xxh3Default::new());
        all.update(&self.stamp.encode());
        content.update(&counters);
        let add = |hash: &mut Xxh3Default, key: &[u8], value: &[u8]| {
            for bytes in [key, value] {
                hash.update(&(bytes.len() as u64).to_le_bytes());
                hash.update(bytes);
            }
        };
        self.store.scan(&[0], &[0xff], &mut |key, value| {
            if key != system::STAMP_KEY && !system::is_of_the_node(key) {
                add(&mut all, key, value);
            }
            if !system::is_of_the_place(key) {
                add(&mut content, key, value);
            }
            ControlFlow::Continue(())
        })?;
        Ok(Digests { of_all: all.digest(), of_content: content.digest() })
    }
}

/// What a replica contains, as hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests {
    /// See [`Replica::digest`].
    pub of_all: u64,
    /// See [`Replica::content_digest`].
    pub of_content: u64,
}

/// Takes over what became of states: `None` where they are forgotten.
fn change<K: Hash + Eq, V>(states: &mut HashMap<K, V>, changed: HashMap<K, Option<V>>) {
    for (id, state) in changed {
        match state {
            Some(state) => states.insert(id, state),
            None => states.remove(&id),
        };
    }
}

fn load_leads(
    store: &Store,
    [from, to]: [&[u8]; 2],
) -> Result<HashMap<LeadId, LeadState>, ApplyError> {
    load(store, from, to, |id, value| Ok((LeadId(id), system::decode_lead(value)?)))
}

fn load<K: Hash + Eq, V>(
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

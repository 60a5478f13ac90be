//! How many keys there may be. Where there is no room for another, those that ended go, those of the same user first. So
//! their number has a limit, whatever is made and taken back, and who makes keys that end at once keeps nobody from
//! making one. Nor do users who make as many as they may: each leaves as much room as it takes (a dynamic threshold,
//! Choudhury and Hahne 1998).

use super::key::Key;

/// The keys that are kept, those that ended included: of users, and as many of followers. Each change of one has every
/// node read all of them.
const OF_ALL: Room = Room { count: KEYS_MAX, bytes: 4 << 20 };
/// Those of them that one user has.
pub(super) const OF_USER: Room = Room { count: KEYS_OF_USER_MAX, bytes: 512 << 10 };
pub(super) const KEYS_MAX: usize = 1000;
pub(super) const KEYS_OF_USER_MAX: usize = 200;

/// How many keys there may be, and how many bytes as they are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) count: usize,
    pub(super) bytes: usize,
}

impl Room {
    /// What keys take up, each with its bytes.
    fn taken<'a>(keys: impl Iterator<Item = &'a (Key, usize)>) -> Self {
        keys.fold(Self { count: 0, bytes: 0 }, |all, (_, bytes)| all.and(*bytes))
    }

    /// This and one key more.
    fn and(self, bytes: usize) -> Self {
        Self { count: self.count + 1, bytes: self.bytes.saturating_add(bytes) }
    }

    /// This, and of each at most so much.
    fn min(self, other: Self) -> Self {
        Self { count: self.count.min(other.count), bytes: self.bytes.min(other.bytes) }
    }

    /// What is left of it.
    fn without(self, taken: Self) -> Self {
        Self {
            count: self.count.saturating_sub(taken.count),
            bytes: self.bytes.saturating_sub(taken.bytes),
        }
    }

    fn holds(self, taken: Self) -> bool {
        taken.count <= self.count && taken.bytes <= self.bytes
    }

    /// The keys that go so that one more fits: of `keys`, each with its bytes, the first that have ended. None where
    /// that does not do.
    fn make<'a>(
        self,
        keys: impl Iterator<Item = &'a (Key, usize)> + Clone,
        bytes: usize,
        now_ms: u64,
    ) -> Option<Vec<String>> {
        let mut taken = Self::taken(keys.clone()).and(bytes);
        let mut gone = Vec::new();
        for (key, bytes) in keys {
            if self.holds(taken) {
                break;
            }
            key.ended_ms(now_ms)?;
            taken = taken.without(Self { count: 1, bytes: *bytes });
            gone.push(key.id.clone());
        }
        self.holds(taken).then_some(gone)
    }
}

/// For whose keys there is no room; see [`super::KeysError`].
pub(super) enum NoRoom {
    OfAll,
    OfUser,
}

/// The keys that go so that there is room for one more.
pub(super) fn make_room(kept: Vec<Key>, one: &Key, now_ms: u64) -> Result<Vec<String>, NoRoom> {
    let bytes_of = |key: &Key| serde_json::to_vec(key).map_or(usize::MAX, |json| json.len());
    // Those of users and those of followers have room of their own.
    let alike = kept.into_iter().filter(|key| key.owner.is_some() == one.owner.is_some());
    let with_bytes = |key: Key| {
        let bytes = bytes_of(&key);
        (key, bytes)
    };
    let mut alike: Vec<_> = alike.map(with_bytes).collect();
    let is_own = |key: &Key| one.owner.as_ref().is_some_and(|owner| key.is_of(&owner.user));
    // Its own go first, what has not ended last.
    alike.sort_by_key(|(key, _)| match key.ended_ms(now_ms) {
        Some(ended_ms) => (false, !is_own(key), ended_ms),
        None => (true, false, 0),
    });
    let bytes = bytes_of(one);
    let mut gone = Vec::new();
    if one.owner.is_some() {
        // What has ended makes room: only what holds keeps others out.
        let holding = || alike.iter().filter(|(key, _)| key.ended_ms(now_ms).is_none());
        let left = OF_ALL.without(Room::taken(holding()));
        let own = alike.iter().filter(|(key, _)| is_own(key));
        gone = OF_USER.min(left).make(own, bytes, now_ms).ok_or_else(|| {
            match holding().any(|(key, _)| is_own(key)) {
                true => NoRoom::OfUser,
                false => NoRoom::OfAll,
            }
        })?;
    }
    let others = alike.iter().filter(|(key, _)| !gone.contains(&key.id));
    let of_all = OF_ALL.make(others, bytes, now_ms).ok_or(NoRoom::OfAll)?;
    gone.extend(of_all);
    Ok(gone)
}

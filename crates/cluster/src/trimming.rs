//! What of the log nobody needs any more. Every node says in its beats up to where its copies are
//! durable; the one that acts trims each group to the lowest of all that count. A word that was
//! said before the last change of where copies are does not count: it may not have known of a
//! copy that begins earlier.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_log::{GroupId, Lsn};

use crate::members::Beat;
use crate::metadata;
use crate::node::{GROUPS, Shared};
use crate::placement::filter::Filter;

/// What is remembered from one time to the next.
#[derive(Default)]
pub(crate) struct Trimming {
    /// Where the metadata stood when tables or copies changed last.
    changed: Lsn,
    trimmed: BTreeMap<u16, u64>,
}

impl Trimming {
    /// The metadata at this position says something new about tables or copies.
    pub(crate) fn tables_changed(&mut self, position: Lsn) {
        self.changed = position;
    }

    /// Up to where each group may be trimmed, after what each node that counts has said; nothing
    /// where one has not spoken since the last change.
    fn floors(&self, beats: &[Beat]) -> BTreeMap<u16, u64> {
        if beats.is_empty() || beats.iter().any(|beat| beat.metadata < self.changed.0) {
            return BTreeMap::new();
        }
        let floor = |group: u16| {
            let said = beats.iter().map(|beat| beat.durable.get(&group).copied().unwrap_or(0));
            (group, said.min().unwrap_or(0))
        };
        let is_new =
            |(group, floor): &(u16, u64)| *floor > self.trimmed.get(group).copied().unwrap_or(0);
        (0..=GROUPS).map(floor).filter(is_new).collect()
    }
}

/// Trims what nobody needs. A node that left counts for as long as it is waited for.
pub(crate) async fn trim(
    shared: &Arc<Shared>,
    position: Lsn,
    trimming: &mut Trimming,
) -> Result<(), String> {
    let log_time_ms = shared.metadata.log_time_ms();
    let places = shared.members.places(log_time_ms, metadata::DELAYED_MS, &Filter::default());
    let mut beats = Vec::new();
    for (node, place) in &places {
        if place.is_counted {
            // One that never beat has nothing that could be needed, or will say so.
            let beat = metadata::last_beat(&shared.metadata, node)?;
            beats.push(beat.map(|(beat, _)| beat).unwrap_or_default());
        }
    }
    if trimming.changed == Lsn(0) {
        trimming.changed = position;
    }
    for (group, floor) in trimming.floors(&beats) {
        let log = Arc::clone(&shared.log);
        let trim = move || log.trim(GroupId(group), Lsn(floor));
        let trimmed = tokio::task::spawn_blocking(trim).await.map_err(|error| error.to_string())?;
        match trimmed {
            Ok(()) => {
                trimming.trimmed.insert(group, floor);
            }
            Err(error) => tracing::warn!(group, %error, "the log cannot be trimmed"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(metadata: u64, durable: &[(u16, u64)]) -> Beat {
        Beat { metadata, durable: durable.iter().copied().collect(), ..Beat::default() }
    }

    #[test]
    fn the_lowest_counts_and_who_says_nothing_of_a_group_holds_it() {
        let trimming = Trimming::default();
        let beats = [beat(9, &[(0, 7), (1, 20)]), beat(9, &[(0, 5)])];
        assert_eq!(trimming.floors(&beats), BTreeMap::from([(0, 5)]));
        assert_eq!(trimming.floors(&[]), BTreeMap::new());
    }

    #[test]
    fn a_word_from_before_a_change_holds_everything() {
        let mut trimming = Trimming::default();
        trimming.tables_changed(Lsn(10));
        let late = [beat(10, &[(1, 20)]), beat(9, &[(1, 30)])];
        assert_eq!(trimming.floors(&late), BTreeMap::new());
        let known = [beat(10, &[(1, 20)]), beat(12, &[(1, 30)])];
        assert_eq!(trimming.floors(&known), BTreeMap::from([(1, 20)]));
        trimming.trimmed.insert(1, 20);
        assert_eq!(trimming.floors(&known), BTreeMap::new(), "it was trimmed there already");
    }
}

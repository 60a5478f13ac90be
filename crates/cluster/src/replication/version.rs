//! The cluster's version as the metadata has it: this node takes it over, and raises it for all.

use super::proposing::NotChanged;
use super::service::Replication;
use crate::metadata;
use crate::metadata::error::MetadataError;
use crate::metadata::members::Member;
use crate::metadata::version::{BUDGETS, PACKED_ROWS, refusal};
use crate::settings;

impl Replication {
    /// Takes over the cluster's version.
    pub(crate) fn follow_version(&self) -> Result<(), MetadataError> {
        let version = metadata::version(&self.metadata)?;
        self.version.raise(version);
        if version >= PACKED_ROWS {
            self.resources.pack_rows();
        }
        if let Some(why) = refusal(version) {
            self.reopening.tell(&why);
        }
        let is_decided = self.version.allows(BUDGETS);
        if is_decided && self.version.take_stopped() {
            self.reopening.tell("a partition stopped at what the cluster's version now decides");
        }
        Ok(())
    }

    /// Raises the cluster's version to what all members know; for the node that acts.
    pub(crate) async fn raise_version(&self) -> Result<(), NotChanged> {
        let version = metadata::version(&self.metadata)?;
        let members = self.members.all();
        let tables = self.tables.all();
        let is_named = |node: &str| {
            let mut copies = tables.iter().flat_map(|table| table.copies());
            copies.any(|it| it.definition().copy_on(node).is_some())
        };
        let known = known_by_all(members.values().map(AsRef::as_ref), is_named);
        let Some(known) = known.filter(|known| *known > version) else { return Ok(()) };
        if settings::cluster::holds_version(&self.metadata) {
            return Ok(());
        }
        tracing::info!(from = version, to = known, "the cluster's version is raised");
        self.write_metadata(metadata::put_version(known)).await?;
        Ok(())
    }
}

/// What all members know. One that is away counts for as long as it may come back with what it
/// holds: it is named for a copy.
fn known_by_all<'a>(
    members: impl Iterator<Item = &'a Member>,
    is_named: impl Fn(&str) -> bool,
) -> Option<u32> {
    let counted = members.filter(|it| it.is_alive() || is_named(&it.id));
    counted.map(|it| it.record.version_known).min()
}

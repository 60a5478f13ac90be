//! Where a copy lies until it is whole, and how it takes the place of the partition's folder.
//!
//! | folder | what |
//! |---|---|
//! | `<partition>` | the replica |
//! | `<partition>.index` | the index over its documents |
//! | `<partition>.incoming` | a copy that is not whole yet, to be resumed |
//! | `<partition>.incoming/index` | the index that comes with it, where one does |
//! | `<partition>/index` | the same, of a copy that has just taken its place |
//! | `<partition>.outgoing` | the replica that a copy is taking the place of |
//!
//! A copy that is whole takes its place by two renames, old one out and new one in, each durable
//! before the next step; a crash between them is finished at the next start. So there is the old
//! replica or the new one, and nothing in between is ever opened. The index comes with the rows that
//! it is over by the same rename, and takes its own place by one more; the old index is gone for good
//! before any of it. An index that is in its place is never older than the rows, so that one which is
//! still within them then was left over, and goes.

use crate::metadata::table::partition_named;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_base::Disk;
use plimsoll_log::PartitionId;

use crate::wire::FileKind;

const INCOMING: &str = "incoming";
const OUTGOING: &str = "outgoing";
/// How often a folder is emptied again that a file came into meanwhile.
const REMOVALS: usize = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);
/// What the folder of an incoming index is called within that of the rows that it is over.
pub(super) const INDEX: &str = "index";

/// The folders of one partition.
#[derive(Clone)]
pub(crate) struct Folders {
    pub(super) disk: Disk,
    /// What all of them are in.
    parent: PathBuf,
    /// The replica.
    pub replica: PathBuf,
    /// What a copy is gathered in.
    pub incoming: PathBuf,
    outgoing: PathBuf,
    pub index: PathBuf,
}

impl Folders {
    /// Those of a partition, where `parent` is the folder of all partitions.
    pub(crate) fn of(disk: &Disk, parent: &Path, partition: PartitionId) -> Self {
        let beside = |suffix: &str| parent.join(format!("{partition}.{suffix}"));
        Self {
            disk: disk.clone(),
            replica: parent.join(partition.to_string()),
            incoming: beside(INCOMING),
            outgoing: beside(OUTGOING),
            index: beside("index"),
            parent: parent.to_owned(),
        }
    }

    /// Where files of a kind are gathered.
    pub(super) fn incoming_of(&self, kind: FileKind) -> PathBuf {
        match kind {
            FileKind::Rows => self.incoming.clone(),
            FileKind::Index => self.incoming.join(INDEX),
        }
    }

    /// Where files of a kind are that a copy takes the place of.
    pub(super) fn old(&self, kind: FileKind) -> &Path {
        match kind {
            FileKind::Rows => &self.replica,
            FileKind::Index => &self.index,
        }
    }

    /// Puts what is in the incoming folder, whole and durable, in the replica's place; replica and
    /// index that were there are deleted, and neither may be open. Blocks.
    pub(super) fn swap(&self) -> io::Result<()> {
        // It is of other rows: it comes with these, or is built anew from them.
        self.remove(&self.index)?;
        self.disk.sync_dir(&self.parent)?;
        if self.disk.has_dir(&self.replica)? {
            self.remove(&self.outgoing)?;
            self.disk.rename_dir(&self.replica, &self.outgoing)?;
        }
        // Durable each on its own: the second never is without the first.
        self.disk.sync_dir(&self.parent)?;
        if let Err(error) = self.disk.rename_dir(&self.incoming, &self.replica) {
            // The next start would finish_swaps it as well, but the node goes on.
            return match self.disk.has_dir(&self.outgoing)? {
                true => self.disk.rename_dir(&self.outgoing, &self.replica).and(Err(error)),
                false => Err(error),
            };
        }
        self.disk.sync_dir(&self.parent)?;
        self.place_index()?;
        self.remove(&self.outgoing)
    }

    /// Puts the index that came with the rows in its place, where one did.
    fn place_index(&self) -> io::Result<()> {
        let arrived = self.replica.join(INDEX);
        if !self.disk.has_dir(&arrived)? {
            return Ok(());
        }
        // One that is there was made after these rows had taken their place, and went on from them.
        if self.disk.has_dir(&self.index)? {
            return self.remove(&arrived);
        }
        self.disk.rename_dir(&arrived, &self.index)?;
        self.disk.sync_dir(&self.parent)?;
        self.disk.sync_dir(&self.replica)
    }

    /// Takes the index away that came with a copy, before the copy is in its place. Blocks.
    pub(super) fn drop_incoming_index(&self) -> io::Result<()> {
        self.remove(&self.incoming.join(INDEX))
    }

    /// Deletes everything of the partition, also what was copied so far. Blocks.
    ///
    /// # Errors
    /// Where files cannot be deleted.
    pub(crate) fn delete(&self) -> io::Result<()> {
        for dir in [&self.replica, &self.index, &self.incoming, &self.outgoing] {
            self.remove(dir)?;
        }
        self.disk.sync_dir(&self.parent)
    }

    /// Deletes a folder with all that is in it. What was told to stop may have been about to make a
    /// file (a flush that began before): a folder that is not empty after all is emptied again.
    #[expect(clippy::disallowed_methods, reason = "a simulation's disk is never in the way")]
    fn remove(&self, dir: &Path) -> io::Result<()> {
        for _ in 0..REMOVALS {
            match self.disk.remove_dir(dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    std::thread::sleep(REMOVAL_PAUSE);
                }
                removed => return removed,
            }
        }
        self.disk.remove_dir(dir)
    }

    /// Brings a swap that a crash broke off to its end.
    fn finish_swaps(&self) -> io::Result<()> {
        if self.disk.has_dir(&self.outgoing)? && !self.disk.has_dir(&self.replica)? {
            // Where nothing waits to come in, no swap left this, and nobody vouches that it is
            // whole: it is kept as what a copy may reuse after comparing.
            let is_swap = self.disk.has_dir(&self.incoming)?;
            let from = if is_swap { &self.incoming } else { &self.outgoing };
            let to = if is_swap { &self.replica } else { &self.incoming };
            // It is not of the rows that are to be there.
            self.remove(&self.index)?;
            self.disk.sync_dir(&self.parent)?;
            self.disk.rename_dir(from, to)?;
            self.disk.sync_dir(&self.parent)?;
        }
        self.place_index()?;
        self.remove(&self.outgoing)
    }
}

/// Finishes what a crash left in the folder of all partitions, before any is opened, and says of
/// which partitions there are copies that are not whole. Blocks.
///
/// # Errors
/// Where folders cannot be read, renamed or deleted.
pub(crate) fn finish_swaps(disk: &Disk, parent: &Path) -> io::Result<Vec<PartitionId>> {
    let mut partitions = Vec::new();
    for name in disk.list_dirs(parent)? {
        let Some(name) = name.to_str() else { continue };
        match name.rsplit_once('.') {
            Some((partition, INCOMING | OUTGOING)) => partitions.extend(partition_named(partition)),
            // An index may be within it that has not taken its place.
            None if disk.has_dir(&parent.join(name).join(INDEX))? => {
                partitions.extend(partition_named(name));
            }
            _ => {}
        }
    }
    partitions.sort_unstable();
    partitions.dedup();
    let mut unfinished = Vec::new();
    for partition in partitions {
        let folders = Folders::of(disk, parent, partition);
        folders.finish_swaps()?;
        if disk.has_dir(&folders.incoming)? {
            unfinished.push(partition);
        }
    }
    Ok(unfinished)
}

#[cfg(test)]
mod tests {
    //! Tests of every state that a crash can leave.

    use super::*;

    const ID: PartitionId = PartitionId { table: 0xab, ordinal: 3 };

    /// Folders that hold a file of this text each.
    fn make(folders: &[(&Path, &str)]) {
        for (dir, text) in folders {
            std::fs::create_dir_all(dir).unwrap();
            std::fs::write(dir.join("file"), text).unwrap();
        }
    }

    fn text(dir: &Path) -> Option<String> {
        std::fs::read_to_string(dir.join("file")).ok()
    }

    fn states(folders: &Folders) -> [Option<String>; 4] {
        [&folders.replica, &folders.incoming, &folders.outgoing, &folders.index]
            .map(|dir| text(dir))
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn the_new_copy_takes_the_place_of_the_old_one_and_its_index() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders::of(&Disk::of_the_machine(), dir.path(), ID);
        make(&[(&folders.replica, "old"), (&folders.index, "old"), (&folders.incoming, "new")]);
        folders.swap().unwrap();
        assert_eq!(states(&folders), [some("new"), None, None, None]);
        make(&[(&folders.incoming, "newer")]);
        std::fs::remove_dir_all(&folders.replica).unwrap();
        folders.swap().unwrap();
        assert_eq!(states(&folders), [some("newer"), None, None, None]);
    }

    #[test]
    fn a_folder_goes_away_although_a_file_is_still_coming_into_it() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders::of(&Disk::of_the_machine(), dir.path(), ID);
        for _ in 0..20 {
            make(&[(&folders.replica, "rows")]);
            std::thread::scope(|scope| {
                let replica = &folders.replica;
                // A flush that was on its way makes some hundred files, until the folder is gone.
                scope.spawn(move || {
                    (0..500)
                        .take_while(|n| std::fs::write(replica.join(n.to_string()), "").is_ok())
                        .count()
                });
                folders.delete().unwrap();
            });
            assert!(!folders.replica.exists());
        }
    }

    #[test]
    fn an_index_that_comes_along_takes_the_place_of_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders::of(&Disk::of_the_machine(), dir.path(), ID);
        let arrives = &folders.incoming_of(FileKind::Index);
        for old in ["old", "new"] {
            make(&[(&folders.replica, old), (&folders.index, "old")]);
            make(&[(&folders.incoming, "new"), (arrives, "new")]);
            folders.swap().unwrap();
            assert_eq!(states(&folders), [some("new"), None, None, some("new")]);
            assert!(!folders.replica.join(INDEX).exists());
        }
        make(&[(&folders.incoming, "newer"), (arrives, "newer")]);
        folders.drop_incoming_index().unwrap();
        folders.swap().unwrap();
        assert_eq!(states(&folders), [some("newer"), None, None, None]);
    }

    /// Where a crash may come: after so many steps of a swap, which are in this order.
    #[test]
    fn a_swap_with_an_index_that_breaks_off_anywhere_leaves_rows_and_an_index_that_fit() {
        let steps: [fn(&Folders); 5] = [
            |it| std::fs::remove_dir_all(&it.index).unwrap(),
            |it| std::fs::rename(&it.replica, &it.outgoing).unwrap(),
            |it| std::fs::rename(&it.incoming, &it.replica).unwrap(),
            |it| std::fs::rename(it.replica.join(INDEX), &it.index).unwrap(),
            |it| std::fs::remove_dir_all(&it.outgoing).unwrap(),
        ];
        for done in 0..=steps.len() {
            let dir = tempfile::tempdir().unwrap();
            let folders = Folders::of(&Disk::of_the_machine(), dir.path(), ID);
            let arrives = &folders.incoming_of(FileKind::Index);
            make(&[(&folders.replica, "old"), (&folders.index, "old")]);
            make(&[(&folders.incoming, "new"), (arrives, "new")]);
            steps[..done].iter().for_each(|step| step(&folders));
            // Settling may be broken off as well: it is done twice.
            for _ in 0..2 {
                let unfinished = finish_swaps(&Disk::of_the_machine(), dir.path()).unwrap();
                let expected = match done {
                    0 => [some("old"), some("new"), None, some("old")],
                    1 => [some("old"), some("new"), None, None],
                    _ => [some("new"), None, None, some("new")],
                };
                assert_eq!(states(&folders), expected, "after {done} steps");
                assert_eq!(unfinished.len(), usize::from(done < 2));
                assert!(!folders.replica.join(INDEX).exists(), "after {done} steps");
                assert_eq!(arrives.exists(), done < 2, "what came is gone on with");
            }
        }
    }

    #[test]
    fn an_index_that_was_made_over_a_copy_is_not_replaced_by_the_one_that_came_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders::of(&Disk::of_the_machine(), dir.path(), ID);
        // As a node leaves it that knows of no index which comes along.
        make(&[(&folders.replica, "rows"), (&folders.replica.join(INDEX), "came")]);
        make(&[(&folders.index, "made")]);
        assert!(finish_swaps(&Disk::of_the_machine(), dir.path()).unwrap().is_empty());
        assert_eq!(states(&folders), [some("rows"), None, None, some("made")]);
        assert!(!folders.replica.join(INDEX).exists());
    }

    #[test]
    fn an_old_index_is_never_left_over_new_rows() {
        // Should its removal not have come to the disk before what followed.
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders::of(&Disk::of_the_machine(), dir.path(), ID);
        make(&[(&folders.outgoing, "old"), (&folders.index, "old"), (&folders.incoming, "new")]);
        assert!(finish_swaps(&Disk::of_the_machine(), dir.path()).unwrap().is_empty());
        assert_eq!(states(&folders), [some("new"), None, None, None]);
    }

    #[test]
    fn a_swap_that_was_broken_off_is_settled_and_an_unfinished_copy_kept() {
        // What there is of replica, incoming and outgoing; the same after.
        type Three = [Option<&'static str>; 3];
        let cases: [(Three, Three); 7] = [
            ([None, None, None], [None, None, None]),
            ([Some("old"), None, None], [Some("old"), None, None]),
            ([Some("old"), Some("part"), None], [Some("old"), Some("part"), None]),
            ([None, Some("new"), Some("old")], [Some("new"), None, None]),
            ([Some("new"), None, Some("old")], [Some("new"), None, None]),
            ([Some("new"), Some("part"), Some("old")], [Some("new"), Some("part"), None]),
            ([None, None, Some("unknown")], [None, Some("unknown"), None]),
        ];
        for (before, after) in cases {
            let dir = tempfile::tempdir().unwrap();
            let folders = Folders::of(&Disk::of_the_machine(), dir.path(), ID);
            make(&[(&dir.path().join("other.incoming"), "not ours")]);
            for (folder, text) in
                [&folders.replica, &folders.incoming, &folders.outgoing].into_iter().zip(before)
            {
                text.into_iter().for_each(|text| make(&[(folder, text)]));
            }
            let unfinished = finish_swaps(&Disk::of_the_machine(), dir.path()).unwrap();
            let [replica, incoming, outgoing] = after.map(|text| text.map(str::to_owned));
            assert_eq!(states(&folders), [replica, incoming, outgoing, None], "{before:?}");
            let expected = if after[1].is_some() { vec![ID] } else { Vec::new() };
            assert_eq!(unfinished, expected, "{before:?}");
            assert_eq!(text(&dir.path().join("other.incoming")), some("not ours"));
        }
    }
}

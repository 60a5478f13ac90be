//! Tests of what both kinds of disks do alike.

use super::*;
use crate::Random;

/// What both kinds do alike, in an empty folder.
fn does_what_files_do(disk: &Disk, dir: &Path) {
    let (one, two, three) = (dir.join("one"), dir.join("two"), dir.join("three"));
    disk.create_dir(dir).unwrap();
    assert!(disk.has_dir(dir).unwrap() && disk.list(dir).unwrap().is_empty());
    let kind = |result: io::Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(disk.sync(&one)), io::ErrorKind::NotFound);
    disk.write_new(&one, b"1").unwrap();
    assert_eq!(kind(disk.write_new(&one, b"2")), io::ErrorKind::AlreadyExists);
    disk.sync(&one).unwrap();
    disk.link(&one, &two).unwrap();
    assert_eq!(kind(disk.link(&one, &two)), io::ErrorKind::AlreadyExists);
    disk.write_new(&three, b"3").unwrap();
    disk.rename(&three, &one).unwrap();
    disk.sync_dir(dir).unwrap();
    assert_eq!(disk.list(dir).unwrap(), [Path::new("one"), Path::new("two")]);
    assert_eq!((disk.read(&one).unwrap(), disk.read(&two).unwrap()), (vec![b'3'], vec![b'1']));
    disk.remove(&one).unwrap();
    assert_eq!(kind(disk.remove(&one)), io::ErrorKind::NotFound);
    assert_eq!(disk.read(&one).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(kind(disk.rename(&one, &three)), io::ErrorKind::NotFound);
    assert_eq!(kind(disk.link(&one, &three)), io::ErrorKind::NotFound);
    assert_eq!(disk.list(&dir.join("no")).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert!(disk.has(&two) && !disk.has(&one) && !disk.has(dir));
    let (inner, moved) = (dir.join("inner"), dir.join("moved"));
    disk.create_dir(&inner.join("deep")).unwrap();
    disk.write_new(&inner.join("deep/file"), b"4").unwrap();
    disk.rename_dir(&inner, &moved).unwrap();
    assert_eq!(disk.read(&moved.join("deep/file")).unwrap(), b"4");
    assert!(!disk.has_dir(&inner).unwrap() && disk.list_dirs(dir).unwrap() == [Path::new("moved")]);
    assert_eq!(kind(disk.rename_dir(&inner, &moved)), io::ErrorKind::NotFound);
    disk.create_dir(&inner).unwrap();
    assert_eq!(kind(disk.rename_dir(&inner, &moved)), io::ErrorKind::DirectoryNotEmpty);
    disk.remove_dir(&moved).unwrap();
    assert_eq!(kind(disk.remove_dir(&moved)), io::ErrorKind::NotFound);
    assert!(disk.has_dir(&inner).unwrap() && !disk.has(&moved.join("deep/file")));
}

/// The same of files that are open, and of what is told of files.
fn has_files_that_are_open(disk: &Disk, dir: &Path) {
    let (one, two, three) = (dir.join("one"), dir.join("two"), dir.join("three"));
    disk.create_dir(&dir.join("inner")).unwrap();
    let kind = |result: io::Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(disk.open(&one).map(drop)), io::ErrorKind::NotFound);
    assert_eq!(kind(disk.find(&one).map(drop)), io::ErrorKind::NotFound);
    assert_eq!(kind(disk.copy(&one, &two)), io::ErrorKind::NotFound);
    assert!(disk.open_to_write(&dir.join("no/file")).is_err());
    let file = disk.open_to_write(&one).unwrap();
    file.write_all_at(b"abcdef", 0).unwrap();
    file.write_all_at(b"XY", 5).unwrap();
    file.write_all_at(b"!", 9).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.read(&one).unwrap(), b"abcdeXY\0\0!");
    let mut read = [b'-'; 4];
    let opened = disk.open(&one).unwrap();
    assert_eq!((opened.read_at(&mut read, 4).unwrap(), &read), (4, b"eXY\0"));
    assert_eq!((opened.read_at(&mut read, 8).unwrap(), &read[..2]), (2, &b"\0!"[..]));
    assert_eq!(opened.read_at(&mut read, 10).unwrap(), 0);
    opened.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"abcd");
    assert_eq!(kind(opened.read_exact_at(&mut read, 7)), io::ErrorKind::UnexpectedEof);

    let before = disk.find(&one).unwrap();
    assert!(before.is_file() && (before.bytes, before.names) == (10, 1));
    disk.link(&one, &two).unwrap();
    disk.copy(&one, &three).unwrap();
    let found = |path: &Path| disk.find(path).unwrap();
    assert_eq!((found(&two), found(&two).names), (found(&one), 2), "names of one file");
    assert_eq!(found(&one).identity, before.identity, "a name more changes nothing");
    assert_ne!(found(&three).identity, before.identity, "a copy is another file");
    assert_eq!(disk.read(&three).unwrap(), disk.read(&one).unwrap());
    file.set_length(2).unwrap();
    assert_ne!(found(&one).identity, before.identity, "it was written to");
    assert_eq!((disk.read(&two).unwrap(), found(&three).bytes), (b"ab".to_vec(), 10));
    file.set_length(4).unwrap();
    assert_eq!(disk.read(&one).unwrap(), b"ab\0\0");
    disk.copy(&three, &one).unwrap();
    assert_eq!(disk.read(&two).unwrap(), b"abcdeXY\0\0!", "what is there is overwritten");

    let all = disk.find_in(dir).unwrap();
    let kinds: Vec<_> = all.iter().map(|(name, it)| (name.to_str().unwrap(), it.kind)).collect();
    let (a_dir, a_file) = (FoundKind::Dir, FoundKind::File);
    let expected = [("inner", a_dir), ("one", a_file), ("three", a_file), ("two", a_file)];
    assert_eq!(kinds, expected);
    assert_eq!((all[1].1, found(dir).kind), (found(&one), a_dir));
    assert!(disk.find_in(&dir.join("inner")).unwrap().is_empty());
    assert_eq!(disk.find_in(&dir.join("no")).unwrap_err().kind(), io::ErrorKind::NotFound);

    disk.remove(&one).unwrap();
    disk.remove(&two).unwrap();
    file.write_all_at(b"still", 0).unwrap();
    opened.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"stil", "who has it open has it still");
}

#[test]
fn both_kinds_do_what_files_do() {
    let dir = std::env::temp_dir().join(format!("plimsoll-disk-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    for does in [does_what_files_do, has_files_that_are_open] {
        does(&Disk::of_the_machine(), &dir);
        fs::remove_dir_all(&dir).unwrap();
        does(&SimulatedDisk::new(&Random::seeded(1)).started(), &dir);
    }
}

"""Takes back what a killed process had not synced, from the journal that shim.c kept.

Nothing that was synced is touched. Of the rest a real disk may have written any part, so a seed
decides: seed 0 loses all of it; another keeps a random subset of the unsynced pages, and the
changes of names up to a random one of them (file systems commit those in order).
"""

import collections
import dataclasses
import os
import pathlib
import random
import struct

HEAD = struct.Struct("<cQQQIIQ")
PAGE_BYTES = 4096
NAMES = b"CRULDX"


@dataclasses.dataclass
class Record:
    position: int
    kind: bytes
    inode: int
    offset: int
    size: int
    path: str
    second: str
    saved: bytes

    @property
    def folders(self):
        return {os.path.dirname(p) for p in (self.path, self.second) if p}

    def lies_under(self, folder):
        return any(pathlib.PurePath(it).is_relative_to(folder) for it in self.folders)


def read_journal(path):
    """The whole records; a last one that was cut off undoes a change that never happened."""
    if not pathlib.Path(path).exists():
        return []  # The power went before the process opened a file.
    data = pathlib.Path(path).read_bytes()
    records, at = [], 0
    while at + HEAD.size <= len(data):
        kind, inode, offset, size, path_bytes, second_bytes, saved_bytes = HEAD.unpack_from(data, at)
        begin = at + HEAD.size
        ends = [begin + path_bytes, begin + path_bytes + second_bytes]
        end = ends[1] + saved_bytes
        if end > len(data):
            break
        path, second = os.fsdecode(data[begin : ends[0]]), os.fsdecode(data[ends[0] : ends[1]])
        records.append(Record(at, kind, inode, offset, size, path, second, data[ends[1] : end]))
        at = end
    return records


def unsynced(records):
    """The writes by file and the changes of names that no sync covered, in their order."""
    synced, folders, above = {}, {}, {}
    for record in records:
        if record.kind == b"S":
            synced[record.inode] = record.offset
        elif record.kind == b"Y":
            folders[record.path] = record.offset
        if record.kind in b"SY":
            # A file system that keeps a file keeps the folders that lead to it.
            above.update((str(parent), record.offset) for parent in pathlib.Path(record.path).parents)
            above[record.path] = record.offset
    writes, names = collections.defaultdict(list), []
    for record in records:
        if record.kind == b"W" and record.position >= synced.get(record.inode, 0):
            writes[record.inode].append(record)
        elif record.kind in NAMES:
            own = (record.kind == b"C" and record.position < synced.get(record.inode, 0)) or (
                record.kind == b"D" and record.position < above.get(record.path, 0)
            )
            kept = all(record.position < folders.get(f, 0) for f in record.folders)
            if kept and record.kind == b"X":
                # A folder that is gone for good takes with it what was removed in it before.
                names = [it for it in names if not it.lies_under(record.path)]
            elif not own and not kept:
                names.append(record)
    return writes, names


def find_inodes(folders):
    found = {}
    for folder in folders:
        for base, _, files in os.walk(folder):
            for name in files:
                path = os.path.join(base, name)
                found.setdefault(os.lstat(path).st_ino, path)
    return found


def undo_writes(path, writes, chance):
    """Brings one file back to its synced bytes, except for the pages that `chance` lets through."""
    with open(path, "r+b") as file:
        now = os.fstat(file.fileno()).st_size
        pages = {}

        def page(number):
            if number not in pages:
                pages[number] = bytearray(os.pread(file.fileno(), PAGE_BYTES, number * PAGE_BYTES))
            return pages[number]

        touched = set()
        for write in reversed(writes):
            at = 0
            while at < len(write.saved):
                number, inner = divmod(write.offset + at, PAGE_BYTES)
                piece = write.saved[at : at + PAGE_BYTES - inner]
                buffer = page(number)
                buffer.extend(bytes(max(0, inner + len(piece) - len(buffer))))
                buffer[inner : inner + len(piece)] = piece
                touched.add(number)
                at += len(piece)
        size = writes[0].size
        grown = range(-(-size // PAGE_BYTES), -(-now // PAGE_BYTES))
        keep = [n for n in sorted(touched | set(grown)) if chance and chance.random() < 0.5]
        kept = {n: os.pread(file.fileno(), PAGE_BYTES, n * PAGE_BYTES) for n in keep}
        file.truncate(size)
        for number in sorted(touched):
            begin = number * PAGE_BYTES
            os.pwrite(file.fileno(), pages[number][: max(0, size - begin)], begin)
        for number, content in kept.items():
            os.pwrite(file.fileno(), content, number * PAGE_BYTES)


def undo_name(record, saved):
    """Takes one change of names back; later ones were taken back before it."""
    if record.kind in b"CL":
        os.unlink(record.path)
    elif record.kind == b"D":
        os.rmdir(record.path)
    elif record.kind == b"X":
        os.mkdir(record.path)
    elif record.kind == b"U":
        os.link(saved / f"saved.{record.size}", record.path)
    else:
        os.rename(record.second, record.path)
        if record.size:
            os.link(saved / f"saved.{record.size}", record.second)


def restore(data, journal, seed):
    """Applies the power loss to the folder `data`; returns how many changes were lost."""
    writes, names = unsynced(read_journal(pathlib.Path(journal) / "journal"))
    chance = random.Random(seed) if seed else None
    paths = find_inodes([data, journal])
    for inode, records in writes.items():
        undo_writes(paths[inode], records, chance)
    lost = names[chance.randint(0, len(names)) :] if chance else names
    for record in reversed(lost):
        undo_name(record, pathlib.Path(journal))
    return sum(map(len, writes.values())) + len(lost)

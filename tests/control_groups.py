"""Control groups with a limit of memory, of version 1 or 2, where the system lets us make one."""

import contextlib
import os
import pathlib
import random

GROUPS = pathlib.Path("/sys/fs/cgroup")


class Group:
    """One such group."""

    def __init__(self, limit_bytes):
        name = f"plimsoll-test-{os.getpid()}-{random.randrange(1 << 30)}"
        second = (GROUPS / "cgroup.controllers").exists()
        base, file = (GROUPS, "memory.max") if second else (GROUPS / "memory", "memory.limit_in_bytes")
        self.folder = base / name
        self.folder.mkdir()
        try:
            (self.folder / file).write_text(str(limit_bytes))
        except OSError:
            self.folder.rmdir()
            raise

    def enter(self):
        """To be called in the process that is to be limited."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def close(self):
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def limited(limit_bytes):
    """A group with this limit, or none where there cannot be one."""
    try:
        return Group(limit_bytes)
    except OSError:
        return None

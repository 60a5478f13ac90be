"""Freezes single threads of a process of ours, which goes on otherwise."""

import contextlib
import ctypes
import fnmatch
import os
import pathlib

import pytest

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000


def ptrace(request, thread):
    if LIBC.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {thread}")


def threads(process, name):
    """The threads of a process by their name, which may be a pattern."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
    return [int(task.name) for task in tasks if fnmatch.fnmatch((task / "comm").read_text().strip(), name)]


@contextlib.contextmanager
def frozen(process, name):
    """All threads of a process that have this name stand still until the end."""
    found = threads(process, name)
    assert found, f"no thread is called {name}"
    for thread in found:
        try:
            ptrace(PTRACE_SEIZE, thread)
        except PermissionError as error:
            pytest.skip(f"this machine lets nobody freeze a thread: {error}")
        ptrace(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, WALL)
    try:
        yield
    finally:
        for thread in found:
            ptrace(PTRACE_DETACH, thread)

"""The power-loss test's own tools do what they say: synced changes stay, others go."""

import subprocess
import sys

from test_power_loss import restore, shim  # noqa: F401

SETUP = """
import os
def write(name, data, flags=os.O_CREAT | os.O_WRONLY, sync=False, at=None):
    fd = os.open(name, flags, 0o600)
    os.write(fd, data) if at is None else os.pwrite(fd, data, at)
    if sync: os.fsync(fd)
    os.close(fd)
def sync_folder(name='.'):
    fd = os.open(name, os.O_RDONLY); os.fsync(fd); os.close(fd)
"""


def life(shim, folder, script):  # noqa: F811
    """Runs a script on the disk that the shim sees, then takes the power away."""
    data, journal = folder / "data", folder / "journal"
    data.mkdir(exist_ok=True)
    journal.mkdir()
    env = {"LD_PRELOAD": shim, "PLIMSOLL_POWERLOSS_DATA": data, "PLIMSOLL_POWERLOSS_JOURNAL": journal}
    program = SETUP + script + "\nos.kill(os.getpid(), 9)"
    ended = subprocess.run([sys.executable, "-c", program], env={k: str(v) for k, v in env.items()}, cwd=data)
    assert ended.returncode == -9
    restore(data, journal, seed=0)
    return data


def test_bytes_stay_where_they_were_synced(shim, tmp_path):  # noqa: F811
    data = life(shim, tmp_path, """
write('a', b'kept', sync=True)
write('a', b'LO', os.O_WRONLY, at=2)
write('a', b'longer than before', os.O_WRONLY | os.O_APPEND)
write('b', b'first', sync=True)
write('b', b'second', os.O_WRONLY | os.O_TRUNC)
fd = os.open('b', os.O_WRONLY); os.ftruncate(fd, 2); os.close(fd)
""")
    assert (data / "a").read_bytes() == b"kept"
    assert (data / "b").read_bytes() == b"first"


def test_names_stay_where_their_folder_was_synced(shim, tmp_path):  # noqa: F811
    data = life(shim, tmp_path, """
write('old', b'1', sync=True); write('gone', b'2', sync=True); write('target', b'3', sync=True)
os.mkdir('in'); write('in/x', b'4', sync=True)
os.rename('in/x', 'in/y'); sync_folder('in')
write('new', b'5')
os.rename('old', 'target')
os.unlink('gone')
os.mkdir('empty'); os.mkdir('lost'); write('lost/z', b'6')
""")
    names = sorted(str(path.relative_to(data)) for path in data.rglob("*"))
    assert names == ["gone", "in", "in/y", "old", "target"]
    assert (data / "target").read_bytes() == b"3"
    assert (data / "old").read_bytes() == b"1"


def test_a_folder_that_is_gone_for_good_is_not_filled_again(shim, tmp_path):  # noqa: F811
    data = life(shim, tmp_path, """
os.mkdir('gone'); os.mkdir('gone/deep'); write('gone/deep/x', b'1', sync=True); sync_folder()
os.unlink('gone/deep/x'); os.rmdir('gone/deep'); os.rmdir('gone')
os.mkdir('stays'); write('stays/y', b'2', sync=True); sync_folder()
os.unlink('stays/y')
""")
    assert sorted(str(path.relative_to(data)) for path in data.rglob("*")) == ["stays", "stays/y"]


def test_a_random_part_keeps_whole_pages(shim, tmp_path):  # noqa: F811
    data, journal = tmp_path / "data", tmp_path / "journal"
    life(shim, tmp_path, "write('a', b'x' * 40960, sync=True); write('a', b'y' * 40960, os.O_WRONLY)")
    assert (data / "a").read_bytes() == b"x" * 40960
    (data / "a").write_bytes(b"y" * 40960)
    restore(data, journal, seed=3)
    content = (data / "a").read_bytes()
    pages = {content[at : at + 4096] for at in range(0, len(content), 4096)}
    assert pages == {b"x" * 4096, b"y" * 4096}

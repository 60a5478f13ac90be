"""Power loss at any moment loses nothing acknowledged; without syncing the same test finds a loss.

A killed process keeps its page cache, so a shim notes what was not synced and the restore step
takes it back (powerloss/shim.c says what a disk is taken to keep).
"""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

import pytest
from document_workload import DocumentWorkload
from workload import Workload, Wrong, end_somehow

HERE = pathlib.Path(__file__).parent / "powerloss"
sys.path.insert(0, str(HERE))
from restore import restore  # noqa: E402

RUNS = int(os.environ.get("PLIMSOLL_RUNS", "100"))
RUNS_UNSYNCED = 10
DOCUMENT_RUNS = max(1, RUNS // 4)
WRITERS = 6
LOAD_SECONDS_MAX = 0.4


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    path = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run(
        ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", path, HERE / "shim.c", "-ldl"],
        check=True,
    )
    return path


class Machine:
    """A node on a disk that forgets what was not synced when its power goes."""

    def __init__(self, new_node, shim, folder, settings=()):
        self.journal, self.data = folder / "journal", folder / "data"
        self.data.mkdir()
        env = {
            "LD_PRELOAD": str(shim),
            "PLIMSOLL_POWERLOSS_DATA": str(self.data),
            "PLIMSOLL_POWERLOSS_JOURNAL": str(self.journal),
        }
        self.node = new_node(data=self.data, settings=settings, env=env)
        self.lost = 0

    def prepare(self):
        shutil.rmtree(self.journal, ignore_errors=True)
        self.journal.mkdir()

    def lose_power(self, seed):
        self.node.kill()
        self.lost += restore(self.data, self.journal, seed)

    def run(self, load, seed, torn):
        """One life: start, check what the last one left, load, power loss in the middle of it.

        With `torn` a random part of what was not synced survives, else none of it.
        """
        chance = random.Random(seed)
        self.prepare()
        if seed % 5 == 4:
            # The power goes again while the node recovers.
            self.node.spawn()
            time.sleep(chance.uniform(0, 0.2))
            self.lose_power(seed if torn else 0)
            self.prepare()
        self.node.start()
        load.check(self.node.port, recent=200)
        load.run_until(self.node.port, lambda: end_somehow(self.node, chance, LOAD_SECONDS_MAX))
        self.lose_power(seed if torn else 0)


def test_power_loss_under_mixed_load(new_node, shim, tmp_path, note):
    first = int(os.environ.get("PLIMSOLL_SEED", "1"))
    machine, load = Machine(new_node, shim, tmp_path), Workload(WRITERS, first)
    for seed in range(first, first + RUNS):
        try:
            machine.run(load, seed, torn=seed % 2 == 1)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n{machine.node.text()}") from error
    machine.prepare()
    machine.node.start()
    load.check(machine.node.port)
    assert load.done > RUNS, "the load hardly ran, so the losses proved nothing"
    assert machine.lost > 0, "the shim saw nothing unsynced, so it lost nothing"
    note(
        f"power loss: {RUNS} runs, {load.done} operations acknowledged, none lost; "
        f"{machine.lost} unsynced changes dropped (seed {first})"
    )


def test_power_loss_under_a_load_of_documents(new_node, shim, tmp_path, note):
    first = int(os.environ.get("PLIMSOLL_SEED", "1"))
    machine = Machine(new_node, shim, tmp_path)
    load = DocumentWorkload(machine.node, WRITERS, first)
    for seed in range(first, first + DOCUMENT_RUNS):
        try:
            machine.run(load, seed, torn=seed % 2 == 1)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n{machine.node.text()}") from error
    machine.prepare()
    machine.node.start()
    load.check(machine.node.port)
    assert load.done > DOCUMENT_RUNS, "the load hardly ran, so the losses proved nothing"
    note(
        f"power loss with documents: {DOCUMENT_RUNS} runs, {load.done} changes acknowledged; rows, index "
        f"and _source agree (seed {first})"
    )


def test_the_power_loss_test_finds_a_loss_without_syncing(new_node, shim, tmp_path, note):
    machine = Machine(new_node, shim, tmp_path, settings=["log.durability=async"])
    load = Workload(WRITERS, 1)
    for seed in range(1, RUNS_UNSYNCED + 1):
        try:
            machine.run(load, seed, torn=False)
        except Wrong as found:
            note(f"power loss without syncing: found in run {seed}: {found}")
            return
    pytest.fail(f"{RUNS_UNSYNCED} power losses without syncing and nothing was missed")

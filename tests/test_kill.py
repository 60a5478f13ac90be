"""kill -9 at any moment loses nothing acknowledged and runs nothing twice."""

import os
import random
import time

from document_workload import DocumentWorkload
from workload import Workload, end_somehow

RUNS = int(os.environ.get("PLIMSOLL_RUNS", "100"))
DOCUMENT_RUNS = max(1, RUNS // 4)
WRITERS = 6
LOAD_SECONDS_MAX = 0.4


def test_kill_under_mixed_load(new_node, note):
    seed = int(os.environ.get("PLIMSOLL_SEED", "1"))
    chance = random.Random(seed)
    node, load = new_node(), Workload(WRITERS, seed)
    for run in range(RUNS):
        node.start()
        load.check(node.port, recent=200)
        load.run_until(node.port, lambda: end_somehow(node, chance, LOAD_SECONDS_MAX))
        if run % 5 == 4:
            # A kill while the node still recovers from the one before.
            node.spawn()
            time.sleep(chance.uniform(0, 0.1))
            node.kill()
    begin = time.monotonic()
    node.start()
    started = time.monotonic() - begin
    load.check(node.port)
    assert load.done > RUNS, "the load hardly ran, so the kills proved nothing"
    note(
        f"kill -9: {RUNS} runs, {load.done} operations acknowledged, none lost, none twice; "
        f"last start {started:.2f} s (seed {seed})"
    )


def test_kill_under_a_load_of_documents(new_node, note):
    seed = int(os.environ.get("PLIMSOLL_SEED", "1"))
    chance = random.Random(seed)
    node = new_node()
    load = DocumentWorkload(node, WRITERS, seed)
    for _ in range(DOCUMENT_RUNS):
        node.start()
        load.check(node.port, recent=50)
        load.run_until(node.port, lambda: end_somehow(node, chance, LOAD_SECONDS_MAX))
    node.start()
    load.check(node.port)
    assert load.done > DOCUMENT_RUNS, "the load hardly ran, so the kills proved nothing"
    note(
        f"kill -9 with documents: {DOCUMENT_RUNS} runs, {load.done} changes acknowledged; rows, index and "
        f"_source agree (seed {seed})"
    )


def test_a_drained_stop_under_load_keeps_every_answered_write(new_node):
    node, load = new_node(), Workload(WRITERS, 7)
    node.start()
    load.run_until(node.port, lambda: (time.sleep(0.5), node.terminate()))
    node.start()
    load.check(node.port)

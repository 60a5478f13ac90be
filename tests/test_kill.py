"""kill -9 at any moment loses nothing acknowledged and runs nothing twice."""

import os
import random
import time

from workload import Workload

RUNS = int(os.environ.get("PLIMSOLL_RUNS", "100"))
WRITERS = 6
LOAD_SECONDS_MAX = 0.4


def test_kill_under_mixed_load(new_node, note):
    seed = int(os.environ.get("PLIMSOLL_SEED", "1"))
    chance = random.Random(seed)
    node, load = new_node(), Workload(WRITERS, seed)
    started = 0.0
    for run in range(RUNS):
        node.start()
        load.check(node.port, recent=200)
        load.run_until(node.port, lambda: (time.sleep(chance.uniform(0, LOAD_SECONDS_MAX)), node.kill()))
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
    note(f"kill -9: {RUNS} runs, {load.done} operations acknowledged, none lost, none twice; last start {started:.2f} s (seed {seed})")


def test_unknown_outcome_is_only_the_one_in_flight(new_node):
    """A stop that drains leaves nothing unknown: every answered write is there."""
    node, load = new_node(), Workload(WRITERS, 7)
    node.start()
    load.run_until(node.port, lambda: (time.sleep(0.5), node.terminate()))
    node.start()
    load.check(node.port)

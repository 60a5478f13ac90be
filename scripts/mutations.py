#!/usr/bin/env python3
"""Puts faults into the tree, one at a time, and has the simulator find each.

Each mutation is a text that is replaced once in one file, or several; a text that is not there any more is an
error, so that the list is kept as the code changes. The tree is copied to a work tree of its own, which is built in a target
folder of its own (PLIMSOLL_CACHE/mutations): the product has no switches for this.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("PLIMSOLL_CACHE", pathlib.Path.home() / ".cache/plimsoll"))
TREE = CACHE / "mutations/tree"
TARGET = CACHE / "mutations/target"

# name: (file, what is there, what is put in its place[, what else is there, what is put in its place ...])
MUTATIONS = {
    "A1: the log is trimmed past who is away for long, though nobody stands in for him": (
        "crates/cluster/src/node/trimming/votes.rs",
        "        is_waited_for || it.others_serving(&voter.node) < it.wanted.clamp(1, 2)\n",
        "        is_waited_for\n",
    ),
    "A2: a copy serves because it is named and its node is there": (
        "crates/cluster/src/metadata/placement.rs",
        "        copy.state == CopyState::Serving && alive(&copy.node) && known(&copy.node) == Known::Serves\n",
        "        copy.state == CopyState::Serving && alive(&copy.node)\n",
        "    if serving >= enough(copies) {\n        next.retain(|copy| !is_lost(copy));\n",
        "    if serving > 0 {\n        next.retain(|copy| counted(&copy.node));\n",
    ),
    "A3: a trim that overtook a reader stops the group": (
        "crates/cluster/src/replication/applier/worker.rs",
        "            self.context.reopening.tell(&error.to_string());\n",
        "",
    ),
    "a copy of an index that is opened again notes no changes unless its rows say so": (
        "crates/cluster/src/node/opening.rs",
        "                let Some(mut replica) = held_copy else { continue };\n",
        "                let Some(replica) = held_copy else { continue };\n",
        "                replica.set_documents(table.is_index()).map_err(mismatch)?;\n",
        "",
    ),
    # That a lead's record is taken once, and never after a gap, shows nowhere here: a lead has one record under
    # way, begins an epoch after each that failed, and sessions know what ran (rule 2). `log/tests/rules/leads.rs`
    # holds those two. Nor does it show alone that a partition passes over a record that it has (sessions again), or
    # that a stamp is not before log time (apply takes the larger): each is held by two, and by tests of its own.
    "rule 1: no new epoch after an append that failed, nor after a record that was passed over": (
        "crates/cluster/src/replication/lead.rs",
        "        // The sequence has a gap now.\n        state.begin_epoch();\n",
        "",
        "        if stamp.lead == self.inner.id && stamp.epoch == state.epoch {\n            state.begin_epoch();\n        }\n",
        "        let _ = (stamp, &mut state);\n",
    ),
    "rule 2: a session forgets what it ran": (
        "crates/log/src/rules/sessions.rs",
        "            Ok(at) => Verdict::Known(self.outcomes[at].1.clone()),\n",
        "            Ok(_) => Verdict::Fresh,\n",
    ),
    "rule 2: sessions are not written": (
        "crates/storage/src/partition/apply.rs",
        "        change(&mut self.sessions, sessions);\n",
        "        drop(sessions);\n",
    ),
    "rule 4: what nobody knows counts as not taken": (
        "crates/cluster/src/routing/submit.rs",
        "        Ok(_) | Err(NoAnswer::Unknown(_)) => Err(WriteError::Unknown),\n",
        '        Ok(_) | Err(NoAnswer::Unknown(_)) => Err(WriteError::not_taken("late")),\n',
    ),
    "rule 4: the log's unknown counts as refused": (
        "crates/cluster/src/replication/lead.rs",
        "            Err(AppendError::Unknown(_)) => WriteError::Unknown,\n",
        '            Err(AppendError::Unknown(_)) => WriteError::not_taken("late"),\n',
    ),
    "rule 4: a fence leaves nothing": (
        "crates/log/src/rules/sessions.rs",
        "            self.push(number, Outcome::Fenced, stamp_ms, log_time_ms);\n",
        "",
    ),
    "rule 5: a read joins the marker under way": (
        "crates/cluster/src/replication/barrier.rs",
        "        let Some(waiting) = state.next.take() else { return };\n",
        "        let Some(waiting) = state.next.clone() else { return };\n",
        "            if state.appending == 0 && state.next.is_some() {\n                inner.issue(state);\n            }\n",
        "            state.next = None;\n",
    ),
    "rule 5: a strong read waits for nothing": (
        "crates/cluster/src/replication/barrier.rs",
        "            self.inner.tail.reached(lsn).await;\n",
        "",
    ),
    "rule 7: a wrong clock appends": (
        "crates/cluster/src/replication/clock/guard.rs",
        "            Err(fault) => done(Err(AppendError::Refused(fault.to_string()))),\n",
        "            Err(_) => self.log.append(group, record, done),\n",
    ),
    "rule 10: a flush that failed counts": (
        "crates/cluster/src/node/flushing/groups.rs",
        "                durable = Lsn(0);\n",
        "",
    ),
    "rule 10: rows are not flushed before the log is trimmed": (
        "crates/cluster/src/node/flushing/groups.rs",
        "        match partition.store.flush() {\n",
        "        match Ok::<_, plimsoll_storage::rows::StoreError>(()) {\n",
    ),
    "rule 12: rows whose write failed are lost": (
        "crates/storage/src/partition/pending.rs",
        "                state.rows.entry(key.clone()).or_insert_with(|| value.clone());\n",
        "                let _ = (key, value);\n",
    ),
    "apply: the stamp is not in the batch": (
        "crates/storage/src/partition/apply.rs",
        "        overlay.put_owned(system::STAMP_KEY, stamp.encode());\n",
        "        let _ = &mut overlay;\n",
    ),
    "rule 9: rows forget what changed before the index has it durably": (
        "crates/cluster/src/documents/indexer.rs",
        "        work.indexed = position;\n",
        "        work.indexed = position;\n        self.store.forget_touches(position)?;\n",
    ),
    "rule 9: a refresh waits for nothing that was acknowledged": (
        "crates/cluster/src/documents/remote.rs",
        "                let freshness = Freshness::AtLeast(at_least);\n",
        "                let freshness = Freshness::Eventual;\n",
    ),
    "index: a document that was there is put beside itself": (
        "crates/cluster/src/documents/indexer.rs",
        "work.index.put(key, text, source, !may_be_there)?",
        "work.index.put(key, text, source, true)?",
    ),
    "reads: a copy that has not come so far answers": (
        "crates/cluster/src/routing/serving.rs",
        "        if is_fresh && local.fault().is_none() {\n",
        "        if local.fault().is_none() {\n",
    ),
    "settle: what never runs is sent again before that is known": (
        "crates/cluster/src/routing/submit.rs",
        "                                None => {\n                                    session.renew();\n"
        "                                    return Err(WriteError::Unknown);\n",
        "                                None => {\n                                    session.renew();\n"
        "                                    continue;\n",
    ),
    "following: a gap in carried records is taken": (
        "crates/log/src/rules/carried/batch.rs",
        "        if lsn < self.after.lsn {\n            return Ok(Verdict::Gap);\n        }\n        if lsn == self.after.lsn {\n",
        "        if lsn <= self.after.lsn {\n",
    ),
    "following: the records of a batch are taken backwards": (
        "crates/storage/src/partition/following.rs",
        "in batch.records.iter().zip(records).skip(from) {\n",
        "in batch.records.iter().zip(records).skip(from).rev() {\n",
    ),
    "following: rows that the leader has no more stay where a copy is levelled": (
        "crates/storage/src/partition/difference/compare.rs",
        "                made.add(key, Some(value), None)\n",
        "                made.pass(key);\n                Ok(true)\n",
    ),
    "following: what a copy did not take is not asked for again": (
        "crates/cluster/src/following/pull.rs",
        "            (_, Some(_)) => Err(Ended::Behind),\n",
        "            (_, Some(_)) => Ok(()),\n",
    ),
    "following: a trim that the log tells of late is a failure like others": (
        "crates/cluster/src/following/leading/reading.rs",
        "        if refused.is_empty() { unreachable(error).into() } else { End::Refused(refused) }\n",
        "        drop(refused);\n        unreachable(error).into()\n",
    ),
    "following: a try whose answer was lost is kept for ever": (
        "crates/cluster/src/following/leading/holds.rs",
        "(held.table == end.table || end.table == ANY_TABLE)",
        "held.table == end.table",
    ),
    "following: a copy that the leader's log does not reach is not levelled": (
        "crates/cluster/src/following/pull.rs",
        "                self.level_one(partition);\n                Ok(())\n",
        "                drop(partition);\n                Ok(())\n",
    ),
}


def run(arguments, **more):
    return subprocess.run(arguments, check=True, **more)


def simulate(environment, seeds, *options):
    """The first seed that is broken in the work tree as it is now; none where all of them pass."""
    script = ". scripts/env.sh; use_rocksdb; cargo build --release --locked --workspace --bin simulate"
    built = subprocess.run(
        ["bash", "-c", script], cwd=TREE, env=environment, capture_output=True, text=True
    )
    if built.returncode != 0:
        sys.exit(f"it does not build\n{built.stderr[-2000:]}")
    command = [TARGET / "release/simulate", "--seeds", str(seeds), "--until-broken", *options]
    found = subprocess.run(command, capture_output=True, text=True)
    broken = re.search(r"--from (\d+)", found.stdout)
    return broken and int(broken[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds each has to be found in")
    parser.add_argument("--clean", type=int, default=1000, help="how many of the tree as it is have to pass first")
    parser.add_argument("--only", help="those alone whose names have this text in them")
    arguments = parser.parse_args()
    names = [name for name in MUTATIONS if not arguments.only or arguments.only in name]
    if not TREE.exists():
        TREE.parent.mkdir(parents=True, exist_ok=True)
        run(["git", "-C", ROOT, "worktree", "prune"])
        run(["git", "-C", ROOT, "worktree", "add", "--detach", "--quiet", TREE])
    run(["git", "-C", TREE, "checkout", "--quiet", "--force", "--detach",
         subprocess.check_output(["git", "-C", ROOT, "rev-parse", "HEAD"], text=True).strip()])
    # A mutation changes one file: what is compiled incrementally is slower, and built in a third of the time.
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET), "CARGO_INCREMENTAL": "1"}
    # What is broken without any says nothing of them.
    if broken := simulate(environment, min(arguments.clean, arguments.seeds)):
        sys.exit(f"the tree itself is broken at seed {broken}")
    missed = []
    for name in names:
        path, *changes = MUTATIONS[name]
        file = TREE / path
        text = mutated = file.read_text()
        for before, after in zip(changes[::2], changes[1::2]):
            if mutated.count(before) != 1:
                sys.exit(f"{name}: its text is {mutated.count(before)} times in {path}")
            mutated = mutated.replace(before, after)
        file.write_text(mutated)
        try:
            # One seed in eight has a cluster that follows.
            options = ["--follow"] if name.startswith("following") else []
            broken = simulate(environment, arguments.seeds, *options)
        finally:
            file.write_text(text)
        print(f"{name}: {f'seed {broken}' if broken else 'NOT FOUND'}", flush=True)
        if not broken:
            missed.append(name)
    print(f"{len(names) - len(missed)} of {len(names)} found within {arguments.seeds} seeds")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()

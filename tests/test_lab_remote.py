"""`plimsoll lab run remote-recovery`, with tables that are copied in a moment: over the lab's own link, gone
on with after a kill, and on two clusters that are there.
"""

import json
import math
import subprocess

import pytest
from conftest import binary
from remote_clusters import Clusters
from rest import ask, get
from test_lab import RUN_SECONDS, lab

DOCUMENTS = 4000
LANGUAGES = ["_ccr", "_plugins/_replication"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The flag that names a few documents in the place of all."""
    path = tmp_path_factory.mktemp("corpus") / "documents.json"
    with path.open("w") as file:
        for number in range(DOCUMENTS):
            line = {
                "@timestamp": 893964617 + number,
                "clientip": f"10.{number % 7}.{number % 250}.{number * 31 % 250}",
                "request": f"GET /images/page_{number * 7919 % 1000}.gif HTTP/1.0",
                "status": 200,
                "size": number * 7919 % 100_000,
            }
            file.write(json.dumps(line) + "\n")
    return ["--corpus", f"http_logs={path}"]


def result(out):
    return json.loads((out / "result.json").read_text())


def variants(scenario):
    return {variant["name"]: variant["laps"] for variant in scenario["variants"]}


def are_near(one, other):
    """Whether they are the same, with numbers as near as they are read and written again."""
    match one, other:
        case float(), float():
            return math.isclose(one, other, rel_tol=1e-9)
        case dict(), dict():
            return one.keys() == other.keys() and all(are_near(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(are_near, one, other))
    return one == other


def demand_course(course):
    """Columns of one length, counted from the beginning."""
    length = len(course["at_s"])
    assert length >= 2 and course["at_s"] == sorted(course["at_s"])
    for name in ("bytes", "wire_bytes"):
        assert len(course[name]) == length and course[name] == sorted(course[name]), name
    assert course["bytes"][-1] > 0 and course["wire_bytes"][-1] > 0
    assert len(course["under_way_bytes"]) == length
    assert [node["name"] for node in course["nodes"]] == ["leader", "follower"]
    for node in course["nodes"]:
        assert all(len(node[name]) == length for name in ("cpu_s", "sent_bytes", "received_bytes"))


def test_a_run_that_was_killed_is_gone_on_with(corpus, tmp_path):
    out = tmp_path / "out"
    asked = ["--quick", "--laps", 1, "--scenarios", "http_logs,small-nodes", *corpus]
    asked += ["--variant", "1m-5-by-file", "--variant", "ours"]
    words = [binary(), "lab", "run", "remote-recovery", *map(str, asked), "--out", str(out)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = []
    for line in process.stderr:
        said.append(line)
        if "small-nodes" in line:
            break
    process.kill()
    process.communicate(timeout=RUN_SECONDS)
    first = result(out)
    assert first["run"]["whole"] == ["http_logs"], said
    [scenario] = first["scenarios"]
    laps = variants(scenario)
    assert list(laps) == ["raw-tls", "1m-5-by-file", "ours"]
    for lap in (lap for name in laps for lap in laps[name] if lap["valid"]):
        assert lap["recovery_seconds"] > 0 and lap["wire_bytes"] > 0 and lap["share_of_raw"] > 0
        assert lap["tail_seconds"] >= 0 and lap["level_seconds"] >= lap["recovery_seconds"]
        demand_course(lap["course"])
    settings = {variant["name"]: variant["settings"] for variant in scenario["variants"]}
    by_file = "ccr.indices.recovery.max_concurrent_chunks_per_file"
    assert settings["1m-5-by-file"][by_file] == 1 and settings["ours"][by_file] is None
    # With other words it is refused, and nothing is written.
    before = (out / "result.json").read_bytes()
    refused = lab("run", "remote-recovery", *asked, "--seed", 2, "--resume", out)
    assert refused.returncode == 2 and "--seed 1`, not with" in refused.stderr, refused.stderr
    assert lab("run", "sick-node", "--resume", out).returncode == 2
    assert (out / "result.json").read_bytes() == before
    ended = lab("run", "remote-recovery", *asked, "--resume", out)
    assert ended.returncode == 0, ended.stderr
    second = result(out)
    assert second["run"]["whole"] == ["http_logs", "small-nodes"]
    assert are_near(second["scenarios"][0], scenario)
    assert list(variants(second["scenarios"][1])) == ["raw-tls", "1m-5-by-file", "ours"]
    assert len(second["notes"]) == len(set(second["notes"]))
    page = (out / "report.html").read_text()
    assert "Under way on the link" in page and "Network of follower" in page
    # What is whole is not made again.
    again = lab("run", "remote-recovery", *asked, "--resume", out, timeout_seconds=RUN_SECONDS)
    assert again.returncode == 0
    assert are_near(result(out)["scenarios"], second["scenarios"])


class Given:
    """Two clusters, connected as the user does it."""

    def __init__(self, folder):
        self.clusters = Clusters(folder)
        _, path = self.clusters.make_key("*")
        self.clusters.connect("west", credentials_file=str(path))
        self.clusters.await_connected("west")
        self.leader, self.follower = self.clusters.leader, self.clusters.follower
        self.target = f"http://127.0.0.1:{self.leader.http},http://127.0.0.1:{self.follower.http}"
        self.settings = get(self.follower, "/_cluster/settings?flat_settings=true")

    def run(self, out, *words):
        return lab("run", "remote-recovery", "--laps", 1, "--out", out, *words)

    def demand_as_it_was(self):
        for node, index in ((self.leader, "plimsoll-lab"), (self.follower, "plimsoll-lab-copy")):
            assert ask(node, "GET", f"/{index}")[0] == 404
        assert get(self.follower, "/_cluster/settings?flat_settings=true") == self.settings


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    given = Given(tmp_path_factory.mktemp("given"))
    yield given
    given.clusters.demand_well()
    given.clusters.close()


def test_two_clusters_are_measured_in_both_languages_and_left_as_they_were(given, corpus, tmp_path):
    out = tmp_path / "out"
    chosen = [word for language in LANGUAGES for word in ("--variant", language)]
    ended = given.run(out, "--target", given.target, *corpus, *chosen)
    assert ended.returncode == 0, ended.stderr
    found = result(out)
    [scenario] = found["scenarios"]
    laps = variants(scenario)
    assert list(laps) == LANGUAGES
    for [lap] in laps.values():
        assert lap["valid"] and lap["level_seconds"] >= lap["recovery_seconds"] > 0
        assert lap["wire_bytes"] > 0 and lap["cpu_s"] > 0 and lap["share_of_raw"] == 0
        assert [node["name"] for node in lap["nodes"]] == ["leader leader", "follower follower"]
    assert any("no raw copy" in note for note in found["notes"])
    assert f"copied {DOCUMENTS} documents" in ended.stdout and "was level after" in ended.stdout
    given.demand_as_it_was()
    # By itself it takes the first that the follower knows, over the remote cluster that is named.
    ended = given.run(out, "--target", f"{given.target},west", *corpus)
    assert ended.returncode == 0, ended.stderr
    assert list(variants(result(out)["scenarios"][0])) == LANGUAGES[:1]
    given.demand_as_it_was()


def test_what_was_there_before_is_never_touched(given, corpus, tmp_path):
    for node, index in ((given.follower, "plimsoll-lab-copy"), (given.leader, "plimsoll-lab")):
        assert ask(node, "PUT", f"/{index}/_doc/1?refresh=true", {"mine": 1})[0] == 201
        ended = given.run(tmp_path / "out", "--target", given.target, *corpus)
        assert ended.returncode == 1 and f"index {index} is there already" in ended.stderr, ended.stderr
        assert get(node, f"/{index}/_doc/1")["found"]
        assert ask(node, "DELETE", f"/{index}")[0] == 200
    named = given.run(tmp_path / "out", "--target", f"{given.target},east", *corpus)
    assert named.returncode == 1 and "no remote cluster `east`" in named.stderr
    given.demand_as_it_was()

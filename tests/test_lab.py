"""`plimsoll lab` against servers that are there: what it measures, says and takes away again."""

import json
import signal
import subprocess

from cluster_processes import get_json
from conftest import binary

RUN_SECONDS = 240


def lab(*words, timeout_seconds=RUN_SECONDS):
    return subprocess.run(
        [binary(), "lab", *map(str, words)], capture_output=True, text=True, timeout=timeout_seconds
    )


def run_at(url, out):
    ended = lab("run", "replica-selection", "--target", url, "--quick", "--laps", 1, "--out", out)
    assert ended.returncode == 0, ended.stderr
    result = json.loads((out / "result.json").read_text())
    assert (out / "report.html").stat().st_size > 1000
    for variant in result["scenarios"][0]["variants"]:
        for lap in variant["laps"]:
            assert lap["n"] > 0 and lap["error_rate"] == 0 and lap["cpu_s"] > 0, lap
    return ended, result


def test_a_rest_server_is_measured_with_its_own_switch_and_left_as_it_was(node, tmp_path):
    url = f"http://127.0.0.1:{node.http}"
    ended, result = run_at(url, tmp_path / "out")
    names = [variant["name"] for variant in result["scenarios"][0]["variants"]]
    assert names[0] == "off" and len(names) > 1
    # The sentence says what was compared with what.
    assert "CPU seconds per 1,000 requests" in ended.stdout and "without selection" in ended.stdout
    assert result["comparisons"] and all("indicative" in c["verdict"] for c in result["comparisons"])
    assert get_json(node.http, "/plimsoll-lab") is None
    settings = get_json(node.http, "/_cluster/settings?flat_settings=true")
    assert not settings["persistent"] and not settings["transient"]


def test_an_index_of_that_name_is_never_touched(node, tmp_path):
    subprocess.run(
        ["curl", "-sf", "-XPUT", f"http://127.0.0.1:{node.http}/plimsoll-lab/_doc/1?refresh=true",
         "-H", "content-type: application/json", "-d", '{"mine":1}'], check=True, capture_output=True)
    url = f"http://127.0.0.1:{node.http}"
    ended = lab("run", "replica-selection", "--target", url, "--out", tmp_path / "out")
    assert ended.returncode == 1 and "is there already" in ended.stderr
    assert get_json(node.http, "/plimsoll-lab/_doc/1")["found"]
    subprocess.run(["curl", "-sf", "-XDELETE", f"{url}/plimsoll-lab"], check=True, capture_output=True)


def test_a_server_of_resp_is_measured_and_its_keys_are_taken_away(node, tmp_path):
    client = node.client()
    client.set("mine", "1")
    ended, result = run_at(f"redis://127.0.0.1:{node.port}", tmp_path / "out")
    assert "lets nothing be switched" in ended.stdout
    assert result["scenarios"][0]["variants"][0]["name"] == "as it is"
    assert client.keys("*") == [b"mine"]


def test_the_mixes_of_rows_run_on_an_empty_server_alone(node, tmp_path):
    client = node.client()
    words = ["run", "kv-throughput", "--target", f"redis://127.0.0.1:{node.port}", "--quick", "--laps", 1]
    ended = lab(*words, "--out", tmp_path / "out")
    assert ended.returncode == 0, ended.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [it["name"] for it in result["scenarios"]] == ["mixes 0:1", "mixes 1:1", "mixes 30:1"]
    for scenario in result["scenarios"]:
        for lap in scenario["variants"][0]["laps"]:
            # Processor time of a server elsewhere is nobody's to tell.
            assert lap["n"] > 0 and lap["error_rate"] == 0 and lap["cpu_s"] is None, lap
    assert client.dbsize() == 0
    client.set("mine", "1")
    ended = lab(*words, "--out", tmp_path / "again")
    assert ended.returncode == 1 and "has to be empty" in ended.stderr, ended.stderr
    assert client.keys("*") == [b"mine"]


def test_wrong_words_are_a_matter_of_usage(tmp_path):
    for words, said in [
        (["run", "nothing"], "no experiment is called `nothing`"),
        (["run", "replica-selection", "--variant", "x"], "no variant is called `x`"),
        (["run", "replica-selection", "--laps", "0"], "0 laps cannot be run"),
        (["run", "replica-selection", "--target", "https://h"], "TLS"),
        (["run", "replica-selection", "--quick", "--full"], "cannot be used with"),
        (["run", "remote-recovery", "--target", "http://h"], "http://leader:port,http://follower:port"),
        (["run", "remote-recovery", "--target", "http://a,http://b", "--variant", "ours"], "_ccr"),
    ]:
        ended = lab(*words, "--out", tmp_path)
        assert ended.returncode == 2 and said in ended.stderr, ended.stderr
    listed = lab("list").stdout
    assert "replica-selection" in listed and "sick-node" in listed


def test_an_interrupted_run_leaves_a_report_of_what_there_is(node, tmp_path):
    url = f"http://127.0.0.1:{node.http}"
    words = ["run", "replica-selection", "--target", url, "--out", tmp_path / "out"]
    process = subprocess.Popen(
        [binary(), "lab", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    # The first lap is told when it is over.
    for line in process.stderr:
        if " lap 1" in line:
            break
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=RUN_SECONDS)
    assert process.returncode == 0 and "results and report" in said, (said[-2000:], complaint)
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    laps = [lap for variant in result["scenarios"][0]["variants"] for lap in variant["laps"]]
    # Whole, it is ten laps of each arm.
    assert 1 <= len(laps) < 10
    assert get_json(node.http, "/plimsoll-lab") is None

"""Users and keys in a cluster of three: known on every node, taken away on every node, and a node that has not heard
of the metadata knows nobody.
"""

import base64
import concurrent.futures
import subprocess
import time

import pytest
import redis
import requests
from cluster_harness import Cluster
from cluster_processes import await_true
from conftest import Node, binary

ADMIN = ("elastic", "correct horse")
# How long a node of these tests is trusted to know who there is without the metadata.
UNHEARD_SECONDS = 8


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path, settings=[f"security.unheard_max={UNHEARD_SECONDS}s"]).start()
    # Until then whoever comes may do everything.
    body = {"password": ADMIN[1]}
    assert ask(cluster.nodes[0], None, "PUT", "/_security/user/elastic/_password", body)[0] == 200
    for node in cluster.nodes:
        assert ask(node, None, "GET", "/")[0] == 401
    yield cluster
    cluster.close()


def ask(node, user, method, path, body=None, key=None):
    headers = {"Authorization": f"ApiKey {key}"} if key else {}
    address = f"http://127.0.0.1:{node.http}{path}"
    answer = requests.request(method, address, auth=None if key else user, json=body, headers=headers, timeout=30)
    return answer.status_code, answer.json() if answer.text.startswith("{") else answer.text


def test_users_are_the_whole_clusters(cluster):
    first, second, third = cluster.nodes
    role = {"cluster": ["monitor", "manage_own_api_key"], "indices": []}
    assert ask(first, ADMIN, "PUT", "/_security/role/watcher", role)[0] == 200
    user = ("ann", "ann's secret")
    body = {"password": user[1], "roles": ["watcher"]}
    assert ask(second, ADMIN, "PUT", "/_security/user/ann", body)[1] == {"created": True}
    # It holds on every node as soon as it is acknowledged.
    for node in cluster.nodes:
        assert ask(node, user, "GET", "/_cluster/health")[0] == 200
    made = ask(third, user, "POST", "/_security/api_key", {"name": "k"})[1]
    for node in cluster.nodes:
        assert ask(node, None, "GET", "/_cluster/health", key=made["encoded"])[0] == 200
    rows = redis.Redis(port=second.port, username="ann", password=user[1])
    assert rows.acl_whoami() == "ann"

    # A stolen key is taken back: no node takes it a second later.
    assert ask(first, ADMIN, "DELETE", "/_security/api_key", {"ids": [made["id"]]})[0] == 200
    for node in cluster.nodes:
        assert ask(node, None, "GET", "/_cluster/health", key=made["encoded"])[0] == 401
    assert ask(third, ADMIN, "DELETE", "/_security/user/ann")[0] == 200
    for node in cluster.nodes:
        assert ask(node, user, "GET", "/_cluster/health")[0] == 401
    with pytest.raises(redis.RedisError):
        rows.ping()

    # A node that was away does not take what was taken away meanwhile.
    body = {"password": "bob's secret", "roles": ["watcher"]}
    assert ask(first, ADMIN, "PUT", "/_security/user/bob", body)[0] == 200
    third.kill()
    await_true("the others do without it", lambda: healthy_without(first), 60)
    assert ask(first, ADMIN, "DELETE", "/_security/user/bob")[0] == 200
    cluster.restart(third)
    assert ask(third, ("bob", "bob's secret"), "GET", "/_cluster/health")[0] == 401


def test_who_is_gone_makes_nobody_through_a_node_that_stood_still(cluster):
    first, second, _ = cluster.nodes
    eve = ("eve", "eve's secret")
    body = {"password": eve[1], "roles": ["superuser"]}
    assert ask(first, ADMIN, "PUT", "/_security/user/eve", body)[0] == 200
    assert ask(second, eve, "GET", "/")[0] == 200
    rows = [redis.Redis(port=second.port, username=eve[0], password=eve[1], socket_timeout=30) for _ in range(2)]
    assert [it.acl_whoami() for it in rows] == ["eve", "eve"]
    second.freeze()
    try:
        assert ask(first, ADMIN, "DELETE", "/_security/user/eve")[0] == 200
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = [
                pool.submit(ask, second, eve, "PUT", "/_security/user/evil", body),
                pool.submit(ask, second, eve, "PUT", "//_security/user/evil", body),
                pool.submit(ask, second, eve, "POST", "/_security/api_key", {"name": "k"}),
                pool.submit(ask, second, eve, "POST", "/_security/user/elastic/_password", {"password": "taken over"}),
            ]
            by_resp = [
                pool.submit(it.execute_command, *command)
                for it, command in zip(
                    rows,
                    [
                        ("ACL", "SETUSER", "evil", "on", ">secret", "+@all", "~*"),
                        ("CONFIG", "SET", "requirepass", "taken over"),
                    ],
                    strict=True,
                )
            ]
            # They wait at the node before it goes on.
            time.sleep(1)
            second.thaw()
            assert [it.result()[0] for it in asked] == [401, 401, 401, 401]
            for it in by_resp:
                with pytest.raises(redis.RedisError):
                    it.result()
    finally:
        second.thaw()
    assert list(ask(first, ADMIN, "GET", "/_security/user")[1]) == ["elastic"]
    assert ask(first, ADMIN, "GET", "/_security/api_key")[1] == {"api_keys": []}


def test_who_has_not_heard_of_the_metadata_knows_nobody(cluster):
    node = cluster.nodes[0]
    role = {"indices": [{"names": ["db0"], "privileges": ["read"]}], "cluster": ["monitor"]}
    assert ask(node, ADMIN, "PUT", "/_security/role/reader", role)[0] == 200
    user = ("ann", "ann's secret")
    body = {"password": user[1], "roles": ["reader"]}
    assert ask(node, ADMIN, "PUT", "/_security/user/ann", body)[0] == 200
    rows = redis.Redis(port=node.port, username="ann", password=user[1])
    assert rows.ping()
    cluster.cut_from_log(node, "frozen")
    began = time.monotonic()
    refused = await_true("the node knows nobody", lambda: refusal(node, user), 6 * UNHEARD_SECONDS)
    assert time.monotonic() - began > UNHEARD_SECONDS / 2
    assert refused["error"]["type"] == "security_exception" and "not been heard" in refused["error"]["reason"]
    with pytest.raises(redis.RedisError):
        rows.ping()
    cluster.network.heal()
    await_true("the node knows them again", lambda: ask(node, user, "GET", "/_nodes")[0] == 200, 60)


def healthy_without(node):
    status, answer = ask(node, ADMIN, "GET", "/_cluster/health")
    return status == 200 and answer["number_of_nodes"] == 2


def refusal(node, user):
    status, answer = ask(node, user, "GET", "/_nodes/_local")
    assert status in (200, 503), answer
    return answer if status == 503 else None


def test_a_node_makes_itself_secure_once(tmp_path):
    """`serve --secure` on an empty folder, then again; and the way back of whoever is locked out."""
    node = Node(tmp_path / "data", ["node.secure=true"]).start()
    said = "".join(node.output)
    password = said.split("(RESP): ")[1].split()[0]
    authority = tmp_path / "data/certificates/ca.crt"
    fingerprint = said.split("sha256 of it: ")[1].split()[0]
    shown = subprocess.check_output(["openssl", "x509", "-in", authority, "-noout", "-fingerprint", "-sha256"])
    assert shown.decode().split("=")[1].strip().replace(":", "").lower() == fingerprint
    address = f"https://127.0.0.1:{node.http}"

    def health(password):
        user = ("elastic", password)
        return requests.get(f"{address}/_cluster/health", auth=user, verify=str(authority)).status_code

    assert health(password) == 200 and health("x" * 8) == 401
    assert requests.get(f"{address}/_cluster/health", verify=str(authority)).status_code == 401
    secure = {"ssl": True, "ssl_ca_certs": str(authority), "port": node.port}
    assert redis.Redis(password=password, **secure).ping()
    with pytest.raises(redis.RedisError):
        redis.Redis(**secure).ping()
    assert (tmp_path / "data/certificates/ca.key").stat().st_mode & 0o077 == 0
    assert node.terminate() == 0
    # The second time it says nothing, and all of it holds.
    node.start()
    assert "password" not in "".join(node.output).split("ready ")[0]
    assert health(password) == 200

    reset = [binary(), "users", "reset", "--data", str(tmp_path / "data")]
    said = subprocess.check_output(reset, text=True)
    assert said.endswith("it holds now\n")
    fresh = said.split("(RESP): ")[1].split()[0]
    assert health(fresh) == 200 and health(password) == 401
    # Also of a node that does not run, and with a password of one's own.
    assert node.terminate() == 0
    (tmp_path / "own").write_text("a word of mine\n")
    said = subprocess.check_output([*reset, "--password-file", str(tmp_path / "own")], text=True)
    assert "once the node" in said and "a word" not in said
    node.start()
    assert health("a word of mine") == 200 and health(fresh) == 401
    text = node.text() + "".join(file.read_text() for file in (tmp_path / "data").glob("audit_*.json"))
    assert not any(word in text for word in ("a word of mine", fresh, "argon2id"))
    assert node.terminate() == 0
    nowhere = subprocess.run([binary(), "users", "reset", "--data", "/nowhere"], capture_output=True, text=True)
    assert nowhere.returncode == 2 and "no data folder" in nowhere.stderr


def test_the_last_administrator_stays_whoever_else_asks_at_once(cluster):
    """One node takes a user away while another takes the other's role away: each alone would leave somebody."""
    first, second, third = cluster.nodes
    x, y = ("x", "the secret of x"), ("y", "the secret of y")
    for _ in range(5):
        ask(first, ADMIN, "PUT", "/_security/role/secadm", {"cluster": ["manage_security"], "indices": []})
        ask(first, ADMIN, "PUT", "/_security/user/x", {"password": x[1], "roles": ["superuser"]})
        ask(first, ADMIN, "PUT", "/_security/user/y", {"password": y[1], "roles": ["secadm"]})
        assert ask(first, ADMIN, "PUT", "/_security/user/elastic/_disable")[0] == 200
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            asked = [
                pool.submit(ask, second, x, "DELETE", "/_security/user/x"),
                pool.submit(ask, third, y, "DELETE", "/_security/role/secadm"),
            ]
            statuses = sorted(it.result()[0] for it in asked)
        assert statuses != [200, 200]
        left = [user for user in (x, y) if ask(first, user, "GET", "/_security/user")[0] == 200]
        assert left, statuses
        assert ask(first, left[0], "PUT", "/_security/user/elastic/_enable")[0] == 200


def test_a_node_that_ran_before_says_no_password_that_does_not_hold(tmp_path):
    node = Node(tmp_path / "data", [f"resp.password={ADMIN[1]}"]).start()
    body = {"password": "kept in the metadata"}
    assert ask(node, ADMIN, "PUT", "/_security/user/elastic/_password", body)[0] == 200
    assert node.terminate() == 0
    # What a node left that was killed while it made certificates.
    (tmp_path / "data/certificates.new").mkdir()
    (tmp_path / "data/certificates.new/node-1.crt").write_text("half")
    node.settings = ["node.secure=true"]
    node.start()
    said = "".join(node.output)
    assert "password of elastic" not in said and "plimsoll users reset" in said
    answer = requests.get(
        f"https://127.0.0.1:{node.http}/", auth=("elastic", body["password"]), verify=str(tmp_path / "data/certificates/ca.crt")
    )
    assert answer.status_code == 200
    assert node.terminate() == 0


def test_a_key_of_rest_opens_no_port_of_followers_and_theirs_no_rest(tmp_path):
    node = Node(tmp_path / "data", [f"resp.password={ADMIN[1]}"]).start()
    body = {"name": "follower", "access": {"replication": [{"names": ["*"]}]}}
    made = ask(node, ADMIN, "POST", "/_security/cross_cluster/api_key", body)[1]
    assert base64.b64decode(made["encoded"]).decode().startswith(made["id"])
    assert ask(node, None, "GET", "/", key=made["encoded"])[0] == 401
    assert node.terminate() == 0

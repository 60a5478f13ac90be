"""The port of HTTP as such: who is let in, how requests that are none are answered, and how
connections end."""

import base64
import http.client
import json
import socket
import threading
import time

import pytest
import redis
from cluster_processes import await_true
from conftest import Node
from redis.backoff import NoBackoff
from redis.retry import Retry

PATIENCE_SECONDS = 60
PASSWORD = "correct horse"


def raw(node, data, source="127.0.0.1", ends=True):
    """What the node sends back until it ends the connection."""
    address = ("127.0.0.1", node.http)
    with socket.create_connection(address, PATIENCE_SECONDS, source_address=(source, 0)) as connection:
        connection.sendall(data)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
            if not ends and b"\r\n\r\n" in answer:
                break
        return answer


def ask(node, method, path, headers=(), body=None, host=None, source=None):
    """Status, headers and JSON of one request with exactly these headers."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", node.http, timeout=PATIENCE_SECONDS, source_address=source and (source, 0)
    )
    with_host = dict(headers) | {"host": f"127.0.0.1:{node.http}" if host is None else host}
    connection.request(method, path, body, with_host)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, answer.headers, json.loads(text) if text else None


def basic(password, user="elastic"):
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def put_index(node, **how):
    headers = {"content-type": "application/json"} | how.pop("headers", {})
    assert ask(node, "PUT", "/v/_doc/1?refresh=true", headers, b'{"a":1}', **how)[0] == 201


def test_a_page_whose_name_leads_here_is_refused(new_node):
    node = new_node(settings=["http.allowed_hosts=search.example"]).start()
    put_index(node)
    for host in ["evil.example", f"evil.example:{node.http}", "127.0.0.1.evil.example", ""]:
        status, _, answer = ask(node, "GET", "/v/_search", host=host)
        assert (status, answer["error"]["type"]) == (403, "security_exception"), host
        assert "http.allowed_hosts" in answer["error"]["reason"]
        assert ask(node, "POST", "/v/_delete_by_query?q=*", host=host)[0] == 403
    for host in ["localhost", f"localhost:{node.http}", "[::1]:9200", "10.0.0.1", "search.example"]:
        assert ask(node, "GET", "/v/_search", host=host)[0] == 200, host
    assert ask(node, "GET", "/v/_count")[2]["count"] == 1


def test_a_page_of_another_origin_is_refused(new_node):
    node = new_node().start()
    put_index(node)
    for origin in ["https://evil.example", "null", f"http://127.0.0.1:{node.http + 1}"]:
        headers = {"origin": origin}
        status, seen, answer = ask(node, "POST", "/v/_delete_by_query?q=*", headers)
        assert (status, answer["error"]["type"]) == (403, "security_exception"), origin
        assert "access-control-allow-origin" not in seen
        assert ask(node, "GET", "/v/_search", headers)[0] == 403
        headers |= {"access-control-request-method": "POST"}
        assert ask(node, "OPTIONS", "/v/_search", headers)[0] == 403
    own = {"origin": f"http://127.0.0.1:{node.http}"}
    assert ask(node, "GET", "/v/_search", own)[0] == 200
    # A form of a page that came from here.
    assert ask(node, "POST", "/v/_delete_by_query?q=*", own)[0] == 403
    form = own | {"content-type": "application/x-www-form-urlencoded"}
    assert ask(node, "POST", "/v/_delete_by_query?q=*", form)[0] == 403
    assert ask(node, "POST", "/v/_delete_by_query", form, b"a=b")[0] == 406
    assert ask(node, "GET", "/v/_count")[2]["count"] == 1
    scripted = own | {"x-requested-with": "XMLHttpRequest"}
    assert ask(node, "POST", "/v/_delete_by_query?q=*&refresh", scripted)[2]["deleted"] == 1
    # No browser, no Origin: as ever.
    assert ask(node, "POST", "/v/_delete_by_query?q=*")[0] == 200


def test_what_a_page_fetches_without_an_origin_is_refused(new_node):
    node = new_node(settings=["http.cors.enabled=true", "http.cors.allow-origin=https://kibana.example"]).start()
    put_index(node)
    for site in ["cross-site", "same-site"]:
        image = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
        status, _, answer = ask(node, "GET", "/v/_search?q=*", image)
        assert (status, answer["error"]["type"]) == (403, "security_exception"), site
        assert f"Sec-Fetch-Site: {site}" in answer["error"]["reason"]
        frame = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
        assert ask(node, "GET", "/v/_search", frame)[0] == 403
        # A link that its user follows, and a form that is sent by one.
        link = frame | {"sec-fetch-dest": "document"}
        assert ask(node, "GET", "/v/_search", link)[0] == 200
        assert ask(node, "POST", "/v/_delete_by_query?q=*", link)[0] == 403
        # A page that is let in says where it comes from.
        fetched = {"sec-fetch-site": site, "sec-fetch-mode": "cors", "origin": "https://kibana.example"}
        assert ask(node, "GET", "/v/_search", fetched)[0] == 200
    for site in ["none", "same-origin"]:
        assert ask(node, "GET", "/v/_search", {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"})[0] == 200, site
    assert ask(node, "GET", "/v/_count")[2]["count"] == 1


def test_a_link_changes_nothing(new_node):
    node = new_node().start()
    put_index(node)
    query = "source=%7B%22query%22:%7B%22match_all%22:%7B%7D%7D%7D&source_content_type=application/json"
    assert ask(node, "GET", f"/v/_search?{query}")[2]["hits"]["total"]["value"] == 1
    assert ask(node, "POST", f"/v/_count?{query}")[2]["count"] == 1
    for method, path in [("POST", "/v/_delete_by_query"), ("POST", "/v/_doc"), ("PUT", "/w"), ("POST", "/_aliases")]:
        status, _, answer = ask(node, method, f"{path}?{query}")
        assert status == 400 and "[source]" in answer["error"]["reason"], (method, path)
    assert ask(node, "GET", "/v/_count")[2]["count"] == 1


def test_origins_that_are_listed_are_let_in(new_node):
    settings = [
        "http.cors.enabled=true",
        "http.cors.allow-origin=https://kibana.example:5601",
        "http.cors.allow-credentials=true",
        f"resp.password={PASSWORD}",
    ]
    node = new_node(settings=settings).start()
    origin = {"origin": "https://kibana.example:5601"}
    asks = origin | {"access-control-request-method": "PUT", "access-control-request-headers": "content-type"}
    # A browser asks without the password.
    status, headers, _ = ask(node, "OPTIONS", "/v/_doc/1", asks)
    assert status == 200
    assert headers["access-control-allow-origin"] == "https://kibana.example:5601"
    assert headers["access-control-allow-credentials"] == "true"
    assert "PUT" in headers["access-control-allow-methods"].split(",")
    assert "Content-Type" in headers["access-control-allow-headers"].split(",")
    assert headers["access-control-max-age"] == "1728000" and headers["vary"] == "Origin"
    status, headers, _ = ask(node, "GET", "/", origin)
    assert status == 401 and headers["access-control-allow-origin"] == "https://kibana.example:5601"
    status, headers, _ = ask(node, "GET", "/", origin | basic(PASSWORD))
    assert status == 200 and headers["access-control-expose-headers"] == "X-elastic-product"
    assert ask(node, "GET", "/", {"origin": "https://evil.example"} | basic(PASSWORD))[0] == 403
    # With a password any name will do: no page has credentials for it.
    assert ask(node, "GET", "/", basic(PASSWORD), host="any.example")[0] == 200


class Open(Node):
    """A node that listens beyond loopback."""

    def command(self):
        return [word.replace("127.0.0.1:", "0.0.0.0:") for word in super().command()] + self.more

    more = ()


def test_beyond_loopback_any_name_is_taken_and_that_is_said(tmp_path):
    node = Open(tmp_path)
    node.more = ["--insecure"]
    node.start()
    try:
        assert ask(node, "GET", "/", host="any.example")[0] == 200
        assert ask(node, "GET", "/", {"origin": "https://evil.example"})[0] == 403
    finally:
        node.terminate()
    assert "Host of requests is not looked at" in node.text()


def test_a_password_is_not_taken_away_where_the_network_would_get_in(tmp_path):
    node = Open(tmp_path, settings=[f"resp.password={PASSWORD}"])
    node.more = []
    node.start()
    try:
        client = node.client(password=PASSWORD)
        with pytest.raises(redis.ResponseError, match="resp.address 0.0.0.0.* is not loopback"):
            client.config_set("requirepass", "")
        assert ask(node, "GET", "/")[0] == 401
        assert client.config_set("requirepass", "another")
        assert ask(node, "GET", "/", basic("another"))[0] == 200
    finally:
        node.terminate()


def test_on_loopback_it_can_be(new_node):
    node = new_node(settings=[f"resp.password={PASSWORD}"]).start()
    assert node.client(password=PASSWORD).config_set("requirepass", "")
    assert ask(node, "GET", "/")[0] == 200


def test_the_last_administrator_keeps_the_password_that_lets_it_in(new_node):
    """Where everybody has to be known, nobody could log in after that."""
    node = new_node(settings=["security.enabled=true", f"resp.password={PASSWORD}"]).start()
    client = node.client(password=PASSWORD)
    with pytest.raises(redis.ResponseError, match="nobody would be left who may change users"):
        client.config_set("requirepass", "")
    assert ask(node, "GET", "/", basic(PASSWORD))[0] == 200
    another = b'{"password": "another secret", "roles": ["superuser"]}'
    headers = basic(PASSWORD) | {"content-type": "application/json"}
    assert ask(node, "PUT", "/_security/user/another", headers, another)[0] == 200
    assert client.config_set("requirepass", "")
    assert ask(node, "GET", "/", basic(PASSWORD))[0] == 401


def test_guessing_is_slowed_and_logged_and_nobody_else_is_kept_out(new_node):
    node = new_node(settings=[f"resp.password={PASSWORD}"]).start()
    # Connections that logged in before the guessing began.
    kept = http.client.HTTPConnection("127.0.0.1", node.http, timeout=PATIENCE_SECONDS)
    client = node.client(password=PASSWORD, socket_timeout=PATIENCE_SECONDS)
    assert client.ping()

    def get():
        kept.request("GET", "/", headers=basic(PASSWORD))
        answer = kept.getresponse()
        answer.read()
        return answer.status

    assert get() == 200
    seen = []

    def guess(number):
        if number % 2:
            status, headers, answer = ask(node, "GET", "/", basic(f"wrong-{number}"))
            seen.append((status, answer["error"]["reason"], headers["retry-after"]))
            return
        try:
            # It would try again by itself, and each try is a guess.
            once = Retry(NoBackoff(), 0)
            node.client(password=f"wrong-{number}", retry=once).ping()
        except redis.RedisError as error:
            seen.append((0, str(error), None))

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(60)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    # Beside them, at once: what was let in before, and the right password from elsewhere.
    for _ in range(5):
        assert get() == 200 and client.ping()
        assert ask(node, "GET", "/", basic(PASSWORD), source="127.0.0.2")[0] == 200
    for thread in threads:
        thread.join()
    assert len(seen) == 60
    slowed = [it for it in seen if "too many failed logins from this address" in it[1]]
    # Ten fail at once, ten wait, and one more for every second that all of it takes here; some may be
    # looked at while the first is. The rest are not looked at.
    took = time.monotonic() - began
    assert 10 <= len(seen) - len(slowed) <= 20 + took + 10, (len(slowed), took)
    assert all(status in (0, 401, 429) for status, _, _ in seen)
    assert all(int(after) >= 1 for status, _, after in slowed if status == 429)
    assert node.terminate() == 0
    lines = [line for line in node.output if "failed logins" in line]
    assert 1 <= len(lines) <= took + 2, "once a second at most"
    assert "127.0.0.1" in lines[0]
    assert "wrong-" not in node.text() and PASSWORD not in node.text()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GARBAGE\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", 414),
        (b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: odd\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_told_so(shared_node, request_bytes, status):
    answer = raw(shared_node, request_bytes)
    allowed = {status, 431} if status == 414 else {status}
    assert int(answer.split(b" ", 2)[1]) in allowed, answer[:300]
    assert b"connection: close" in answer.lower(), answer[:300]


def test_a_refusal_before_the_body_ends_the_connection_in_words(shared_node):
    head = b"PUT /v/_settings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    answer = raw(shared_node, head + b"content-length: 500000000\r\n\r\n" + b"{" * 3_000_000)
    assert answer.startswith(b"HTTP/1.1 413 "), answer[:300]
    assert b"connection: close" in answer.lower() and b"content_too_long_exception" in answer
    # Where there is no body, it was read, or it is small, the connection goes on.
    wrong_type = b"PUT /v/_settings HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n"
    none = b"GET /none/_search HTTP/1.1\r\nhost: localhost\r\n\r\n"
    last = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    answer = raw(shared_node, wrong_type + b"content-length: 5\r\n\r\nhello" + none + last)
    statuses = [part.split(b" ", 1)[0] for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"406", b"404", b"200"], answer[:1000]


def test_a_head_has_its_time_and_an_idle_connection_stays(shared_node):
    address = ("127.0.0.1", shared_node.http)
    idle = http.client.HTTPConnection(*address, timeout=PATIENCE_SECONDS)
    idle.request("GET", "/")
    idle.getresponse().read()
    # Half a head: told so, and ended. The wait is the node's.
    answer = raw(shared_node, b"GET / HTTP/1.1\r\nhost: loc")
    assert answer.startswith(b"HTTP/1.1 408 "), answer[:300]
    # Nothing at all, likewise.
    assert raw(shared_node, b"").startswith(b"HTTP/1.1 408 ")
    # One that was served before has stood idle for longer than that.
    sock = idle.sock
    idle.request("GET", "/")
    assert idle.getresponse().status == 200 and idle.sock is sock


def test_names_of_services_that_clients_send_are_taken(shared_node):
    # As a proxy sends it: the address as a whole, and a name with a dot at its end.
    assert raw(
        shared_node,
        b"GET http://localhost:9200/ HTTP/1.1\r\nhost: localhost.:9200\r\nconnection: close\r\n\r\n",
    ).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("hang_up", ["close", "half"])
def test_what_changes_something_goes_on_when_its_client_hangs_up(shared_node, hang_up):
    count = 20_000
    lines = b"".join(b'{"index":{}}\n{"n":%d}\n' % number for number in range(count))
    head = (
        f"POST /left-{hang_up}/_bulk?refresh=true HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/x-ndjson\r\ncontent-length: {len(lines)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", shared_node.http), PATIENCE_SECONDS) as connection:
        connection.sendall(head.encode() + lines)
        if hang_up == "half":
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass

    # A small one that has come whole goes on too, however soon its client hangs up.
    for number in range(30):
        head = (
            f"PUT /left-{hang_up}/_doc/small-{number} HTTP/1.1\r\nhost: localhost\r\n"
            "content-type: application/json\r\ncontent-length: 7\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", shared_node.http), PATIENCE_SECONDS) as connection:
            connection.sendall(head.encode() + b'{"n":1}')
            if hang_up == "half":
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass
    count += 30

    def is_there():
        ask(shared_node, "POST", f"/left-{hang_up}/_refresh")
        status, _, answer = ask(shared_node, "GET", f"/left-{hang_up}/_count")
        return status == 200 and answer["count"] == count

    await_true("the rest of what was sent is missing", is_there, PATIENCE_SECONDS)

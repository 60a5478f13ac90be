"""The least a REST client can be: sends JSON to a node, hands back what came."""

import http.client
import json
import urllib.error
import urllib.request


def ask_whole(node, method, path, body=None, timeout_seconds=60):
    """Status, headers and JSON of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{node.http}{path}", data, method=method)
    request.add_header("content-type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds) as answer:
            return answer.status, dict(answer.headers), json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), json.loads(error.read())


def ask(node, method, path, body=None, timeout_seconds=60):
    """Status and JSON of an answer."""
    status, _, answer = ask_whole(node, method, path, body, timeout_seconds)
    return status, answer


def try_ask(node, method, path, body=None, timeout_seconds=30):
    """The same; status 0 where the node does not answer."""
    try:
        return ask(node, method, path, body, timeout_seconds)
    except (OSError, http.client.HTTPException):
        return 0, {}


def get(node, path, body=None):
    """The JSON of an answer of 200."""
    status, answer = ask(node, "GET" if body is None else "POST", path, body)
    assert status == 200, answer
    return answer

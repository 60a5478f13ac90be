"""Clients of Elasticsearch and Redis in Python against a node with TLS and users. Prints the results as one line of
JSON: by client, by way to connect. `tests/test_secure_clients.py` starts it, with the name of the module that is
Elasticsearch's client, and checks the results.
"""

import functools
import importlib
import json
import sys
from os import environ as env
from urllib.parse import quote

import redis

elasticsearch = importlib.import_module(sys.argv[1])
CLIENT = f"elasticsearch-py {sys.argv[1][-1]}"
URL = f"https://{env['TEST_HOST']}:{env['TEST_HTTP_PORT']}"
PASSWORD = {"basic_auth": (env["TEST_USER"], env["TEST_PASSWORD"])}
KEY = {"api_key": env["TEST_API_KEY"]}
BY_FILE = {"ca_certs": env["TEST_CA"]}
BY_FINGERPRINT = {"ssl_assert_fingerprint": env["TEST_CA_FINGERPRINT"]}


def words(error):
    """With the first word of Redis' error, which redis-py keeps apart from the rest."""
    code = getattr(error, "status_code", None)
    return f"{code} {error}" if isinstance(code, str) else f"{type(error).__name__}: {error}"


def status_of(request):
    try:
        request()
        return 200
    except elasticsearch.ApiError as error:
        return error.status_code


def documents(letter, **options):
    index, other = f"{env['TEST_INDEX']}-python-{sys.argv[1][-1]}-{letter}", env["TEST_OTHER_INDEX"]
    dory = {"name": "Dory", "knots": 3}
    with elasticsearch.Elasticsearch(URL, **options) as client:
        indexed = client.index(index=index, id="1", document={"name": "Ada", "knots": 12}, refresh=True)
        got = client.get(index=index, id="1")
        items = [
            {"index": {"_index": index, "_id": "2"}},
            {"name": "Beagle", "knots": 8},
            {"index": {"_index": index, "_id": "3"}},
            {"name": "Cutty Sark", "knots": 17},
            {"index": {"_index": other, "_id": "1"}},
            dory,
        ]
        bulk = client.bulk(operations=items, refresh=True)
        query = {"range": {"knots": {"gte": 10}}}
        found = client.search(index=index, query=query, sort=[{"knots": "desc"}])["hits"]
        return {
            "indexed": indexed["result"],
            "got": got["_source"],
            "bulk": [item["index"]["status"] for item in bulk["items"]],
            "found": [hit["_id"] for hit in found["hits"]],
            "total": found["total"]["value"],
            "forbidden": [
                status_of(lambda: client.index(index=other, id="1", document=dory)),
                status_of(lambda: client.get(index=other, id="1")),
                status_of(lambda: client.search(index=other)),
            ],
        }


def rows(password=env["TEST_PASSWORD"], **options):
    prefix = f"{env['TEST_KEY']}python-{sys.argv[1][-1]}:"
    auth = f"{quote(env['TEST_USER'], safe='')}:{quote(password, safe='')}"
    url = f"rediss://{auth}@{env['TEST_HOST']}:{env['TEST_RESP_PORT']}"
    with redis.from_url(url, decode_responses=True, **options) as client:
        was_set = client.set(f"{prefix}name", "Ada")
        got = client.get(f"{prefix}name")
        added = client.hset(f"{prefix}log", mapping={"knots": "12", "wind": "NW"})
        fields = client.hgetall(f"{prefix}log")
        pipeline = client.pipeline(transaction=False)
        pipeline.incr(f"{prefix}n").incr(f"{prefix}n").get(f"{prefix}name")
        piped = pipeline.execute()
        try:
            forbidden = client.set(env["TEST_OTHER_KEY"], "x")
        except redis.exceptions.NoPermissionError as error:
            forbidden = words(error)
        return {
            "set": "OK" if was_set is True else was_set,
            "got": got,
            "added": added,
            "hash": fields,
            "pipeline": piped,
            "forbidden": forbidden,
        }


def all_of(ways):
    results = {}
    for way, run in ways.items():
        try:
            results[way] = run()
        except Exception as error:
            status = error.status_code if isinstance(error, elasticsearch.ApiError) else None
            results[way] = {"error": words(error), "status": status}
    return results


def main():
    wrong = {"basic_auth": (env["TEST_USER"], env["TEST_WRONG_PASSWORD"])}
    wrong_fingerprint = {"ssl_assert_fingerprint": env["TEST_WRONG_FINGERPRINT"]}
    ways = {
        "password, CA file": ("a", {**PASSWORD, **BY_FILE}),
        "API key, CA file": ("b", {**KEY, **BY_FILE}),
        "password, CA fingerprint": ("c", {**PASSWORD, **BY_FINGERPRINT}),
        "API key, CA fingerprint": ("d", {**KEY, **BY_FINGERPRINT}),
        "wrong password": ("e", {**wrong, **BY_FILE}),
        "unknown CA": ("e", PASSWORD),
        "wrong CA fingerprint": ("e", {**PASSWORD, **wrong_fingerprint}),
    }
    on_documents = {way: functools.partial(documents, letter, **given) for way, (letter, given) in ways.items()}
    authority = {"ssl_ca_certs": env["TEST_CA"]}
    on_rows = {
        "password, CA file": lambda: rows(**authority),
        "wrong password": lambda: rows(env["TEST_WRONG_PASSWORD"], **authority),
        "unknown CA": rows,
    }
    print(json.dumps({CLIENT: all_of(on_documents), "redis-py": all_of(on_rows)}))


main()

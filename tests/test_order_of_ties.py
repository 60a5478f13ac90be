"""Hits that nothing tells apart keep their places, whatever is refreshed, merged or restarted."""

import pytest
from rest import ask, get

SEGMENTS = 12
DOCUMENTS = 8
REFRESHES = 6
SORTS = {
    "score": {"query": {"match": {"t": "same"}}},
    "constant score": {"query": {"constant_score": {"filter": {"term": {"t": "same"}}}}},
    "all": {"query": {"match_all": {}}},
    "field with ties": {"query": {"match_all": {}}, "sort": [{"tie": "asc"}]},
    "field with ties, backwards": {"query": {"match": {"t": "same"}}, "sort": [{"tie": "desc"}]},
    "missing field": {"query": {"match_all": {}}, "sort": [{"none": {"order": "asc", "unmapped_type": "long"}}]},
}


def write(node, documents):
    for number in documents:
        assert ask(node, "PUT", f"/ties/_doc/{number}", {"t": "same", "tie": number % 3})[0] == 201
    assert ask(node, "POST", "/ties/_refresh")[0] == 200


def hits(node, search, first=0):
    answer = get(node, "/ties/_search", {**SORTS[search], "from": first, "size": 1000})
    return [int(hit["_id"]) for hit in answer["hits"]["hits"]]


def orders(node, shards):
    # Scores of words follow the figures of a partition: those of two are no ties.
    return {search: hits(node, search) for search in SORTS if shards == 1 or search != "score"}


@pytest.mark.parametrize("shards", [1, 3])
def test_hits_of_equal_score_keep_their_places_from_refresh_to_refresh(new_node, shards):
    node = new_node().start()
    # Nothing is refreshed or merged by itself: every refresh leaves a segment of its own, all of one size.
    settings = {"number_of_shards": shards, "number_of_replicas": 0, "refresh_interval": "-1"}
    mappings = {"properties": {"t": {"type": "text"}, "tie": {"type": "long"}}}
    assert ask(node, "PUT", "/ties", {"settings": settings, "mappings": mappings})[0] == 200
    for segment in range(SEGMENTS):
        write(node, range(segment * DOCUMENTS, (segment + 1) * DOCUMENTS))
    known, there = orders(node, shards), set(range(SEGMENTS * DOCUMENTS))
    for search, found in known.items():
        assert set(found) == there and len(found) == len(there), search
    ties = [number % 3 for number in known["field with ties"]]
    assert ties == sorted(ties)
    for number in range(REFRESHES):
        # What is new, or gone, changes nothing between the others: pages meet end to end.
        new = 10_000 + number
        write(node, [new])
        there.add(new)
        assert ask(node, "DELETE", f"/ties/_doc/{number * DOCUMENTS}?refresh=true")[0] == 200
        there.discard(number * DOCUMENTS)
        for search, before in known.items():
            found = hits(node, search)
            assert set(found) == there, search
            old = [it for it in found if it in set(before)]
            assert old == [it for it in before if it in there], (search, number)
            assert found[10:] == hits(node, search, 10), search
            known[search] = found
    assert node.terminate(60) == 0
    node.start()
    assert orders(node, shards) == known


PAGED = {
    "field": [{"tie": "asc"}],
    "field, backwards": [{"tie": "desc"}],
    "two fields": {"tie": "asc", "none": {"order": "desc", "unmapped_type": "long"}},
    "score": "_score",
    "number": ["_shard_doc"],
    "number, backwards": [{"_shard_doc": "desc"}],
    "field and number, backwards": [{"tie": "asc"}, {"_shard_doc": {"order": "desc"}}],
}


def pages(node, body):
    found = []
    while True:
        answer = get(node, "/_search", body)["hits"]["hits"]
        if not answer:
            return found
        found += [hit["_id"] for hit in answer]
        body = {**body, "search_after": answer[-1]["sort"]}


@pytest.mark.parametrize("shards", [1, 3])
def test_pages_of_a_point_in_time_show_each_of_those_that_tie_once(new_node, shards):
    node = new_node().start()
    settings = {"number_of_shards": shards, "number_of_replicas": 0, "refresh_interval": "-1"}
    mappings = {"properties": {"t": {"type": "text"}, "tie": {"type": "long"}}}
    assert ask(node, "PUT", "/ties", {"settings": settings, "mappings": mappings})[0] == 200
    for segment in range(SEGMENTS):
        write(node, range(segment * DOCUMENTS, (segment + 1) * DOCUMENTS))
    point = ask(node, "POST", "/ties/_pit?keep_alive=5m")[1]["id"]
    # What comes later is not of that point.
    write(node, range(1000, 1010))
    there = sorted(str(number) for number in range(SEGMENTS * DOCUMENTS))
    for name, sort in PAGED.items():
        for size in (1, 7, 50):
            found = pages(node, {"pit": {"id": point}, "sort": sort, "size": size})
            assert sorted(found) == there, (name, size)
    # Who goes on after the values of the clauses alone is asked nothing else: all that tie come before it.
    first = get(node, "/_search", {"pit": {"id": point}, "sort": [{"tie": "asc"}], "size": 1})["hits"]["hits"][0]
    assert len(first["sort"]) == 2
    body = {"pit": {"id": point}, "sort": [{"tie": "asc"}], "size": 1000, "search_after": first["sort"][:1]}
    rest = get(node, "/_search", body)["hits"]["hits"]
    assert {hit["sort"][0] for hit in rest} == {1, 2} and {len(hit["sort"]) for hit in rest} == {1}

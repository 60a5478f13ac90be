"""Plimsoll answers what OpenSearch 2.19.1 answered, except where
golden/differences-opensearch.toml says why not.

The questions are read from the recorded answers themselves (golden/README.md has their format).
They are asked in the order of the recording, because each finds what those before it left.
"""

import fnmatch
import json
import pathlib
import re
import tomllib

import requests

GOLDEN = pathlib.Path(__file__).parent / "golden"
CUT = re.compile(r"\.\.\. \((\d+) chars\)$")
# What differs from run to run, whoever answers.
VOLATILE = re.compile(
    r"(^|\.)(took|uuid|index_uuid|creation_date|creation_time|cluster_uuid|pit_id|_scroll_id"
    r"|(pri\.)?store\.size|(start|stop|total)_time_in_millis|running_time_in_nanos|transport_address|ip)$"
)
# The recorded node's name for itself.
NODE_ID = "C0-SePv0T92vIUfzzSKtJQ"
MADE_ID = re.compile(r"^[A-Za-z0-9_-]{20}$")


def recorded():
    """Each question of the recording: method, path, note, body, status, answer."""
    text = (GOLDEN / "opensearch-2.19.1.txt").read_text(encoding="utf-8")
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        head, rest = part.split("\n", 1)
        method, path, note = re.fullmatch(r"(\S+) (\S+)(?:   \((.*)\))?", head).groups()
        body, status, answer = re.fullmatch(
            r"(?:> (.*?)\n)?(\d{3}) \{[^\n]*\}\n(.*)", rest, flags=re.DOTALL
        ).groups()
        yield method, path, note or "", body, int(status), answer.strip("\n")


def content_type(path, note):
    if note == "wrong content type":
        return "application/x-www-form-urlencoded"
    return "application/x-ndjson" if re.search("_bulk|_msearch", path) else "application/json"


class Asker:
    """Asks the recorded questions, with the ids that this node gave where the recording has others."""

    def __init__(self, url):
        self.url, self.session, self.ids = url, requests.Session(), {}
        self.node_id = next(iter(self.session.get(f"{url}/_nodes").json()["nodes"]))

    def ask(self, method, path, note, body):
        if body is not None:
            if path.startswith(("/_bulk", "/_msearch")) and note != "no last newline":
                body += "\n"
            if note == "malformed json":
                body += " "
            for theirs, ours in self.ids.items():
                body = body.replace(theirs, ours)
        headers = {} if body is None else {"content-type": content_type(path, note)}
        return self.session.request(method, self.url + path, data=body, headers=headers)

    def learn(self, theirs, ours):
        for key in ["_scroll_id", "pit_id"]:
            if isinstance(theirs, dict) and key in theirs and isinstance(ours, dict) and key in ours:
                self.ids[theirs[key]] = ours[key]


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def leaves(value, path=""):
    """Every value that has nothing in it, by its path; positions in lists are `0`, `1`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    items = list(items)
    if not items:
        yield path, value
    for key, inner in items:
        yield from leaves(inner, f"{path}.{key}" if path else str(key))


def same(path, theirs, ours):
    if VOLATILE.search(path) and isinstance(ours, type(theirs)):
        return True
    if isinstance(theirs, str) and isinstance(ours, str):
        if MADE_ID.match(theirs) and MADE_ID.match(ours):
            return True
        # An index' own id within a sentence.
        shared = re.compile(r"(?<=\[g/)[^\]]+(?=\])|(?<=context found for id \[)[^\]]+(?=\])")
        theirs, ours = (shared.sub("…", text) for text in (theirs, ours))
    if isinstance(theirs, float) and isinstance(ours, (int, float)):
        return abs(theirs - ours) <= 1e-6 * max(1, abs(theirs))
    return type(theirs) is type(ours) and theirs == ours


def named(text, node_id):
    """An answer that calls every node by the same name, and every task of it."""
    return re.sub(r"\bNODE:\d+", "NODE:1", text.replace(node_id, "NODE"))


def differences_of(status, answer, found, node_id):
    """Paths with what each side has there."""
    if found.status_code != status:
        yield "status", status, found.status_code
    if CUT.search(answer):
        return
    answer, text = named(answer, NODE_ID), named(found.text, node_id)
    theirs, ours = parsed(answer), parsed(text)
    if theirs is None or ours is None:
        yield from differences_of_text(answer.rstrip(), text.rstrip())
        return
    theirs, ours = dict(leaves(theirs)), dict(leaves(ours))
    for path in [*theirs, *(path for path in ours if path not in theirs)]:
        if path not in ours:
            yield path, theirs[path], "(nothing)"
        elif path not in theirs:
            yield path, "(nothing)", ours[path]
        elif not same(path, theirs[path], ours[path]):
            yield path, theirs[path], ours[path]


def differences_of_text(theirs, ours):
    """Tables are compared by the names of their columns and the numbers of words in their rows."""
    if theirs == ours:
        return
    theirs, ours = theirs.splitlines(), ours.splitlines()
    if len(theirs) != len(ours):
        yield "text.lines", len(theirs), len(ours)
    for at, (one, other) in enumerate(zip(theirs, ours)):
        is_header = at == 0 and not one.startswith("green")
        if one.split() != other.split() if is_header else len(one.split()) != len(other.split()):
            yield f"text.{at}", one, other


def ask_all(url):
    """Every difference: question, path, theirs, ours. And how many questions there were."""
    asker, found = Asker(url), []
    # The recording was made beside another index with a thousand documents.
    asker.session.put(f"{url}/bench", json={"settings": {"number_of_replicas": 0}})
    lines = "".join(f'{{"index":{{}}}}\n{{"n":{n}}}\n' for n in range(1000))
    headers = {"content-type": "application/x-ndjson"}
    asker.session.post(f"{url}/bench/_bulk?refresh=true", data=lines, headers=headers)
    questions = 0
    for method, path, note, body, status, answer in recorded():
        questions += 1
        question = f"{method} {path}" + (f" ({note})" if note else "")
        response = asker.ask(method, path, note, body)
        asker.learn(parsed(answer), parsed(response.text))
        found += [(question, *one) for one in differences_of(status, answer, response, asker.node_id)]
    return found, questions


def explains(explanation, question, path):
    return any(fnmatch.fnmatchcase(question, one) for one in explanation["questions"]) and any(
        fnmatch.fnmatchcase(path, one) for one in explanation["paths"]
    )


def test_every_difference_from_opensearch_is_explained(new_node):
    text = (GOLDEN / "differences-opensearch.toml").read_text(encoding="utf-8")
    explanations = tomllib.loads(text)["difference"]
    node = new_node().start()
    differences, questions = ask_all(f"http://127.0.0.1:{node.http}")
    used, problems = set(), []
    for question, path, theirs, ours in differences:
        matching = [at for at, one in enumerate(explanations) if explains(one, question, path)]
        used.update(matching)
        if not matching:
            problems.append(f"{question}\n  {path}\n  OpenSearch: {theirs!r:.300}\n  Plimsoll:   {ours!r:.300}")
    idle = [one for at, one in enumerate(explanations) if at not in used and not one.get("sometimes")]
    problems += [f"explains no difference any more: {one['questions']} {one['paths']}" for one in idle]
    assert questions == 143 and not problems, f"{len(problems)} problems\n" + "\n".join(problems)

"""Plimsoll answers what Redis 7.0.15 answered, except where golden/differences.toml says why not.

The questions are read from the recorded answers themselves (golden/README.md has their format).
"""

import ast
import pathlib
import re
import tomllib

from resp import Connection

GOLDEN = pathlib.Path(__file__).parent / "golden"
ANSWER_CHARS_MAX = 420
FIRST_ANSWER_CHARS_MAX = 600
# Redis answers raw bytes at once or not at all; so does Plimsoll.
RAW_SECONDS = 0.4


def recorded():
    """Each section of the recording as its questions with their answers."""
    sections, current = {}, None
    for line in (GOLDEN / "redis-7.0.15.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("===="):
            current = sections.setdefault(line.strip("= "), [])
        elif line.startswith("> "):
            current.append([line[2:], ""])
        elif line:
            current[-1][1] = line
    return sections


def escaped(reply):
    return repr(reply.decode("latin1"))[1:-1]


def ask_commands(port, commands):
    answers = []
    with Connection(port) as connection:
        for command in commands:
            words = command.split(" ")
            limit = FIRST_ANSWER_CHARS_MAX if command == "HELLO 3" else ANSWER_CHARS_MAX
            answers.append(escaped(connection.ask(*words))[:limit])
            if words[0] == "RESET" and "HELLO 3" in commands:
                connection.ask("HELLO", "3")
    return answers


def ask_raw(port, question):
    with Connection(port) as connection:
        connection.send(ast.literal_eval(question))
        answer, closed = connection.rest(RAW_SECONDS)
    return repr(answer) + (" [closed]" if closed else "")


def ask_all(port):
    """Every difference from the recording: section, question, Redis' answer, Plimsoll's answer."""
    differences = []
    for section, questions in recorded().items():
        if section.startswith("RESP"):
            answers = ask_commands(port, [question for question, _ in questions])
        else:
            answers = [ask_raw(port, question) for question, _ in questions]
        for (question, wanted), found in zip(questions, answers, strict=True):
            if found != wanted:
                differences.append((section, question, wanted, found))
    return differences


def explains(explanation, question, found):
    patterns = explanation.get("patterns", [])
    return question in explanation["questions"] and (
        found in explanation.get("answers", []) or any(re.fullmatch(p, found) for p in patterns)
    )


def test_every_difference_from_redis_is_explained(new_node):
    explanations = tomllib.loads((GOLDEN / "differences.toml").read_text(encoding="utf-8"))["difference"]
    node = new_node().start()
    used, problems = set(), []
    for section, question, wanted, found in ask_all(node.port):
        which = [n for n, e in enumerate(explanations) if explains(e, question, found)]
        if not which:
            problems.append(f"{section}: > {question}\n    Redis:    {wanted}\n    Plimsoll: {found}")
        used.update((n, question) for n in which)
    for n, explanation in enumerate(explanations):
        for question in explanation["questions"]:
            # What varies from run to run may agree by chance.
            if (n, question) not in used and not explanation.get("varies"):
                problems.append(f"no difference any more: > {question} ({explanation['why']})")
    assert not problems, "\n".join(["", *problems])

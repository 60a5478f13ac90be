"""The faults that `make mutations` puts into the code can still be put there."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from mutations import MUTATIONS  # noqa: E402


def test_each_text_that_is_replaced_is_there_once():
    wrong = []
    for name, (path, *changes) in MUTATIONS.items():
        text = (ROOT / path).read_text()
        for before, after in zip(changes[::2], changes[1::2], strict=True):
            if text.count(before) != 1:
                wrong.append(f"{name}: {text.count(before)} times in {path}")
            text = text.replace(before, after)
    assert not wrong, wrong

"""Writes the documents of the track beside it, or into the folder that is given; and the track as
each driver wants to find it."""

import json
import pathlib
import sys

here = pathlib.Path(__file__).parent
folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else here)
folder.mkdir(parents=True, exist_ok=True)
lines = [
    json.dumps(
        {
            "title": f"thing number {n} " + ("quick fox" if n % 50 == 0 else "slow dog"),
            "kind": "abc"[n % 3],
            "size": n,
            "day": f"2024-0{1 + n % 9}-15",
        }
    )
    for n in range(1000)
]
text = "\n".join(lines) + "\n"
(folder / "documents.json").write_text(text, encoding="utf-8")
(folder / "index.json").write_text((here / "index.json").read_text(encoding="utf-8"), encoding="utf-8")
track = json.loads((here / "track.json").read_text(encoding="utf-8"))
track["corpora"][0]["documents"][0]["uncompressed-bytes"] = len(text.encode())
for name in ["track.json", "workload.json"]:
    (folder / name).write_text(json.dumps(track, indent=2), encoding="utf-8")

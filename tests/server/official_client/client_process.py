"""Runs in the peers' environment: does what it is told with the official client, and answers in JSON lines.

Reads one JSON object a line: `{"call": name, "arguments": [...], "options": {...}}`.
"""

from __future__ import annotations

import json
import sys

import delta_sharing
import pandas as pd


def answered(command: dict) -> object:
    call, arguments, options = command["call"], command["arguments"], command["options"]
    if call.startswith("list_"):
        client = delta_sharing.SharingClient(arguments[0])
        found = getattr(client, call)(*_objects(call, arguments[1:]))
        return [vars(item) for item in found]
    result = getattr(delta_sharing, call)(*arguments, **options)
    if isinstance(result, pd.DataFrame):
        return {"rows": json.loads(result.to_json(orient="records", date_format="iso")), "n": len(result)}
    return result if isinstance(result, int | str) else str(result)


def _objects(call: str, arguments: list) -> list:
    if call == "list_schemas":
        return [delta_sharing.Share(*arguments)]
    if call == "list_tables":
        return [delta_sharing.Schema(*arguments)]
    return []


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # the client prints what it thinks about
    for line in sys.stdin:
        try:
            answer = {"result": answered(json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()

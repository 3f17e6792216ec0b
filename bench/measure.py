"""Measurements in a process of their own; each gives a line of JSON.

measure.py SUBJECT ENGINE WORK FOLDER ARGUMENTS   one, in this fresh process
measure.py SUBJECT ENGINE FOLDER                  one for each line `[work, folder, arguments]` of input
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from case import Clock


def main() -> None:
    """Do the work of one engine and print what it took and what it gave."""
    subject, engine, *rest = sys.argv[1:]
    module = importlib.import_module(subject)
    if len(rest) == 1:
        _serve(module, engine, Path(rest[0]))
    else:
        work, folder, arguments = rest
        _print(_measured(module, engine, work, folder, json.loads(arguments)))
    os._exit(0)  # engines may fail while the interpreter is taken down, which is not what is measured


def _measured(module: ModuleType, engine: str, work: str, folder: str, arguments: dict[str, Any]) -> object:
    clock = Clock()
    result = getattr(module, f"{engine}_{work}")(clock, Path(folder), **arguments)
    return {"result": result, **clock.measured}


def _serve(module: ModuleType, engine: str, scratch: Path) -> None:
    getattr(module, f"{engine}_warm_up")(scratch)
    _print({"ready": True})
    for line in sys.stdin:
        try:
            _print(_measured(module, engine, *json.loads(line)))
        except Exception as error:
            traceback.print_exc()
            _print({"error": f"{type(error).__name__}: {error}".splitlines()[0]})


def _print(answer: object) -> None:
    print("\n" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

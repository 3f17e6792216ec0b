"""One measurement in a fresh process: measure.py SUBJECT ENGINE WORK FOLDER ARGUMENTS → a line of JSON."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

from case import Clock


def main() -> None:
    """Do the work of one engine once and print what it took and what it gave."""
    subject, engine, work, folder, arguments = sys.argv[1:]
    function = getattr(importlib.import_module(subject), f"{engine}_{work}")
    clock = Clock()
    result = function(clock, Path(folder), **json.loads(arguments))
    print(json.dumps({"result": result, **clock.measured}), flush=True)
    os._exit(0)  # engines may fail while the interpreter is taken down, which is not what is measured


if __name__ == "__main__":
    main()

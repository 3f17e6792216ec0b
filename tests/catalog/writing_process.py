"""A process that changes a catalog until it is ended: acknowledges each change on stdout after it is kept."""

from __future__ import annotations

import sys
from pathlib import Path

from distributary.catalog.administration import Administration
from distributary.catalog.database import Database
from distributary.server.key_ring import KeyRing


def main(url: str, key_file: str, name: str, count: int) -> None:
    admin = Administration(Database(url, busy_seconds=60), KeyRing(Path(key_file)), actor=name)
    for number in range(count):
        share = admin.create_share(f"{name}-{number}")
        print(share.name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))

"""Row ids where files are written anew: rows must keep them, which a plain rewrite does not do."""

from __future__ import annotations

from distributary.delta.errors import UnsupportedFeatureError
from distributary.delta.log.snapshot import Snapshot
from distributary.delta.table_properties import ENABLE_ROW_TRACKING


def check_rows_may_move(snapshot: Snapshot, what: str) -> None:
    """Refuse to write rows of a table anew that tracks them: they would get new ids."""
    if snapshot.properties.get(ENABLE_ROW_TRACKING):
        raise UnsupportedFeatureError(
            f"{snapshot.root} tracks its rows (delta.enableRowTracking=true): {what} would give rows new "
            "ids, which this version cannot prevent. Switch row tracking off first.",
            features=("rowTracking",),
        )

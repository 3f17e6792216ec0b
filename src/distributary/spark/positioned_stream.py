"""What streams from shares and from tables have in common: where a batch begins and where it ends.

Offsets are positions in an order of files that never changes (`share_offsets`). The log of the table tells
what follows a position; what is read of a batch, and how, is the work of each source. The names of methods
are Spark's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader

from distributary.errors import InvalidInputError
from distributary.spark.errors import StreamSourceChangedError
from distributary.spark.share_offsets import BatchLimit, StreamPosition, VersionFiles, advanced, read_offset
from distributary.spark.stream_rules import StreamRules

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # PySpark 4.1 has no limits for Python sources

        class SupportsTriggerAvailableNow:
            """Marks nothing there."""


FILES_PER_TRIGGER: Final = 1000


class StreamLog(Protocol):
    """The versions of a table, as far as every stream asks about them."""

    def latest(self, *, at_least: int | None = None) -> int:
        """The latest version."""
        ...

    def first_version_since(self, moment: str, /) -> int:
        """The first version at or after a time."""
        ...

    def forget(self) -> None:
        """A batch is over."""
        ...


Log = TypeVar("Log", bound=StreamLog)


class PositionedStream(DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[Log]):
    """A stream over the versions of one table; `start` is its first version and time, as options say them."""

    def __init__(
        self,
        table: tuple[str, str],
        rules: StreamRules,
        limit: BatchLimit,
        start: tuple[str | None, str | None],
    ) -> None:
        self._table_id, self._table_name = table
        self._rules = rules
        self._limit = limit
        self._start = start
        self._log: Log | None = None
        self._until: int | None = None
        self._reached: StreamPosition | None = None

    @abstractmethod
    def _open_log(self) -> Log:
        """The log of the table, on the driver."""

    @abstractmethod
    def _following(self, position: StreamPosition, last: int) -> Iterable[VersionFiles]:
        """What follows a position, up to a version."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's names
        """Where a new stream begins."""
        self._reached = self._first_position()
        return self._reached.to_offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Tells Spark that batches have a limit; `latestOffset` applies all of the options."""
        from pyspark.sql.streaming.datasource import ReadMaxFiles  # noqa: PLC0415  # not in PySpark 4.1

        return ReadMaxFiles(self._limit.files or FILES_PER_TRIGGER)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to the version that is the latest now, and then end."""
        self._until = self._versions().latest()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Where the next batch ends. PySpark 4.1 gives no start: then it is where the last batch ended."""
        position = self._reached if start is None else self._position(start)
        log = self._versions()
        if position is None:
            return StreamPosition(table_id=self._table_id, version=log.latest(at_least=0) + 1).to_offset()
        last = self._until if self._until is not None else log.latest(at_least=position.version)
        bounds = BatchLimit() if type(limit).__name__ == "ReadAllAvailable" else self._limit
        following = self._following(position, last)
        return advanced(position, following, bounds, whole=self._rules.changes).to_offset()

    def commit(self, end: dict[str, Any]) -> None:
        """A batch is over."""
        self._versions().forget()

    def _batch(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> tuple[StreamPosition, StreamPosition, int]:
        """The positions of a batch, and the last version that it has files of."""
        first, last = self._position(start), self._position(end)
        self._reached = last
        return first, last, last.version if last.index else last.version - 1

    def _versions(self) -> Log:
        if self._log is None:
            self._log = self._open_log()
        return self._log

    def _first_position(self) -> StreamPosition:
        version, moment = self._start
        if version is not None and moment is not None:
            raise InvalidInputError("give startingVersion or startingTimestamp, not both")
        log, table_id = self._versions(), self._table_id
        if moment is not None:
            return StreamPosition(table_id=table_id, version=log.first_version_since(moment))
        if version is None:
            return StreamPosition(table_id=table_id, version=log.latest(), snapshot=True)
        if version.strip().lower() == "latest":
            return StreamPosition(table_id=table_id, version=log.latest() + 1)
        if not version.strip().isdecimal():
            raise InvalidInputError(f'startingVersion is a number or "latest", not {version!r}')
        return StreamPosition(table_id=table_id, version=int(version))

    def _position(self, offset: dict[str, Any]) -> StreamPosition:
        found = read_offset(offset)
        if found.table_id != self._table_id:
            raise StreamSourceChangedError(
                f"{self._table_name} is another table than the one that the checkpoint is of: it was "
                "replaced. Start anew with another checkpoint location"
            )
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without connections: tasks need none of the driver's."""
        return {**self.__dict__, "_log": None}

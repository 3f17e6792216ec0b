"""Per-file statistics: how many rows, how many nulls, and between which values."""

from distributary.delta.statistics.file_statistics import (
    FileStatistics as FileStatistics,
)
from distributary.delta.statistics.file_statistics import (
    StatisticsSegment as StatisticsSegment,
)
from distributary.delta.statistics.json_statistics import (
    parse_file_statistics as parse_file_statistics,
)

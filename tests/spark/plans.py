"""What a planned or executed DataFrame says about its scan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def scans(frame: DataFrame) -> list[Any]:
    """The scans of files in the executed plan."""
    plan: Any = frame._jdf.queryExecution().executedPlan()
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.executedPlan()
    return _scans(plan)


def _scans(plan: Any) -> list[Any]:
    leaves = plan.collectLeaves()
    found: list[Any] = []
    for leaf in (leaves.apply(at) for at in range(leaves.size())):
        kind = leaf.getClass().getSimpleName()
        if kind == "FileSourceScanExec":
            found.append(leaf)
        elif kind.endswith("QueryStageExec"):
            found.extend(_scans(leaf.plan()))
    return found


def files_read(frame: DataFrame) -> int:
    """How many files the scans of a frame read, which has been executed."""
    return sum(scan.metrics().apply("numFiles").value() for scan in scans(frame))


def rows_read(frame: DataFrame) -> int:
    """How many rows the scans of a frame gave, which has been executed."""
    return sum(scan.metrics().apply("numOutputRows").value() for scan in scans(frame))


def plan_text(frame: DataFrame) -> str:
    """The text of the physical plan."""
    return frame._jdf.queryExecution().executedPlan().toString()

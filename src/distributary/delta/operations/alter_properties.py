"""Plans that change what a table promises: properties, constraints, features, name and description.

A property of the protocol (`delta.…`) is set only when it is known and its value can be read; one that needs
more than an entry brings it along: column mapping gives each column its id and name, a feature upgrades the
protocol, and what the table keeps by itself cannot be set at all. `delta.feature.<name> = supported` and the
two minimum versions ask for a protocol, as in Spark, and are not stored. Constraints have their own plans,
since the rows that are there must satisfy a new one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from distributary.delta.commit.staged_commit import Operation
from distributary.delta.commit.table_rules import TableRule
from distributary.delta.commit.write_validation import RowCheck
from distributary.delta.errors import UnsupportedFeatureError
from distributary.delta.log.actions import Protocol
from distributary.delta.operations.alteration_plan import AlterationPlan, TableState, plan_change
from distributary.delta.schema.arrow_schema import arrow_schema
from distributary.delta.schema.data_types import StructType
from distributary.delta.schema.schema_edits import find_field
from distributary.delta.table_features import READER_FEATURES_VERSION, WRITER_FEATURES_VERSION
from distributary.delta.table_properties import (
    CONSTRAINT_PREFIX,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ENABLE_ROW_TRACKING,
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    MAX_COLUMN_ID,
    PROPERTIES,
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
    TableProperties,
)
from distributary.errors import InvalidInputError, InvalidPredicateError
from distributary.expressions.arrow_casts import kind_of
from distributary.expressions.binding import bind, type_of
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Expression

ConstraintParser = Callable[[StructType, str], Expression]

FEATURE_PREFIX: Final = "delta.feature."
READER_VERSION: Final = "delta.minReaderVersion"
WRITER_VERSION: Final = "delta.minWriterVersion"
COMMENT: Final = "comment"

_NAME = re.compile(r"[\w-]+")
_CANONICAL: Final = {key.lower(): key for key in (*PROPERTIES, READER_VERSION, WRITER_VERSION)}
_KEPT_BY_THE_TABLE: Final = frozenset(
    row.key
    for row in (
        *(MAX_COLUMN_ID, IN_COMMIT_TIMESTAMP_VERSION, IN_COMMIT_TIMESTAMP_TIME),
        *(ROW_ID_COLUMN, ROW_COMMIT_VERSION_COLUMN),
    )
)


def checked_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties that a user may set, spelt as the protocol spells them, each value readable.

    Keys outside `delta.` are free; `delta.feature.…` and the minimum versions are left for
    :func:`requested_features` and :func:`plan_set_properties`.
    """
    checked: dict[str, str] = {}
    for given, value in properties.items():
        key = _canonical_key(given)
        if key in PROPERTIES:
            PROPERTIES[key].read({key: value})
        checked[key] = value
    return checked


def requested_features(properties: Mapping[str, str]) -> frozenset[str]:
    """The features that `delta.feature.<name> = supported` asks for."""
    wanted: set[str] = set()
    for key, value in properties.items():
        if key.startswith(FEATURE_PREFIX):
            if value.lower() not in ("supported", "enabled"):
                raise InvalidInputError(f"{key} can only be set to supported, not to {value!r}.")
            wanted.add(key.removeprefix(FEATURE_PREFIX))
    return frozenset(wanted)


def stored_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Those of the checked properties that become entries of the configuration."""
    asks = (READER_VERSION, WRITER_VERSION, COMMENT)
    return {
        key: value
        for key, value in properties.items()
        if key not in asks and not key.startswith(FEATURE_PREFIX)
    }


def plan_set_properties(state: TableState, properties: Mapping[str, str]) -> AlterationPlan:
    """Properties set, with all that they need."""
    checked = checked_properties(properties)
    configuration = {**state.configuration, **stored_properties(checked)}
    _check_row_tracking(state, configuration)
    _check_statistics_columns(state, configuration)
    if not ENABLE_IN_COMMIT_TIMESTAMPS.read(configuration):
        _forget_in_commit_timestamps(configuration)
    return plan_change(
        state,
        Operation("SET TBLPROPERTIES", {"properties": checked}),
        configuration=configuration,
        description={"description": checked[COMMENT]} if COMMENT in checked else None,
        features=requested_features(checked),
        protocol=_asked_versions(state.protocol, checked),
    )


def plan_unset_properties(
    state: TableState, keys: Collection[str], *, if_exists: bool = False
) -> AlterationPlan:
    """Properties taken away, so that their defaults hold."""
    configuration = dict(state.configuration)
    description: dict[str, str | None] | None = None
    for given in keys:
        if given == COMMENT:
            description = {"description": None}
            continue
        key = next((known for known in configuration if known.lower() == given.lower()), None)
        if key is None:
            if if_exists:
                continue
            raise InvalidInputError(f"The table has no property {given}; it has {_listed(configuration)}.")
        _refuse_own(key)
        del configuration[key]
    if not ENABLE_IN_COMMIT_TIMESTAMPS.read(configuration):
        _forget_in_commit_timestamps(configuration)
    operation = Operation("UNSET TBLPROPERTIES", {"properties": sorted(keys), "ifExists": if_exists})
    return plan_change(state, operation, configuration=configuration, description=description)


def plan_add_constraint(
    state: TableState, name: str, expression: str, *, parse: ConstraintParser | None = None
) -> AlterationPlan:
    """A CHECK constraint, stored as it is written; the rows that are there must satisfy it.

    `parse` makes the tree of its text, or refuses it; an engine that evaluates the text itself has its own.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidInputError(f"{name!r} is no name for a constraint: use letters, digits, _ and -.")
    key = CONSTRAINT_PREFIX + name.lower()
    taken = {known.lower(): text for known, text in state.configuration.items()}
    if key in taken:
        raise InvalidInputError(f"There is a constraint {name} already: {taken[key]}. Drop it first.")
    tree = (parse or _constraint_tree)(state.schema, expression)
    plan = plan_change(
        state,
        Operation("ADD CONSTRAINT", {"name": name, "expr": expression}),
        configuration={**state.configuration, key: expression},
    )
    rule = TableRule(f"CHECK constraint {name}", expression)
    return msgspec.structs.replace(plan, must_hold=RowCheck(rule, tree))


def _constraint_tree(schema: StructType, expression: str) -> Expression:
    tree = bind(parse_predicate(expression), arrow_schema(schema))
    if kind_of(type_of(tree)) != "boolean":
        raise InvalidPredicateError(f"{expression} is no condition: it must be true or false for each row")
    return tree


def plan_drop_constraint(state: TableState, name: str, *, if_exists: bool = False) -> AlterationPlan:
    """One CHECK constraint less."""
    wanted = CONSTRAINT_PREFIX + name.lower()
    key = next((known for known in state.configuration if known.lower() == wanted), None)
    if key is None:
        if if_exists:
            return AlterationPlan(Operation("DROP CONSTRAINT", {"name": name}))
        raise InvalidInputError(
            f"There is no constraint {name}; the table has {_listed(state.properties.constraints)}."
        )
    configuration = {known: text for known, text in state.configuration.items() if known != key}
    operation = Operation("DROP CONSTRAINT", {"name": name, "expr": state.configuration[key]})
    return plan_change(state, operation, configuration=configuration)


def plan_describe(state: TableState, description: Mapping[str, str | None]) -> AlterationPlan:
    """Another `name` or `description` of the table; None takes it away."""
    shown = {COMMENT if key == "description" else key: value or "" for key, value in description.items()}
    return plan_change(state, Operation("SET TBLPROPERTIES", {"properties": shown}), description=description)


def plan_add_features(state: TableState, features: Collection[str]) -> AlterationPlan:
    """Features that the table supports from now on; what switches them on is a property or a column."""
    plan = plan_change(state, Operation("UPGRADE PROTOCOL"), features=features)
    described = {"newProtocol": msgspec.to_builtins(plan.protocol or state.protocol)}
    return msgspec.structs.replace(plan, operation=Operation("UPGRADE PROTOCOL", described))


def _canonical_key(given: str) -> str:
    lower = given.lower()
    if not lower.startswith("delta."):
        if not given:
            raise InvalidInputError("A property needs a name.")
        return given
    if lower.startswith(FEATURE_PREFIX):
        return FEATURE_PREFIX + given[len(FEATURE_PREFIX) :]
    _refuse_own(_CANONICAL.get(lower, given))
    if lower not in _CANONICAL:
        near = difflib.get_close_matches(lower, _CANONICAL, n=1)
        hint = f" Did you mean {_CANONICAL[near[0]]}?" if near else ""
        raise InvalidInputError(f"{given} is no property of the Delta protocol that is known here.{hint}")
    return _CANONICAL[lower]


def _refuse_own(key: str) -> None:
    if key.lower().startswith(CONSTRAINT_PREFIX):
        raise InvalidInputError(f"{key} is a constraint: use add_constraint and drop_constraint.")
    if key in _KEPT_BY_THE_TABLE:
        raise InvalidInputError(f"{key} is kept by the table itself and cannot be set.")


def _check_row_tracking(state: TableState, configuration: Mapping[str, str]) -> None:
    if ENABLE_ROW_TRACKING.read(configuration) and not state.properties.get(ENABLE_ROW_TRACKING):
        raise UnsupportedFeatureError(
            f"{ENABLE_ROW_TRACKING.key} cannot be switched on here: files that are there have no row ids. "
            "Switch it on with Spark; it is kept up from then on.",
            features=("rowTracking",),
        )


def _check_statistics_columns(state: TableState, configuration: Mapping[str, str]) -> None:
    columns = TableProperties.from_configuration(configuration).data_skipping_stats_columns or ()
    for column in columns:
        if find_field(state.schema, column) is None:
            raise InvalidInputError(
                f"delta.dataSkippingStatsColumns names {'.'.join(column)}, which the table does not have."
            )


def _forget_in_commit_timestamps(configuration: dict[str, str]) -> None:
    for row in (IN_COMMIT_TIMESTAMP_VERSION, IN_COMMIT_TIMESTAMP_TIME):
        for key in (row.key, *row.aliases):
            configuration.pop(key, None)


def _asked_versions(protocol: Protocol, properties: Mapping[str, str]) -> Protocol:
    reader, writer = (
        _version(properties.get(key), key, known)
        for key, known in (
            (READER_VERSION, protocol.min_reader_version),
            (WRITER_VERSION, protocol.min_writer_version),
        )
    )
    if (reader, writer) <= (protocol.min_reader_version, protocol.min_writer_version):
        return protocol
    if reader >= READER_FEATURES_VERSION or writer >= WRITER_FEATURES_VERSION:
        raise InvalidInputError(
            f"Reader version {READER_FEATURES_VERSION} and writer version {WRITER_FEATURES_VERSION} come "
            "with features: name those instead (delta.feature.<name> = supported)."
        )
    return Protocol(reader, writer)


def _version(text: str | None, key: str, known: int) -> int:
    if text is None:
        return known
    if re.fullmatch(r"[0-9]{1,3}", text.strip()) is None:
        raise InvalidInputError(f"{key} must be a whole number, not {text!r}.")
    return max(int(text), known)


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"

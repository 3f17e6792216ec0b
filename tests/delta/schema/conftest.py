"""Random Delta schemas for the property tests of this folder."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from distributary.delta.schema.data_types import (
    PRIMITIVES,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

_NAMES = st.text(st.characters(codec="utf-8"), max_size=6)
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _NAMES
)
_JSON = _SCALARS | st.lists(_SCALARS, max_size=2) | st.dictionaries(_NAMES, _SCALARS, max_size=2)
_METADATA = st.dictionaries(_NAMES | st.just("comment"), _JSON, max_size=2)
# Void is left out: it is null, whatever the flags beside it say.
_PRIMITIVES = st.sampled_from([primitive for primitive in PRIMITIVES.values() if primitive != VOID])


@st.composite
def _types(draw: st.DrawFn, depth: int) -> DataType:
    kinds = ["primitive", "decimal", "array", "map", "struct"]
    match draw(st.sampled_from(kinds if depth else kinds[:2])):
        case "decimal":
            precision = draw(st.integers(1, 38))
            return DecimalType(precision, draw(st.integers(0, precision)))
        case "array":
            return ArrayType(draw(_types(depth - 1)), draw(st.booleans()))
        case "map":
            return MapType(draw(_types(depth - 1)), draw(_types(depth - 1)), draw(st.booleans()))
        case "struct":
            return draw(_structs(depth - 1))
        case _:
            return draw(_PRIMITIVES)


@st.composite
def _structs(draw: st.DrawFn, depth: int) -> StructType:
    names = draw(st.lists(_NAMES, max_size=3, unique=True))
    return StructType(
        tuple(StructField(name, draw(_types(depth)), draw(st.booleans()), draw(_METADATA)) for name in names)
    )


@pytest.fixture(scope="session")
def schemas() -> st.SearchStrategy[StructType]:
    """Schemas of every type, nested, with any metadata."""
    return _structs(3)

"""Columns as people write them in CREATE TABLE."""

from __future__ import annotations

import pytest

from distributary.delta.schema.type_text import parse_columns_text
from distributary.errors import InvalidInputError


def test_columns_have_types_nullability_and_comments():
    schema = parse_columns_text(
        "id bigint NOT NULL COMMENT 'it''s the key', `a b` string, "
        'place struct<city:string not null comment "x">, m map<string,array<int>>'
    )
    assert str(schema) == (
        "struct<id:long not null,a b:string,place:struct<city:string not null>,m:map<string,array<integer>>>"
    )
    assert schema.field("id").comment == "it's the key"
    assert schema.field("place").data_type.field("city").comment == "x"  # pyright: ignore


def test_text_of_a_schema_reads_back_as_that_schema():
    schema = parse_columns_text("a long not null, b decimal(10,2), c struct<d:array<date>>")
    assert parse_columns_text(str(schema)[len("struct<") : -1]) == schema


@pytest.mark.parametrize(
    "text", ["", "id", "id long,", "id long name string", "a int, a int", ", int", "id long)", "id lnog"]
)
def test_text_that_is_no_list_of_columns_is_refused(text):
    with pytest.raises(InvalidInputError):
        parse_columns_text(text)

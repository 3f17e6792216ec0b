"""Expressions whose answers Spark gave (PySpark 4.1, ANSI mode, session time zone Europe/Paris).

``spark_answers.json`` holds [expression, type in Spark, value cast to a string]; the type ``error`` means
that Spark refuses the expression or fails on it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from distributary.errors import InvalidInputError
from distributary.expressions.arrow_evaluation import evaluate
from distributary.expressions.binding import bind, type_of
from distributary.expressions.functions import FUNCTIONS
from distributary.expressions.literal_text import type_sql
from distributary.expressions.sql_parser import parse_predicate
from distributary.expressions.tree import Cast, Literal

ANSWERS = json.loads(Path(__file__).with_name("spark_answers.json").read_text())
NO_COLUMNS = pa.schema([])
ONE_ROW = pa.table({"": [1]})
ZONE = "Europe/Paris"


@pytest.mark.parametrize(("text", "spark_type", "answer"), ANSWERS)
def test_expression_answers_as_spark_does(text: str, spark_type: str, answer: str | None) -> None:
    if spark_type == "error":
        with pytest.raises(InvalidInputError):
            evaluate(bind(parse_predicate(text), NO_COLUMNS, ZONE), ONE_ROW)
        return
    expression = parse_predicate(text)
    bound = bind(expression, NO_COLUMNS, ZONE)
    assert type_sql(type_of(bound)).lower() == spark_type
    as_text = bind(Cast(expression, pa.string()), NO_COLUMNS, ZONE)
    assert evaluate(as_text, ONE_ROW).to_pylist() == [answer]


@pytest.mark.parametrize("text", [text for text, spark_type, _ in ANSWERS if spark_type != "error"])
def test_expression_survives_its_own_sql(text: str) -> None:
    expression = parse_predicate(text)
    assert parse_predicate(str(expression)).equals(expression)


def test_expressions_of_literals_bind_to_literals() -> None:
    for text, spark_type, _ in ANSWERS:
        if spark_type not in ("error", "void") and "/ 0" not in text and "1/0" not in text:
            assert isinstance(bind(parse_predicate(text), NO_COLUMNS, ZONE), Literal), text


def test_every_function_of_the_closed_list_has_an_answer_of_spark() -> None:
    asked = " ".join(text for text, spark_type, _ in ANSWERS if spark_type != "error")
    assert not [name for name in FUNCTIONS if f"{name}(" not in asked]

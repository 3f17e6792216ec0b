"""Tables below a folder: which are found, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.catalog.table_folder import find_tables
from distributary.errors import InvalidInputError


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path / "_delta_log").mkdir(parents=True)


def found(root: Path) -> list[str]:
    return [f"{table.schema}.{table.name}" for table in find_tables(root)]


def test_schema_is_the_path_between_folder_and_table(tmp_path):
    make(tmp_path, "plain", "eu/orders", "eu/old/orders", "a b/c.d")
    assert sorted(found(tmp_path)) == ["a_b.c_d", "default.plain", "eu.orders", "eu_old.orders"]


def test_names_that_collide_get_a_number_in_the_order_of_their_paths(tmp_path):
    make(tmp_path, "a/x.y", "a/x_y", "A/X_Y")
    assert found(tmp_path) == ["A.X_Y", "a.x_y_2", "a.x_y_3"]
    assert [table.renamed for table in find_tables(tmp_path)] == [False, True, True]
    assert found(tmp_path) == found(tmp_path)


def test_folder_that_is_a_table_is_the_only_one(tmp_path):
    make(tmp_path, "orders", "orders/inner", ".hidden", "_meta/x")
    assert found(tmp_path / "orders") == ["default.orders"]
    assert found(tmp_path) == ["default.orders"]


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    make(tmp_path, "outside/secret", "inside/t")
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    assert found(tmp_path / "inside") == ["default.t"]


def test_path_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="no folder"):
        find_tables(tmp_path / "none")

"""What is in the world: tables on disk, shares, recipients and their tokens."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from distributary.catalog.administration import Administration, initialise
from distributary.catalog.database import Database, now_ms
from distributary.cli.sample_table import SampleTable, make_sample_table
from distributary.server.key_ring import KeyRing, create_key_file
from distributary.sharing.table_policy import TablePolicy

DAY = 86_400_000
CANARY = "ca11ab1e"  # appears in nothing that the server may log or send
CORPUS = {
    "vectors": "spark__table-with-dv-small",
    "mapped": "dat__column_mapping",
    "changes": "kernelrs__cdf-table-simple",
    "changed_vectors": "kernelrs__cdf-table-with-dv",
    "partitioned": "dat__basic_partitioned",
    "ntz": "dat__timestamp_ntz",
}


@dataclass(frozen=True)
class Contents:
    """The catalog of the world, and what tests need to know of it."""

    folder: Path
    admin: Administration
    keys: KeyRing
    sample: SampleTable
    tokens: dict[str, str] = field(repr=False)

    @property
    def database(self) -> Database:
        return self.admin.database


def make_contents(folder: Path, database_url: str, corpus: Path | None) -> Contents:
    """Make tables, shares and recipients."""
    keys = create_key_file(folder / "keys.json", now=now_ms())
    database = Database(database_url)
    initialise(database, keys)
    admin = Administration(database, keys, actor="test")
    sample = make_sample_table(folder / "lake" / "orders")
    _make_shares(admin, folder / "lake")
    if corpus is not None:
        _add_corpus(admin, corpus, folder / "lake")
    return Contents(folder, admin, keys, sample, _make_recipients(admin))


def _make_shares(admin: Administration, lake: Path) -> None:
    orders = str(lake / "orders")
    admin.create_share("Sales", comment="Orders", properties={"owner": "shop"}, display_name="Sales, all")
    admin.create_share("other")
    admin.create_share("empty")
    admin.add_table("Sales", "eu", "Orders", TablePolicy(location=orders))
    admin.add_table("Sales", "eu", "latest", TablePolicy(location=orders, history_shared=False))
    admin.add_table("Sales", "eu", "late", TablePolicy(location=orders, start_version=2))
    french = "country = recipient.country"
    admin.add_table("Sales", "eu", "french", TablePolicy(location=orders, partition_filter=french))
    admin.add_table("Sales", "us", "directory", TablePolicy(location=orders, access_modes=("dir",)))
    admin.add_table("other", "eu", "Orders", TablePolicy(location=orders))
    make_wide_table(lake / "wide", 30_000)
    admin.add_table("Sales", "us", "wide", TablePolicy(location=str(lake / "wide")))


def _add_corpus(admin: Administration, corpus: Path, lake: Path) -> None:
    for name, source in CORPUS.items():
        shutil.copytree(corpus / source, lake / name)
        place = lake / name / "delta" if (lake / name / "delta").is_dir() else lake / name
        admin.add_table("Sales", "corpus", name, TablePolicy(location=str(place)))


def _make_recipients(admin: Administration) -> dict[str, str]:
    soon = now_ms() + DAY
    tokens: dict[str, str] = {}
    for name in ("acme", "colleague", "rival", "revoked", "expired", "disabled", "elsewhere"):
        admin.create_recipient(name, properties={"country": "FR"})
        end = now_ms() + 50 if name == "expired" else soon
        tokens[name] = admin.issue_token(name, expires_at=end).text
    for share in ("Sales", "empty"):
        for name in ("acme", "colleague", "revoked", "expired", "disabled", "elsewhere"):
            admin.grant(share, name)
    admin.grant("other", "rival")
    admin.revoke_all_tokens("revoked")
    admin.update_recipient("disabled", disabled=True)
    admin.update_recipient("elsewhere", allowed_addresses=("192.0.2.0/24",))
    time.sleep(0.06)
    return tokens


def make_wide_table(path: Path, files: int, directory: str = "part") -> None:
    """A table whose log names many files, none of which is there: for listing only."""
    schema = {"type": "struct", "fields": [_field("id", "long"), _field("day", "string")]}
    actions: list[dict] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": str(uuid.uuid4()),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": ["day"],
                "configuration": {},
                "createdTime": 1,
            }
        },
    ]
    for number in range(files):
        stats = {"numRecords": 10, "minValues": {"id": number}, "maxValues": {"id": number}, "nullCount": {}}
        day = f"d{number % 10}"
        add = {"path": f"{directory}-{number:06d}.parquet", "partitionValues": {"day": day}, "size": 1000}
        add |= {"modificationTime": 1, "dataChange": True, "stats": json.dumps(stats)}
        actions.append({"add": add})
    log = path / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")


def _field(name: str, kind: str) -> dict:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}

"""Data sets as the hub publishes them: their ids, their layout, as many rows."""

from collections.abc import Sequence
from io import BytesIO

import pyarrow as pa
from pyarrow import parquet

from tests.benchmarks.sample_rows import DOMAINS, JsonRow, prb_row

PRB, LAMP_QA = "QiyaoMa/Personalized-RewardBench", "alireza7/LaMP-QA"
PRB_COUNTS = (767, 989, 1074)


def as_parquet(rows: Sequence[JsonRow]) -> bytes:
    """Return the bytes of a Parquet file."""
    buffer = BytesIO()
    parquet.write_table(pa.Table.from_pylist(list(rows)), buffer)
    return buffer.getvalue()


def prb_rows(domain: int) -> list[JsonRow]:
    """Return as many rows as the domain has."""
    return [prb_row(10_000 * domain + n, posts=1) for n in range(PRB_COUNTS[domain])]


def prb_files() -> dict[str, bytes]:
    """Return the layout of Personalized RewardBench."""
    files = {f"{name}/test-00000-of-00001.parquet": as_parquet(prb_rows(n)) for n, name in enumerate(DOMAINS)}
    return files | {"README.md": b"# Personalized RewardBench", ".gitattributes": b"*.parquet filter=lfs"}

"""From items to the rows that verl's data set reads: the prompt as the policy is shown it, and the item's id.

{"data_source": "prb", "prompt": [{"role": "user", "content": "..."}], "ability": "Society_and_Culture",
 "reward_model": {"style": "model", "ground_truth": "soc-01"},
 "extra_info": {"split": "train", "index": 0, "item": "soc-01"}}

No label is in a row: what verl calls ground truth is the item's id, so that its files of generations say which item an
answer is to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pluralrm.core import Benchmark, Condition, Failure, Item
from pluralrm.errors import ConditionError, MissingExtraError
from pluralrm.runs.prepared import prepared
from pluralrm.templates import DEFAULT, Template, load_template

Row = Mapping[str, object]


def rows_of(
    benchmark: Benchmark, items: Sequence[Item], condition: Condition, *, split: str, template: Template | None = None
) -> Iterator[Row]:
    """Yield one row per item; ConditionError where the condition cannot show one, such as for want of a note."""
    if (reason := condition.unsupported(benchmark)) is not None:
        raise ConditionError(f"{condition.spec}: {reason}")
    written = template or load_template(DEFAULT)
    for index, (item, one) in enumerate(zip(items, prepared(condition, benchmark, items), strict=True)):
        if isinstance(one.failure, Failure):
            raise ConditionError(f"{condition.spec}: item {item.id!r} cannot be shown ({one.failure.detail})")
        query = replace(one.query, candidates=())  # no policy is shown a benchmark's answers
        yield {
            "data_source": benchmark.card.name,
            "prompt": [turn._asdict() for turn in written.turns(query)],
            "ability": item.domain,
            "reward_model": {"style": "model", "ground_truth": item.id},
            "extra_info": {"split": split, "index": index, "item": item.id},
        }


def write_parquet(rows: Sequence[Row], file: Path) -> None:
    """Write rows as Parquet; MissingExtraError without pyarrow."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as exc:
        raise MissingExtraError("Parquet files", "hub") from exc
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), file)

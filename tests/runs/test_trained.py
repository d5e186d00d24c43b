"""What a model was trained on is kept with its run and stands wherever the run's numbers do."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from pluralrm.cli.compare import print_boards
from pluralrm.cli.show import print_summary
from pluralrm.core import Benchmark, Query, Verdict
from pluralrm.metrics import measure, summary
from pluralrm.models.declarations import TrainingHistory
from pluralrm.report import build_report, read_sources
from pluralrm.runs import load_run, score
from tests.builders import bakery

MET = "fitted was trained on the answers of 71 of the 175 items of bakery: accuracy there may be memory"


class Fitted:
    """A model that was fitted on items of the benchmark."""

    spec = "fitted"
    training = TrainingHistory("fitted on a few people", ())

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict(tuple(float(len(candidate)) for candidate in query.candidates))

    def met(self, benchmark: Benchmark) -> list[str]:
        del benchmark
        return [MET]


def test_what_was_trained_on_stands_in_compare_show_and_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = bakery(30)
    score(bench, "longest", out=tmp_path)
    run = load_run(score(bench, Fitted(), out=tmp_path).path)
    assert run.trained == (MET,)
    assert MET in measure(run).method
    assert summary(run).to_json()["trained"] == [MET]
    print_boards([run, load_run(score(bench, "longest", out=tmp_path).path)])
    out = capsys.readouterr().out
    assert sum(line.split()[1:4] == ["fitted", "TRAINED", "none"] for line in out.splitlines()) == 1
    assert f"TRAINED: {MET}." in " ".join(out.split())
    assert not any("TRAINED" in line for line in out.splitlines() if line.split()[1:2] == ["longest"])
    print_summary(run)
    assert f"TRAINED: {MET}" in " ".join(capsys.readouterr().out.split())
    found = build_report(read_sources([tmp_path]))
    [words] = found.paragraphs
    assert f"Marked TRAINED: {MET}." in words
    assert "none · TRAINED" in found.html


def test_a_model_that_met_nothing_of_the_benchmark_is_not_marked(tmp_path: Path) -> None:
    class Elsewhere(Fitted):
        def met(self, benchmark: Benchmark) -> list[str]:
            del benchmark
            return []

    run = score(bakery(30), Elsewhere(), out=tmp_path)
    assert run.trained == ()
    assert "TRAINED" not in build_report(read_sources([tmp_path])).html

"""The embedded study of benchmarks names the leaky one, and with six models says that nothing is settled."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from pluralrm.correlate import CorrelationReport
from pluralrm.study import declare, study

FILE = Path(__file__).parents[2] / "experiments/which-benchmark-predicts-embedded.toml"
PERSONAL, GENERAL, LEAKY = "simulated raw:10", "simulated-general raw:10", "simulated-leaky raw:10"


def table(seed: int = 0) -> dict[str, Any]:
    return tomllib.loads(FILE.read_text().replace("seed=0", f"seed={seed}"))


def report(declared: dict[str, Any], out: Path) -> CorrelationReport:
    found = study(declare(declared), out=out).correlation.report
    assert found is not None
    return found


def test_three_benchmarks_are_of_one_world_and_every_model_is_of_it_too() -> None:
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.models import load_model
    from pluralrm.runs import plan

    declared = declare(table(4))
    benches = [load_benchmark(name) for name in declared.benchmarks]
    assert [f"{bench.card.name} raw:10" for bench in benches] == [PERSONAL, GENERAL, LEAKY]
    assert len({tuple((item.id, item.prompt, item.user) for item in bench.items) for bench in benches}) == 1
    cells = plan(benches, [load_model(model).spec for model in declared.models], ["raw:10"])
    assert not any(cell.skip for cell in cells)


def test_six_models_settle_nothing(tmp_path: Path) -> None:
    declared = table()
    declared["benchmarks"] = [name.replace("users=80", "users=12") for name in declared["benchmarks"]]
    declared["models"] = [declared["models"][place] for place in (0, 1, 2, 5, 10, 17)]
    declared["best-of-n"]["n"] = 4
    told = report(declared, tmp_path)
    assert len(told.disputes) == 3
    for dispute in told.disputes:
        assert dispute.verdict.startswith("Not settled whether ")
        assert "6 models are too few, for p is at least .094" in dispute.verdict
    assert "6 models are too few" in (tmp_path / "study.html").read_text()


@pytest.mark.slow
def test_the_leaky_benchmark_is_named_the_worse_predictor_in_nine_of_ten_seeds(tmp_path: Path) -> None:
    lowest, worse = 0, 0
    for seed in range(10):
        told = report(table(seed), tmp_path / str(seed))
        values = {cell.benchmark: cell["spearman"].estimate.value for cell in told.cells}
        lowest += min(values, key=values.__getitem__) == LEAKY
        (dispute,) = (one for one in told.disputes if {one.contrast.first, one.contrast.second} == {PERSONAL, LEAKY})
        worse += dispute.contrast.shown and dispute.contrast.order == (PERSONAL, LEAKY)
    assert lowest >= 9
    assert worse >= 9

"""What the report shows of how a model was fitted."""

import json
from pathlib import Path

from pluralrm.models.personal.fitting import FIT
from pluralrm.report import build_report
from pluralrm.report.sections import read_sources
from pluralrm.runs import score
from tests.models.personal.fits import fitted, world


def test_the_loss_curves_of_a_fitted_model_are_in_the_report_once_and_need_no_folder_of_it(tmp_path: Path) -> None:
    fit = fitted("lore", world(40, 2, 8, 1), tmp_path / "fit", given={"epochs": "3"})
    kept = FIT.read(fit)
    for condition in ("none", "pairs:2"):
        run = score(world(8, 2, 8, 2), f"personal:{fit}", condition, out=tmp_path / "runs")
    score(world(8, 2, 8, 2), "longest", out=tmp_path / "runs")
    written = json.loads((Path(run.path) / "run.json").read_text())["training"]
    assert written["curve"] == [one.model_dump() for one in kept.curve]
    assert len(kept.curve) > 1
    for file in fit.iterdir():
        file.unlink()
    report = build_report(read_sources([tmp_path / "runs"]))
    assert [name for name in report.plots if "training" in name] == ["simulated-b1-training-1"]
    assert report.html.count("How it was trained") == 1
    assert f"fitted on {kept.trained_on.pairs:,} context pairs of {kept.trained_on.users:,} users" in report.html
    assert f'<td class="n">{kept.curve[-1].held_out:.4f}</td>' in report.html


def test_a_report_without_fitted_models_says_nothing_of_training(tmp_path: Path) -> None:
    score(world(8, 2, 8, 2), "longest", out=tmp_path / "runs")
    assert "How it was trained" not in build_report(read_sources([tmp_path / "runs"])).html

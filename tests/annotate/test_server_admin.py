"""What the server of a plan tells its admin: progress, agreement, labels to take home."""

import csv
import io
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.annotate.judgments import answers_text, read_judgments
from pluralrm.annotate.labels import Policies, agreed, labels_of
from pluralrm.annotate.plan import DIMENSIONS
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.annotate.rehearsal import RehearsalWorld, rehearsed
from tests.annotate.plans import pair_plan, pairs
from tests.annotate.serving import judgment, serving

RNG = random.Random(7)


def test_the_admin_sees_progress_speed_and_checks(tmp_path: Path) -> None:
    plan = pair_plan(3, each=3, items=5, arms=("narrative",))
    with serving(plan, tmp_path / "plan") as server:
        times = []
        for number, screen in enumerate(plan.by_annotator["a01"][:-1]):
            said = judgment(screen.handle, RNG)
            known = plan.item[screen.item].preferred
            assert known is not None
            side = "ab"[screen.order.index(known)]
            said["answers"]["overall"] = side if number % 2 else f"slightly_{side}"
            times.append(said["seconds"])
            server.say("a01", said)
        server.say("a01", {**judgment(plan.by_annotator["a01"][0].handle, RNG, revision=2), "answers": None})
        told = server.ask("/api/admin/progress", "admin").body
        first, second, _ = told["annotators"]
        total, checks = len(plan.by_annotator["a01"]), sum(one.kind == "check" for one in plan.by_annotator["a01"][:-1])
        assert (first["judged"], first["of"], first["changed"]) == (total - 2, total, 1)
        assert (first["checks_right"], first["checks"]) == (checks, checks)
        kept = sorted(times[1:])
        assert first["seconds"] == pytest.approx((kept[(len(kept) - 1) // 2] + kept[len(kept) // 2]) / 2)
        assert (second["judged"], second["seconds"], second["last"]) == (0, None, None)


def test_the_admin_sees_agreement_as_the_command_computes_it(tmp_path: Path) -> None:
    plan = pair_plan(4, each=2, items=12)
    with serving(plan, tmp_path / "plan") as server:
        assert server.ask("/api/admin/progress", "admin").body["agreement"] == []
        for said in rehearsed(plan, RehearsalWorld()):
            body = judgment(said.handle, RNG)
            server.say(said.annotator, {**body, "answers": json.loads(answers_text(said.answers))})
        told = server.ask("/api/admin/progress", "admin").body["agreement"]
        found = agreed("all", labels_of(plan, read_judgments(plan, server.folder)), Policies(), resamples=200)
        wanted = {(part.arm, part.dimension): part.to_json() for part in found.parts if not part.domain}
        assert {(one["arm"], one["dimension"]) for one in told} == {
            (arm, name) for arm in ("narrative", "posts") for name in ("overall", *DIMENSIONS)
        }
        for one in told:
            part = wanted[one["arm"], one["dimension"]]
            assert (one["percent"]["value"], one["alpha"]["value"]) == (
                part["percent"]["value"],  # type: ignore[index]
                part["alpha_interval"]["value"],  # type: ignore[index]
            )


def test_labels_are_exported_without_a_formula(tmp_path: Path) -> None:
    benchmark = replace(pairs(), items=tuple(replace(item, id=f"={item.id}") for item in pairs().items))
    plan = make_plan(benchmark, PlanRequest(2, each=1, items=4, arms=("posts",)), key="k")
    with serving(plan, tmp_path / "plan") as server:
        for screen in plan.screens:
            server.say(screen.annotator, judgment(screen.handle, RNG))
        reply = server.ask("/api/admin/labels", "admin")
        assert reply.headers["content-type"].startswith("text/csv")
        rows = list(csv.DictReader(io.StringIO(reply.raw.decode())))
        assert {row["item"][:2] for row in rows} == {"'="}
        assert {row["annotator"] for row in rows} == {"a01", "a02"}

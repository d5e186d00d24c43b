"""Files that are damaged at random: one clear message that names the file, or the same numbers; never another number.

A file that pluralrm wrote carries checks, so that an edited number is an error. One that is a user's own says what its
user says: of a damaged one it is asked that it loads, or that one message names it.
"""

import gzip
import json
import random
import shutil
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pluralrm.benchmarks import load_benchmark, pocket
from pluralrm.errors import PluralrmError
from pluralrm.http import Settings
from pluralrm.runs import last_outage, load_run, read_inputs, score
from tests.builders import Scripted, bakery
from tests.fake_chat import FakeChat, say

Read = Callable[[Path], object]


@dataclass(frozen=True)
class Kind:
    """A folder of files, which of them are damaged, and how they are read."""

    folder: Path
    files: tuple[str, ...]
    read: Read
    writes: bool = False
    """Reading changes the folder, so that each damage is done to a copy."""
    named: str = ""
    """What a message must name in place of the file."""


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return other bytes: flipped, cut, doubled, lines moved, numbers grown, nesting, no UTF-8, nothing at all."""
    place = rng.randrange(len(content) + 1)
    end = min(len(content), place + rng.choice([1, 2, 8, 40]))
    lines = content.splitlines(keepends=True)
    line = rng.randrange(len(lines)) if lines else 0
    digits = [at for at in range(len(content)) if content[at : at + 1].isdigit()]
    at = rng.choice(digits) if digits else 0
    ways: list[Callable[[], bytes]] = [
        lambda: content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :],
        lambda: content[:place] + content[end:],
        lambda: content[:place] + content[place:end] * 2 + content[end:],
        lambda: content[:place],
        lambda: b"".join([*lines[:line], *lines[line : line + 1] * 2, *lines[line + 1 :]]),
        lambda: b"".join(lines[:line] + lines[line + 1 :]),
        lambda: content[:at] + str(rng.randrange(10)).encode() + content[at + 1 :],
        lambda: content[:at] + b"9" * 5_000 + content[at + 1 :],
        lambda: content[:at] + rng.choice([b"-1", b"NaN", b"1e999", b"true", b"null", b'"1"']) + content[at + 1 :],
        lambda: content[:place] + b"\xff\xfe" + content[place:],
        lambda: content[:place] + rng.choice([b"[", b'{"a":', b"((", b"{{"]) * 20_000 + content[place:],
        lambda: b"",
        lambda: rng.choice([b"null\n", b"[]\n", b"{}\n", b"\n\n", b"\x00" * 64]),
    ]
    return rng.choice(ways)()


def damaged(content: bytes, name: str, rng: random.Random) -> bytes:
    """Return the file with its text damaged, and where it is compressed as often its bytes."""
    if name.endswith(".gz") and rng.random() < 0.5:
        return gzip.compress(mutated(gzip.decompress(content), rng), mtime=0)
    return mutated(content, rng)


def findings(kind: Kind, times: int, seed: int) -> list[str]:
    """Return what went wrong in so many mutations of a folder's files, each of which begins with whole ones."""
    with TemporaryDirectory() as place:
        whole = kind.read(_copied(kind, place))
    found = []
    for number in range(times):
        rng = random.Random(f"{seed}:{number}")
        name = rng.choice(kind.files)
        with TemporaryDirectory() as place:
            folder = _copied(kind, place)
            file = folder / name
            before = file.read_bytes()
            file.write_bytes(damaged(before, file.name, rng))
            if (problem := _problem(kind, folder, file, whole)) is not None:
                found.append(f"{seed}:{number} {name}: {problem}")
            file.write_bytes(before)
    return found


def _copied(kind: Kind, place: str) -> Path:
    return Path(shutil.copytree(kind.folder, Path(place, kind.folder.name))) if kind.writes else kind.folder


def _problem(kind: Kind, folder: Path, file: Path, whole: object) -> str | None:
    try:
        return None if kind.read(folder) == whole else "another result was read"
    except PluralrmError as exc:
        told = str(exc).replace("\n", "")
        return None if (kind.named or file.name) in told else f"not named in {told[:200]}"
    except Exception as exc:  # noqa: BLE001 - any other exception is the finding
        where = traceback.extract_tb(exc.__traceback__)[-1]
        return f"{type(exc).__name__}: {str(exc)[:80]} ({Path(where.filename).name}:{where.lineno})"


def _loads(read: Read) -> Read:
    """Return how a user's own file is read: what it says may be anything; a warning is a message too."""

    def loads(folder: Path) -> object:
        with warnings.catch_warnings(record=True) as messages:
            warnings.simplefilter("always", UserWarning)
            read(folder)
        for message in messages:
            raise PluralrmError(str(message.message))
        return True

    return loads


# ---------------------------------------------------------------- runs, pools, grades, fits, trainings


def _a_run(out: Path) -> Kind:
    moods = {"i0002": "parse", "i0004": "transport", "i0006": "nan"}
    run = score(bakery(12), Scripted(moods=moods), "raw:2", out=out)
    names = ("run.json", "rows.jsonl", "items.jsonl.gz", "attempts.jsonl", "inputs.jsonl.gz")

    def read(folder: Path) -> object:
        found = load_run(folder)
        list(read_inputs(folder))
        last_outage(folder)
        # Why an item is open is no number: a lost line of attempts leaves it open.
        return replace(found, rows=tuple(replace(row, scores=()) if row.open else row for row in found.rows))

    return Kind(Path(run.path), names, read)


def _a_finished_run(out: Path) -> Kind:
    run = score(bakery(12), Scripted(moods={"i0002": "parse"}), "raw:2", out=out)
    return Kind(Path(run.path), ("run.json", "rows.jsonl", "items.jsonl.gz"), load_run)


def _a_pool(out: Path) -> Kind:
    from pluralrm.policies.pool import load_pool
    from tests.policies.pools import babbled

    babbled(out, items=4, n=3)
    return Kind(out / "pool", ("pool.json", "samples.jsonl"), load_pool)


def _a_fit(out: Path) -> Kind:
    from pluralrm.models import load_model
    from pluralrm.models.personal.algorithms import read_settings
    from pluralrm.models.personal.fitting import FitRequest, fit

    bench = load_benchmark("simulated:users=12,items=1,posts=2,pairs=4,seed=1")
    fit(bench, FitRequest(read_settings("bt", {})), out / "fit")

    def read(folder: Path) -> object:
        from pluralrm.conditions import load_condition

        queries = list(load_condition("pairs:2").queries(bench, bench.items[:4]))
        return [verdict.scores for verdict in load_model(f"personal:{folder}").score(queries)]

    names = ("fit.json", "shared.safetensors", "users.json", "words.json", "tfidf.safetensors")
    return Kind(out / "fit", names, read)


def _grades(out: Path) -> Kind:
    from pluralrm.grading import open_grader
    from pluralrm.policies.grades import find_graders, grade_folder, grade_pool, read_grades
    from tests.grading.markers import scripted
    from tests.policies.pools import BENCH, babbled

    pool, grader = babbled(out, items=4, n=3), open_grader("joint:m", chat=scripted())
    grade_pool(pool, BENCH, grader)
    whole = read_grades(grade_folder(pool, grader))

    def read(folder: Path) -> object:
        # A grade that is gone is asked for again.
        return find_graders(pool), read_grades(folder).items() <= whole.items()

    return Kind(grade_folder(pool, grader), ("grades.jsonl", "grader.json"), read)


def _a_training(out: Path) -> Kind:
    from pluralrm.training.records import EvaluationLine, StepLine, read_lines, read_run
    from tests.training.test_folder import opened, step

    line = {"items": ("a", "b"), "users": ("u", "v"), "rewards": (0.5, None), "grades": (0.25, 1.0), "length": 9.0}
    with opened(out / "training") as folder:
        for number in range(6):
            folder.add_step(step(number, masked=number % 2))
            folder.add_evaluation(EvaluationLine.model_validate({**line, "step": number}))
        folder.note("complete", 6)
    whole = [read_lines(out / "training" / name, kind) for name, kind in (("metrics.jsonl", StepLine),)]

    def read(place: Path) -> object:
        steps = read_lines(place / "metrics.jsonl", StepLine)
        held = read_lines(place / "held-out.jsonl", EvaluationLine)
        # A step whose line is gone is computed again, and drawn as missing.
        return (
            read_run(place),
            steps.items() <= whole[0].items(),
            {str(one.rewards) for one in held.values()} <= {"(0.5, None)"},
        )

    return Kind(out / "training", ("run.json", "metrics.jsonl", "held-out.jsonl"), read)


def _a_scale(out: Path) -> Kind:
    from pluralrm.training.rewards import parse_shaping, scale_of, write_scale

    write_scale(scale_of([0.0, 1.0, 5.5], model="m", condition="none", pool_hash="p"), out / "scale.json")
    return Kind(out, ("scale.json",), lambda folder: parse_shaping(f"z:{folder / 'scale.json'}"))


def _cassette(out: Path) -> Kind:
    with FakeChat(lambda _: say("Both are short.\nResult: A")) as server:
        spec = f"judge:m,url={server.url}"
        whole = score(bakery(4), spec, out=out / "live", settings=Settings(record=out / "tape.jsonl"))

    def read(folder: Path) -> object:
        with TemporaryDirectory() as place:
            run = score(bakery(4), spec, out=place, settings=Settings(replay=folder / "tape.jsonl"))
        pairs = zip(whole.rows, run.rows, strict=True)
        return all(one.scores == other.scores or other.failed for one, other in pairs)

    return Kind(out, ("tape.jsonl",), read)


# ---------------------------------------------------------------- builds, plans, judgments


def _a_build(out: Path) -> Kind:
    """A build that goes on: from damaged files it makes the same, or nothing."""
    from pluralrm.construct.pipeline import build
    from tests.construct.pipeline.worlds import PIPELINE, answer, flour, opened

    with FakeChat(answer) as server, opened(out / "b", url := server.url) as (folder, pools):
        build(PIPELINE, flour(8), folder, pools)

    def read(place: Path) -> object:
        with opened(place, url, settings=Settings(attempts=1)) as (folder, pools):
            found = build(PIPELINE, flour(8), folder, pools)
        # Nobody answers any more: a record whose reply or decision is gone waits.
        return {record.id: str(record) for record in found.kept}.items() <= kept.items() if kept else found.kept

    kept: dict[str, str] = {}
    kept.update({record.id: str(record) for record in read(out / "b")})  # type: ignore[attr-defined]
    stages = tuple(f"stages/{path.name}" for path in sorted((out / "b" / "stages").iterdir()))
    return Kind(out / "b", ("build.json", "calls.jsonl", *stages), read, writes=True)


def _a_plan(out: Path) -> Kind:
    from pluralrm.annotate.plan import read_plan, write_plan
    from tests.annotate.plans import pair_plan

    write_plan(pair_plan(4), out / "plan")
    return Kind(out / "plan", ("plan.json", "items.jsonl", "screens.jsonl"), read_plan)


def _judged(out: Path) -> Kind:
    from pluralrm.annotate.judgments import answers_text, read_judgments
    from pluralrm.annotate.plan import write_plan
    from pluralrm.annotate.store import Store, Submission
    from tests.annotate.people import judged
    from tests.annotate.plans import pair_plan

    plan = pair_plan(4)
    write_plan(plan, out / "plan")
    store = Store(out / "plan", plan.content_hash)
    for number, one in enumerate(judged(plan, lambda _: {"overall": 1})):
        said = answers_text(one.answers)
        store.add(Submission(one.annotator, f"{number:032x}", one.handle, 1, said, 5.0 + number))
    store.close()
    return Kind(out / "plan", ("judgments.sqlite",), lambda folder: read_judgments(plan, folder), writes=True)


def _judgment_lines(out: Path) -> Kind:
    from pluralrm.annotate.judgments import judgment_line, read_judgments
    from tests.annotate.people import judged
    from tests.annotate.plans import pair_plan

    plan = pair_plan(4)
    lines = [judgment_line(one) + "\n" for one in judged(plan, lambda _: {"overall": 1})]
    (out / "judgments.jsonl").write_text("".join(lines))
    return Kind(out, ("judgments.jsonl",), _loads(lambda folder: read_judgments(plan, folder / "judgments.jsonl")))


def _labels(name: str) -> Callable[[Path], Kind]:
    def make(out: Path) -> Kind:
        from pluralrm.annotate.labels import jsonl_text, read_labels
        from pluralrm.text import csv_text

        rows = [
            {"item": f"i{place}", "annotator": who, "label": str(place % 3), "round": 1, "domain": "d"}
            for place in range(6)
            for who in "ab"
        ]
        (out / name).write_text(csv_text(rows) if name.endswith(".csv") else jsonl_text(rows))
        return Kind(out, (name,), _loads(lambda folder: read_labels(folder / name)))

    return make


# ---------------------------------------------------------------- files of a user's own


def _rows_of(kind: str, name: str) -> Callable[[Path], Kind]:
    def make(out: Path) -> Kind:
        source = next(Path(str(pocket.__file__)).parent.rglob(name))
        (out / "rows.jsonl").write_bytes(b"".join(source.read_bytes().splitlines(keepends=True)[:4]))
        return _benchmark_of(out, kind)

    return make


def _preferences(kind: str) -> Callable[[Path], Kind]:
    def make(out: Path) -> Kind:
        from tests.benchmarks.test_load_preferences import preference, talk

        rows = {
            "personal-rb": [preference(number, split) for number, split in enumerate(["train", "val", "test", "test"])],
            "prism": [talk(number) for number in range(4)],
        }
        (out / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[kind]))
        return _benchmark_of(out, kind)

    return make


def _benchmark_of(out: Path, kind: str) -> Kind:
    return Kind(out, ("rows.jsonl",), _loads(lambda folder: load_benchmark(f"{kind}:{folder / 'rows.jsonl'}")))


def _own_rows(name: str) -> Callable[[Path], Kind]:
    def make(out: Path) -> Kind:
        rows = [{"prompt": f"Which flour {n}?", "chosen": f"Rye {n}.", "rejected": f"Oats {n}."} for n in range(6)]
        texts = {
            "rows.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
            "rows.json": json.dumps(rows),
            "rows.csv": "\n".join(",".join(line) for line in [[*rows[0]], *([*row.values()] for row in rows)]) + "\n",
        }
        (out / name).write_text(texts[name])
        return Kind(out, (name,), _loads(lambda folder: load_benchmark(f"rows:{folder / name}")))

    return make


def _scores(name: str) -> Callable[[Path], Kind]:
    def make(out: Path) -> Kind:
        from pluralrm.models import load_model

        rows = [
            {"item": item.id, "candidate": text, "score": place + 0.25}
            for item in bakery(4).items
            for place, text in enumerate(item.candidates)
        ]
        lines = ["item,candidate,score", *(f"{row['item']},{row['candidate']},{row['score']}" for row in rows)]
        text = "\n".join(lines) + "\n" if name.endswith(".csv") else "".join(json.dumps(row) + "\n" for row in rows)
        (out / name).write_text(text)

        def read(folder: Path) -> object:
            model = load_model(f"scores:{folder / name}")
            with TemporaryDirectory() as place:
                return score(bakery(4), model, out=place)

        return Kind(out, (name,), _loads(read))

    return make


def _given_grades(out: Path) -> Kind:
    from pluralrm.policies.imported import import_grades
    from tests.policies.pools import babbled

    pool = babbled(out, items=3, n=3)
    rows = [
        {"item": item, "index": one.index, "grade": 0.5, "by": "p"}
        for item, several in pool.samples.items()
        for one in several
    ]
    (out / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def read(folder: Path) -> object:
        from pluralrm.policies.pool import load_pool

        return import_grades(load_pool(folder / "pool"), folder / "mine.jsonl")

    return Kind(out, ("mine.jsonl",), _loads(read), writes=True)


def _known_answers(out: Path) -> Kind:
    from pluralrm.grading import open_grader

    rows = [{"item": f"i{place}", "reference": str(place)} for place in range(6)]
    (out / "known.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Kind(out, ("known.jsonl",), _loads(lambda folder: open_grader(f"math:{folder / 'known.jsonl'}")))


def _given_answers(out: Path) -> Kind:
    from pluralrm.policies.imported import pool_from_jsonl

    bench = bakery(4)
    rows = [{"item": item.id, "text": text} for item in bench.items for text in item.candidates]
    (out / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Kind(
        out,
        ("answers.jsonl",),
        _loads(lambda folder: pool_from_jsonl(folder / "answers.jsonl", bench, out=folder / "pool")),
        writes=True,
    )


def _published(out: Path) -> Kind:
    from pluralrm.correlate.columns import read_published

    lines = ["model,bench,policy", *(f"m{place},{60 + place},{0.5 * place}" for place in range(6))]
    (out / "table.csv").write_text("\n".join(lines) + "\n")
    return Kind(out, ("table.csv",), _loads(lambda folder: read_published(folder / "table.csv")))


def _a_study(out: Path) -> Kind:
    from pluralrm.study import read_study
    from pluralrm.study.plan import plan_study
    from tests.study.studies import table, toml

    toml(out / "study.toml", table())

    def read(folder: Path) -> object:
        declared = read_study(folder / "study.toml")
        try:
            return plan_study(declared, out=folder / "study", settings=Settings(), fresh=frozenset())
        except PluralrmError:  # about a spec: which one, not where it stands
            return None

    return Kind(out, ("study.toml",), _loads(read), writes=True)


def _prices(name: str) -> Callable[[Path], Kind]:
    def make(out: Path) -> Kind:
        from pluralrm.http import load_prices

        models = {"m": {"input": 0.15, "output": 0.6}, "n-2": {"input": 1.0, "output": 20}}
        lines = [f"[{model}]\ninput = {price['input']}\noutput = {price['output']}" for model, price in models.items()]
        (out / name).write_text(json.dumps(models) if name.endswith(".json") else "\n".join(lines) + "\n")

        def read(folder: Path) -> object:
            found = load_prices(folder / name)
            assert all(0 <= value < float("inf") for price in found.values() for value in price)
            return found

        return Kind(out, (name,), _loads(read))

    return make


def _a_template(out: Path) -> Kind:
    from importlib.resources import files

    from pluralrm import templates
    from pluralrm.templates import load_template

    source = files(templates).joinpath("profile-v1.jinja").read_text(encoding="utf-8")
    ours = "\n{% for answer in answers %}{{ loop.index }}. {{ answer }}\n{% endfor %}"
    (out / "mine.jinja").write_text(source + ours, encoding="utf-8")

    def read(folder: Path) -> object:
        template = load_template(str(folder / "mine.jinja"))
        template.require_posts(question=True)
        template.require_answers(2)
        return template

    return Kind(out, ("mine.jinja",), _loads(read), named="mine")


def _a_reward_model(out: Path) -> Kind:
    from pluralrm.models import load_model
    from tests.models.neural.tiny import reward_folder

    reward_folder(out / "model")
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")

    def read(folder: Path) -> object:
        model = load_model(f"hf:{folder}")
        with TemporaryDirectory() as place:
            return score(bakery(2), model, out=place)

    return Kind(out / "model", names, _loads(read), named="model")


SEALED: Mapping[str, Callable[[Path], Kind]] = {
    "run": _a_run,
    "finished run": _a_finished_run,
    "pool": _a_pool,
    "fit": _a_fit,
    "grades": _grades,
    "training": _a_training,
    "scale": _a_scale,
    "cassette": _cassette,
    "build": _a_build,
    "annotation plan": _a_plan,
    "annotation judgments": _judged,
}
"""Written by pluralrm: what is read is what was written, or nothing."""
OWN: Mapping[str, Callable[[Path], Kind]] = {
    "judgments.jsonl": _judgment_lines,
    "labels.csv": _labels("labels.csv"),
    "labels.jsonl": _labels("labels.jsonl"),
    "rows of prb": _rows_of("prb", "Art_and_Entertainment.jsonl"),
    "rows of rmgap": _rows_of("rmgap", "pocket-rmgap.jsonl"),
    "rows of personal-rb": _preferences("personal-rb"),
    "rows of prism": _preferences("prism"),
    "own rows.jsonl": _own_rows("rows.jsonl"),
    "own rows.json": _own_rows("rows.json"),
    "own rows.csv": _own_rows("rows.csv"),
    "scores.csv": _scores("scores.csv"),
    "scores.jsonl": _scores("scores.jsonl"),
    "grades from a file": _given_grades,
    "known answers": _known_answers,
    "answers from a file": _given_answers,
    "published table": _published,
    "study": _a_study,
    "prices.toml": _prices("prices.toml"),
    "prices.json": _prices("prices.json"),
    "template": _a_template,
}
"""A user's own: it loads, or one message names it."""
NEURAL: Mapping[str, Callable[[Path], Kind]] = {"reward model": _a_reward_model}

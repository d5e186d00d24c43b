"""`pluralrm fit`: a personalized reward model from the context pairs of a benchmark's users."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import typer

from pluralrm.cli.options import ON, check_names
from pluralrm.cli.progress import ProgressDisplay, interruptible
from pluralrm.cli.terminal import Kind, console, print_json, print_legend, print_wrapped, table
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.text import counted

if TYPE_CHECKING:
    from pluralrm.models.personal.algorithms import Epoch, Tell
    from pluralrm.models.personal.fitting import EpochRecord, FitManifest
    from pluralrm.models.personal.text import TextFit, TextJob


_LOST, _AGAIN = "nothing of an unfinished fit is kept", "starts it over"
_SHOWN = 8
"""Points of the loss curves that are printed; fit.json has all."""


def print_curve(curve: "Sequence[Epoch | EpochRecord]") -> None:
    """Print some points of the loss curves, the kept one among them."""
    best = min(curve, key=lambda epoch: epoch.held_out)
    rows = [
        (f"{epoch.number + 1}", f"{epoch.training:.4f}", f"{epoch.held_out:.4f}" + "*" * (epoch is best))
        for epoch in curve[:: max(1, -(-len(curve) // _SHOWN))]
    ]
    if not any(row[0] == f"{best.number + 1}" for row in rows):
        rows.append((f"{best.number + 1}", f"{best.training:.4f}", f"{best.held_out:.4f}*"))
        rows.sort(key=lambda row: int(row[0]))
    columns: list[tuple[str, Kind]] = [("epoch", "right"), ("loss", "right"), ("held out", "right")]
    console().print(table(columns, rows))


def fit(
    algorithms: list[str] = typer.Argument(
        ...,
        metavar="ALGO...",
        help="bt, bt-posts, lore, pref, eb, knn, gpo, vpl, pal-a, pal-b or maml; several go to OUT/ALGO-SEED.",
    ),
    train: str = typer.Option(..., help="The benchmark whose users' context pairs are the training data."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder of the fitted model; personal:FOLDER loads it."),
    features: str = typer.Option("tfidf", help="tfidf[:WIDTH], embed:MODEL or hf:FOLDER."),
    settings: list[str] = typer.Option([], "--set", help="A hyperparameter, key=value; repeat for more."),
    seeds: list[int] = typer.Option([0], "--seed", help="Seed of the split and of the training; repeat for more."),
    shuffle_labels: bool = typer.Option(
        False, "--shuffle-labels", help="Train on random labels: a control that can learn nothing."
    ),
    base: str = typer.Option("", metavar="MODEL", help="With bt: fine-tune this language model, hf:FOLDER."),
    condition: str = typer.Option("none", "--condition", "-c", help="With --base: what the model sees of the user."),
    source: str = typer.Option("pairs", "--from", help="With --base: train on the users' pairs, or on items."),
    on: str = ON,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Fit a reward model that adapts to each user; the same command on a complete folder does nothing."""
    if base or condition != "none" or source != "pairs":
        several = {"ALGO...": len(algorithms) > 1, "--seed": len(seeds) > 1}
        _fit_text(
            TextFitRequest(algorithms[0], train, base, condition, source, given_settings(settings), seeds[0]),
            out,
            {"--features": features != "tfidf", "--shuffle-labels": shuffle_labels, "--on": bool(on), **several},
            as_json=as_json,
        )
        return
    from pluralrm.cli.options import open_benchmark
    from pluralrm.cluster import opened
    from pluralrm.models.personal.fitting import fit as fit_folder
    from pluralrm.models.personal.fitting import fit_each, fit_requests

    single, options = len(algorithms) == len(seeds) == 1, given_settings(settings)
    requests = fit_requests(
        *(out, algorithms, seeds, options), single=single, features=features, shuffled=shuffle_labels
    )
    bench, title = open_benchmark(train), f"fit {', '.join(algorithms)}"
    with interruptible(_LOST, again=_AGAIN), ProgressDisplay(title, "epochs") as display, opened(on) as cluster:
        if cluster is not None:
            manifests = fit_each(bench, requests, cluster)
        else:
            log = partial(_show_epoch, display)
            manifests = [fit_folder(bench, request, folder, log=log) for folder, request in requests.items()]
    if as_json:
        documents = [manifest.model_dump(mode="json", by_alias=True) for manifest in manifests]
        print_json(documents[0] if single else documents)
        return
    for folder, manifest in zip(requests, manifests, strict=True):
        _print(manifest, folder)


def _fit_text(request: "TextFitRequest", out: Path, other: Mapping[str, bool], *, as_json: bool) -> None:
    """Fine-tune a model of text; an option that is about features alone is a SpecError."""
    if not request.base:
        raise SpecError("-c and --from are for a model of text: name one with --base hf:FOLDER, or leave them out")
    if wrong := [name for name, value in other.items() if value]:
        raise SpecError(
            f"{', '.join(wrong)}: means nothing with --base, which fits one model of text here; leave it out"
        )
    with interruptible(_LOST, again=_AGAIN), ProgressDisplay("fit bt", "epochs") as display:
        job, done = fit_text(request, out, log=partial(_show_epoch, display))
    tell_text(job, done, as_json=as_json)


def given_settings(texts: Sequence[str]) -> dict[str, str]:
    """Return the key=value texts of --set; one without a value, or a key given twice, is a SpecError."""
    settings: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (equals and key and value) or key in settings:
            raise SpecError(f"--set {text!r}: wanted key=value, each key once")
        settings[key] = value
    return settings


def _show_epoch(display: ProgressDisplay, epoch: "Epoch") -> None:
    display.show(epoch.number + 1, None, f"loss {epoch.training:.4f}, held out {epoch.held_out:.4f}")


def _print(manifest: "FitManifest", out: Path) -> None:
    from pluralrm.models.declarations import WindowCount
    from pluralrm.models.personal.fitting import better_served

    on = manifest.trained_on
    sized = ", ".join(f"{key}={manifest.settings[key]}" for key in manifest.by_size)
    labels = "" if on.labels == "own" else " SHUFFLED LABELS: a control, which can learn nothing."
    labels += f" SYNTHESISED: {on.written}." if on.written else ""
    print_wrapped(f"{manifest.algorithm} on {manifest.features}: {out}", style="bold")
    print_curve(manifest.curve)
    print_legend(
        [
            *(
                [f"{manifest.features}: {WindowCount(manifest.texts, manifest.longer, manifest.rule == 'joined')}."]
                * bool(manifest.longer)
            ),
            (
                f"Trained on {on.pairs:,} context pairs and {on.posts:,} posts of {counted(on.users, 'user')} of "
                f"{on.benchmark}; held out: {counted(on.held_out, 'user')}. No label of an item was used.{labels}"
            ),
            *([f"By {on.users:,} users and {on.pairs:,} pairs, unless set: {sized}."] * bool(sized)),
            *better_served(manifest.algorithm, on.users + on.held_out),
            (
                "Mean -log probability of a pair; held out: of the second half of a user's pairs, after the first half "
                f"was shown; ln 2 = 0.6931 is a coin. * kept. Score it: -m personal:{out}"
            ),
        ]
    )


class TextFitRequest(NamedTuple):
    """The options of the verb that are about text."""

    algorithm: str
    train: str
    base: str
    condition: str
    source: str
    given: dict[str, str]
    seed: int


def fit_text(request: TextFitRequest, out: Path, *, log: "Tell") -> "tuple[TextJob, TextFit]":
    """Return what was to be trained, and what came of it."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.conditions import condition_summaries, load_condition
    from pluralrm.conditions.pairs import SOURCES, labelled
    from pluralrm.errors import MissingExtraError
    from pluralrm.models.personal.algorithms import read_settings

    try:
        from pluralrm.models.personal import text
    except ImportError as exc:
        if (exc.name or "").startswith("pluralrm"):
            raise
        raise MissingExtraError("fit bt --base", "tune") from exc
    if request.algorithm != "bt":
        raise SpecError(
            f"--base is for bt, found {request.algorithm}; other algorithms take frozen features: --features"
        )
    if request.source not in SOURCES:
        raise SpecError(f"--from is {request.source!r}.{did_you_mean(request.source, SOURCES)}")
    check_names([request.condition], "-c", condition_summaries())
    settings = read_settings("bt-text", request.given)
    bench, condition = open_benchmark(request.train), load_condition(request.condition)
    source = cast("Literal['pairs', 'items']", request.source)
    written = f" ({bench.card.pairs})" if bench.card.pairs and source == "pairs" else ""
    facts = {
        "benchmark": f"{bench.card.name}{written}",
        "content_hash": bench.content_hash,
        "condition": condition.spec,
        "labels_of": source,
    }
    job = text.TextJob(request.base, labelled(bench, condition, source), settings, facts, request.seed)
    return job, text.fit_text(job, out, log=log)


def tell_text(job: "TextJob", done: "TextFit", *, as_json: bool) -> None:
    """Print what was trained on what, and how the losses went."""
    if as_json:
        counts = {"questions": done.groups, "too_long": done.too_long, "done_before": done.resumed}
        print_json({**job.facts, **counts, "curve": [epoch._asdict() for epoch in done.curve]})
        return
    print_wrapped(f"bt on {job.base}: {done.folder}", style="bold")
    print_curve(done.curve)
    facts = job.facts
    used = "No label of an item was used." if facts["labels_of"] == "pairs" else "Do not score it on these items."
    left = f" {done.too_long:,} more were longer than the model reads." if done.too_long else ""
    trained = (
        f"Trained on the {facts['labels_of']} of {facts['benchmark']} under {facts['condition']}: {done.groups:,} "
        f"questions of {len(job.labelled):,} users or records, some of whom were held out.{left} {used}"
    )
    score = f"Score it: -m hf:{done.folder} -c {facts['condition']}"
    print_legend([trained, f"Mean -log probability of the preferred answer. * kept. {score}"])

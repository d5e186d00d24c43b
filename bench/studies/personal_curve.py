"""The learning curves of `fit`: what a user's own pairs are worth, by how many users were trained on, and by pairs.

    python -m bench.studies.personal_curve run FILE [--only gpo vpl] [--users 50 100] [--seeds 11 12] [--world A]
    python -m bench.studies.personal_curve table FILE [--world A]
    python -m bench.studies.personal_curve figure FILE OUT.svg
    python -m bench.studies.personal_curve su64 FILE [--only eb] [--seeds 11]
    python -m bench.studies.personal_curve su64-table FILE

`run` adds to FILE one line for each fit that is not there yet. A fit is that of `pluralrm fit ALGO` on a simulated
world, on TF-IDF, with its defaults where --set gives nothing else. It is asked about 150 other people, 12 items each,
of whom it is shown eight pairs, and again with the pairs of another of them. The gain is the difference of the
expected accuracies (the law of the choices is known), in points; its interval is over people, given the trainings.

world A    `simulated` as it comes, 20 pairs a user
world B    everybody cares about two attributes, chooses more surely, and shares some of the taste; 20 pairs a user
world C    as A, with 1 to 100 pairs a user, evenly on a logarithmic scale

SU64, seen and unseen users with up to 64 pairs: an algorithm is fitted on the first 20 pairs of each of 200 users of
world A, 15% of them held out. Seen users are 150 of those trained on, unseen users 150 people of another seed. Each is
asked about 12 items that nobody was trained on, by the expected accuracy, after the first 0, 1, 2, 4, ..., 64 of their
pairs are shown (a seen user's first 20 are those trained on). The gain is over `bt` fitted on the same pairs, paired by
person; the control shows the pairs of another person of the same group.

On tuning: the defaults were chosen on worlds with the seeds 1 and 2 and people of seed 900.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated.scorers import choice_table
from pluralrm.core import Benchmark, User, UserView
from pluralrm.models.personal.algorithms import ALGORITHMS, Algorithm, Hyper, State, load_algorithm, read_settings
from pluralrm.models.personal.examples import UserExamples
from pluralrm.models.personal.features import (
    AnswerText,
    FeatureMap,
    examples_of,
    fit_features,
    parse_features,
    training_texts,
)
from pluralrm.models.personal.fitting import FitRequest, held_out, size_of, trainable

WORLDS = {"A": "", "B": ",cares=2,sharpness=2,crowd=0.4", "C": ""}
PAIRS, SHOWN, PEOPLE, ITEMS = 20, 8, 150, 12
NAMES = ("lore", "pref", "gpo", "vpl", "pal-a", "pal-b")
SU64 = (0, 1, 2, 4, 8, 16, 32, 64)
SU64_USERS = 200
SU64_NAMES = ("eb", "knn", "maml", *NAMES)
GROUPS = ("seen", "unseen")


Row = dict[str, Any]


def world(name: str, users: int, seed: int, *, pairs: int = PAIRS, items: int = 1) -> Benchmark:
    pairs = 100 if name == "C" and items == 1 else pairs
    return load_benchmark(f"simulated:users={users},items={items},posts=1,pairs={pairs},seed={seed}{WORLDS[name]}")


def as_uneven(users: Sequence[User], seed: int) -> list[User]:
    counts = np.exp(np.random.default_rng([7, seed]).uniform(0, np.log(100), len(users))).round()
    return [
        replace(user, preferences=user.preferences[: int(count)]) for user, count in zip(users, counts, strict=True)
    ]


class People:
    """People asked about, as arrays, with the law of their choices."""

    def __init__(self, bench: Benchmark, users: Sequence[User], features: FeatureMap) -> None:
        names = [user.id for user in users]
        place = {name: index for index, name in enumerate(names)}
        law = dict(zip((item.id for item in bench.items), choice_table(bench, "taste"), strict=True))
        items = sorted(
            (item for item in bench.items if item.cluster in place),
            key=lambda item: place[item.cluster],
        )
        self.users = [_arrays(user, features) for user in users]
        texts = [AnswerText(item.prompt, answer) for item in items for answer in item.candidates]
        shape = (len(users), ITEMS * 2, -1)
        self.answers = features.vectors(texts, "answer").reshape(shape)
        prompts = [item.prompt for item in items for _ in item.candidates]
        self.prompts = features.vectors(prompts, "text").reshape(shape)
        self.law = np.array([law[item.id] for item in items]).reshape(len(users), ITEMS, 2)


class Data:
    """A world as arrays: who is trained on and held out, and the people asked about."""

    def __init__(self, name: str, users: int, seed: int, *, shown: int = SHOWN, items: int = 1) -> None:
        bench = world(name, users, seed, pairs=max(shown, PAIRS), items=items)
        asked = FitRequest(read_settings("pref", {}))
        whole = trainable(bench, asked)
        people = as_uneven(whole, seed) if name == "C" else [_first(user, PAIRS) for user in whole]
        held = held_out(bench, people, asked)
        trained = [user for user in people if user.id not in held]
        self.size = size_of(people, held)
        self.features = fit_features(parse_features("tfidf"), training_texts(trained), seed=0, cache=None)
        self.train = [_arrays(user, self.features) for user in trained]
        self.held_out = [_arrays(user, self.features) for user in people if user.id in held]
        others = world(name, PEOPLE, 7000 + seed, pairs=shown, items=ITEMS)
        self.groups = {"unseen": People(others, others.users, self.features)}
        if items == ITEMS:
            seen = [user for user in whole if user.id not in held][:PEOPLE]
            self.groups["seen"] = People(bench, seen, self.features)


def _first(user: User, pairs: int) -> User:
    return replace(user, preferences=user.preferences[:pairs])


def _arrays(user: User, features: FeatureMap) -> UserExamples:
    return examples_of(UserView(user.id, (), user.preferences), features, 0)


def credit(algorithm: Algorithm, shared: State, states: Sequence[State], people: People) -> np.ndarray:
    """Return each person's expected accuracy by somebody's parameters."""
    accuracies = []
    for place, state in enumerate(states):
        rewards = algorithm.score(shared, state, people.prompts[place], people.answers[place]).reshape(ITEMS, 2)
        second = np.sign(rewards[:, 1] - rewards[:, 0]) / 2 + 0.5
        accuracies.append(((1 - second) * people.law[place, :, 0] + second * people.law[place, :, 1]).mean())
    return np.array(accuracies)


def measure(settings: Hyper, data: Data) -> dict[str, object]:
    algorithm = load_algorithm(settings.algorithm, settings)
    busy = time.process_time()
    fitted = algorithm.fit(data.train, data.held_out, seed=0, log=lambda _: None)
    cpu = time.process_time() - busy
    people = data.groups["unseen"]
    states = [algorithm.adapt(fitted.shared, user) for user in people.users]
    own, lent = (credit(algorithm, fitted.shared, some, people) for some in (states, [*states[1:], states[0]]))
    return {
        "cpu": round(cpu, 1),
        "epochs": len(fitted.curve),
        "own": own.round(5).tolist(),
        "lent": lent.round(5).tolist(),
    }


def measure_su64(settings: Hyper, data: Data) -> dict[str, object]:
    """Return each person's accuracy by group and number of pairs shown; `lent` is with the next person's pairs."""
    algorithm = load_algorithm(settings.algorithm, settings)
    busy = time.process_time()
    fitted = algorithm.fit(data.train, data.held_out, seed=0, log=lambda _: None)
    row: dict[str, object] = {"cpu": round(time.process_time() - busy, 1), "epochs": len(fitted.curve)}
    for group, people in data.groups.items():
        for shown in SU64 if algorithm.needs else SU64[:1]:
            states = [algorithm.adapt(fitted.shared, user.only(slice(shown))) for user in people.users]
            for kind, some in (("own", states), ("lent", [*states[1:], states[0]])):
                row[f"{group} {kind} {shown}"] = credit(algorithm, fitted.shared, some, people).round(4).tolist()
    return row


def run_su64(file: Path, names: Sequence[str], seeds: Sequence[int]) -> None:
    """Fit what is not in the file yet; `bt` first, which all are compared with."""
    done = {(row["algorithm"], row["seed"]) for row in _rows(file)}
    for seed in seeds:
        open_ = [name for name in ("bt", *names) if (name, seed) not in done]
        if not open_:
            continue
        data = Data("A", SU64_USERS, seed, shown=SU64[-1], items=ITEMS)
        for name in open_:
            settings = read_settings(name, {}).sized(data.size)
            row = {"algorithm": name, "seed": seed, "size": data.size._asdict(), **measure_su64(settings, data)}
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(name, seed, row["cpu"], flush=True)


def su64_gains(file: Path, group: str, kind: str) -> dict[str, dict[int, tuple[float, float, float]]]:
    """Return the gain over `bt` in points with its 95% interval over people, by algorithm and pairs shown."""
    rows = {(row["algorithm"], row["seed"]): row for row in _rows(file)}
    gains: dict[str, dict[int, tuple[float, float, float]]] = {}
    for name in SU64_NAMES:
        several = [(row, rows["bt", seed]) for (algorithm, seed), row in rows.items() if algorithm == name]
        for shown in SU64 if several else ():
            pairs = [{"own": row[f"{group} {kind} {shown}"], "lent": bt[f"{group} own 0"]} for row, bt in several]
            gains.setdefault(name, {})[shown] = _gain(pairs)
    return gains


def su64_table(file: Path) -> None:
    """Print the gains as a table in Markdown: unseen users, then seen ones, then unseen ones by another's pairs."""
    rows = [row for row in _rows(file) if row["algorithm"] == "bt"]
    base = {group: 100 * np.mean([row[f"{group} own 0"] for row in rows]) for group in GROUPS}
    print("bt:", ", ".join(f"{group} {accuracy:.1f}" for group, accuracy in base.items()))
    own, seen, lent = (su64_gains(file, *key) for key in (("unseen", "own"), ("seen", "own"), ("unseen", "lent")))
    print("| ALGO |", " | ".join(map(str, SU64)), "| seen, 8 | seen, 64 | another's 64 |")
    print("|---" * (len(SU64) + 4) + "|")
    for name, row in own.items():
        cells = [_cell(row[shown], whole=shown in (8, 64)) for shown in SU64]
        others = [_cell(gain) for gain in (seen[name][8], seen[name][64], lent[name][64])]
        print(f"| `{name}` |", " | ".join([*cells, *others]), "|")


def _cell(gain: tuple[float, float, float], *, whole: bool = True) -> str:
    value, low, high = gain
    return f"{value:+.1f}" + f" [{low:.1f}, {high:.1f}]" * whole


def run(file: Path, wanted: Sequence[Row]) -> None:
    """Fit what is not in the file yet."""
    done = {_key(row) for row in _rows(file)}
    open_ = [row for row in wanted if _key(row) not in done]
    for place in dict.fromkeys((row["world"], row["users"], row["seed"]) for row in open_):
        data = Data(*place)
        for row in [row for row in open_ if (row["world"], row["users"], row["seed"]) == place]:
            settings = read_settings(row["algorithm"], row["given"]).sized(data.size)
            found = {**row, "size": data.size._asdict(), **measure(settings, data)}
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a") as out:
                out.write(json.dumps(found) + "\n")
            print(row, round(_gain([found])[0], 1), found["cpu"], flush=True)


def _rows(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _key(row: Row) -> str:
    return json.dumps([row[name] for name in ("world", "users", "seed", "algorithm", "given")], sort_keys=True)


def _gain(several: Sequence[Row]) -> tuple[float, float, float]:
    """Return the mean gain in points and its 95% interval over people."""
    each = 100 * np.concatenate([np.subtract(row["own"], row["lent"]) for row in several])
    half = 1.96 * float(each.std(ddof=1)) / len(each) ** 0.5
    return float(each.mean()), float(each.mean()) - half, float(each.mean()) + half


def cells(file: Path, world: str) -> dict[str, dict[int, list[Row]]]:
    """Return the fits with default settings, by algorithm and number of users."""
    found: dict[str, dict[int, list[Row]]] = {}
    for row in _rows(file):
        if row["world"] == world and not row["given"]:
            found.setdefault(row["algorithm"], {}).setdefault(row["users"], []).append(row)
    return {name: dict(sorted(found[name].items())) for name in NAMES if name in found}


def table(file: Path, world: str) -> None:
    """Print the gains as a table in Markdown, and as they stand in models/personal/learning_curve.py."""
    every = cells(file, world)
    counts = sorted({count for row in every.values() for count in row})
    print("| ALGO |", " | ".join(f"{count:,} users" for count in counts), "|")
    print("|---" * (len(counts) + 1) + "|")
    for name, row in every.items():
        told = ["{:.1f} [{:.1f}, {:.1f}]".format(*_gain(row[count])) if count in row else "" for count in counts]
        print(f"| `{name}` |", " | ".join(told), "|")
    for name, row in every.items():
        inside = ", ".join(
            "{}: Gain({:.1f}, {:.1f}, {:.1f})".format(count, *_gain(some)) for count, some in row.items()
        )
        print(f'    "{name}": {{{inside}}},')
    for name, row in every.items():
        cpu = ", ".join(f"{count}: {sum(one['cpu'] for one in some) / len(some):.0f} s" for count, some in row.items())
        print(
            f"{name} processor {cpu}; trainings", {n: [round(_gain([one])[0], 1) for one in s] for n, s in row.items()}
        )


def figure(file: Path, out: Path) -> None:
    """Draw the gains of world A by number of users."""
    from pluralrm.pages.lines import PlotLine, line_plot
    from pluralrm.pages.plots import Dot

    lines = [
        PlotLine(name, {float(count): Dot(*_gain(some)) for count, some in row.items()})
        for name, row in cells(file, "A").items()
    ]
    words = "; ".join(
        f"{line.name}: " + ", ".join(f"{n:g} users {d.value:.1f}" for n, d in line.points.items()) for line in lines
    )
    title = "Gain by number of training users"
    labels = ("users in the training benchmark, 20 pairs each", "gain, points of accuracy")
    out.write_text(line_plot("curve", lines, title=title, words=words, labels=labels).svg())


def main() -> None:
    """Do what is asked for on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["run", "table", "figure", "su64", "su64-table"])
    parser.add_argument("file", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--only", nargs="+", default=None, choices=list(ALGORITHMS))
    parser.add_argument("--users", nargs="+", type=int, default=[50, 100, 175, 400])
    parser.add_argument("--seeds", nargs="+", type=int, default=[11, 12])
    parser.add_argument("--world", default="A", choices=list(WORLDS))
    parser.add_argument("--set", nargs="*", default=[])
    asked = parser.parse_args()
    if asked.verb == "table":
        table(asked.file, asked.world)
    elif asked.verb == "figure" and asked.out is None:
        parser.error("figure: wanted FILE OUT.svg")
    elif asked.verb == "figure":
        figure(asked.file, asked.out)
    elif asked.verb == "su64-table":
        su64_table(asked.file)
    elif asked.verb == "su64":
        with threadpool_limits(limits=1):
            run_su64(asked.file, asked.only or SU64_NAMES, asked.seeds)
    else:
        given = dict(text.split("=", 1) for text in asked.set)
        places = product(asked.users, asked.seeds, asked.only or NAMES)
        wanted = [
            {"world": asked.world, "users": users, "seed": seed, "algorithm": name, "given": given}
            for users, seed, name in places
        ]
        with threadpool_limits(limits=1):
            run(asked.file, wanted)


if __name__ == "__main__":
    main()

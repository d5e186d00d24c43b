"""What an algorithm is, and the table of them. A row maps a name to "module:attribute", so that nothing loads early.

The attribute, a class or a function, makes the algorithm from its hyperparameters.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Literal, NamedTuple, Protocol

import numpy as np

from pluralrm.errors import MissingExtraError, SpecError, did_you_mean
from pluralrm.models.personal.examples import FloatArray, UserExamples

Value = int | float | str


class Default(NamedTuple):
    """One hyperparameter: its default (whose type is its type), what it is, who says so, and what is allowed."""

    value: Value
    meaning: str
    source: str
    least: float = 0.0
    most: float = float("inf")
    words: tuple[str, ...] = ()
    """The allowed words, where it is a word."""


class Size(NamedTuple):
    """Who is trained on: what the defaults of the networks go by."""

    users: int
    pairs: int


@dataclass(frozen=True, slots=True)
class Hyper:
    """The hyperparameters of one fit, every one with a value."""

    algorithm: str
    values: Mapping[str, Value]
    explicit: frozenset[str] = frozenset()
    """Those that were given; they win over any default."""

    def sized(self, size: Size) -> "Hyper":
        """Return the settings for training data of this size: what was not given goes by it."""
        chosen = {key: value for key, value in by_size(self.algorithm, size).items() if key not in self.explicit}
        return replace(self, values={**self.values, **chosen})

    def whole(self, key: str) -> int:
        """Return a whole number."""
        return int(self.values[key])

    def real(self, key: str) -> float:
        """Return a number."""
        return float(self.values[key])

    def word(self, key: str) -> str:
        """Return a word."""
        return str(self.values[key])


_OURS = "ours"

_HELD_OUT = {
    "held_out": Default(0.15, "share of the users held out for early stopping", _OURS, most=0.9),
    "patience": Default(5, "epochs without a lower held-out loss after which the fit ends", _OURS, least=1),
}

_PATIENT = {**_HELD_OUT, "patience": _HELD_OUT["patience"]._replace(value=12)}
_STEPS = {
    "epochs": Default(100, "steps of L-BFGS at most", _OURS, least=1),
    "l2": Default(1.0, "penalty l2/2 |v|^2, against the sum of the losses of all pairs", _OURS),
}
_ROUNDS = Default(30, "rounds at most; a round fits all users, then the shared rewards", _OURS, least=1)
_RANK = Default(8, "K, the number of shared rewards", _OURS, least=1, most=512)

_PAPER = "the paper"
_RECIPE = "LaMP-QA's recipe for its planner"
_NETWORK = {
    "epochs": Default(60, "epochs at most; each is `passes` over the training users", _OURS, least=1),
    "passes": Default(1, "passes over the training users in an epoch", _OURS, least=1),
    "rate": Default(1e-3, "learning rate of Adam at the start, on a cosine", _OURS, least=1e-9, most=1.0),
    "batch": Default(16, "users per step", _OURS, least=1),
    "axes": Default(32, "axes in which users differ most, to which answers are projected; 0: all features", _OURS),
    "folds": Default(
        1,
        "parts of the training users: answers of each are read on the pooled reward of the others; 1: of all",
        _OURS,
        least=1,
    ),
    "asked": Default(16, "pairs of a user per step whose labels are predicted, at most", _OURS, least=1),
    **_PATIENT,
}
_SEEN = {
    "shown": Default(16, "pairs of a user per step that are shown, at most; how many is drawn, from 0 on", _OURS),
    "most": Default(256, "pairs of a new user that are read; of more, the first", _OURS, least=1),
}
_GPO = {
    **_NETWORK,
    **_SEEN,
    "rate": Default(3e-4, "learning rate of Adam at the start, on a cosine", f"{_PAPER}: 1e-4 to 3e-4", least=1e-9),
    "epochs": _NETWORK["epochs"]._replace(value=40),
    "mirror": Default(
        0,
        "1: at each step every axis but the pooled reward's has its sign by a coin; not with posts=concat",
        _OURS,
        most=1,
    ),
    "depth": Default(4, "layers of the MLP of a point", _PAPER, least=1),
    "width": Default(128, "width of a point inside", _PAPER, least=1),
    "layers": Default(6, "layers of the transformer", _PAPER, least=1),
    "heads": Default(4, "heads of each layer; they divide the width", _PAPER, least=1),
    "ff": Default(128, "width of the feed-forward part", _PAPER, least=1),
    "loss": Default(
        "choice", "a softmax over the two answers, or a Gaussian of each", _PAPER, words=("choice", "gauss")
    ),
    "posts": Default("none", "concat: the mean post is a part of each point", _OURS, words=("none", "concat")),
}
_VPL = {
    **_NETWORK,
    **_SEEN,
    "code": Default(512, "width of a pair's code", _PAPER, least=1),
    "latent": Default(32, "width of the latent variable", _OURS, least=1),
    "hidden": Default(128, "width of the decoder", _OURS, least=1),
    "kl": Default(1e-3, "weight of the KL term at its end", _OURS),
    "anneal": Default(20, "epochs over which the KL term grows from 0", f"{_PAPER} anneals; how long is ours", least=1),
}
_PAL = {
    **_NETWORK,
    "prototypes": Default(16, "K, the number of prototypes", _OURS, least=1, most=512),
    "hidden": Default(128, "width of the hidden layer of the maps", _OURS, least=1),
    "inner": Default(64, "width of the space of ideal points", _OURS, least=1),
    "measure": Default("cosine", "exp(s) cosine, or minus the distance", _PAPER, words=("cosine", "distance")),
    "adapt_rate": Default(
        0.3, "learning rate of AdamW for a new user", "ours; with 5e-3 as in the paper, 20 steps move a logit by 0.1"
    ),
    "adapt_epochs": Default(20, "steps for a new user, each over all pairs", _PAPER, least=1),
}
_POOLED = {
    "l2": Default(1.0, "penalty of the pooled reward, as in bt", _OURS),
    "ridge": Default(0.3, "share of the mean information that every direction has at least", _OURS, least=1e-6),
}
_MAML = {
    **_NETWORK,
    "shown": _SEEN["shown"],
    "hidden": Default(32, "width of the hidden layer; 0: linear", _OURS),
    "inner_rate": Default(0.1, "learning rate of the inner steps", _OURS, least=1e-9),
    "inner_steps": Default(5, "inner steps on a user's pairs", f"{_PAPER}: 1 to 10", least=1),
    "prior": Default(4.0, "added to the number of pairs that an inner loss is divided by", _OURS),
    "mirror": _GPO["mirror"]._replace(
        meaning="1: at each step every axis but the pooled reward's has its sign by a coin"
    ),
}
_TEXT = {
    "lora": Default(16, "rank of LoRA; 0 trains all weights", _RECIPE),
    "alpha": Default(16, "alpha of LoRA", _RECIPE, least=1),
    "dropout": Default(0.05, "dropout of LoRA", _RECIPE, most=0.9),
    "rate": Default(
        5e-5, "learning rate of AdamW at its most; along a line up, along a cosine down", _RECIPE, least=1e-9
    ),
    "warmup": Default(0.1, "share of the steps in which the rate grows", _OURS, most=1.0),
    "batch": Default(16, "questions per step", _OURS, least=1),
    "epochs": Default(3, "passes over the training questions at most", _OURS, least=1),
    "held_out": _HELD_OUT["held_out"],
    "patience": Default(1, "epochs without a lower held-out loss after which the fit ends", _OURS, least=1),
}

DEFAULTS: Mapping[str, Mapping[str, Default]] = {
    "bt": {**_STEPS, **_PATIENT},
    "bt-posts": {
        **_STEPS,
        "l2": _STEPS["l2"]._replace(value=0.3),
        "rank": Default(32, "features of the posts that are used", _OURS, least=1),
        **_PATIENT,
    },
    "lore": {
        "rank": _RANK,
        "epochs": _ROUNDS,
        "l2": Default(0.1, "pull of the shared rewards towards the pooled one", _OURS),
        "prior": Default(3.0, "pull of a mixture towards the population's, in pairs", _OURS, least=1e-3),
        **_HELD_OUT,
    },
    "pref": {
        "rank": _RANK,
        "epochs": _ROUNDS,
        "l2": Default(3.0, "pull of the shared rewards towards 0", _OURS),
        "prior": Default(1.0, "pull of a user's weights towards the population's", _OURS, least=1e-3),
        **_HELD_OUT,
    },
    "gpo": _GPO,
    "vpl": _VPL,
    "pal-a": _PAL,
    "pal-b": _PAL,
    "eb": {
        **_POOLED,
        "rank": Default(32, "directions of the prior at most; an epoch is one more", _OURS, least=1, most=512),
        **_HELD_OUT,
        "patience": _HELD_OUT["patience"]._replace(value=32),
    },
    "knn": {
        **_POOLED,
        "neighbours": Default(160, "neighbours at most; from 5, an epoch is twice as many", _OURS, least=1),
        "shrink": Default(8.0, "pairs with which a user counts half: shown, or of a neighbour", _OURS),
        "strength": Default(4.0, "length of the deviation of a user with many pairs", _OURS),
        **_HELD_OUT,
    },
    "maml": _MAML,
    "bt-text": _TEXT,
}


_PAIRS_PER_AXIS = 400
_FEW_PAIRS = 32 * _PAIRS_PER_AXIS
_USERS_PER_EPOCH = {"gpo": 1200, "vpl": 600, "pal-a": 600, "pal-b": 600, "maml": 600}
"""How many users an epoch sees at least, each as often as it takes; `gpo` begins on a plateau."""
_FEW: Mapping[str, Mapping[str, Value]] = {
    "gpo": {"folds": 5, "mirror": 1, "layers": 3, "width": 64, "ff": 64, "rate": 1e-3},
    "vpl": {"folds": 5, "code": 128, "latent": 16, "hidden": 64},
    "pal-a": {"folds": 5},
    "pal-b": {"folds": 5},
    "maml": {"folds": 5, "mirror": 1},
}


def by_size(algorithm: str, size: Size) -> dict[str, Value]:
    """Return what takes the place of an algorithm's defaults where fewer than 12,800 pairs are trained on.

    With more there are 400 pairs for each of the 32 axes, and the defaults stand. With fewer, a network reads axes that
    are noise, and learns by heart what the pooled reward says of the very pairs that it was fitted on. So there are
    fewer axes; training users are read on the pooled reward of others (`folds`); gpo and vpl are smaller; and an epoch
    has as many steps as with more users, or patience runs out before anything is learned.
    """
    if algorithm not in _FEW or size.pairs >= _FEW_PAIRS:
        return {}
    passes = math.ceil(_USERS_PER_EPOCH[algorithm] / max(size.users, 1))
    return {"axes": max(8, size.pairs // _PAIRS_PER_AXIS), "passes": passes, **_FEW[algorithm]}


def read_settings(algorithm: str, options: Mapping[str, str]) -> Hyper:
    """Return the defaults of an algorithm with what was given in their place; a wrong key or value is a SpecError."""
    defaults = DEFAULTS[algorithm]
    for key in options:
        if key not in defaults:
            raise SpecError(f"fit {algorithm}: no hyperparameter {key!r}.{did_you_mean(key, defaults)}")
    values = {
        key: _read(f"fit {algorithm}: {key}", options[key], default) if key in options else default.value
        for key, default in defaults.items()
    }
    return Hyper(algorithm, values, frozenset(options))


def _read(name: str, text: str, default: Default) -> Value:
    if default.words:
        if text not in default.words:
            raise SpecError(
                f"{name} is {text!r}; wanted {' or '.join(default.words)}.{did_you_mean(text, default.words)}"
            )
        return text
    whole = isinstance(default.value, int)
    try:
        number: Value = int(text) if whole else float(text)
    except ValueError:
        number = float("nan")
    if not default.least <= float(number) <= default.most:
        kind = "a whole number" if whole else "a number"
        raise SpecError(f"{name} is {text!r}; wanted {kind} from {default.least:g} to {default.most:g}.")
    return number


State = Mapping[str, FloatArray]
"""Parameters by name, as they are on disk, whatever computed them."""

Need = Literal["pairs", "posts"]


class Epoch(NamedTuple):
    """One step of a fit: the mean loss per pair in training, and on users held out (see `held_out_loss`)."""

    number: int
    training: float
    held_out: float


class Fitted(NamedTuple):
    """What a fit leaves. `users` holds the parameters of training users, where the algorithm has any."""

    shared: State
    users: Mapping[str, State]
    curve: tuple[Epoch, ...]
    """The epochs that were run; the parameters are those of the epoch with the least held-out loss."""


Tell = Callable[[Epoch], None]


class Algorithm(Protocol):
    """A way to learn what a user prefers, made with its hyperparameters. Seeded and deterministic on a CPU."""

    @property
    def needs(self) -> frozenset[Need]:
        """From what of a user it adapts."""
        ...

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, log: Tell) -> Fitted:
        """Return the parameters; `log` hears of each epoch as it ends. No user held out is trained on."""
        ...

    def adapt(self, shared: State, context: UserExamples) -> State:
        """Return a user's parameters: a pure function. Without what it needs, those of the population."""
        ...

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:
        """Return the reward of each answer, (m,); the prompt of answer i is row i. No row depends on another.

        sigmoid(reward - reward) is the probability that the one is preferred to the other.
        """
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table; `extra` names the optional dependencies that the module imports."""

    maker: str
    summary: str
    extra: str = ""


ALGORITHMS: Mapping[str, Entry] = {
    "bt": Entry("bt:BradleyTerry", "Bradley-Terry on differences of features, one reward for all users: the baseline"),
    "bt-posts": Entry(
        "bt:BradleyTerryPosts", "Bradley-Terry on features of the answer times features of the user's posts"
    ),
    "lore": Entry("lowrank:LoRe", "a mixture of K shared rewards, each user a point of the simplex"),
    "pref": Entry(
        "lowrank:PReF", "K shared rewards, each user a weight for each; a new user by L2 logistic regression"
    ),
    "eb": Entry("deviations:EmpiricalBayes", "pooled reward and a deviation by empirical Bayes, in closed form"),
    "knn": Entry(
        "deviations:NearestNeighbours", "pooled reward and a vote of training users who agree with the pairs shown"
    ),
    "gpo": Entry("gpo:make", "a transformer that reads a user's pairs and predicts the next", extra="hf"),
    "vpl": Entry("latent:Vpl", "a latent variable per user, inferred from pairs by an encoder", extra="hf"),
    "pal-a": Entry("latent:make_pal_a", "K prototypes, each user an ideal point between them", extra="hf"),
    "pal-b": Entry("latent:make_pal_b", "as pal-a, with prototypes that depend on the prompt", extra="hf"),
    "maml": Entry("maml:Maml", "a network whose weights take gradient steps on a user's pairs", extra="hf"),
}


def load_algorithm(name: str, settings: Hyper) -> Algorithm:
    """Return the algorithm of that name with these hyperparameters."""
    entry = find(name)
    module, _, attribute = entry.maker.partition(":")
    try:
        make = getattr(import_module(f"pluralrm.models.personal.{module}"), attribute)
    except ImportError as exc:
        if not entry.extra or (exc.name or "").startswith("pluralrm"):
            raise
        raise MissingExtraError(f"fit {name}", entry.extra) from exc
    algorithm: Algorithm = make(settings)
    return algorithm


def find(name: str) -> Entry:
    """Return the row of an algorithm; an unknown name gives the nearest known one."""
    if name not in ALGORITHMS:
        raise SpecError(f"unknown algorithm {name!r}.{did_you_mean(name, ALGORITHMS)}")
    return ALGORITHMS[name]


def held_out_loss(algorithm: Algorithm, shared: State, users: Sequence[UserExamples]) -> float:
    """Return the mean over users of -log sigmoid(reward of preferred - reward of other); users without pairs aside.

    Each user shows the first half of the pairs and is judged by the second, so early stopping asks what evaluation
    asks: how good is the model on pairs of a user it has met a moment ago? A user with one pair shows none. Every user
    counts equally, whatever the number of pairs.
    """
    return float(np.mean([_held_out_loss_of(algorithm, shared, user) for user in users if user.pairs]))


def _held_out_loss_of(algorithm: Algorithm, shared: State, user: UserExamples) -> float:
    half = user.pairs // 2
    state = algorithm.adapt(shared, user.only(slice(half)))
    rest = user.only(slice(half, None))
    rewards = [algorithm.score(shared, state, rest.prompts, each) for each in (rest.preferred, rest.other)]
    return float(pair_losses(rewards[0].astype(np.float64) - rewards[1]).mean())


def pair_losses(margins: "np.typing.NDArray[np.float64]") -> "np.typing.NDArray[np.float64]":
    """Return -log sigmoid(margin), without overflow."""
    return np.logaddexp(0.0, -margins)

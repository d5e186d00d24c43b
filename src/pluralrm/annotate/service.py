"""The annotation service without HTTP: questions and pages, what annotators and admin may do, links, start and stop.

Only `screen_shown` decides what of a screen is sent to an annotator, and nothing that they are sent is read from a
label but the answer of an example that they have judged.
"""

import ipaddress
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypedDict
from urllib.parse import urlsplit

from pluralrm.annotate.judgments import (
    CHOICES,
    LONGEST_COMMENT,
    QUESTIONS,
    Judgment,
    answers_of,
    answers_text,
    judgment_line,
    judgment_of,
    other_questions,
    progress,
)
from pluralrm.annotate.labels import MORE, NEEDED, DimensionAgreement, Policies, agreed, labels_of, rows_of
from pluralrm.annotate.plan import (
    DIMENSIONS,
    LETTERS,
    AnnotationPlan,
    Dimension,
    Mode,
    PlanDeclaration,
    Screen,
    Task,
    answer_of_example,
    read_plan,
    screen_shown,
)
from pluralrm.annotate.store import ADMIN, Store, StoredAs, Submission, key_of, new_token, token_hash
from pluralrm.digests import digest
from pluralrm.errors import MetricError, MissingExtraError, PlanError, ServiceError, did_you_mean
from pluralrm.files import LOCK, held
from pluralrm.pages import Page, data_block, render
from pluralrm.text import csv_text, visible


class Option(NamedTuple):
    """One button: its word, and the value that is kept."""

    label: str
    value: str | int | None


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """One row of buttons; `name` is the field of the answers, with a dot where it lies in an inner object."""

    name: str
    text: str
    options: tuple[Option, ...]
    group: str = ""
    hint: str = ""
    first: bool = False
    """Asked before the others are shown."""
    paired: bool = False
    """Stands beside its neighbour where there is room."""
    paraphrased: bool = False
    """Asked only of items with other phrasings of the prompt."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for the page."""
        return {**asdict(self), "options": [option._asdict() for option in self.options]}


_CHOICE_WORDS = ("A", "slightly A", "equal", "slightly B", "B", "cannot tell")
_NAMES: Mapping[Dimension, str] = {
    "factuality": "Factuality",
    "relevance": "Relevance",
    "helpfulness": "Helpfulness",
    "personal_fit": "Personal fit",
}
_MEANS: Mapping[Dimension, str] = {
    "factuality": "What it says is true, and nothing in it misleads.",
    "relevance": "It answers what was asked, and stays with it.",
    "helpfulness": "The person who asked can act on it, or learns what they wanted to know.",
    "personal_fit": "It suits this asker in particular, rather than just anybody.",
}
_FITS_ME = "It suits you in particular, rather than just anybody."
_COMPARED = "Which answer is better in each respect?"
_RATED = "How good is each answer by itself, from 1 (very poor) to 5 (excellent)?"
_FITTED = "How well does each answer fit this asker in particular, from 1 (not at all) to 5 (very well)?"
_FITTED_ME = "How well does each answer fit you in particular, from 1 (not at all) to 5 (very well)?"


def questions(declared: PlanDeclaration) -> list[PageQuestion]:
    """Return all questions of a plan, in the order in which they are asked."""
    return _pair(declared.mode, declared.rated) if declared.task == "pair" else _four()


def guide(task: Task, mode: Mode) -> list[str]:
    """Return what an annotator reads before judging, a paragraph each."""
    if task == "four":
        return [
            "Read the question, then all four answers. Say which fits it best, and how many fit it.",
            "Then say how natural the question is: would somebody ask that, in these words?",
            "Where the question is shown in other words too, say whether all mean the same.",
        ]
    whom = "yourself: which answer would you rather get?" if mode == "own" else "the asker: which answer suits them?"
    return [
        f"Read the question, then both answers. Judge for {whom} Choose one overall before the single respects.",
        *(f"{_NAMES[name]}: {_means(name, mode)}" for name in DIMENSIONS),
        "The answers stand in random order, and neither their place nor their length says anything about them.",
    ]


def _pair(mode: Mode, rated: Sequence[Dimension]) -> list[PageQuestion]:
    overall = "Which answer would you rather get?" if mode == "own" else "Which answer is better for this asker?"
    choices = _options(_CHOICE_WORDS, CHOICES)
    return [
        PageQuestion("overall", overall, choices, first=True),
        *(PageQuestion(name, _NAMES[name], choices, group=_COMPARED, hint=_means(name, mode)) for name in DIMENSIONS),
        *(_rating(name, letter, mode) for name in rated for letter in ("a", "b")),
        PageQuestion("decided", "What decided your overall choice?", _deciding()),
    ]


def _four() -> list[PageQuestion]:
    best = _options([*LETTERS, "cannot tell"], [*LETTERS, "cannot_tell"])
    alike = "Do all phrasings of the question mean the same?"
    return [
        PageQuestion("best", "Which answer fits the question best?", best, first=True),
        PageQuestion("fitting", "How many of the answers fit?", _options(_FITTING, _FITTING), group="The answers"),
        PageQuestion(
            "naturalness", "How natural is the question?", _scale(), group="The question", hint="1 contrived, 5 natural"
        ),
        PageQuestion(
            "same_meaning", alike, _options(_SAME_WORDS, _SAME_VALUES), group="The question", paraphrased=True
        ),
    ]


_FITTING = ("none", "one", "several")
_SAME_WORDS, _SAME_VALUES = ("yes", "no", "cannot tell"), ("yes", "no", "cannot_tell")


def _rating(dimension: Dimension, letter: str, mode: Mode) -> PageQuestion:
    options = (*_scale(), Option("cannot tell", None))
    text = f"{_NAMES[dimension]} of answer {letter.upper()}"
    fitted = _FITTED_ME if mode == "own" else _FITTED
    group = fitted if dimension == "personal_fit" else _RATED
    return PageQuestion(f"scores_{letter}.{dimension}", text, options, group=group, paired=True)


def _deciding() -> tuple[Option, ...]:
    return (*_options([_NAMES[name] for name in DIMENSIONS], DIMENSIONS), Option("none of these", None))


def _means(dimension: Dimension, mode: Mode) -> str:
    return _FITS_ME if mode == "own" and dimension == "personal_fit" else _MEANS[dimension]


def _scale() -> tuple[Option, ...]:
    return tuple(Option(str(number), number) for number in range(1, 6))


def _options(words: Sequence[str], values: Sequence[str]) -> tuple[Option, ...]:
    return tuple(map(Option, words, values))


_KEYS = (
    ("1 – 6", "choose, and go to the next question"),
    ("← →", "change the choice"),
    ("↑ ↓", "the question before, the next question"),
    ("Enter", "to the first question, to the next one, and save at the end"),
    ("Ctrl Enter", "save, from the comment too"),
    ("c", "write a comment"),
    ("p", "open and close the posts"),
    ("u", "undo: take the last judgment back and judge that item again"),
)


def annotator_page(declared: PlanDeclaration) -> Page:
    """Return the page on which people judge; it is the same for all of them and holds nothing of an item."""
    form = {"task": declared.task, "questions": [question.to_json() for question in questions(declared)]}
    return render(
        "pluralrm.annotate",
        "annotate.html.jinja",
        title="Annotation",
        styles=["annotate.css"],
        scripts=["client.js", "questions.js", "item.js", "annotate.js"],
        connects=True,
        guide=guide(declared.task, declared.mode),
        keys=_KEYS,
        asked=data_block("asked", form),
        longest_comment=LONGEST_COMMENT,
    )


def admin_page() -> Page:
    """Return the page of progress; what it shows is fetched with the admin's token."""
    return render(
        "pluralrm.annotate",
        "admin.html.jinja",
        title="Annotation: progress",
        styles=["annotate.css"],
        scripts=["admin.js"],
        connects=True,
    )


class ScreenState(TypedDict):
    """Where one screen stands: its handle, how often something was said of it, whether a judgment stands."""

    item: str
    revision: int
    judged: bool


class AnnotatorState(TypedDict):
    """Where one annotator stands; `space` names what the browser keeps for this annotator and plan."""

    space: str
    items: list[ScreenState]


class SubmissionOutcome(TypedDict):
    """What became of a submission; `meant` has the labelled answers of an example that was just judged ("A or C")."""

    outcome: StoredAs
    meant: str | None


class AnnotationDesk:
    """A plan and what was said so far."""

    def __init__(self, plan: AnnotationPlan, store: Store) -> None:
        self.plan, self.store = plan, store

    def state(self, annotator: str) -> AnnotatorState:
        """Return where an annotator stands, all screens in the order of the plan."""
        submissions = self.store.latest(annotator)
        items = [_standing(screen, submissions) for screen in self.plan.by_annotator[annotator]]
        return AnnotatorState(space=digest([self.plan.content_hash, annotator])[:16], items=items)

    def screen(self, annotator: str, handle: str) -> dict[str, object] | None:
        """Return what an annotator sees on a screen and last said of it; None unless it is one of their own."""
        screen = self._own(annotator, handle)
        if screen is None:
            return None
        view = {name: _visible(value) for name, value in asdict(screen_shown(self.plan, screen)).items()}
        last = self.store.latest(annotator).get(handle)
        return {**view, "said": last and {"answers": json.loads(last.answers)}}

    def take(self, submission: Submission) -> SubmissionOutcome | None:
        """Keep what an annotator said; None where the screen is not theirs, ValueError where it answers no question."""
        screen = self._own(submission.annotator, submission.item)
        if screen is None:
            return None
        answers = answers_of(submission.answers)
        if answers is not None and (why := other_questions(self.plan.declared, answers)):
            raise ValueError(f"answers: {why}")
        outcome = self.store.add(submission._replace(answers=answers_text(answers)))
        stored = answers is not None and outcome in {"kept", "again"}
        return SubmissionOutcome(outcome=outcome, meant=answer_of_example(self.plan, screen) if stored else None)

    def _own(self, annotator: str, handle: str) -> Screen | None:
        screen = self.plan.screen.get(handle)
        return screen if screen is not None and screen.annotator == annotator else None


def _standing(screen: Screen, submissions: Mapping[str, Submission]) -> ScreenState:
    last = submissions.get(screen.handle)
    if last is None:
        return ScreenState(item=screen.handle, revision=0, judged=False)
    return ScreenState(item=screen.handle, revision=last.revision, judged=last.answers != "null")


def _visible(value: object) -> object:
    """Return a text, or a tuple of them, in which nothing is hidden; line ends are newlines."""
    if isinstance(value, str):
        return visible(value.replace("\r\n", "\n").replace("\r", "\n"))
    return [_visible(text) for text in value] if isinstance(value, tuple) else value


# ---------------------------------------------------------------- for the admin

_SHOWN = (*QUESTIONS, "best", "fitting")
"""The dimensions whose agreement is told while people judge; 'pluralrm annotate agreement' has all."""
_RESAMPLES = 200


class AdminOverview:
    """A plan from the admin's side. Agreement is computed anew only when something was said since."""

    def __init__(self, desk: AnnotationDesk) -> None:
        self._desk, self._lock = desk, Lock()
        self._known: tuple[int, list[dict[str, object]]] = (0, [])

    def progress(self) -> dict[str, object]:
        """Return how far everybody is, and agreement so far."""
        judgments = self._said()
        paces = [pace.to_json() for pace in progress(self._desk.plan, judgments)]
        return {"annotators": paces, "agreement": self._agreement(judgments)}

    def judgments(self) -> str:
        """Return every revision as a line of JSON, in the order in which they came."""
        return "".join(f"{judgment_line(judgment)}\n" for judgment in self._said())

    def labels(self) -> str:
        """Return what stands as CSV, a row for each annotator, item and dimension."""
        return csv_text(rows_of(labels_of(self._desk.plan, self._said())), (*NEEDED, *MORE))

    def _said(self) -> list[Judgment]:
        return [judgment_of(submission) for submission in self._desk.store.every()]

    def _agreement(self, judgments: list[Judgment]) -> list[dict[str, object]]:
        with self._lock:
            if self._known[0] != len(judgments):
                self._known = len(judgments), self._computed(judgments)
            return self._known[1]

    def _computed(self, judgments: list[Judgment]) -> list[dict[str, object]]:
        labels = [label for label in labels_of(self._desk.plan, judgments) if label.dimension in _SHOWN]
        try:
            parts = agreed("judgments so far", labels, Policies(), resamples=_RESAMPLES).parts
        except MetricError:  # nobody has judged what somebody else has
            return []
        return [_told(part) for part in parts if part.coefficients and not part.domain]


def _told(part: DimensionAgreement) -> dict[str, object]:
    """Return the share of pairs that are alike, and the alpha that uses most of the scale."""
    estimates = {coefficient.name: coefficient.estimate for coefficient in part.coefficients}
    alpha = next(name for name in ("alpha_interval", "alpha_ordinal", "alpha_nominal") if name in estimates)
    main = {"percent": estimates["percent"], "alpha": estimates[alpha]}
    fields = {name: estimate and estimate.to_json() for name, estimate in main.items()}
    return {"arm": part.arm, "dimension": part.dimension, "labels": part.labels, "items": part.items, **fields}


_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - refused, not listened at


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where to listen, and how it is reached; port 0 takes any that is free.

    `public` is what links begin with where people reach the server by another name. `proxy` is the address of a
    reverse proxy whose word is taken for whose request it forwards. `certificate` and `key` are files for TLS.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    public: str = ""
    proxy: str = ""
    certificate: Path | None = None
    key: Path | None = None

    def check(self) -> None:
        """Raise where tokens and judgments would cross a network in the clear, or an option lacks its other half."""
        self._check_tls()
        if not (_loopback(self.host) or self.certificate or self.proxy):
            raise PlanError(
                f"{self.host!r} can be reached from other machines, and without TLS everybody between could read links "
                "and judgments. Name --tls-certificate and --tls-key, or --proxy ADDRESS where a reverse proxy does TLS"
            )
        if self.host in _EVERYWHERE and not self.public:
            raise PlanError(f"{self.host!r} is every address of this machine: name the one for links with --public-url")
        if self.public and urlsplit(self.public).scheme not in {"http", "https"}:
            raise PlanError(
                f"{self.public!r} is not an address that people can open; wanted https://HOST/ or http://HOST/"
            )

    def _check_tls(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise PlanError("TLS needs both a certificate and its key: --tls-certificate FILE --tls-key FILE")
        if self.certificate is None:
            return
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as exc:
            files = f"{str(self.certificate)!r} with the key {str(self.key)!r}"
            raise PlanError(
                f"cannot use the certificate {files}: {exc}. Wanted two PEM files that belong together"
            ) from exc

    def url(self, port: int) -> str:
        """Return what links begin with, with a slash at the end."""
        if self.public:
            return self.public.rstrip("/") + "/"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' * (self.certificate is not None)}://{host}:{port}/"


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


EVERYBODY = "all"
_WAITING = 512
"""Connections that the system holds until they are taken."""


class Link(NamedTuple):
    """Somebody's way in; the token stands behind the #, which no browser sends along or tells another site."""

    whose: str
    url: str


class OpenServer(NamedTuple):
    """A server that listens: its address, and the links that were made now and can be had at no other time."""

    url: str
    links: list[Link]


def serve(
    folder: Path, address: ServerAddress, *, renew: Sequence[str] = (), opened: Callable[[OpenServer], None]
) -> None:
    """Serve the plan in a folder until Ctrl-C; `opened` is called once connections are taken.

    Who has no link yet gets one, and who is named in `renew` a new one (`all` for everybody).
    """
    try:
        from pluralrm.annotate.server import run
    except ModuleNotFoundError as exc:
        raise MissingExtraError("annotate serve", "annotate") from exc
    address.check()
    plan = read_plan(folder)
    busy = PlanError(f"{folder}: another server has this plan already. Stop it first")
    with held(folder / LOCK, busy), listening(address) as bound, closing(Store(folder, plan.content_hash)) as store:
        url = address.url(bound.getsockname()[1])
        opened(OpenServer(url, _links(plan, store, url, renew)))
        run(AnnotationDesk(plan, store), bound, address=address)


def _links(plan: AnnotationPlan, store: Store, url: str, renew: Sequence[str]) -> list[Link]:
    """Make links for those without one and those in `renew`; only hashes of their tokens are kept."""
    pages = {key_of(annotator.id): (annotator.id, url) for annotator in plan.annotators} | {
        ADMIN: (ADMIN, f"{url}admin")
    }
    keys = {key_of(name) if name != ADMIN else ADMIN for name in renew if name != EVERYBODY}
    if unknown := sorted(keys - pages.keys()):
        names = [whose for whose, _ in pages.values()]
        name = unknown[0].removeprefix(key_of(""))
        raise PlanError(f"--renew {name!r}: not an annotator of this plan.{did_you_mean(name, names)}")
    had = set() if EVERYBODY in renew else store.keys().keys() - keys
    tokens = {key: new_token() for key in pages if key not in had}
    store.set_keys({key: token_hash(token) for key, token in tokens.items()})
    return [Link(pages[key][0], f"{pages[key][1]}#{token}") for key, token in tokens.items()]


@contextmanager
def listening(address: ServerAddress) -> Iterator[socket.socket]:
    """Yield a socket that listens at an address."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Where the protocol is not named, asyncio leaves Nagle's algorithm on, and every reply takes 40 ms longer.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((address.host, address.port))
        except (OSError, OverflowError) as exc:
            where = f"{address.host}:{address.port}"
            raise ServiceError(
                f"cannot listen at {where}: {exc}. Name another with --port; 0 takes any free one"
            ) from exc
        bound.listen(_WAITING)
        yield bound

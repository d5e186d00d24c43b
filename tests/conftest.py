"""Every test runs without a network: loopback is allowed, anything else is an error. In CI a skip is a failure."""

import gc
import os
import re
import signal
import socket
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings

from tests import forked
from tests.browser.chromium import chromium
from tests.loopback import connect

if TYPE_CHECKING:
    from playwright.sync_api import Browser

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("COLUMNS", "80")
# Before numpy is there: on our small matrices a second thread of BLAS mostly waits, with a core to itself.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# No example fails because the machine is busy: neither a deadline nor the pace at which inputs are generated counts.
# `make test-lowest` tries more examples than every day's run.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("PLURALRM_EXAMPLES", "25")),
)
settings.load_profile("any machine")
# A job in the background is started deaf to Ctrl-C, and so would be the children that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


# The commands are built once, not once per invocation.
vars(typer.testing)["_get_command"] = cache(typer.main.get_command)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """A headless Chromium; a module that asks for it carries the mark `browser`."""
    with chromium() as found:
        yield found


def pytest_configure(config: pytest.Config) -> None:
    """Load torch once in the tier hf, for all commands of a worker."""
    if config.option.markexpr.split(" and ")[0] == "hf":
        forked.LOADED.extend(forked.NEURAL)


@cache
def _words(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", file.read_text(encoding="utf-8")))


@cache
def _tier_of_all(file: Path) -> frozenset[str]:
    """Marks that the file gives to each of its tests."""
    whole = re.search(r"^pytestmark = (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(re.findall(r"mark\.(\w+)", whole[1])) if whole else frozenset()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass by files without a test of the tier, by their text: importing all takes longer than many a tier."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    if collection_path in {(config.invocation_params.dir / arg.split("::")[0]).resolve() for arg in config.args}:
        return None
    clauses = config.option.markexpr.split(" and ")  # "TIER and not TIER": anything else is left to pytest
    if not all(re.fullmatch(r"(not )?\w+", clause) for clause in clauses):
        return None
    excluded = {clause.removeprefix("not ") for clause in clauses if clause.startswith("not ")}
    wanted = {clause for clause in clauses if not clause.startswith("not ")}
    return not wanted <= _words(collection_path) or bool(excluded & _tier_of_all(collection_path)) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what collecting makes out of the garbage collector: thousands of tests, and nothing of them is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, object, object]:
    """Import each module of tests in one worker first: the others read what it has compiled."""
    with ExitStack() as held:
        if isinstance(collector, pytest.Module):
            flock(held.enter_context(collector.path.open("rb")), LOCK_EX)
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a file with tests of a tier that it does not name: that tier would pass it by."""
    tiers = {line.split(":")[0] for line in config.getini("markers")}
    for item in items:
        unnamed = {mark.name for mark in item.iter_markers()} & tiers - _words(item.path)
        if unnamed:
            raise pytest.UsageError(f"{item.path}: has tests of {sorted(unnamed)}, and does not name the tier")


def pytest_collection_finish() -> None:
    """Take what was imported and collected out of garbage collection: each full one reads a million objects again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)  # by default 700: tests leave few cycles behind


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which a test was skipped, where PLURALRM_NO_SKIPS says that everything needed is installed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("PLURALRM_NO_SKIPS") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

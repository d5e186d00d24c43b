"""The seed before the tests, the table after them."""

import pytest

from tests.chaos.kills import LOADED, TORCH
from tests.chaos.ledger import LEDGER, SEED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if LEDGER.lines:
        terminalreporter.section(f"chaos, PLURALRM_CHAOS_SEED={SEED}")
        for line in LEDGER.table():
            terminalreporter.line(line)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Load torch once for all children, where tests of this run need it."""
    if any(item.get_closest_marker("hf") and item.get_closest_marker("chaos") for item in session.items):
        LOADED.extend(name for name in TORCH if name not in LOADED)

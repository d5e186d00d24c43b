"""The packaged MiniLM: prompts that mean the same go, by the published threshold."""

from pathlib import Path

import numpy as np
import pytest

from pluralrm.audit.embedder import open_embedder
from pluralrm.construct.filters import similar

pytestmark = pytest.mark.embed

PROMPTS = {
    "p1": "How can I make my sourdough bread rise better?",
    "p2": "What helps a sourdough loaf to rise more?",
    "p3": "Explain how a heat pump warms a house in winter.",
    "p4": "How does a heat pump heat a home when it is cold outside?",
    "p5": "Write a short poem about a lighthouse keeper.",
    "p6": "Prove that the square root of 2 is irrational.",
}


def test_prompts_that_mean_the_same_go(tmp_path: Path) -> None:
    embedder = open_embedder(cache=tmp_path)
    rows = embedder.rows(list(PROMPTS.values()))
    assert rows.shape == (len(PROMPTS), 384)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    found = similar(PROMPTS, embedder)
    assert {name: refusal.other for name, refusal in found.items()} == {"p2": "p1", "p4": "p3"}
    assert similar(PROMPTS, open_embedder(cache=tmp_path)) == found

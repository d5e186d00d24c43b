"""The models of the rmgap demo as a script, and the vectors of its texts: what rmgap.toml says.

`python -m tests.construct.demo.rmgap_script` writes the vectors anew; it needs the packaged MiniLM (extra `embed`).
"""

import tomllib
from collections.abc import Sequence

import numpy as np

from pluralrm.audit.embedder import Rows, open_embedder
from pluralrm.construct.demo import VECTORS, key, shipped
from tests.construct.rmgap.scripted import Prose, Script, versions


def rmgap_prose() -> Sequence[Prose]:
    """Return the records of rmgap.toml."""
    found: Sequence[Prose] = tomllib.loads(shipped("rmgap.toml").read_text(encoding="utf-8"))["record"]
    return found


def rmgap_script() -> Script:
    """Return who answers."""
    return Script(rmgap_prose())


def embedded_texts() -> list[str]:
    """Return every text that the demo compares by its vector: prompts that come in, tailored ones, paraphrases."""
    prose = rmgap_prose()
    prompts = [entry for one in prose for entry in one.get("prompt", ())]
    tailored = [one["text"].strip() for entry in prompts for one in entry["attempt"]]
    said = [text.strip() for entry in prompts for two in entry.get("paraphrases", ()) for text in versions(two)]
    return sorted({*(one["text"] for one in prose), *tailored, *said})


def vectors() -> Rows:
    """Return the vectors of these texts, by the packaged MiniLM."""
    return open_embedder().rows(embedded_texts())


if __name__ == "__main__":
    texts = np.array([key(text) for text in embedded_texts()])
    np.savez_compressed(VECTORS, texts=texts, vectors=vectors().astype(np.float16))

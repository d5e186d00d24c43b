"""Relevance and likeness of posts by their embeddings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pluralrm.retrieval.folder import Similarity
from pluralrm.retrieval.order import PLACES, Judged, Likeness

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]


def judged(question: "NDArray[np.float32]", posts: "Sequence[NDArray[np.float32]]", similarity: Similarity) -> Judged:
    """Return each post's similarity to the question, and the posts' similarities among themselves."""
    import numpy as np

    if not posts:
        return Judged([], lambda: lambda _one, _other: 0.0)
    asked, rows = _scaled(question[None], similarity), _scaled(np.stack(posts), similarity)

    def likeness() -> Likeness:
        alike = (rows @ rows.T).tolist()
        return lambda one, other: float(alike[one][other])

    return Judged(np.round(rows @ asked[0], PLACES).tolist(), likeness)


def _scaled(rows: "NDArray[np.float32]", similarity: Similarity) -> "Rows":
    """Return vectors whose dot product is the similarity. In float64: a sum's order shows in float32's digits."""
    import numpy as np

    exact = rows.astype(np.float64)
    if similarity == "cosine":
        exact /= np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-12)
    return exact

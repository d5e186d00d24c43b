"""The scale of a reward: as the model gives it, or in standard deviations from its mean on a reference pool; clipped.

`raw`, `raw,clip=5`, `z:FILE`, `z:FILE,clip=3`. FILE is what `write_scale` wrote: whose scores, under which
condition, on which pool.

>>> shaping = parse_shaping("raw,clip=2")
>>> [shaping.shaped(score) for score in (-7.0, 0.5, 3.0)]
[-2.0, 0.5, 2.0]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, FiniteFloat

from pluralrm.errors import ModelError, SpecError
from pluralrm.files import replace_file
from pluralrm.journal import Strict, document_text, parse_document
from pluralrm.specs import Form, parse

_FORMS = {"raw": Form("none", ("clip",)), "z": Form("required", ("clip",))}


class Scale(Strict):
    """Where a model's scores lie on a reference pool, and which scores these are."""

    model: str
    condition: str
    pool_hash: str
    n: int = Field(ge=2)
    failed: int
    """Answers of the pool without a score: neither mean nor deviation knows of them."""
    mean: FiniteFloat
    sd: FiniteFloat = Field(gt=0)


@dataclass(frozen=True, slots=True)
class Shaping:
    """What a score becomes before it is learned from."""

    spec: str
    scale: Scale | None = None
    clip: float | None = None

    def shaped(self, score: float) -> float:
        """Return the shaped score."""
        found = score if self.scale is None else (score - self.scale.mean) / self.scale.sd
        return found if self.clip is None else min(self.clip, max(-self.clip, found))

    @property
    def identity(self) -> str:
        """All that shapes a reward, in words."""
        scale = "raw" if self.scale is None else f"z {self.scale.model_dump_json()}"
        return scale if self.clip is None else f"{scale} clip {self.clip:g}"

    @property
    def way(self) -> str:
        """What the shapings of comparable models have in common: the kind, the pool, the clip."""
        kind = "raw" if self.scale is None else f"z on {self.scale.pool_hash}"
        return kind if self.clip is None else f"{kind} clip {self.clip:g}"

    def check(self, model: str, condition: str) -> None:
        """Raise where the scale is that of another model, or of scores under another condition."""
        scale = self.scale
        if scale is not None and (scale.model, scale.condition) != (model, condition):
            raise ModelError(
                f"{self.spec}: the scale is that of {scale.model} under {scale.condition}, wanted {model} under "
                f"{condition}: score the reference pool with it"
            )


def scale_of(scores: Sequence[float], *, model: str, condition: str, pool_hash: str, failed: int = 0) -> Scale:
    """Return the mean and standard deviation (n - 1) of scores on a pool; ModelError where they do not differ."""
    if len(scores) < 2 or len(set(scores)) < 2:
        raise ModelError(
            f"{model}: found {len(set(scores))} different scores on the reference pool, wanted two or more: there is "
            "no scale. Use raw"
        )
    mean = sum(scores) / len(scores)
    sd = (sum((score - mean) ** 2 for score in scores) / (len(scores) - 1)) ** 0.5
    return Scale(model=model, condition=condition, pool_hash=pool_hash, n=len(scores), failed=failed, mean=mean, sd=sd)


def write_scale(scale: Scale, file: Path) -> None:
    """Write the scale, to be named as `z:FILE`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, document_text(scale, ascii_only=True))


def parse_shaping(text: str) -> Shaping:
    """Return the shaping of a spec; what it cannot read is a SpecError."""
    spec = parse(text, _FORMS, noun="shaping")
    return Shaping(str(spec), _read(Path(spec.target)) if spec.kind == "z" else None, _clip(spec.options.get("clip")))


def _clip(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise SpecError(f"shaping: clip is {text!r}; wanted a number above 0")
    return found


def _read(file: Path) -> Scale:
    try:
        return parse_document(Scale, file.read_bytes())
    except OSError as exc:
        raise SpecError(f"shaping z:{file}: cannot be read: {exc.strerror or exc}; wanted a scale's file") from exc
    except ValueError as exc:
        raise SpecError(f"shaping z:{file}: {exc}. Restore it, or make the scale again") from exc

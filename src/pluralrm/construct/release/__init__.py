"""Releases: rows in their published format, audited, with a data card from which the set can be made again."""

from pluralrm.construct.release.card import About
from pluralrm.construct.release.editions import Edition
from pluralrm.construct.release.releasing import Released, funnel_figure, release, require_kept

__all__ = ["About", "Edition", "Released", "funnel_figure", "release", "require_kept"]

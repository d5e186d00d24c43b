"""Releases: rows in their published format, audited, with a data card from which the set can be made again."""

from pluralrm.build.release.card import About
from pluralrm.build.release.editions import Edition
from pluralrm.build.release.releasing import Released, funnel_figure, release, require_kept

__all__ = ["About", "Edition", "Released", "funnel_figure", "release", "require_kept"]

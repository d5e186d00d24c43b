"""Rank what a user wrote by what matters to a question.

>>> from pluralrm.core import Post
>>> posts = (Post("p1", "My cat sleeps on the oven."), Post("p2", "The crust was pale: a colder oven, a paler crust."))
>>> [[post.id for post in ranked] for ranked in Ranker().rank([Request("q1", "How do I get a dark crust?", posts)])]
[['p2', 'p1']]

bm25          words shared with the question; a user's own posts are the corpus, so a word that this user uses in every
              post says nothing
embed:MODEL   similarity of embeddings
recent        newest first where posts have dates; else stored order, the first post being the most recent
random        a seeded shuffle

Posts travel with their ids, ties go to the smaller id, and no user's ranking depends on who else is ranked. `mmr` below
1 trades relevance for variety.
"""

from pluralrm.retrieval.encoder import Encoder
from pluralrm.retrieval.ranker import RANKING_KEYS, Ranker, Ranking, Request, parse_ranking

__all__ = ["RANKING_KEYS", "Encoder", "Ranker", "Ranking", "Request", "parse_ranking"]

"""Grading: how far an answer gives a user what they expect of it, by their rubric and who reads it.

per-aspect:MODEL   one call for each aspect: question, narrative, answer, and the aspect with its reason and evidence
joint:MODEL        one call for all aspects: question, answer, and the titles of the aspects
truth              no call: on `simulated` it is known what an answer gives a user
math, code         no call: right or wrong by the item's known answer, as `pluralrm construct validate` tells it
given:NAME         no call: grades that NAME gave elsewhere, read from a file
python:M:F         one of your own: an object with grade(answers), made by F in the module M

The first two give 0, 1 or 2 per aspect, and their sum over twice their number, in [0, 1], is the grade. A grader reads
`item.oracle` itself and is no reward model. One of your own, for tests, needs no server:

>>> from pluralrm.benchmarks import load_benchmark
>>> from pluralrm.chat import ScriptedChat
>>> grader = open_grader("per-aspect:scripted", chat=ScriptedChat(lambda request: '{"match_score": 1}'))
>>> item = load_benchmark("pocket-prb").items[0]
>>> next(grader.grade([(item, "Start with a tune that you can hum.")])).grade
0.5
"""

from pluralrm.grading.grader import WAYS, Grade, Graded, Grader, aspects_of
from pluralrm.grading.opening import FORMS, check_independent, grader_summaries, open_grader, parse_grader

__all__ = [
    "FORMS",
    "WAYS",
    "Grade",
    "Graded",
    "Grader",
    "aspects_of",
    "check_independent",
    "grader_summaries",
    "open_grader",
    "parse_grader",
]

"""A text is written anew with the reasons at hand, and never judged twice."""

from collections.abc import Sequence

from pluralrm.construct.pipeline import Refusal, Rejection, Work, until_accepted


class Desk:
    """Texts in their order, a gate that refuses what is too long, and what the writer was told each time."""

    def __init__(self, *texts: str | Refusal) -> None:
        self._texts = texts
        self.told: list[list[str]] = []
        self.judged: list[str] = []

    def write(self, attempt: int, reasons: Sequence[Refusal]) -> Work[str | Refusal]:
        yield from ()
        self.told.append([reason.said for reason in reasons])
        return self._texts[attempt]

    def judge(self, text: str, _attempt: int) -> Work[Sequence[Refusal]]:
        yield from ()
        self.judged.append(text)
        return [Refusal("format", f"{len(text)} letters are too many")] if len(text) > 3 else []

    def came_to(self) -> object:
        work = until_accepted(self.write, self.judge, len(self._texts))
        try:
            next(work)
        except StopIteration as end:
            return end.value
        raise AssertionError("it asked somebody")


def test_the_first_text_that_no_gate_refuses_is_taken() -> None:
    desk = Desk("lengthy", "rye", "oat")
    assert desk.came_to() == ("rye", 2)
    assert desk.told == [[], ["7 letters are too many"]]


def test_a_text_that_comes_back_is_not_judged_and_its_writer_still_hears_what_was_wrong() -> None:
    desk = Desk("lengthy", "lengthy", "lengthy")
    again = "the text is the one that was refused before"
    assert desk.came_to() == Rejection("unchanged", f"unchanged: {again}; format: 7 letters are too many", 3)
    assert desk.judged == ["lengthy"]
    assert desk.told == [[], ["7 letters are too many"], [again, "7 letters are too many"]]


def test_each_text_that_comes_back_brings_its_own_reasons() -> None:
    desk = Desk("lengthy", "too long", "lengthy")
    assert desk.came_to() == Rejection(
        "unchanged", "unchanged: the text is the one that was refused before; format: 7 letters are too many", 3
    )


def test_a_writer_that_says_nothing_uses_an_attempt() -> None:
    silent = Refusal("unwritten", "nothing was said")
    assert Desk(silent, "rye").came_to() == ("rye", 2)
    assert Desk("lengthy", silent).came_to() == Rejection("unwritten", "unwritten: nothing was said", 2)

"""What a reply has in its last box, and in which spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Failure
from pluralrm.validate.latex import both_signs, boxed, brackets, elements, parts, reference_of, split, tidy, words


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (r"\boxed{5}", "5"),
        (r"$\boxed{\frac{1}{\sqrt{2}}}$.", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"\boxed {5}", "5"),
        (r"\fbox{5}", "5"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),
        (r"\boxed{a \text{ if } b}", r"a \text{ if } b"),
        (r"<think>\boxed{1}</think>\boxed{2}", "2"),
        (r"\boxed{2} <think>or \boxed{1}?</think>", "2"),
        ("\\boxed{\n5\n}", "\n5\n"),
    ],
)
def test_the_last_box_is_the_answer_with_all_its_braces(reply, answer):
    assert boxed(reply) == answer


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("5", "parse"),
        (r"\boxed 5", "parse"),
        (r"\boxed{5", "parse"),
        (r"\boxed{1} and \boxed{2", "parse"),
        (r"<think>\boxed{5}", "parse"),
        (r"\boxed{}", "empty"),
        (r"\boxed{" + "1" * 1_001 + "}", "too_long"),
    ],
)
def test_without_a_box_that_is_closed_there_is_no_answer(reply, kind):
    answer = boxed(reply)
    assert isinstance(answer, Failure)
    assert answer.kind == kind


def test_a_reference_is_its_box_or_all_of_it():
    assert reference_of(r"So \boxed{3}.") == "3"
    assert reference_of("3") == "3"
    assert reference_of(r"\boxed{3") == r"\boxed{3"


@given(st.text(alphabet="ab1{}\\ \n", max_size=30))
def test_any_text_has_an_answer_or_a_failure(text):
    assert isinstance(boxed(text), (str, Failure))
    assert isinstance(reference_of(text), str)


@given(st.text(max_size=40))
def test_to_tidy_twice_changes_nothing_more(text):
    once = tidy(text)
    again = tidy(once)
    assert tidy(again) == again


@pytest.mark.parametrize(
    ("text", "tidied"),
    [
        (r"\left(1\,000, 2\right)", "(1000, 2)"),
        (r"\dfrac12", r"\frac12"),
        ("$5$.", "5"),
        ("3 > x > 1", r"1 < x < 3"),
        (r"3 \ge x > 1", r"1 < x \le 3"),
        (r"0.\overline{6}", r"\frac{6}{9}"),
        (r"0.1\overline{6}", r"\frac{15}{90}"),
        (r"\begin{pmatrix}1 \\ 2\end{pmatrix}", r"\begin{pmatrix}1 \\ 2\end{pmatrix}"),
        (r"1.5e-3", r"1.5 \times 10^{-3}"),
        (r"\sin 30^\circ", r"\sin {(\frac{30 \pi}{180})}"),
        (r"30^\circ", r"30^\circ"),
    ],
)
def test_one_thing_has_one_spelling(text, tidied):
    assert tidy(text) == tidied


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r"\text{Monday}", "monday"),
        ("Nope.", "nope"),
        (r"\text{(B)}", "b"),
        ("(C)", "c"),
        ("A, C", "a c"),
        ("x", None),
        ("ab", None),
        ("3xy", None),
        (r"\sqrt{x}", None),
        ("5", None),
        ("x+yz", None),
    ],
)
def test_words_are_told_from_products(text, said):
    assert words(text) == said


def test_signs_brackets_and_lists_are_taken_apart():
    assert both_signs(r"5 \mp 1 \pm x") == "5 - 1 + x, 5 + 1 - x"
    assert both_signs(r"\pm 3") == "3, - 3"
    assert [brackets(text) for text in (r"\{1,2\}", "(1,2]", "[1]", "1,2")] == ["{}", "(]", "", ""]
    assert elements(r"(1,2), \{3,4\}, 5") == ["(1,2)", r"\{3,4\}", "5"]
    assert parts(r"x<1 \text{ or } x>2") == ["x<1", "x>2"]


@pytest.mark.parametrize(
    ("text", "number", "dimension"),
    [
        (r"5\text{ cm}", "5", "length"),
        (r"5 \mathrm{cm}^2", "5", "area"),
        ("5 kg", "5", "mass"),
        (r"30^\circ", "30", "angle"),
        (r"\$5.50", "5.50", "money"),
        (r"12\text{ square meters}", "12", "area"),
        (r"15\text{ apples}", r"15\text{ apples}", None),
        ("x", "x", None),
        ("3m", "3m", None),
    ],
)
def test_a_unit_is_told_from_a_number(text, number, dimension):
    found, unit = split(text)
    assert (found, unit and unit.dimension) == (number, dimension)

"""Regular expressions over names: what they may say, and that none takes for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.models.price import Match
from runtally.pricing.expressions import MAX_BYTES, Expressions, InvalidExpression, demand_expression
from runtally.pricing.match import MAX_PATTERN_CHARS, PriceIndex
from tests.unit.pricing.candidates import make_candidate

# Python's own engine tries each of them on one of the names for longer than anybody waits.
EVIL = (
    r"(a+)+b",
    r"(a|aa)+b",
    r"(.*)*(.*)*(.*)*x",
    r"(?:[ab]*a[ab]{100}|[ab]*b[ab]{101})*c",
    r"(?:a?){300}a{300}",
    r"(?:a?){1000}",
    r"(\w+[-.]?)+!",
)
NAMES = ("a" * 127 + "-", "ab" * 64, "a-" * 64, "é" * 128)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("(?=gpt)x", "cannot look ahead or behind"),
        ("(?!.*tts).*", "cannot look ahead or behind"),
        ("(?<=a)b", "cannot look ahead or behind"),
        (r"(a)\1", "instead of referring back"),
        (r"gpt\Z", "$ instead of"),
        (r"\u00e9", "a character by its number"),
        ("a++", "Repeat with one of"),
        ("(?>a)b", "Repeat with one of"),
        ("(?x) a b", "After (? write"),
        ("(?P=name)", "After (? write"),
        ("(?P<a b>c)", "After (? write"),
        ("a{1001}", "at most 1,000 times"),
        ("a{,3}", "{0,3} instead of {,3}"),
        ("(?:.?){1000}", "too large"),
        ("(a{100}){100}", "at most 1,000 times"),
        ("secret(", "This is no regular expression: missing )."),
        ("secret[", "This is no regular expression: missing ]."),
        ("*secret", "This is no regular expression: no argument for repetition operator."),
    ],
)
def test_a_refusal_gives_advice_and_does_not_quote_the_expression(text: str, advice: str) -> None:
    with pytest.raises(InvalidExpression) as refused:
        demand_expression(text)

    assert advice in str(refused.value)
    assert "secret" not in str(refused.value)
    assert Expressions([text]).invalid == {text}


@pytest.mark.parametrize("text", EVIL)
def test_no_expression_takes_for_ever(text: str) -> None:
    expressions = Expressions([text])

    found = [list(expressions.matching(name, among=(text,))) for name in NAMES]

    assert found == [[]] * len(NAMES) or text == "(?:a?){1000}"
    assert not expressions.invalid


@given(st.text(st.sampled_from("ab|.*+?(){}[]^$\\-12,:<>=!PQ"), max_size=24), st.text("ab-é\ud800\n", max_size=140))
def test_whatever_is_written_is_refused_or_answered(text: str, name: str) -> None:
    expressions = Expressions([text])

    assert list(expressions.matching(name, among=(text,))) in ([], [text])
    if expressions.invalid:
        with pytest.raises(InvalidExpression):
            demand_expression(text)


def test_only_the_expressions_that_were_asked_for_match() -> None:
    expressions = Expressions(["gpt.*", "gpt-4.*", "o1.*"])

    assert list(expressions.matching("gpt-4o", among=("gpt.*", "o1.*"))) == ["gpt.*"]
    assert sorted(expressions.matching("gpt-4o", among=("gpt.*", "gpt-4.*", "o1.*"))) == ["gpt-4.*", "gpt.*"]


def test_an_expression_matches_in_whatever_case_it_is_written_and_the_whole_name() -> None:
    expressions = Expressions(["GPT-4O?"])

    assert [
        name for name in ("gpt-4o", "gpt-4", "gpt-4o-mini", "my-gpt-4o") if [*expressions.matching(name, ("GPT-4O?",))]
    ] == [
        "gpt-4o",
        "gpt-4",
    ]


def test_nothing_of_an_expression_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidExpression):
        demand_expression("secret(")
    list(Expressions(["secret("]).matching("secret", among=("secret(",)))

    assert capfd.readouterr() == ("", "")


def test_an_expression_takes_at_most_128_kib() -> None:
    assert MAX_BYTES == 131_072


def test_no_expression_meets_a_long_name() -> None:
    index = PriceIndex([make_candidate("acme", "x", match=Match.REGEX, pattern="(?:.*[^a-z0-9])?x.*")])

    assert index.find("acme", "x".ljust(MAX_PATTERN_CHARS, "-"))
    assert not index.find("acme", "x".ljust(MAX_PATTERN_CHARS + 1, "-"))


def test_without_expressions_nothing_matches() -> None:
    assert list(Expressions([]).matching("gpt", among=("gpt",))) == []
    assert list(Expressions(["("]).matching("(", among=("(",))) == []

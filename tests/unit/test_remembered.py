from runtally.remembered import LONGEST, remembered


def test_a_call_with_short_names_is_remembered_and_one_with_long_names_is_not() -> None:
    asked: list[tuple[str | None, ...]] = []

    @remembered(2)
    def joined(*names: str | None) -> str:
        asked.append(names)
        return "/".join(name or "" for name in names)

    short, long = ("a" * (LONGEST - 1), "b", None), ("a" * LONGEST, "b", None)
    assert [joined(*short), joined(*short)] == [f"{'a' * (LONGEST - 1)}/b/"] * 2
    assert [joined(*long), joined(*long)] == [f"{'a' * LONGEST}/b/"] * 2

    assert asked == [short, long, long]


def test_only_the_newest_are_kept() -> None:
    asked: list[str] = []

    @remembered(2)
    def length(name: str) -> int:
        asked.append(name)
        return len(name)

    assert [length(name) for name in ("a", "bb", "ccc", "a", "a")] == [1, 2, 3, 1, 1]
    assert asked == ["a", "bb", "ccc", "a"]

"""The count of words by label: what tells failing from passing tickets comes first, and nothing else is claimed."""

from __future__ import annotations

from workers.embedded.endpoint.phrases import LabelledTicket, content_words, separators


def tickets(**texts: list[str]) -> list[LabelledTicket]:
    """Tickets by label, one for each text."""
    listed = [(label, text) for label, given in texts.items() for text in given]
    return [LabelledTicket(f"第{number}组", label, (text,)) for number, (label, text) in enumerate(listed, 1)]


ENGLISH = tickets(
    **{
        "fail": [
            "The lamp is lit. The ground wire is black.",
            "A black ground wire runs down.",
            "The ground wire is black.",
        ],
        "pass": [
            "The lamp is lit. The ground wire is green.",
            "A green ground wire runs down.",
            "The ground wire is green.",
        ],
    }
)
CHINESE = tickets(
    **{
        "fail": ["地面有灰。电源线走右侧。", "电源线沿右侧敷设。", "右侧有电源线。"],
        "pass": ["地面有灰。电源线走左侧。", "电源线沿左侧敷设。", "左侧有电源线。"],
    }
)


def test_the_words_that_only_one_label_has_come_first_with_those_that_always_stand_beside_them() -> None:
    best, other = separators(ENGLISH)[:2]
    assert {best.words: best.label, other.words: other.label} == {
        ("ground", "wire", "black"): "fail", ("ground", "wire", "green"): "pass",
    }  # fmt: skip
    assert best.counts in ({"pass": (0, 3), "fail": (3, 3)}, {"pass": (3, 3), "fail": (0, 3)})


def test_chinese_is_counted_by_pieces() -> None:
    found = {frozenset(s.words): s.label for s in separators(CHINESE)[:2]}
    assert found == {frozenset({"右侧", "电源线"}): "fail", frozenset({"左侧", "电源线"}): "pass"}


def test_words_of_both_labels_and_of_one_ticket_separate_nothing() -> None:
    said = {word for s in separators(ENGLISH) for word in s.words}
    assert not said & {"lamp", "lit"}
    once = tickets(**{"fail": ["Rust on one hinge. Fine.", "Fine."], "pass": ["Fine.", "Fine."]})
    assert separators(once) == []


def test_tickets_of_one_label_show_nothing() -> None:
    assert separators([ticket for ticket in ENGLISH if ticket.label == "fail"]) == []


def test_only_tickets_of_the_bundle_are_evidence() -> None:
    """Given a fault that only tickets for comparison show, then it is not claimed."""
    unnamed = [LabelledTicket("" if t.label == "fail" else t.group, t.label, t.texts) for t in ENGLISH]
    assert {s.label for s in separators(unnamed)} == {"pass"}
    assert separators(ENGLISH)[0].groups in (("第1组", "第2组", "第3组"), ("第4组", "第5组", "第6组"))


def test_words_that_say_nothing_are_not_counted() -> None:
    assert content_words("The wire is on the left side.") == {"wire", "left", "side"}
    assert content_words("电源线, is") == {"电源", "源线"}

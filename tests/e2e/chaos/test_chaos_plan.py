"""The plan of faults: the seed decides, and every kind and every process has its turn."""

from __future__ import annotations

from collections import Counter

from chaos_plan import MOST_CALLS_BETWEEN, SHARES, VICTIMS, faults


def test_the_seed_alone_decides() -> None:
    assert faults(7, 200) == faults(7, 200)
    assert faults(7, 200)[:50] == faults(7, 50)
    assert faults(7, 200) != faults(8, 200)


def test_two_hundred_faults_are_of_every_kind_and_happen_to_every_process() -> None:
    drawn = faults(7, 200)
    assert {(fault.kind, fault.victim) for fault in drawn} == {(kind, who) for kind in VICTIMS for who in VICTIMS[kind]}
    kinds = Counter(fault.kind for fault in drawn)
    assert all(abs(kinds[kind] - 200 * share / sum(SHARES.values())) <= share for kind, share in SHARES.items())
    assert {fault.after for fault in drawn} == set(range(1, MOST_CALLS_BETWEEN + 1))

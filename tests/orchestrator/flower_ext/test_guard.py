"""Passwords: what is accepted, and how often one may guess."""

from __future__ import annotations

import base64

import pytest
from tornado.web import HTTPError

from orchestrator.flower_ext.guard import ADDRESSES, FORGIVEN_EVERY_S, WRONG_ALLOWED, Guard, WrongGuesses


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def basic(text: str | bytes) -> str:
    return "Basic " + base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def status(guard: Guard, authorization: str, address: str = "10.0.0.1") -> int:
    try:
        guard.check(address, authorization)
    except HTTPError as error:
        return error.status_code
    return 200


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guard(clock: Clock) -> Guard:
    return Guard(["ann:longenough", "bob:another one"], WrongGuesses(clock))


def test_each_accepted_pair_is_let_in(guard: Guard) -> None:
    assert status(guard, basic("ann:longenough")) == status(guard, basic("bob:another one")) == 200


@pytest.mark.parametrize(
    "sent",
    [
        *("", "Basic", "Basic !!!", "Bearer x", "Basic " + "A" * 60_000, "Basic größer", "\x00"),
        *map(basic, ("ann:", "ann:größergleich", b"ann:\xff\xfe", "ann", ":", "", "ann:longenough\n")),
    ],
)
def test_anything_else_is_refused_and_does_no_harm(guard: Guard, sent: str) -> None:
    assert status(guard, sent) == 401


def test_after_some_wrong_passwords_an_address_has_to_wait(guard: Guard, clock: Clock) -> None:
    assert [status(guard, basic(f"ann:{number}")) for number in range(WRONG_ALLOWED)] == [401] * WRONG_ALLOWED
    # Then also the right one is not looked at: else a guess would be told apart
    assert status(guard, basic("ann:longenough")) == 429
    assert status(guard, basic("ann:longenough"), "10.0.0.2") == 200
    clock.now += FORGIVEN_EVERY_S + 0.1
    assert status(guard, basic("ann:wrong")) == 401
    assert status(guard, basic("ann:longenough")) == 429
    clock.now += FORGIVEN_EVERY_S + 0.1
    assert status(guard, basic("ann:longenough")) == 200


def test_a_request_without_a_password_is_no_guess(guard: Guard) -> None:
    assert {status(guard, "") for _ in range(100)} == {401}
    assert status(guard, basic("ann:longenough")) == 200


def test_addresses_of_one_network_count_together_and_are_not_remembered_for_ever(clock: Clock) -> None:
    guesses = WrongGuesses(clock)
    for number in range(WRONG_ALLOWED):
        guesses.add(f"2001:db8::{number:x}")
    assert guesses.wait_s("2001:db8::ffff") > 0 and not guesses.wait_s("2001:db8:0:1::1")
    for number in range(ADDRESSES):
        guesses.add(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert not guesses.wait_s("2001:db8::ffff")

"""The counts of a process on its target servers."""

from tasks.gpu.server_stats import ServerStats


def test_a_request_is_in_flight_from_its_beginning_to_its_end() -> None:
    stats = ServerStats()
    with stats.request(), stats.request():
        assert stats.in_flight == 2
    assert stats.in_flight == 0


def test_a_request_that_fails_is_not_in_flight_any_more() -> None:
    stats = ServerStats()
    try:
        with stats.request():
            raise ConnectionError
    except ConnectionError:
        assert stats.in_flight == 0


def test_tokens_of_the_last_ten_seconds_count() -> None:
    now = [100.0]
    stats = ServerStats(lambda: now[0])
    stats.answered("a", 300)
    now[0] = 108.0
    stats.answered("a", 100)
    assert stats.tokens_a_second() == 40
    now[0] = 111.0
    assert stats.tokens_a_second() == 10


def test_an_answer_counts_as_a_sign_of_life_for_a_while_and_until_a_request_fails() -> None:
    now = [0.0]
    stats = ServerStats(lambda: now[0])
    assert not stats.was_alive("a", 20)
    stats.answered("a", 1)
    now[0] = 19.0
    assert stats.was_alive("a", 20) and not stats.was_alive("b", 20)
    stats.mark_unhealthy("a")
    assert not stats.was_alive("a", 20)
    stats.alive("a")
    now[0] = 40.0
    assert not stats.was_alive("a", 20)

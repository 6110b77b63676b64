"""Malformed entries among the messages that workers have taken, and keys of a wrong type: set aside, nothing stops."""

import json
import time

import pytest
from farm_bench import Bench, until

from tasks.store.set_aside import LONGEST_TEXT, SetAside
from workers.celery_ext.unacked import MOST_LEVELS, entry_error

ENVELOPE = {
    "body": "W10=",
    "headers": {},
    "properties": {
        "delivery_info": {"exchange": "cpu", "routing_key": "cpu"},
        "delivery_tag": "tag",
        "body_encoding": "base64",
    },
}
PROPERTIES = ENVELOPE["properties"]


def entry(routing_key: str = "cpu", exchange: str = "", **properties: object) -> bytes:
    return json.dumps([ENVELOPE | {"properties": PROPERTIES | properties}, exchange, routing_key]).encode()


def nested(levels: int) -> object:
    return [nested(levels - 1)] if levels else []


MALFORMED = {
    "not JSON": b"\xff{",
    "not a list": b"{}",
    "too short": json.dumps([ENVELOPE, "cpu"]).encode(),
    "no message": json.dumps(["message", "cpu", "cpu"]).encode(),
    "no headers": json.dumps([ENVELOPE | {"headers": None}, "cpu", "cpu"]).encode(),
    "an unknown exchange": entry("cpu", "nowhere"),
    "another key of the broker": entry("unacked_index"),
    "an exchange that is no UTF-8": entry("cpu", "\ud800"),
    "a tag that is no UTF-8": entry(delivery_tag="\ud800"),
    "an infinite priority": entry(priority=float("inf")),
    "nested too deeply": entry(other=nested(MOST_LEVELS)),
}


def set_aside(bench: Bench) -> SetAside:
    return SetAside(bench.broker)


@pytest.mark.parametrize("entry", MALFORMED.values(), ids=MALFORMED.keys())
def test_an_entry_that_kombu_could_not_return_is_recognized(entry: bytes) -> None:
    assert entry_error(entry)


@pytest.mark.parametrize("exchange", ["", "cpu"])
def test_a_well_formed_entry_is_left_alone(exchange: str) -> None:
    assert entry_error(entry("cpu", exchange)) is None
    assert entry_error(entry("cpu", exchange, priority=3, other=nested(20))) is None


def test_malformed_entries_are_set_aside_by_workers_that_run_and_by_one_that_starts(bench: Bench) -> None:
    # Given malformed entries whose time is over, a tag without an entry, a malformed binding, and messages of a dead
    # worker: without a time, with one that a step of the clock has left in the future, and with one before 1970
    for tag, malformed in MALFORMED.items():
        bench.broker.hset("unacked", tag, malformed)
        bench.broker.zadd("unacked_index", {tag: 10})
    bench.broker.zadd("unacked_index", {"no entry": 1})
    names = ("without", "future", "past")
    bench.let_end(*names, "next")
    for name in names:
        bench.app.send_task("cpu.hold", (name,))
        message = bench.broker.rpop("cpu")
        bench.broker.hset("unacked", name, json.dumps([json.loads(message), "cpu", "cpu"]))
    bench.broker.zadd("unacked_index", {"future": time.time() + 3600, "past": -1})
    bench.broker.sadd("_kombu.binding.cpu", "nothing")
    # When a worker starts, then they are set aside, with their reasons, and the messages of the dead worker are done
    worker = bench.start_worker("cpu")
    until(lambda: [bench.ended(name) for name in names] == [1, 1, 1])
    until(lambda: bench.broker.hlen("unacked") + bench.broker.zcard("unacked_index") == 0)
    *found, binding = sorted(set_aside(bench).entries(), key=lambda entry: entry.place, reverse=True)
    assert ({entry.place for entry in found}, binding.place) == ({"unacked"}, "_kombu.binding.cpu")
    assert {entry.reason for entry in found} == {entry_error(malformed) for malformed in MALFORMED.values()}
    assert len(found) == len(MALFORMED)
    # When one comes while it runs, then it goes the same way, and the worker takes the next message
    bench.broker.hset("unacked", "later", "{")
    bench.broker.zadd("unacked_index", {"later": 1})
    until(lambda: set_aside(bench).count() == len(MALFORMED) + 2)
    bench.app.send_task("cpu.hold", ("next",))
    until(lambda: bench.ended("next") == 1)
    assert worker.alive
    assert "Traceback" not in bench.log("cpu").read_text()


def test_keys_of_a_wrong_type_are_set_aside(bench: Bench) -> None:
    # Given keys of the broker that are no hash, no sorted set, no list and no set
    keys = ("unacked", "unacked_index", "cpu", "_kombu.binding.cpu")
    for key in keys:
        bench.broker.set(key, "something")
    # When a worker starts, then they have other names, and it takes what is sent
    bench.let_end("first", "second", "third")
    bench.start_worker("cpu")
    bench.app.send_task("cpu.hold", ("first",))
    until(lambda: bench.ended("first") == 1)
    assert {entry.place for entry in set_aside(bench).entries()} == set(keys)
    # When a queue becomes one while it runs, then it connects again and goes on
    until(lambda: bench.broker.hlen("unacked") == 0)
    for key in ("unacked", "cpu"):
        bench.broker.delete(key)
        bench.broker.set(key, "something")
    until(lambda: bench.broker.type("cpu") != "string")
    bench.app.send_task("cpu.hold", ("second",))
    until(lambda: bench.ended("second") == 1)
    assert set_aside(bench).clear() == len(keys) + 2
    assert not bench.broker.keys("whetstone:set_aside*")


def test_a_refused_message_is_set_aside(bench: Bench) -> None:
    worker = bench.start_worker("cpu")
    bench.app.send_task("cpu.unknown", ("run",))
    bench.broker.lpush("cpu", "no JSON " + "x" * 2 * LONGEST_TEXT)
    # One that cannot be recorded, and some that are as deep as Python's decoder allows, and its encoder does not
    bench.broker.lpush("cpu", json.dumps(json.loads(MALFORMED["a tag that is no UTF-8"])[0]))
    deep = range(840, 1000, 2)
    for levels in deep:
        bench.broker.lpush("cpu", f'{{"deep": {"[" * levels}{"]" * levels}, {json.dumps(ENVELOPE)[1:]}')
    until(lambda: set_aside(bench).count() == 3 + len(deep))
    assert worker.alive
    *_, latest, first = set_aside(bench).entries()
    assert "cpu.unknown" in first.reason and "cpu.unknown" in first.text
    assert "not JSON" in latest.reason and len(latest.text) == LONGEST_TEXT

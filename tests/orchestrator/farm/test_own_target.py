"""The target host of a command's own process: it is there while it is asked, and its server does not outlive it."""

from __future__ import annotations

import os

import psutil
import pytest
from server_target import server_reply, server_target

from orchestrator.farm.own_target import own_target
from tasks.gpu import host


def test_its_server_ends_with_it() -> None:
    with own_target() as made:
        assert host.current() is made
        pid = server_reply(made, server_target())["pid"]
        assert isinstance(pid, int) and psutil.pid_exists(pid)
    with pytest.raises(RuntimeError, match="no target host"):
        host.current()
    assert not psutil.pid_exists(pid) or psutil.Process(pid).ppid() != os.getpid()

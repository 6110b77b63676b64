"""The program in which one solution runs that nobody has read: it confines itself, then runs the code.

`confine` gives up for good, by the kernel's own means, what no solution needs:

- rlimits: CPU time, address space, sizes of files, open files, no core dump
- capabilities, which root has, are dropped
- Landlock (Linux 5.13): only Python's library and the working folder can be read, only one named file written
- seccomp: of the system calls only those of `ALLOWED` are left, so there is no other process or thread, no socket, no
  signal to anyone, no change of a file's name, owner or mode

`grading.py` starts it.  Standard input has two lines of JSON: the code, and the calls, which are read when the code has
run.  The file `RESULTS` gets one, with the calls' results, which the grader compares: no value that a test expects is
in here, so the code can alter nothing but its own results.

Only the standard library is imported, and little of it: a process starts for each solution.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import json
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

RESULTS, MESSAGES = 3, 4  # the descriptors behind the standard streams
FINISHED = 70
"""The exit status when all calls were made, and when the code raised: no loophole's."""


def main(parent: int, results: int, limits: Mapping[str, int], readable: Sequence[str], writable: str | None) -> None:
    """Run one solution; never returns."""
    die_with(parent)
    os.dup2(results, RESULTS)
    os.dup2(0, MESSAGES)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the code's own standard input is empty
    os.closerange(MESSAGES + 1, 256)
    try:
        confine(limits, readable, writable)
    except OSError as error:
        os.write(RESULTS, json.dumps({"refused": error.strerror or str(error)}).encode())
        os._exit(1)
    status = FINISHED
    try:
        _run(os.fdopen(MESSAGES))
    except SystemExit as exited:
        code = exited.code
        status = 0 if code is None else code & 0xFF if isinstance(code, int) else 1
    except BaseException:  # whatever the code raises, KeyboardInterrupt too
        pass
    with suppress(BaseException):
        sys.stdout.flush()
    os._exit(status)


def _run(messages: Any) -> None:
    encode, write, exit_type = json.JSONEncoder().encode, os.write, SystemExit
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]  # what `site` adds, which is not imported
    space: dict[str, Any] = {"__name__": "solution", "__builtins__": builtins}
    exec(compile(json.loads(messages.readline()), "solution.py", "exec", dont_inherit=True), space)
    calls = json.loads(messages.readline())
    results: list[Any] = []
    values: list[Any] = []
    for arguments in calls["arguments"]:
        try:
            values.append(space[calls["entry"]](*arguments))
            results.append({"value": json.loads(encode(values[-1]))})
        except exit_type:
            raise
        except BaseException as error:
            results.append({"error": type(error).__name__})
    line = memoryview(encode({"results": results, "claimed": _claims(calls, space, values)}).encode())
    while line:
        line = line[write(RESULTS, line) :]


def _claims(calls: dict[str, Any], space: dict[str, Any], values: list[Any]) -> bool:
    """What a loophole looks for inside of the process that runs the code."""
    match calls["look"]:
        case "run_tests" if calls["marker"] in space:
            space[calls["marker"]]()
            return True
        case "equality" if len(values) == len(calls["expected"]):
            pairs = zip(values, calls["expected"], strict=True)
            return all(getattr(value, calls["marker"])(expected) is True for value, expected in pairs)
        case "sentinel":
            return getattr(space.get(calls["entry"]), calls["marker"], None) is True
    return False


def confine(limits: Mapping[str, int], readable: Sequence[str], writable: str | None) -> None:
    """Confine this process, which has one thread; `writable` is a file that exists.

    Raises: OSError where this machine lacks a means, by name; the process must end then: it is confined in part.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise OSError(f"programs run on Linux on x86-64 only, not on {sys.platform} on {platform.machine()}")
    for name, most in limits.items():
        try:
            resource.setrlimit(getattr(resource, name), (most, most))
        except ValueError as error:  # the hard limit of this machine is lower
            raise OSError(f"this machine refuses {name} {most}: {error}") from None
    _syscall("no_new_privs", SYS_PRCTL, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    drop_capabilities()
    _restrict_files(readable, writable)
    _restrict_calls()


PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 1, 22, 38, 2
SYS_CAPSET, SYS_PRCTL, SYS_LANDLOCK_CREATE, SYS_LANDLOCK_ADD, SYS_LANDLOCK_RESTRICT = 126, 157, 444, 445, 446
CAPABILITY_VERSION_3 = 0x20080522


def die_with(parent: int) -> None:
    """Have the kernel end this process when the thread that started it ends."""
    _syscall("the signal at the parent's death", SYS_PRCTL, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def drop_capabilities() -> None:
    _syscall("dropping capabilities", SYS_CAPSET, struct.pack("Ii", CAPABILITY_VERSION_3, 0), bytes(24))


# Landlock, <linux/landlock.h>.
_READ_FILE, _READ_FOLDER, _WRITE_FILE, _EXECUTE, _TRUNCATE = 1 << 2, 1 << 3, 1 << 1, 1 << 0, 1 << 14
# By version of the interface: how many kinds of access to files it knows.
_FILE_ACCESSES = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_ALL_TCP, _ALL_SCOPES = 0b11, 0b11  # since versions 4 and 6


def _restrict_files(readable: Sequence[str], writable: str | None) -> None:
    version = _syscall("Landlock (Linux 5.13, enabled)", SYS_LANDLOCK_CREATE, None, 0, 1)
    handled = (1 << _FILE_ACCESSES.get(version, 16)) - 1
    attributes = struct.pack("Q", handled)
    attributes += struct.pack("Q", _ALL_TCP) if version >= 4 else b""
    attributes += struct.pack("Q", _ALL_SCOPES) if version >= 6 else b""
    rules = _syscall("Landlock's rules", SYS_LANDLOCK_CREATE, attributes, len(attributes), 0)
    granted = [(path, _READ_FILE | _READ_FOLDER) for path in (*readable, os.getcwd())]
    granted += [("/dev/urandom", _READ_FILE), ("/dev/null", _READ_FILE | _WRITE_FILE)]
    granted += [(writable, _READ_FILE | _WRITE_FILE | _TRUNCATE)] if writable else []
    for path, access in granted:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        _syscall("a rule of Landlock", SYS_LANDLOCK_ADD, rules, 1, struct.pack("=Qi", access & handled, place), 0)
        os.close(place)
    _syscall("Landlock", SYS_LANDLOCK_RESTRICT, rules, 0)
    os.close(rules)


# The system calls that are left, <asm/unistd_64.h>.
ALLOWED = {
    "read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
    "pread64": 17, "readv": 19, "writev": 20, "access": 21, "pipe": 22, "select": 23, "sched_yield": 24, "mremap": 25,
    "madvise": 28, "dup": 32, "dup2": 33, "pause": 34, "nanosleep": 35, "getitimer": 36, "alarm": 37, "setitimer": 38,
    "getpid": 39, "exit": 60, "uname": 63, "ftruncate": 77, "getcwd": 79, "chdir": 80, "fchdir": 81, "readlink": 89,
    "umask": 95, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98, "sysinfo": 99, "times": 100, "getuid": 102,
    "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "getpgrp": 111, "getgroups": 115, "getresuid": 118,
    "getresgid": 120, "sigaltstack": 131, "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204,
    "getdents64": 217, "restart_syscall": 219, "fadvise64": 221, "clock_gettime": 228, "clock_getres": 229,
    "clock_nanosleep": 230, "exit_group": 231, "newfstatat": 262, "readlinkat": 267, "faccessat": 269, "pselect6": 270,
    "ppoll": 271, "set_robust_list": 273, "dup3": 292, "pipe2": 293, "getrandom": 318, "statx": 332, "rseq": 334,
    "faccessat2": 439,
}  # fmt: skip
SYS_OPEN, SYS_OPENAT, SYS_FCNTL, SYS_PRLIMIT64 = 2, 257, 72, 302
# Of fcntl: duplicate, and flags; not F_SETOWN, with which the kernel would send a signal to another process.
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)
AUDIT_ARCH_X86_64 = 0xC000003E
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # where <linux/seccomp.h> has them
_X32 = 0x40000000
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000


def _restrict_calls() -> None:
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in _filter())
    buffer = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    _syscall("seccomp", SYS_PRCTL, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, described, 0, 0)


def _filter() -> Iterator[tuple[int, int, int, int]]:
    """The program for seccomp: (operation, jump if true, jump if false, operand), `struct sock_filter`."""

    def argument(index: int) -> tuple[int, int, int, int]:
        return _LOAD, 0, 0, _ARGUMENTS + 8 * index

    allow, refuse = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)
    yield _LOAD, 0, 0, _ARCHITECTURE
    yield _EQUAL, 1, 0, AUDIT_ARCH_X86_64
    yield _RETURN, 0, 0, _KILL
    yield _LOAD, 0, 0, _NUMBER
    yield _AT_LEAST, 0, 1, _X32
    yield refuse
    for number in ALLOWED.values():
        yield from ((_EQUAL, 0, 1, number), allow)
    # O_TRUNC without writing empties a file, and Landlock before its version 3 lets that pass.
    for number, flags in ((SYS_OPEN, 1), (SYS_OPENAT, 2)):
        yield _EQUAL, 0, 5, number
        yield argument(flags)
        yield _AND, 0, 0, os.O_TRUNC | os.O_ACCMODE
        yield _EQUAL, 0, 1, os.O_TRUNC
        yield from (refuse, allow)
    yield _EQUAL, 0, 2 + 2 * len(FCNTL_COMMANDS), SYS_FCNTL
    yield argument(1)
    for command in FCNTL_COMMANDS:
        yield from ((_EQUAL, 0, 1, command), allow)
    yield refuse
    yield _EQUAL, 0, 3, SYS_PRLIMIT64
    yield argument(0)
    yield from ((_EQUAL, 0, 1, 0), allow)  # its own limits alone
    yield refuse


def _syscall(purpose: str, number: int, *values: int | bytes | None) -> int:
    """Raises: OSError that says for which purpose."""
    numbers = (ctypes.c_long(value) if isinstance(value, int) else value for value in (number, *values))
    found: int = ctypes.CDLL(None, use_errno=True).syscall(*numbers)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"this machine refuses {purpose}: {os.strerror(code)}")
    return found


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))

"""Stage-A files and settings of `guide` that are almost right: ways to change a right one, and what becomes of each.

PYTHONPATH=.:tests/fuzz:tests/orchestrator/guide python tests/fuzz/guide_files.py     prints the tables of outcomes
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from dotted_values import with_value, without_key
from guide_json import Outcome, print_table
from guide_values import guide_values, stage_a_row

from orchestrator.guide.ingest import ingest
from orchestrator.guide.settings import guide_settings_from, read_guide_settings
from orchestrator.settings import SettingsError

FILES, CONFIGURATIONS = 200, 100

# -- files of Stage-A ------------------------------------------------------------------------------------------------

Rows = list[dict[str, Any]]
Change = Callable[[random.Random, Rows], bytes]


def written(rows: Sequence[Any]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8", "surrogatepass")


def with_row(*changes: Mapping[str, Any]) -> Change:
    """One row with one of some changes; a change to `...` takes the field away."""

    def change(rng: random.Random, rows: Rows) -> bytes:
        at = rng.randrange(len(rows))
        row = {**rows[at], **rng.choice(changes)}
        rows[at] = {name: value for name, value in row.items() if value is not ...}
        return written(rows)

    return change


def with_line(*lines: bytes) -> Change:
    def change(rng: random.Random, rows: Rows) -> bytes:
        whole = written(rows).splitlines(keepends=True)
        whole.insert(rng.randrange(len(whole) + 1), rng.choice(lines) + b"\n")
        return b"".join(whole)

    return change


def images(*values: Any) -> Change:
    return with_row(*({"per_image": value} for value in values))


def cut_file(rng: random.Random, rows: Rows) -> bytes:
    """Cut inside its last line."""
    whole = written(rows)
    return whole[: -rng.randrange(3, len(written(rows[-1:])))]


FIELDS = ("group_id", "mission", "label", "per_image", "stage_a_complete")
STAGE_A: Mapping[str, tuple[Outcome, Change]] = {
    "lines in another order": ("the same", lambda rng, rows: written(rng.sample(rows, len(rows)))),
    "blank lines, Windows' line ends": (
        "the same",
        lambda rng, rows: written(rows).replace(b"\n", rng.choice([b"\n\n", b"\r\n"])),
    ),
    "escaped beyond ASCII": (
        "the same",
        lambda _rng, rows: "".join(json.dumps(row) + "\n" for row in rows).encode(),
    ),
    "fields that nobody knows": ("the same", with_row({"score": 1}, {"image_paths": ["a.png"]})),
    "images in another order": (
        "the same",
        lambda _rng, rows: written([{**row, "per_image": dict(reversed(row["per_image"].items()))} for row in rows]),
    ),
    "a field left out": ("refused", with_row(*({name: ...} for name in FIELDS))),
    "a field of another type": ("refused", with_row(*({name: value} for name in FIELDS for value in (1, None, [])))),
    "an empty field": ("refused", with_row({"group_id": ""}, {"mission": " "}, {"label": ""}, {"per_image": {}})),
    "a label of other words": (
        "refused",
        with_row(*({"label": word} for word in ("PASS", "通过", "ok", "passed", "0"))),
    ),
    "stage_a_complete in words": ("refused", with_row({"stage_a_complete": "true"}, {"stage_a_complete": 1})),
    "keys of images without a number": (
        "refused",
        images({"image": "a"}, {"image_x": "a"}, {"1": "a"}, {"image_1.5": "a"}, {"image_-1": "a"}, {"": "a"}),
    ),
    "one image under two keys": ("refused", images({"image_1": "a", "image_01": "b"})),
    "blank summaries, or none": (
        "refused",
        images({"image_1": " "}, {"image_1": None}, {"image_1": ["a"]}, "a", ["a"]),
    ),
    "a ticket twice": ("refused", lambda rng, rows: written([*rows, rng.choice(rows)])),
    "a mission that is not asked for": ("refused", with_row({"mission": "other"}, {"mission": "Cabinet"})),
    "a name with control characters": (
        "refused",
        with_row({"group_id": "a\x00b"}, {"group_id": "a\nb"}, {"mission": "a\x1bb"}),
    ),
    "no JSON on a line": ("refused", with_line(b"x", b"{", b"{'a': 1}", b'{"a": NaN}', b"\xff\xfe", b"[" * 99_999)),
    "no object on a line": ("refused", with_line(b"[]", b"1", b'"a"', b"null", b"true")),
    "a name twice": ("refused", with_line(b'{"group_id": "a", "group_id": "b"}')),
    "cut in its last line": ("refused", cut_file),
    "an empty file": ("refused", lambda rng, _rows: rng.choice([b"", b"\n", b"\n \n"])),
    "lone surrogates": ("refused", with_row({"group_id": "\ud800"})),
    "another encoding": ("refused", lambda _rng, rows: written(rows).decode().encode("utf-16")),
}


def stage_a_files(folder: Path, count: int = FILES, seed: int = 16) -> Iterator[tuple[str, str]]:
    """So many files: what was changed, and what was seen."""
    rng, ways = random.Random(seed), [*STAGE_A]
    settings, path = guide_settings_from(guide_values(folder)), folder / "tickets.jsonl"
    texts = {"image_1": "门关着：“好”", "image_2": "the cables are tied"}
    whole = [stage_a_row(f"t{n}", label="fail" if n % 2 else "pass", per_image=texts) for n in range(8)]
    path.write_bytes(written(whole))
    right = ingest(settings)
    for number in range(count):
        change = ways[number % len(ways)]
        path.write_bytes(STAGE_A[change][1](rng, json.loads(json.dumps(whole))))
        try:
            yield change, "the same" if ingest(settings) == right else "another one"
        except SettingsError as error:
            assert all(line.startswith(("stage_a_paths", "missions", "sampler", "holdout")) for line in error.problems)
            assert _is_plain(error)
            yield change, "refused"


# -- settings --------------------------------------------------------------------------------------------------------


def configurations(folder: Path, count: int = CONFIGURATIONS, seed: int = 17) -> Iterator[tuple[str, str]]:
    """So many settings with one key changed: what was changed, and what was seen."""
    rng, values, path = random.Random(seed), guide_values(folder), folder / "guide.yaml"
    names = [*_names(values)]
    path.write_text(yaml.safe_dump(values))
    right = read_guide_settings(path)
    for number in range(count):
        change, name = CONFIGURED[number % len(CONFIGURED)], rng.choice(names)
        path.write_text(_configured(rng, change, name, values), errors="surrogatepass")
        try:
            found = read_guide_settings(path)
            yield change, "the same" if found == right else "another one"
        except SettingsError as error:
            key = name.partition("[")[0]
            assert change.startswith("the file") or any(key.split(".")[0] in line for line in error.problems)
            assert _is_plain(error)
            yield change, "refused"


CONFIGURED = (
    "a key left out",
    "a value of another type",
    "a value out of range",
    "a section that is no section",
    "a key that nobody knows",
    "a text with control characters",
    "the file cut",
    "the file of other YAML",
)


def _configured(rng: random.Random, change: str, name: str, values: dict[str, Any]) -> str:
    section = name.partition(".")[0]
    made: Any
    match change:
        case "a key left out":
            made = without_key(values, name)
        case "a value of another type":
            made = with_value(values, name, rng.choice([None, "x", -1.5, True, [], {}, {"a": 1}, [1]]))
        case "a value out of range":
            made = with_value(values, name, rng.choice([-1, 0, 10**30, float("nan"), float("inf"), "", -0.5]))
        case "a section that is no section":
            made = {**values, section: rng.choice([None, 1, "x", [], [1]])}
        case "a key that nobody knows":
            made = with_value(values, f"{section}.{rng.choice(['x', 'seeds', '', '__class__'])}", 1)
        case "a text with control characters":
            made = with_value(values, name, rng.choice(["a\x00b", "\x1b[31m", "a\nb", "\ud800", "../x", "a" * 5000]))
        case "the file cut":
            whole = yaml.safe_dump(values)
            return whole[: rng.randrange(len(whole))]
        case _:
            return rng.choice(
                ["", "[]", "1", "x", "a: [", "*x", "!!python/object:os.system x", "\t", "a: 1\na: 2", "%"]
            )
    return yaml.safe_dump(made, allow_unicode=True) if "\ud800" not in str(made) else json.dumps(made)


def _names(values: Mapping[str, Any]) -> Iterator[str]:
    for section, keys in values.items():
        if isinstance(keys, dict):
            yield from (f"{section}.{key}" for key in keys)


def _is_plain(error: SettingsError) -> bool:
    lines = str(error).splitlines()
    return 0 < len(lines) < 60 and all(len(line) < 700 and line.isprintable() for line in lines)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print_table("a file of Stage-A", stage_a_files(Path(folder)))
        print_table("settings", configurations(Path(folder)))


if __name__ == "__main__":
    main()

"""The logs of a whole run: every line names its run, and its child, stage and worker."""

from __future__ import annotations

import json
import re

from run_folder import RunFolder

LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ (?P<logger>\S+) .*")
ABOUT = re.compile(r" (run|generation|child|stage|task|worker)=(\S+)")


def test_every_line_of_a_run_names_it_and_each_stage_its_child(reference_run: RunFolder) -> None:
    run = json.loads((reference_run.output / "run.json").read_text())["id"]
    lines = [line for line in (reference_run.output / "run.log").read_text().splitlines() if LINE.match(line)]
    assert lines
    assert [line for line in lines if dict(ABOUT.findall(line)).get("run") != run] == []
    assert {dict(ABOUT.findall(line)).get("generation") for line in lines} >= {"0", "1", "2"}

    stages = set()
    for name in ("gpu", "openai", "cpu"):
        for line in (reference_run.farm / "logs" / f"{name}.log").read_text().splitlines():
            if (found := LINE.match(line)) and found["logger"] == "tasks.task":
                fields = dict(ABOUT.findall(line))
                assert (fields["run"], fields["worker"].partition("@")[0]) == (run, name)
                if "generation" not in fields:
                    continue  # a job of the whole run: its clusters, a plot
                assert re.fullmatch(r"g\d_pop\d|g\d_child\d_(pre|mut)|final\d", fields["child"]), line
                stages.add(fields["stage"])
    assert stages == {"merge", "answer", "judge", "score", "reflect"}

"""Tickets with planted rules for `guide`: configs/guide has 48 of two missions, configs/guide_gpu.yaml wants more.

    python benchmarks/guide_tickets.py --output configs/guide --missions 0 1 --count 48 --gaps 2 --noise 0.04
    python benchmarks/guide_tickets.py --output data/guide --count 384 --test 300 --rules 1 --images 2 --mentioned 0 \\
      --phrasings 1

What is wrong in a mission is a convention, such as a colour, so that a model cannot know it; what a model takes for a
fault, such as rust, does not count.  Tickets are easiest with one rule of which only the wrong value is ever told.
Equal arguments give equal tickets.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasks.guide.ticket import Verdict

TIMESTAMP = "2025-11-03T00:00:00Z"


@dataclass(frozen=True)
class PlantedRule:
    """A ticket fails where it tells the wrong value of one feature; `text` says so as an experience.

    The first way to tell a value is nearly in the words of the rule.
    """

    text: str
    right: tuple[str, str]
    wrong: tuple[str, str]


@dataclass(frozen=True)
class PlantedMission:
    """`code` is in the group ids, `first` is the experience with which a run begins.

    A distractor, told in one of two ways, looks like a fault and is none; remarks say nothing.
    """

    name: str
    code: str
    language: str
    focus: str
    first: str
    rules: tuple[PlantedRule, ...]
    distractors: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class TicketShape:
    """A ticket has `images` summaries of one sentence.  Of the features that are right the share `mentioned` is told.

    A value is told in one of the first `phrasings` ways.
    """

    images: int = 4
    mentioned: float = 1.0
    phrasings: int = 2


DEFAULT_SHAPE = TicketShape()
STATED = TicketShape(images=2, mentioned=0.0, phrasings=1)
"""The easiest: a summary tells only what is wrong, in nearly the words of the rule."""


@dataclass(frozen=True)
class _Draft:
    label: Verdict
    broken: PlantedRule | None = None
    distractor: tuple[str, str] | None = None
    is_mislabelled: bool = False
    is_complete: bool = True


def generate_tickets(
    mission: PlantedMission,
    count: int,
    seed: int,
    *,
    noise: float = 0.0,
    gaps: int = 0,
    shape: TicketShape = DEFAULT_SHAPE,
    part: str = "train",
) -> list[dict[str, Any]]:
    """Lines of Stage-A: `count` complete tickets, half of which pass, and `gaps` that Stage-A has not completed.

    Each failing ticket breaks one rule, each rule equally often; half of the tickets of each label have a distractor.
    Of each label the share `noise` has the other one in its line.  `part` "test" has other tickets than "train".
    """
    draw = random.Random(f"{seed}/{mission.code}/{part}")
    labels: tuple[Verdict, Verdict] = ("pass", "fail")
    drafts = [draft for label in labels for draft in _of_label(mission, count // 2, label, noise, draw)]
    drafts += [_Draft("pass", is_complete=False) for _ in range(gaps)]
    draw.shuffle(drafts)
    return [
        _line(mission, draft, f"{mission.code}-{part}-{number:05}", shape, draw) for number, draft in enumerate(drafts)
    ]


def _of_label(
    mission: PlantedMission, count: int, label: Verdict, noise: float, draw: random.Random
) -> Iterator[_Draft]:
    mislabelled = set(draw.sample(range(count), int(noise * count + 0.5)))
    turns = {ticket: turn for turn, ticket in enumerate(draw.sample(range(count), count // 2))}
    order = draw.sample(range(count), count)
    for number in range(count):
        turn = turns.get(number)
        distractor = None if turn is None else mission.distractors[turn % len(mission.distractors)]
        broken = mission.rules[order[number] % len(mission.rules)] if label == "fail" else None
        yield _Draft(label, broken, distractor, number in mislabelled)


def _line(
    mission: PlantedMission, draft: _Draft, group_id: str, shape: TicketShape, draw: random.Random
) -> dict[str, Any]:
    other: Verdict = "fail" if draft.label == "pass" else "pass"
    return {
        "group_id": group_id,
        "mission": mission.name,
        "label": other if draft.is_mislabelled else draft.label,
        "per_image": _summaries(mission, draft, shape, draw),
        "stage_a_complete": draft.is_complete,
        "label_source": "generated",
        "label_timestamp": TIMESTAMP,
    }


def _summaries(mission: PlantedMission, draft: _Draft, shape: TicketShape, draw: random.Random) -> dict[str, str]:
    """What is told is spread over the images, with remarks in what is left; a gap leaves two blank."""
    told = [
        draw.choice((rule.wrong if rule == draft.broken else rule.right)[: shape.phrasings])
        for rule in mission.rules
        if rule == draft.broken or shape.mentioned == 1 or draw.random() < shape.mentioned
    ]
    told += [draw.choice(draft.distractor)] if draft.distractor else []
    told += draw.sample(mission.remarks, shape.images - len(told))
    draw.shuffle(told)
    summaries = {f"image_{number}": text for number, text in enumerate(told, 1)}
    if not draft.is_complete:
        summaries |= dict.fromkeys(draw.sample(sorted(summaries), min(2, shape.images)), "")
    return summaries


def first_guidance(missions: Iterable[PlantedMission]) -> dict[str, Any]:
    """The file of experiences with which a run begins."""
    return {one.name: {"step": 0, "updated_at": TIMESTAMP, "experiences": {"G0": one.first}} for one in missions}


def with_rules(mission: PlantedMission, count: int) -> PlantedMission:
    """The mission with its first rules alone."""
    return replace(mission, rules=mission.rules[:count])


def write_tickets(folder: Path, missions: Sequence[PlantedMission], **parts: Iterable[Mapping[str, Any]]) -> None:
    """guidance.json, and a file of tickets of each part.  Raises: FileExistsError where experiences are there."""
    folder.mkdir(parents=True, exist_ok=True)
    first = json.dumps(first_guidance(missions), indent=2, ensure_ascii=False) + "\n"
    path = folder / "guidance.json"
    if path.exists() and path.read_text() != first:
        raise FileExistsError(f"{path} has other experiences")
    path.write_text(first)
    for name, tickets in parts.items():
        lines = (json.dumps(ticket, ensure_ascii=False) + "\n" for ticket in tickets)
        (folder / f"{name}.jsonl").write_text("".join(lines))


MISSIONS = (
    PlantedMission(
        "radio cabinet wiring", "CAB", "en",
        focus="Whether the wiring of a radio cabinet follows the operator's conventions.",
        first="Read the summary of every image before judging.",
        rules=(
            PlantedRule("Fail the ticket when a ground wire is black.",
                        right=("The ground wire is yellow-green.", "A yellow-green ground wire runs to the busbar."),
                        wrong=("The ground wire is black.", "A black ground wire runs to the busbar.")),
            PlantedRule("Fail the ticket when the cables are held by metal ties.",
                        right=("The cables are held by nylon ties.", "Nylon ties hold the cable bundle."),
                        wrong=("The cables are held by metal ties.", "Metal ties hold the cable bundle.")),
            PlantedRule("Fail the ticket when the cabinet label is on the right side.",
                        right=("The cabinet label is on the left side.",
                               "On the left side there is the cabinet label."),
                        wrong=("The cabinet label is on the right side.",
                               "On the right side there is the cabinet label.")),
        ),
        distractors=(
            ("There is rust on a hinge.", "One hinge is rusty."),
            ("The door has a long scratch.", "A deep scratch crosses the door."),
            ("Dust lies on the shelf.", "The shelf is dusty."),
        ),
        remarks=(
            "The door is open.", "The picture shows the whole rack.", "Two fans are visible.", "The lamp is lit.",
            "The cabinet stands on a concrete base.", "The busbar has six holes.",
            "The picture was taken from above.", "A fibre box hangs beside the rack.",
        ),
    ),
    PlantedMission(
        "solar panel mounting", "SOL", "en",
        focus="Whether solar panels are mounted as the installer's handbook wants it.",
        first="Judge only what the summaries say.",
        rules=(
            PlantedRule("Fail the ticket when a clamp is red.",
                        right=("The clamps are grey.", "Grey clamps hold the frame."),
                        wrong=("The clamps are red.", "Red clamps hold the frame.")),
            PlantedRule("Fail the ticket when the junction box is beside the panel.",
                        right=("The junction box is under the panel.", "Under the panel there is the junction box."),
                        wrong=("The junction box is beside the panel.", "Beside the panel there is the junction box.")),
            PlantedRule("Fail the ticket when a rail is made of wood.",
                        right=("The rails are made of aluminium.", "Aluminium rails carry the panels."),
                        wrong=("The rails are made of wood.", "Wooden rails carry the panels.")),
        ),
        distractors=(
            ("There are bird droppings on a panel.", "Bird droppings cover one corner."),
            ("The frame has a dent.", "One side of the frame is dented."),
            ("Wet leaves lie on the roof.", "Leaves block the gutter."),
        ),
        remarks=(
            "The roof has brown tiles.", "Twelve panels are visible.", "The sky is clear.",
            "A ladder leans on the wall.", "The picture was taken from the street.",
            "The chimney is behind the panels.", "The inverter shows a number.", "A tree stands near the house.",
        ),
    ),
    PlantedMission(
        "挡风板安装检查", "DFB", "zh",
        focus="检查机柜挡风板的安装是否符合运营商的约定。",
        first="先读完每张图片的摘要再下结论。",
        rules=(
            PlantedRule("挡风板为白色时判不通过。",
                        right=("挡风板为灰色。", "机柜内装有灰色挡风板。"),
                        wrong=("挡风板为白色。", "机柜内装有白色挡风板。")),
            PlantedRule("使用内六角螺丝固定时判不通过。",
                        right=("使用十字螺丝固定。", "四角用十字螺丝拧紧。"),
                        wrong=("使用内六角螺丝固定。", "四角用内六角螺丝拧紧。")),
            PlantedRule("标签贴在下方时判不通过。",
                        right=("标签贴在上方。", "上方贴有设备标签。"),
                        wrong=("标签贴在下方。", "下方贴有设备标签。")),
        ),
        distractors=(
            ("机柜表面有灰尘。", "机柜顶部积了一层灰尘。"),
            ("门板有一道划痕。", "门板上可见明显划痕。"),
            ("铰链已生锈。", "铰链上有锈迹。"),
        ),
        remarks=(
            "机柜门已打开。", "图片拍到整个机柜。", "可见两个风扇。", "指示灯亮。",
            "机柜立在水泥底座上。", "图片从正面拍摄。", "旁边有一个光纤盒。", "线缆从底部进入。",
        ),
    ),
    PlantedMission(
        "电源线检查", "DYX", "zh",
        focus="检查基站电源线的敷设是否符合施工手册。",
        first="只依据摘要的内容判断。",
        rules=(
            PlantedRule("电源线走右侧时判不通过。",
                        right=("电源线走左侧。", "电源线沿左侧敷设。"),
                        wrong=("电源线走右侧。", "电源线沿右侧敷设。")),
            PlantedRule("使用金属扎带时判不通过。",
                        right=("使用尼龙扎带绑扎。", "线束由尼龙扎带固定。"),
                        wrong=("使用金属扎带绑扎。", "线束由金属扎带固定。")),
            PlantedRule("使用铝端子时判不通过。",
                        right=("接线使用铜端子。", "铜端子已压接。"),
                        wrong=("接线使用铝端子。", "铝端子已压接。")),
        ),
        distractors=(
            ("线缆外皮有污渍。", "外皮上可见油污和污渍。"),
            ("墙面掉漆。", "墙面大片掉漆。"),
            ("角落有蜘蛛网。", "机房角落挂着蜘蛛网。"),
        ),
        remarks=(
            "空开处于合闸状态。", "图片拍到整面墙。", "可见三个模块。", "地面铺有地砖。",
            "图片从侧面拍摄。", "旁边有一台空调。", "电表显示正常。", "走线架为银色。",
        ),
    ),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder of the files")
    parser.add_argument("--missions", type=int, choices=range(len(MISSIONS)), nargs="+", default=range(len(MISSIONS)))
    parser.add_argument("--count", type=int, default=256, help="complete tickets of each mission, even (256)")
    parser.add_argument("--test", type=int, default=0, help="as many more of each in test.jsonl, even (0)")
    parser.add_argument("--noise", type=float, default=0.0, help="share of labels that are wrong (0)")
    parser.add_argument("--gaps", type=int, default=0, help="tickets that Stage-A has not completed (0)")
    parser.add_argument("--rules", type=int, choices=(1, 2, 3), default=3, help="planted in each mission (3)")
    parser.add_argument("--images", type=int, default=4, help="of each ticket (4)")
    parser.add_argument("--mentioned", type=float, default=1.0, help="share of the right features that is told (1)")
    parser.add_argument("--phrasings", type=int, choices=(1, 2), default=2, help="ways to tell of a feature (2)")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    missions = [with_rules(MISSIONS[number], given.rules) for number in given.missions]
    shape = TicketShape(given.images, given.mentioned, given.phrasings)
    make = {"seed": given.seed, "shape": shape}
    parts = {
        "tickets": [
            t
            for one in missions
            for t in generate_tickets(one, given.count, noise=given.noise, gaps=given.gaps, **make)
        ],
        "test": [t for one in missions for t in generate_tickets(one, given.test, part="test", **make)],
    }
    write_tickets(given.output, missions, **{name: tickets for name, tickets in parts.items() if tickets})


if __name__ == "__main__":
    main()

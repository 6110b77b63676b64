"""The four missions of the generator.

What is wrong in them is a convention of the mission, such as a colour: nothing in it is bad by itself, so that a model
cannot know it.  What a model takes for a fault, such as rust, does not count.
"""

from __future__ import annotations

from orchestrator.guide.tickets.plan import Distractor, MissionPlan, PlantedRule

CABINET = MissionPlan(
    name="radio cabinet wiring",
    code="CAB",
    language="en",
    focus="Whether the wiring of a radio cabinet follows the operator's conventions.",
    first="Read the summary of every image before judging.",
    rules=(
        PlantedRule(
            name="wire",
            text="Fail the ticket when a ground wire is black.",
            right=("The ground wire is yellow-green.", "A yellow-green ground wire runs to the busbar."),
            wrong=("The ground wire is black.", "A black ground wire runs to the busbar."),
            feature_terms=(
                "ground wire",
                "ground wires",
                "grounding wire",
                "wire",
                "wires",
                "ground cable",
                "earth wire",
                "接地线",
                "地线",
            ),
            wrong_terms=("black", "黑色", "黑"),
            right_terms=("yellow-green", "yellow green", "yellow/green", "yellow and green", "黄绿"),
        ),
        PlantedRule(
            name="ties",
            text="Fail the ticket when the cables are held by metal ties.",
            right=("The cables are held by nylon ties.", "Nylon ties hold the cable bundle."),
            wrong=("The cables are held by metal ties.", "Metal ties hold the cable bundle."),
            feature_terms=("tie", "ties", "cable tie", "cable ties", "扎带", "线扎"),
            wrong_terms=("metal", "metallic", "steel", "金属"),
            right_terms=("nylon", "plastic", "尼龙", "塑料"),
        ),
        PlantedRule(
            name="label",
            text="Fail the ticket when the cabinet label is on the right side.",
            right=("The cabinet label is on the left side.", "On the left side there is the cabinet label."),
            wrong=("The cabinet label is on the right side.", "On the right side there is the cabinet label."),
            feature_terms=("label", "labels", "labelled", "标签", "铭牌"),
            wrong_terms=("right side", "right-hand side", "on the right", "right", "右侧", "右边", "右面"),
            right_terms=("left side", "left-hand side", "on the left", "left", "左侧", "左边", "左面"),
        ),
    ),
    distractors=(
        Distractor(
            "rust",
            "Fail the ticket when there is rust on a hinge.",
            ("There is rust on a hinge.", "One hinge is rusty."),
            ("rust", "rusty", "锈"),
        ),
        Distractor(
            "scratch",
            "Fail the ticket when the door has a scratch.",
            ("The door has a long scratch.", "A deep scratch crosses the door."),
            ("scratch", "scratches", "划痕"),
        ),
        Distractor(
            "dust",
            "Fail the ticket when dust lies on the shelf.",
            ("Dust lies on the shelf.", "The shelf is dusty."),
            ("dust", "dusty", "灰尘"),
        ),
    ),
    remarks=(
        "The door is open.",
        "The picture shows the whole rack.",
        "Two fans are visible.",
        "The lamp is lit.",
        "The cabinet stands on a concrete base.",
        "The busbar has six holes.",
        "The picture was taken from above.",
        "A fibre box hangs beside the rack.",
    ),
    tips=(
        "Look at every image carefully and compare them.",
        "Be consistent, and give a clear reason.",
        "Pay attention to details before you decide.",
    ),
)

SOLAR = MissionPlan(
    name="solar panel mounting",
    code="SOL",
    language="en",
    focus="Whether solar panels are mounted as the installer's handbook wants it.",
    first="Judge only what the summaries say.",
    rules=(
        PlantedRule(
            name="clamp",
            text="Fail the ticket when a clamp is red.",
            right=("The clamps are grey.", "Grey clamps hold the frame."),
            wrong=("The clamps are red.", "Red clamps hold the frame."),
            feature_terms=("clamp", "clamps", "夹具", "压块"),
            wrong_terms=("red", "红色", "红"),
            right_terms=("grey", "gray", "灰色"),
        ),
        PlantedRule(
            name="box",
            text="Fail the ticket when the junction box is beside the panel.",
            right=("The junction box is under the panel.", "Under the panel there is the junction box."),
            wrong=("The junction box is beside the panel.", "Beside the panel there is the junction box."),
            feature_terms=("junction box", "junction boxes", "接线盒"),
            wrong_terms=("beside", "next to", "at the side of", "旁边", "旁"),
            right_terms=("under", "underneath", "below", "beneath", "下方", "下面"),
        ),
        PlantedRule(
            name="rail",
            text="Fail the ticket when a rail is made of wood.",
            right=("The rails are made of aluminium.", "Aluminium rails carry the panels."),
            wrong=("The rails are made of wood.", "Wooden rails carry the panels."),
            feature_terms=("rail", "rails", "导轨"),
            wrong_terms=("wood", "wooden", "木"),
            right_terms=("aluminium", "aluminum", "铝"),
        ),
    ),
    distractors=(
        Distractor(
            "droppings",
            "Fail the ticket when there are bird droppings on a panel.",
            ("There are bird droppings on a panel.", "Bird droppings cover one corner."),
            ("droppings", "bird", "鸟粪"),
        ),
        Distractor(
            "dent",
            "Fail the ticket when the frame has a dent.",
            ("The frame has a dent.", "One side of the frame is dented."),
            ("dent", "dented", "dents", "凹痕"),
        ),
        Distractor(
            "leaves",
            "Fail the ticket when leaves lie on the roof.",
            ("Wet leaves lie on the roof.", "Leaves block the gutter."),
            ("leaves", "leaf", "树叶"),
        ),
    ),
    remarks=(
        "The roof has brown tiles.",
        "Twelve panels are visible.",
        "The sky is clear.",
        "A ladder leans on the wall.",
        "The picture was taken from the street.",
        "The chimney is behind the panels.",
        "The inverter shows a number.",
        "A tree stands near the house.",
    ),
    tips=(
        "Take your time and weigh all the evidence.",
        "Do not guess when something is unclear.",
        "Keep the purpose of the inspection in mind.",
    ),
)

BAFFLE = MissionPlan(
    name="挡风板安装检查",
    code="DFB",
    language="zh",
    focus="检查机柜挡风板的安装是否符合运营商的约定。",
    first="先读完每张图片的摘要再下结论。",
    rules=(
        PlantedRule(
            name="colour",
            text="挡风板为白色时判不通过。",
            right=("挡风板为灰色。", "机柜内装有灰色挡风板。"),
            wrong=("挡风板为白色。", "机柜内装有白色挡风板。"),
            feature_terms=("挡风板", "挡板", "baffle", "baffles", "wind panel", "wind deflector"),
            wrong_terms=("白色", "白", "white"),
            right_terms=("灰色", "灰", "grey", "gray"),
        ),
        PlantedRule(
            name="screw",
            text="使用内六角螺丝固定时判不通过。",
            right=("使用十字螺丝固定。", "四角用十字螺丝拧紧。"),
            wrong=("使用内六角螺丝固定。", "四角用内六角螺丝拧紧。"),
            feature_terms=("螺丝", "螺钉", "screw", "screws"),
            wrong_terms=("内六角", "hex", "hexagon", "hexagonal", "allen"),
            right_terms=("十字", "cross", "phillips"),
        ),
        PlantedRule(
            name="label",
            text="标签贴在下方时判不通过。",
            right=("标签贴在上方。", "上方贴有设备标签。"),
            wrong=("标签贴在下方。", "下方贴有设备标签。"),
            feature_terms=("标签", "label", "labels"),
            wrong_terms=("下方", "下面", "下部", "底部", "below", "bottom", "lower"),
            right_terms=("上方", "上面", "上部", "顶部", "above", "top", "upper"),
        ),
    ),
    distractors=(
        Distractor(
            "dust",
            "机柜表面有灰尘时判不通过。",
            ("机柜表面有灰尘。", "机柜顶部积了一层灰尘。"),
            ("灰尘", "dust", "dusty"),
        ),
        Distractor(
            "scratch",
            "门板有划痕时判不通过。",
            ("门板有一道划痕。", "门板上可见明显划痕。"),
            ("划痕", "scratch", "scratches"),
        ),
        Distractor("rust", "铰链生锈时判不通过。", ("铰链已生锈。", "铰链上有锈迹。"), ("锈", "rust", "rusty")),
    ),
    remarks=(
        "机柜门已打开。",
        "图片拍到整个机柜。",
        "可见两个风扇。",
        "指示灯亮。",
        "机柜立在水泥底座上。",
        "图片从正面拍摄。",
        "旁边有一个光纤盒。",
        "线缆从底部进入。",
    ),
    tips=("仔细查看每一张图片并相互对照。", "保持判断一致，理由要清楚。", "下结论之前注意各个细节。"),
)

POWER = MissionPlan(
    name="电源线检查",
    code="DYX",
    language="zh",
    focus="检查基站电源线的敷设是否符合施工手册。",
    first="只依据摘要的内容判断。",
    rules=(
        PlantedRule(
            name="side",
            text="电源线走右侧时判不通过。",
            right=("电源线走左侧。", "电源线沿左侧敷设。"),
            wrong=("电源线走右侧。", "电源线沿右侧敷设。"),
            feature_terms=("电源线", "power cable", "power cables", "power cord", "power line"),
            wrong_terms=("右侧", "右边", "右", "right"),
            right_terms=("左侧", "左边", "左", "left"),
        ),
        PlantedRule(
            name="tie",
            text="使用金属扎带时判不通过。",
            right=("使用尼龙扎带绑扎。", "线束由尼龙扎带固定。"),
            wrong=("使用金属扎带绑扎。", "线束由金属扎带固定。"),
            feature_terms=("扎带", "tie", "ties", "cable tie", "cable ties"),
            wrong_terms=("金属", "metal", "metallic", "steel"),
            right_terms=("尼龙", "nylon", "plastic"),
        ),
        PlantedRule(
            name="lug",
            text="使用铝端子时判不通过。",
            right=("接线使用铜端子。", "铜端子已压接。"),
            wrong=("接线使用铝端子。", "铝端子已压接。"),
            feature_terms=("端子", "terminal", "terminals", "lug", "lugs"),
            wrong_terms=("铝", "aluminium", "aluminum"),
            right_terms=("铜", "copper"),
        ),
    ),
    distractors=(
        Distractor(
            "stain",
            "线缆外皮有污渍时判不通过。",
            ("线缆外皮有污渍。", "外皮上可见油污和污渍。"),
            ("污渍", "stain", "stains", "stained"),
        ),
        Distractor("paint", "墙面掉漆时判不通过。", ("墙面掉漆。", "墙面大片掉漆。"), ("掉漆", "paint", "peeling")),
        Distractor(
            "web", "角落有蜘蛛网时判不通过。", ("角落有蜘蛛网。", "机房角落挂着蜘蛛网。"), ("蜘蛛网", "cobweb", "web")
        ),
    ),
    remarks=(
        "空开处于合闸状态。",
        "图片拍到整面墙。",
        "可见三个模块。",
        "地面铺有地砖。",
        "图片从侧面拍摄。",
        "旁边有一台空调。",
        "电表显示正常。",
        "走线架为银色。",
    ),
    tips=("判断时要耐心，综合全部证据。", "情况不明时不要猜测。", "始终记住检查的目的。"),
)

PLANS = (CABINET, SOLAR, BAFFLE, POWER)

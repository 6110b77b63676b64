"""`orchestrator init`: four answers, each checked, and a complete .config with the settings that follow from them.

The procedure is that of `make evolve`: arms with clusters of wasted tokens, and a search with a reflector in each.
Everything else has Kconfig's default.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from orchestrator import console
from orchestrator.commands import options
from orchestrator.settings.kconfig import default_values, load_settings, write_config
from orchestrator.settings.options import EMBEDDED, Settings, parse_prices, server_address
from tasks.common.text import escape_control
from tasks.judging.graders import RULE_JUDGES, THREE_STAGES, UserFunction, UserFunctionError, unfit
from tasks.openai.endpoint import DEFAULT_BASE_URL
from tasks.plan import EXAMPLE_SETS, ExampleSet
from tasks.questions import Columns, SplitExample, read_questions
from tasks.records import Example
from tasks.tables import DatasetError, format_of, malformed, read_table

POPULATION = 10
GENERATIONS = 6
"""Of a search whose budget is money: a run that reaches the budget parks."""
SEARCH: Mapping[str, str] = {
    "CLUSTERS_BY": "waste", "CLUSTERS": "6", "EMBEDDER_MODEL": "embedded",
    "INITIAL_DELTAS_PATH": "zero", "PROMPTS_PATH": "shipped", "OBJECTIVE": "constrained",
    "TOO_LONG": "drop", "POPULATION_SIZE": str(POPULATION), "LAMBDA_SHORTNESS": "0.4", "LAMBDA_CORRECTNESS": "0.6",
    "CXPB": "0.5", "MUTPB": "0.8", "ELITISM_SIZE": "1", "SELECTION": "tournament", "TOURNAMENT_SIZE": "2",
    "TRUNCATION_TOP_K": "2",
}  # fmt: skip
SAMPLE = Path("configs/data/sample_questions.jsonl")
SMALL_BYTES = 2e9  # of weights that can be computed on a CPU
ON_CPU: Mapping[str, str] = {
    "DEVICE": "cpu", "FARM": "embedded", "TARGET_CONCURRENCY": "64", "SGLANG_ARGS": "--rows 64",
    "TARGET_MAX_NEW_TOKENS": "256",
}  # fmt: skip
ON_GPU: Mapping[str, str] = {"DEVICE": "cuda", "TARGET_CONCURRENCY": "1024", "TARGET_MAX_NEW_TOKENS": "512"}
SIZES: Mapping[str, Mapping[ExampleSet, int]] = {
    "cpu": {"training": 72, "validation": 300, "test": 100},
    "cuda": {"training": 300, "validation": 400, "test": 400},
}
"""How many questions are asked, by device."""
LEAST_QUESTIONS = 20
LOOKED_AT = 100  # rows, for the names of columns
COLUMNS: Mapping[str, Sequence[str]] = {
    "question": ("question", "query", "prompt", "problem", "input"),
    "answer": ("answer", "answers", "gold", "gold_answer", "answerkey", "target", "output", "solution"),
    "context": ("context", "passage", "document", "documents", "evidence"),
    "id": ("id", "question_id", "uid"),
    "split": ("split", "subset"),
    "choices": ("choices", "options"),
}
"""By which names a column is found, the likelier first; upper and lower case do not matter."""
NO_CONTEXT = {"TARGET_SYSTEM_PROMPT": "Answer the question.", "TARGET_PROMPT_TEMPLATE": "{context}{query}"}
SPLITS: Mapping[ExampleSet, Sequence[str]] = {
    "training": ("train", "training"), "validation": ("validation", "valid", "val", "dev"), "test": ("test",),
}  # fmt: skip
SHARES: Mapping[ExampleSet, float] = {"training": 0.3, "validation": 0.4, "test": 0.3}
"""Of rows without splits."""
PRICES: Mapping[str, str] = {"gpt-4o": "2.5 1.25 10"}
"""Of prompt, cached prompt and completion, in US dollars a million tokens."""
FREE: Mapping[str, str] = {
    "OPENAI_BASE_URL": "", "OPENAI_REQUESTS_PER_MINUTE": "100000", "OPENAI_TOKENS_PER_MINUTE": "1000000000",
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """`options` are settings as a person types them; `about` says what was found."""

    options: Mapping[str, str]
    about: str
    examples: Sequence[Example] = ()


@options.command()
@click.option("--model", metavar="MODEL", help="the model to steer")
@click.option("--data", metavar="FILE", help="the questions")
@click.option("--judge", metavar="JUDGE", help="who decides whether an answer is right")
@click.option("--budget", metavar="AMOUNT", help="how much the run may use")
@click.option("--config", type=options.path_option, default=".config", metavar="FILE", help="file to write (.config)")
@click.option("--output", type=options.path_option, metavar="DIR", help="the run's output folder (outputs/run)")
@click.option("--replace", is_flag=True, help="replace the file if it exists")
def init(config: Path, output: Path | None, replace: bool, **given: str | None) -> int:
    """Ask four questions, and write a complete .config.

      model   "embedded"; a folder; a Hugging Face id; or a folder or an id with @URL of a running SGLang server
      data    a file of questions; after it the columns with unusual names:  questions.csv question=Frage answer=Antwort
      judge   "rules" (free), "exact_number" (free), file.py:function (free), or a model such as gpt-4o; after a model
              its prices, in USD for a million tokens of prompt, cached prompt and reply:  my-model 2 1 8
      budget  "60 evaluations" of the search; "$5", at which the run parks; or both

    Each answer is checked when it is given.  An answer that is given as an option is not asked for.  `make menuconfig`
    shows and changes everything that was written.

    examples:
      orchestrator init
      orchestrator init --model embedded --data questions.jsonl --judge rules --budget "60 evaluations"
      orchestrator init --data questions.csv --judge gpt-4o --budget '$5' --config my.config

    exit status: 0 written; 1 an answer is wrong or missing; 130 interrupted.
    """
    from orchestrator.runs.folder import writing

    try:
        settings = ask(given, config, output, is_replaced=replace)
    except ValueError as error:
        return console.fail(console.WRONG, str(error))
    with writing(config):
        write_config(settings, config)
    print(f"written: {config}\nstart it: {console.command_line('evolve', '--config', config)}")
    return console.DONE


def ask(given: Mapping[str, str | None], config: Path, output: Path | None, *, is_replaced: bool) -> Settings:
    if config.exists() and not is_replaced:
        raise ValueError(f"{config} exists; give --replace, or write another file with --config")
    names = itertools.chain(["outputs/run"], (f"outputs/run-{number}" for number in itertools.count(2)))
    folder = output or next(path for path in map(Path, names) if not path.exists())
    if (folder / "run.json").exists():
        raise ValueError(f"{folder} holds a run: name another folder with --output")
    model = _answer(given, "model", read_model, EMBEDDED)
    sizes = SIZES[model.options["DEVICE"]]
    data = _answer(given, "data", lambda text: read_data(text, sizes), str(SAMPLE) if SAMPLE.exists() else "")
    external = model.options["FARM"] == "external"
    judge = _answer(
        given, "judge", lambda text: read_judge(text, data.examples, external=external), "" if external else "rules"
    )
    budget = _answer(given, "budget", lambda text: read_budget(text, judge.options), "60 evaluations")
    chosen = {**SEARCH, **model.options, **data.options, **judge.options, **budget.options, "OUTPUT_DIR": str(folder)}
    return load_settings(None, chosen)


def _answer(given: Mapping[str, str | None], name: str, check: Callable[[str], Answer], default: str) -> Answer:
    """The checked answer, from the option or from a person at a terminal, who is asked until it can be used."""
    text = given[name]
    if text is None and not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError(f"there is no terminal to ask at: give --{name}")
    while True:
        try:
            found = check(text if text is not None else input(f"{name} [{default}]: ").strip() or default)
            print(f"   {escape_control(found.about, keep_lines=True)}")
            return found
        except EOFError:
            raise ValueError("the input has ended; nothing was written") from None
        except ValueError as error:
            if text is not None:
                raise
            console.fail(console.WRONG, *str(error).splitlines()[:10])


def read_model(text: str) -> Answer:
    """ "embedded", a folder, a Hugging Face id, or one of these and @URL of a running SGLang server."""
    from orchestrator.farm.checks import weight_bytes

    if text == EMBEDDED:
        return Answer({**ON_CPU, "TARGET_MODEL": EMBEDDED}, "SmolLM2-135M-Instruct, on this CPU")
    name, at, url = text.rpartition("@")
    model = os.path.expanduser(name if at else text)
    folder = Path(model)
    size = weight_bytes(folder) if folder.is_dir() else None
    if size is None and not re.fullmatch(r"[\w.-]+/[\w.-]+", model, re.ASCII):
        raise ValueError(f"{text!r} is neither {EMBEDDED} nor a folder nor an id such as Qwen/Qwen2.5-1.5B-Instruct")
    on_gpu = {**ON_GPU, "TARGET_MODEL": model}
    if at:
        server_address(url)
        return Answer({**on_gpu, "FARM": "embedded", "SGLANG_URL": url}, f"{model}, at {url}")
    if shutil.which("nvidia-smi") is not None:
        return Answer({**on_gpu, "FARM": "embedded"}, f"{model}, with SGLang on this machine's GPU")
    if size is not None and size <= SMALL_BYTES:
        return Answer({**ON_CPU, "TARGET_MODEL": model}, f"{model}, on this CPU")
    return Answer({**on_gpu, "FARM": "external"}, f"{model}, with SGLang on an external farm: there is no GPU here")


def read_data(text: str, sizes: Mapping[ExampleSet, int]) -> Answer:
    """A file, and where its columns have unusual names COLUMN=NAME behind it; `sizes` of the sets are the most."""
    from orchestrator.evolve.questions import doubtful_data

    path, named = _path_and_names(text)
    columns = {} if format_of(path) == "financebench" else _columns(path, named)
    questions = read_questions(path, Columns(**columns))
    if len(questions) < LEAST_QUESTIONS:
        raise ValueError(f"{path} has {len(questions)} questions; at least {LEAST_QUESTIONS} are needed")
    options = {"DATA_PATH": str(path), "DATA_COLUMNS": shlex.join(f"{which}={name}" for which, name in columns.items())}
    options |= NO_CONTEXT if columns and not columns["context"] else {}
    chosen: dict[str, list[Example]] = {}
    about = [f"{len(questions)} questions"]
    for which, (split, all_rows) in _sets(questions).items():
        rows = all_rows[: sizes[which]]
        there = [question.example for question in questions if not split or question.split == split]
        chosen[which] = [there[row] for row in rows]
        options[which.upper()] = f"{split}[{rows[0]}:{rows[-1] + 1}]"
        about.append(f"{len(rows)} for {which}")
    lines = [", ".join(about), *doubtful_data(chosen, float(default_values()["MARGIN"]))]
    return Answer(options, "\n   ".join(lines), [example for rows in chosen.values() for example in rows])


def _path_and_names(text: str) -> tuple[Path, dict[str, str]]:
    try:
        first, *others = [text] if Path(text).exists() else shlex.split(text)
    except ValueError:
        raise ValueError("name a file: JSON Lines, CSV or Parquet") from None
    named = dict(word.split("=", 1) for word in others if "=" in word)
    if len(named) < len(others) or not named.keys() <= COLUMNS.keys():
        raise ValueError(f"behind the file only {', '.join(f'{which}=COLUMN' for which in COLUMNS)} can be given")
    path = Path(first).expanduser()
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    return path, named


def _columns(path: Path, named: Mapping[str, str]) -> dict[str, str]:
    """The columns by the names that a person gave, or else by those that are usual."""
    rows = list(itertools.islice(read_table(path, format_of(path), ()), LOOKED_AT))
    if faults := [f"{row.place}: {row.fault}" for row in rows if row.fault]:
        raise malformed(path, faults)
    if not rows:
        raise DatasetError(f"{path}: no rows")
    present = {name.lower(): name for row in rows for name in row.values if name}
    usual = {which: next((present[name] for name in names if name in present), "") for which, names in COLUMNS.items()}
    found = {**usual, **named}
    for which in ("question", "answer"):
        if not found[which]:
            columns = ", ".join(present.values())
            raise ValueError(f"{path} has no column for the {which} among {columns}; name it: {which}=COLUMN")
    return found


def _sets(questions: Sequence[SplitExample]) -> dict[ExampleSet, tuple[str, Sequence[int]]]:
    """The split of each set, "" for all rows, and its rows there.  A set without a split takes a part of training's."""
    counts = Counter(question.split for question in questions)
    splits = {which: next((s for s in counts if s.lower() in names), "") for which, names in SPLITS.items()}
    if not splits["training"]:
        splits = dict.fromkeys(SPLITS, "")
    shared = range(counts[splits["training"]] if splits["training"] else len(questions))
    shares = {which: SHARES[which] for which in EXAMPLE_SETS if which == "training" or not splits[which]}
    found: dict[ExampleSet, tuple[str, Sequence[int]]] = {}
    begin, given = 0, 0.0
    for which in EXAMPLE_SETS:
        if which not in shares:
            found[which] = splits[which], range(counts[splits[which]])
            continue
        given += shares[which] / sum(shares.values())
        end = round(len(shared) * given)
        found[which] = splits["training"], shared[begin:end]
        begin = end
    return found


def read_judge(text: str, examples: Sequence[Example], *, external: bool = False) -> Answer:
    """ "rules" (no `external` farm has them), one of `RULE_JUDGES`, a function, or a model and perhaps its prices."""
    # Where no rules reflect, a search without a reflector asks no language model.
    free = {**FREE, "OPTIMISER": "cma"} if external else FREE
    own = f"{', '.join(RULE_JUDGES)}, file.py:function, or a model such as gpt-4o"
    if text in ("rules", THREE_STAGES):
        if external:
            raise ValueError(f"only an embedded farm has rules: name {own}")
        return Answer({**FREE, "JUDGE": THREE_STAGES}, "fixed rules for numbers, yes and no, and words; free")
    if text in RULE_JUDGES:
        if problem := unfit(text, {example.id: example.gold for example in examples}):
            raise ValueError(problem)
        return Answer({**free, "JUDGE": text}, f"{RULE_JUDGES[text].title}; free")
    module, _, function = text.rpartition(":")
    if function.isidentifier() and (module.endswith(".py") or re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", module)):
        try:
            UserFunction(text)
        except UserFunctionError as error:
            raise ValueError(str(error)) from None
        return Answer({**free, "JUDGE": text}, f"your function {text}; free")
    model, _, prices = text.partition(" ")
    if not re.fullmatch(r"[A-Za-z0-9][\w./:-]*", model, re.ASCII):
        raise ValueError(f"name a judge: rules, {own}")
    parse_prices(prices)
    address = "" if external else os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
    options = {"JUDGE": THREE_STAGES, "JUDGE_MODEL": model, "REFLECTOR_MODEL": model, "OPENAI_BASE_URL": address}
    options["OPENAI_PRICES"] = prices.strip() or PRICES.get(model, "")
    return Answer(options, f"{model}, where rules cannot decide; the run needs its key")


def read_budget(text: str, judge: Mapping[str, str]) -> Answer:
    """As in "60 evaluations", "$5", or both; `judge` are the options of the third answer."""
    match = re.fullmatch(r"(?:(\d{1,6}) evaluations?)?,? *(?:\$(\d+(?:\.\d+)?))?", text.strip())
    if match is None or not any(match.groups()):
        raise ValueError('name an amount: "60 evaluations", "$5", or both')
    evaluations, dollars = match.groups()
    generations = int(evaluations or POPULATION * GENERATIONS) // POPULATION
    if not generations:
        raise ValueError(f"the smallest search has {POPULATION} evaluations")
    if dollars and "JUDGE_MODEL" not in judge:
        raise ValueError("nothing costs money with this judge: name evaluations")
    if dollars and not judge["OPENAI_PRICES"]:
        raise ValueError("the prices of the judge's model are not known: name them behind it, or evaluations here")
    about = f"{console.format_count(generations, 'generations')} of {POPULATION} candidates"
    about += f"; it parks at ${dollars}" if dollars else ""
    return Answer({"NGEN": str(generations), "BUDGET_USD": dollars or "0"}, about)

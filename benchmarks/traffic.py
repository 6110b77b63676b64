"""Traffic that a run has not seen: thirty everyday questions (configs/data/everyday.txt), answered greedily by the
plain model and by a run's system through its exported processor for transformers.

Counted are the tokens of each answer, the answers that are longer than the plain model's, those that are empty, those
that the limit cuts, and those with a code fence that is not closed although the answer ended by itself.
`python benchmarks/traffic.py RUN [--system NAME] [--model FOLDER] [--tokens 256]`; the embedded model without --model.
It computes on a GPU where there is one.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import torch
from figures import table, write
from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessorList

from orchestrator.export.targets import TARGETS, read_steering
from orchestrator.farm.connection import embedded_model
from tasks.gpu.prompt import answer_ends, render_chat

QUESTIONS = Path(__file__).parents[1] / "configs" / "data" / "everyday.txt"
FENCE = "```"


def processors(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return LogitsProcessorList([module.DeltaProcessor()])


@torch.inference_mode()
def answers_of(
    model: Any, tokenizer: Any, system: str, questions: list[str], most: int, **steered: Any
) -> list[tuple[int, str]]:
    """For each question the number of tokens without the end of the turn, and the text; all in one batch."""
    prompts = [render_chat(tokenizer, system, question) for question in questions]
    stops, width = sorted(answer_ends(tokenizer)), max(map(len, prompts))
    ids = torch.tensor([[stops[0]] * (width - len(one)) + list(one) for one in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in prompts], device=model.device)
    given = {"attention_mask": mask, "eos_token_id": stops, "pad_token_id": stops[0], **steered}
    found = model.generate(ids, do_sample=False, max_new_tokens=most, **given)[:, width:].tolist()
    kept = [[token for token in row if token not in stops] for row in found]
    return [(len(row), tokenizer.decode(row, skip_special_tokens=True)) for row in kept]


def counted(answers: list[tuple[int, str]], plain: list[tuple[int, str]], most: int) -> dict[str, float]:
    pairs = list(zip(answers, plain, strict=True))
    return {
        "mean_tokens": sum(tokens for tokens, _ in answers) / len(answers),
        "longer": sum(one[0] > other[0] for one, other in pairs),
        "empty": sum(not text.strip() for _, text in answers),
        "cut": sum(tokens >= most for tokens, _ in answers),
        "unclosed": sum(text.count(FENCE) % 2 and tokens < most for tokens, text in answers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--system", default="", help="of the run (its winner)")
    parser.add_argument("--model", type=Path, help="a folder (the embedded model)")
    parser.add_argument("--tokens", type=int, default=256, help="the most tokens of an answer (256)")
    given = parser.parse_args()
    folder, steering = given.model or embedded_model(), read_steering(given.run, given.system)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)
    model = model.cuda() if torch.cuda.is_available() else model.float()  # a CPU is slow with 16 bits
    model.eval()
    questions = [line for line in QUESTIONS.read_text().splitlines() if line]
    base = read_steering(given.run, "plain").system.system_prompt
    plain = answers_of(model, tokenizer, base, questions, given.tokens)
    found = {"plain": plain}
    prompt = steering.system.system_prompt
    if prompt != base:
        found["its prompt alone"] = answers_of(model, tokenizer, prompt, questions, given.tokens)
    if steering.system.deltas:
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "processor_traffic.py"
            file.write_text(TARGETS["transformers"].render(steering, file.stem))
            steered = {"logits_processor": processors(file)}
            found[steering.system.name] = answers_of(model, tokenizer, prompt, questions, given.tokens, **steered)
    figures = {name: counted(answers, plain, given.tokens) for name, answers in found.items()}
    head = ("system", *next(iter(figures.values())))
    print(table(head, [(name, *(f"{value:g}" for value in one.values())) for name, one in figures.items()]))
    texts = {name: [text for _, text in answers] for name, answers in found.items()}
    lengths = {name: [tokens for tokens, _ in answers] for name, answers in found.items()}
    about = {"model": folder.name, "questions": len(questions), "most_tokens": given.tokens}
    write("traffic", {**about, "systems": figures, "tokens": lengths, "texts": texts})


if __name__ == "__main__":
    main()

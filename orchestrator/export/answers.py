"""How often a run's answers use each token: what an export with a limited number of biases is chosen by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from orchestrator.output import OutputError
from orchestrator.results import RunResults
from tasks.gpu.processor_check import differing_files
from tasks.gpu.processor_template import ModelCheck

TOKENIZER = "tokenizer.json"


def count_answer_tokens(results: RunResults, folder: Path, stops: Iterable[int]) -> Counter[int]:
    """The tokens of all answers, of the plain model and of the winner, and the end of each.

    `folder` has the model's tokenizer, `stops` are the tokens that end an answer.  Raises: OutputError.
    """
    from tokenizers import Tokenizer

    texts = [one.text for comparison in results.comparisons for one in (*comparison.before, *comparison.after)]
    if not texts:
        raise OutputError(f"{results.folder} has no answers to count tokens in; a run writes them when it is finished")
    path = folder / TOKENIZER
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower type
        raise OutputError(f"{path} cannot be read: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    counts: Counter[int] = Counter()
    for encoded in tokenizer.encode_batch(texts, add_special_tokens=False):
        counts.update(encoded.ids)
    counts.update({stop: len(texts) for stop in stops})
    return counts


def model_folder(results: RunResults, check: ModelCheck, given: Path | None) -> Path:
    """The folder with the run's model: the given one, or that of its settings if it is on this machine.

    Raises: OutputError when it is on another one, or is not the model that `check` is of.
    """
    from orchestrator.farm.embedded import embedded_model
    from tasks.gpu.model_check import model_files

    name = results.settings.get("TARGET_MODEL", "")
    folder = str(given) if given else str(embedded_model()) if name == "embedded" else model_files(name)
    if not folder or not Path(folder).is_dir():
        raise OutputError(f"the model {folder or name!a} is not on this machine; --model names a folder with it")
    if differing := differing_files(check, folder):
        raise OutputError(f"{folder} has not the model of the run: its {' and '.join(differing)} is not the same")
    return Path(folder)

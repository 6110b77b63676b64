"""The file that steers transformers' `generate`."""

from tasks.gpu.processor_template import TORCH, Parts

_USAGE = """\
       from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessorList
       from <this module> import DeltaProcessor

       model.generate(**inputs, logits_processor=LogitsProcessorList([DeltaProcessor()]))"""

_VERIFYING = """\
Whether a folder has the model that this file was made for:

       python <this file> --verify <folder of the model>

It compares the configuration and the tokenizer, and has the model give the answers that are recorded here. Exit
status: 0 the same model, 1 another one, 2 it cannot be loaded."""

_FUNCTIONS = '''\
def model_in(folder, module):
    """How to ask the model in a folder, which is loaded for the first question, and the folder."""
    loaded = []

    def ask(prompt, min_tokens, max_tokens, stops):
        import importlib

        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        if not loaded:
            sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
            processor = importlib.import_module(module).DeltaProcessor()
            model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)
            loaded.extend((model, AutoTokenizer.from_pretrained(folder, trust_remote_code=False), processor))
        model, tokenizer, processor = loaded
        ids = torch.tensor([prompt])
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, min_new_tokens=min_tokens or None,
            max_new_tokens=max_tokens, eos_token_id=stops, pad_token_id=stops[0] if stops else 0,
            logits_processor=[processor],
        )[0][len(prompt) :]
        return tokenizer.decode(made, skip_special_tokens=True)

    if not pathlib.Path(folder).is_dir():
        raise CannotAsk(f"{folder} is no folder")
    return ask, folder

'''

_ENGINE = '''\
class DeltaProcessor(LogitsProcessor):
    """Adds to each token's logit [rows, vocabulary] the delta of its cluster."""

    def __call__(self, input_ids, scores):
        return scores + _bias(scores.shape[-1], scores.device).to(scores.dtype)'''

TRANSFORMERS = Parts(
    title="Steer a model that transformers runs: adds to each token's logit the delta of the token's cluster.",
    contents="the numbers to read are in DELTAS. Needs torch and transformers",
    usage=_USAGE,
    engine=_ENGINE,
    file_name="processor_transformers.py",
    asked="model_in(arguments[1], module)",
    min_tokens_help="Each call of generate needs min_new_tokens=$count.",
    verifying=_VERIFYING,
    functions=_FUNCTIONS,
    imports=f"{TORCH}\nfrom transformers import LogitsProcessor  # noqa: E402",
)

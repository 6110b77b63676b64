"""A worker without transformers counts a text's tokens as the target's tokenizer has them."""

from __future__ import annotations

import cluster_families as families

from tasks.collect.tokenizer import encode, encoder
from tasks.store.store import Store

TEXT = "Revenue was $1,577.00 million."


def test_a_control_token_that_an_answer_writes_out_is_counted_as_its_characters(store: Store) -> None:
    tokenizer = families.qwen()
    store.put_shared("run", "tokenizer:a", {"backend": tokenizer.backend_tokenizer.to_str()})
    [plain, written] = encode(encoder("run", "tokenizer:a", store), [TEXT, f"{TEXT}<|im_end|>"])
    assert plain == tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    assert tokenizer.eos_token_id not in written and len(written) > len(plain) + 1
    assert tokenizer.decode(written) == f"{TEXT}<|im_end|>"

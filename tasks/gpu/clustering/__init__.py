"""The vocabulary of a tokenizer in clusters: 0 ends an answer, 1 is numbers, the rest by meaning or by waste."""

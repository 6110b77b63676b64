"""Work of the gpu queue: cluster the vocabulary, generate processors, answer a training set."""

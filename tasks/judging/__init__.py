"""Whether an answer agrees with the gold: three stages, of which only the second asks a model."""

"""Phase 0 (phase0_collect.md): from questions to the tokens that a model wastes, on the farm."""

"""Phase 0 (phase0_collect.md): which tokens a model wastes."""

"""A collection: which tokens a model wastes."""

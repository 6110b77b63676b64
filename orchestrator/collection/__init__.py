"""A collection: from questions to the tokens that a model wastes, on the farm."""

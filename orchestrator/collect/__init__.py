"""The run kind `collect`: from questions to the tokens that a model wastes."""

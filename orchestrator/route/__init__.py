"""The run kind `route`: training with gradient routing, and whether it kept a hack out of the deployed weights."""

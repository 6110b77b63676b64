"""Tickets of our own: missions whose rules are known, so that it can be measured what a model has learned of them."""

"""The run kind `guide`: a frozen model that judges tickets learns the rules in its prompt."""

"""From a plan to its outcomes: chords of chains on the farm, watched until all candidates have ended."""

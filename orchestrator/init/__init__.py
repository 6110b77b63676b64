"""From four answers (model, questions, judge, budget) to a complete `.config`, with what its run will take."""

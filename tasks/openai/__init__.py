"""Work of the openai queue: reflect, merge, judge."""

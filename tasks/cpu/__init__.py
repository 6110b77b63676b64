"""Work of the cpu queue: score and plot."""

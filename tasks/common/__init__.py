"""What every part of `tasks` uses: validated values, texts, files, logs and child processes."""

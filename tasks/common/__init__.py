"""What every part of `tasks` uses: validated values, texts, files, logs, traces and child processes."""

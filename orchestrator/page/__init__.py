"""The page that shows runs: one HTML file with its data, styles and scripts in it."""

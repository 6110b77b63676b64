"""All that the farm knows of its runs, in one Redis or Valkey."""

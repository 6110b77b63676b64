"""All that the farm stores of its runs, in one Redis or Valkey."""

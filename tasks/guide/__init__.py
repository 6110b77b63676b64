"""Guided judging without farm and model: tickets, verdicts, signals, selections, edits of experiences, the gate."""

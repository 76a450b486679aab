"""The journal of a run: the line, the log, and the state that is folded from it."""

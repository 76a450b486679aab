"""The journal of a run: one line an event, appended by one writer, and the state that follows from the lines."""

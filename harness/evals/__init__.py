"""A suite of cases → trials, each an ordinary run → a graded table with intervals, which can be compared and gated."""

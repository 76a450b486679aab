"""The command line: each command parses, calls one function, renders, returns an exit code. It decides nothing."""

"""What the on-call tools share. Not tools: they are imported by the scripts beside this folder, never executed."""

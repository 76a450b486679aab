"""Observe, decide, authorise, act, verify: from any journal until the run ends or waits. It draws nothing itself."""

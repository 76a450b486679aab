"""Runs as folders: beginning one, opening one again, finding one, and putting a person's word into its inbox."""

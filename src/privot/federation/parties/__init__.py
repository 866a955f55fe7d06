"""A party's side: its policy, its keys, what it remembers, and the desk that answers requests."""

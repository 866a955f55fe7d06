"""The work between parsing and printing: what a command runs, in terms of its options."""

"""A generator's training: its state, its checkpoints, its dry run, and several processes that share it."""

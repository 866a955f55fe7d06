"""The state of a training, its checkpoints, its dry run, and several processes that share it."""

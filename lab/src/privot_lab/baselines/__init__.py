"""Methods that are kept only to be compared with, plugged into privot by entry points."""

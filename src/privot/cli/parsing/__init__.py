"""How options are declared, read, bounded, recalled and shown in help."""

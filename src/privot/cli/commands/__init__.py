"""One module per command or group of commands; none imports another."""

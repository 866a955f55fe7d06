"""Messages between parties and their signatures. Every message is untrusted input until it is checked."""

"""What travels between parties: plain messages and the signatures around them; peers are untrusted."""

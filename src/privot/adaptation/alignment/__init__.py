"""How a public source is brought nearer to what a release says of the target; nothing here sees a private record."""

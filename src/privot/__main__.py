"""`python -m privot`."""

from privot.cli import main

main()

"""One module per attack: each makes its own neighbouring data sets and scores what a mechanism releases."""

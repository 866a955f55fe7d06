"""Plan a budget before any data is touched: what a release will cost, or how much noise a budget needs."""

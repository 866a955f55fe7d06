"""A party's side: its policy, its keys, its record of requests, and the desk that answers them."""

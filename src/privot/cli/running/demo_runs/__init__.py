"""What `privot demo` runs, and the page it ends with."""

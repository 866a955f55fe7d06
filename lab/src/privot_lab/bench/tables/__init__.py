"""Tables: privot beside MST and AIM on public tables, runs that go on, their summary, and a long table."""

"""What `privot synth` runs: its options, the job of one data set, and that of related tables."""

"""What every floor uses: files, optional packages, interrupts, CUDA graphs, argument checks; no record, no budget."""

"""What solves transport problems: costs, kernels, ε-scaling, Newton steps, fixed sweeps; no public function."""

"""Side-by-side measurements. Each figure is a ratio from one run, because machines are noisy."""

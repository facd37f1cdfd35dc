"""What a user runs: spark-submit entry points and the command `sluice`."""

"""Arrow in, Arrow out: the compiled program and the kernel that runs it."""

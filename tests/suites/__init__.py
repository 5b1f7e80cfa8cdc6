"""Each module has `tests(ctx)`, which yields Test objects. run.py takes them in the order of ORDER."""

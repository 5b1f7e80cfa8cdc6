"""How long PyTorch takes on the work of these programs, by the host's clock as they measure themselves: for the *peers.py beside it."""
import time

import torch


def loop(f, each):
    """Seconds of a call, of `each` calls in a row."""
    torch.cuda.synchronize()
    t = time.perf_counter()
    for _ in range(each):
        f()
    torch.cuda.synchronize()
    return (time.perf_counter() - t) / each


def times(f, rounds=5, each=5):
    """Seconds of a call in each of the rounds, the quickest first, after one call that does not count."""
    f()
    return sorted(loop(f, each) for _ in range(rounds))


def median(f, rounds=5, each=5):
    return times(f, rounds, each)[rounds // 2]

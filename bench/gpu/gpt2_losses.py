"""PyTorch's losses on the run that examples/gpt2.tsr recorded: the same initial weights, batches, optimiser and schedule.

    tessera run examples/gpt2.tsr --text FILE --preset small --device gpu:0 --batch 16 --steps 200 --record REC --out OUT
    python3 bench/gpu/gpt2_losses.py REC [--device cuda] [--precision bf16|f32] [--within 0.01] [--again 1]

Prints JSON lines: {"case": "gpt2_losses", "step", "tessera", "torch"} for each step, and at the end how far they are apart:
{"case": "gpt2_losses", "steps", "largest", "mean", "smooth", "within"}; smooth: the largest difference between means of ten steps.  Exit code 1 if a loss
differs by more than --within of torch's.  --again N trains PyTorch N times more, from weights that differ by 2^-20 of each, and says how far those runs
are from its first: what differs less than they do is rounding, which training makes larger.
Needs torch alone: the safetensors files are read here.  --precision bf16 is autocast over f32 weights, as /work/shared/peers/gpu.py trains.
"""
import argparse
import json
import math
import pathlib
import struct
import sys

import torch
import torch.nn.functional as F

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "F64": torch.float64, "I32": torch.int32, "I64": torch.int64}


def tensors_of(path):
    """{name: tensor} of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    body = bytearray(data[8 + n:])
    found = {}
    for name, about in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            at, end = about["data_offsets"]
            count = math.prod(about["shape"])
            found[name] = torch.frombuffer(body, dtype=DTYPES[about["dtype"]], count=count, offset=at).reshape(about["shape"]) if count else \
                torch.empty(about["shape"], dtype=DTYPES[about["dtype"]])
    return found


class GPT2(torch.nn.Module):
    """GPT-2 whose parameters have Hugging Face's names, dots as underscores; matrices are [in, out]."""

    def __init__(self, weights, heads):
        super().__init__()
        self.heads, self.layers = heads, 1 + max(int(n.split(".")[1]) for n in weights if n.startswith("h."))
        self.p = torch.nn.ParameterDict({n.replace(".", "_"): torch.nn.Parameter(w.float().clone()) for n, w in weights.items()})

    def part(self, name):
        return self.p[name.replace(".", "_")]

    def dense(self, x, name):
        return F.linear(x, self.part(name + ".weight").t(), self.part(name + ".bias"))

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.part(name + ".weight"), self.part(name + ".bias"))

    def block(self, x, i):
        b, s, d = x.shape
        q, k, v = (t.view(b, s, self.heads, d // self.heads).transpose(1, 2) for t in self.dense(self.norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").split(d, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dense(y.transpose(1, 2).reshape(b, s, d), f"h.{i}.attn.c_proj")
        return x + self.dense(F.gelu(self.dense(self.norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"), approximate="tanh"), f"h.{i}.mlp.c_proj")

    def forward(self, ids, labels):
        x = self.part("wte.weight")[ids] + self.part("wpe.weight")[:ids.shape[1]]
        for i in range(self.layers):
            x = self.block(x, i)
        logits = F.linear(self.norm(x, "ln_f"), self.part("wte.weight"))
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def rate_at(step, how):
    """cosine_schedule of stdlib/optim.tsr."""
    lr, end, warmup = how["lr"], 0.1 * how["lr"], how["warmup"]
    done = min(max((step - warmup) / max(how["steps"] - warmup, 1), 0.0), 1.0)
    return min((step + 1) / max(warmup, 1), 1.0) * (end + (lr - end) * 0.5 * (1 + math.cos(math.pi * done)))


def optimizer_of(model, how):
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": how["decay"]}, {"params": others, "weight_decay": 0.0}], lr=how["lr"], betas=how["betas"])


def losses_of(weights, batches, how, device, narrow, seed=0):
    """PyTorch's loss at each step, one after the other. seed: the weights differ by 2^-20 of each, as it says; 0: they do not."""
    model = GPT2(weights, how["heads"]).to(device)
    if seed:
        torch.manual_seed(seed)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 + 2.0 ** -20 * torch.randn_like(p))
    opt = optimizer_of(model, how)
    for step, ids in enumerate(batches):
        ids = ids.to(device).long()
        for group in opt.param_groups:
            group["lr"] = rate_at(step, how)
        with torch.autocast(device.split(":")[0], torch.bfloat16, enabled=narrow):
            loss = model(ids[:, :-1], ids[:, 1:])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), how["clip"])
        opt.step()
        yield loss.item()


def apart(x, y):
    """How far losses are from others: at most, on average, and at most between means of ten steps, each of the others."""
    mean = lambda v: [sum(v[i:i + 10]) / 10 for i in range(max(len(v) - 9, 0))]
    far = lambda a, b: [abs(p - q) / q for p, q in zip(a, b)]
    each = far(x, y)
    return {"largest": round(max(each, default=0.0), 6), "mean": round(sum(each) / max(len(each), 1), 6), "smooth": round(max(far(mean(x), mean(y)), default=0.0), 6)}


def main():
    args = argparse.ArgumentParser()
    args.add_argument("folder")
    args.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args.add_argument("--precision", choices=("bf16", "f32"), default=None)
    args.add_argument("--within", type=float, default=0.01)
    args.add_argument("--again", type=int, default=0)
    a = args.parse_args()
    folder = pathlib.Path(a.folder)
    how, *told = [json.loads(line) for line in (folder / "losses.jsonl").read_text().splitlines()]
    start = tensors_of(folder / "weights.safetensors"), tensors_of(folder / "batches.safetensors")["ids"], how, a.device, (a.precision or how["precision"]) != "f32"
    theirs = []
    for row, loss in zip(told, losses_of(*start)):
        theirs.append(loss)
        print(json.dumps({"case": "gpt2_losses", "step": row["step"], "tessera": row["loss"], "torch": loss}), flush=True)
    found = apart([row["loss"] for row in told], theirs)
    print(json.dumps({"case": "gpt2_losses", "steps": len(theirs), **found, "within": found["largest"] <= a.within}), flush=True)
    for seed in range(1, a.again + 1):
        print(json.dumps({"case": "gpt2_losses", "torch again": seed, **apart(list(losses_of(*start, seed)), theirs)}), flush=True)
    sys.exit(0 if found["largest"] <= a.within else 1)


if __name__ == "__main__":
    main()

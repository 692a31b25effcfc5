#!/usr/bin/env python3
"""Training steps of the recipe's Vision Transformer by torch's DistributedDataParallel over gloo, one thread a rank.

usage: ddp_step.py [--ranks 2] [--batch 128] [--steps 5] [--warmup 2] [--dtype f32|bf16]
prints the median step in seconds.  The batch is that of all ranks; the model is vit_step.py's."""
import argparse, os, socket, statistics, time
import torch, torch.distributed as dist, torch.multiprocessing as mp, torch.nn.functional as F
from vit_step import C, IMG, torch_model


def rank_steps(rank, a, port):
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    dist.init_process_group('gloo', rank=rank, world_size=a.ranks)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch_model())
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    own = a.batch // a.ranks
    x, y = torch.randn(own, 3, IMG, IMG), torch.randint(0, C, (own,))
    seconds = []
    for _ in range(a.warmup + a.steps):
        begun = time.perf_counter()
        with torch.autocast('cpu', torch.bfloat16, enabled=a.dtype == 'bf16'):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        float(loss.detach())
        seconds.append(time.perf_counter() - begun)
    if rank == 0:
        print(f'{statistics.median(seconds[a.warmup:]):.4f}', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    p = argparse.ArgumentParser()
    for name, default in (('ranks', 2), ('batch', 128), ('steps', 5), ('warmup', 2)):
        p.add_argument('--' + name, type=int, default=default)
    p.add_argument('--dtype', choices=('f32', 'bf16'), default='bf16')
    a = p.parse_args()
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    mp.spawn(rank_steps, (a, port), nprocs=a.ranks)

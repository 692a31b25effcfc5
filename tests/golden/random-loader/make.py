"""Random runs of grain 0.2.18's DataLoader, in the form of dataloader.txt and dataloader_states.txt."""
import os, random, sys
import grain, grain.python as gp
from absl import flags
flags.FLAGS.mark_as_parsed()

class Mul(gp.MapTransform):
    def map(self, x): return 2 * x + 1
class Rand(gp.RandomMapTransform):
    def random_map(self, x, rng): return 1000 * int(x) + int(rng.integers(0, 1000))
class Keep(gp.FilterTransform):
    def filter(self, x): return x % 3 != 0

def fmt(x):
    return "[" + ",".join(str(int(v)) for v in x) + "]" if hasattr(x, "__len__") else str(int(x))

NAMES = ["none", "map", "rand", "rand_rand", "map_filter", "rand_map_filter", "batch", "batch_drop",
         "filter_rand_batch", "map_filter_rand_batch_drop", "rand_batch", "filter_batch_drop"]

def ops(name, batch):
    drop = name.endswith("_drop")
    made = {"map": Mul, "rand": Rand, "filter": Keep}
    return [gp.Batch(batch, drop_remainder=drop) if w == "batch" else made[w]()
            for w in name.split("_") if w not in ("none", "drop")]

def main(out):
    rng = random.Random(7)
    states = []
    with open(out + "/dataloader.txt", "w") as f:
        f.write("# grain 0.2.18: DataLoaders drawn at random, in the form of ../dataloader.txt\n")
        for k in range(60):
            name = NAMES[k % len(NAMES)]
            n, seed, epochs = rng.randint(3, 40), rng.choice([0, 1, rng.randrange(2**32)]), rng.randint(1, 3)
            batch, workers = rng.randint(1, 7), rng.choice([0, 0, 1, 2, 3, 4])
            count = rng.choice([1, 1, 2, 3, 4])
            shard = None if count == 1 or n < 2 * count else (rng.randrange(count), count, rng.random() < 0.5)
            so = grain.sharding.NoSharding() if shard is None else grain.sharding.ShardOptions(*shard)
            mk = lambda: gp.DataLoader(data_source=gp.RangeDataSource(0, n, 1), operations=ops(name, batch), worker_count=workers,
                sampler=gp.IndexSampler(n, shard_options=so, shuffle=True, num_epochs=epochs, seed=seed))
            it = iter(mk())
            full, at = [], {0: it.get_state()}
            for e in it:
                full.append(fmt(e))
                at[len(full)] = it.get_state()
            f.write(f"run {name} {n} {seed} {epochs} {'-' if shard is None else '%d/%d/%d' % shard} {workers} {batch}\n")
            picks = {len(full)} if k % 5 == 0 else set()
            if full: picks.add(rng.randrange(len(full)))
            for j in sorted(picks):
                it2 = iter(mk()); it2.set_state(at[j])
                assert [fmt(x) for x in it2] == full[j:]
                fn = f"state-{k}-{j}.json"
                states.append((fn, at[j].decode()))
                f.write(f"state {j} {fn}\n")
            for e in full: f.write(f"e {e}\n")
            f.write("end\n"); f.flush()
            print(k, name, n, epochs, shard, workers, len(full), file=sys.stderr)
    with open(out + "/dataloader_states.txt", "w") as f:
        f.write("# the get_state() bytes named in dataloader.txt, as in ../dataloader_states.txt\n")
        for fn, s in states: f.write(f"== {fn}\n{s}\n")

if __name__ == "__main__": main(sys.argv[1])

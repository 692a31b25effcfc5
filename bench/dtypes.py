#!/usr/bin/env python3
"""The table of dtypes: parameters x computation x optimizer slots x master copy, each cell trained or refused.

usage: bench/dtypes.py DATA OUT.jsonl [--cells REGEX] [--steps 100] [--threads N] [--model "KEY=VALUE..."] [--plan]
       bench/dtypes.py OUT.jsonl --memory BATCH [--cells REGEX]
       bench/dtypes.py OUT.jsonl --described GPU
       bench/dtypes.py --table OUT.jsonl

DATA: CIFAR-10's folder.  A cell is one line of OUT.jsonl; cells that are there already are not run again, so the same
command continues a table that was interrupted.  Of each cell:
- params: bytes of the parameters as they are kept between steps, a master copy among them; slots: bytes of AdamW's;
- planned and touched: the arena of a step of the recipe's model at batch 128, planned, and as a run over painted memory
  touches it (`millrace mem`); the same at batch 4096, of which --memory 4096 runs two steps where there is room;
- loss: of a smaller model after STEPS steps of the recipe at batch 128: the mean of the last 20; s a step: its median, with
  the machine's load where others used it too;
- or the sentence with which `millrace train` refuses it, and the number of steps until then.
--plan writes the planned bytes of cells that have not been trained, in seconds; a later call trains them.
--memory BATCH, 128 or 4096, plans the cells of OUT.jsonl anew and runs two steps of each at that batch over painted memory,
unless that takes more than this machine has left: at 4096 15 GB and several minutes a cell of bf16, on 2 processors.
--described GPU plans the cells of OUT.jsonl for a described GPU (docs/devices.md), as NVIDIA-H200, in a second.
--table prints the cells as Markdown."""
import argparse, itertools, json, os, re, statistics, subprocess, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MILLRACE = os.environ.get('MILLRACE', os.path.join(ROOT, 'build/release/millrace'))
SMALL = 'layers=3 embed=192 mlp=768 heads=4'
DTYPES = ('f32', 'bf16', 'f16')
AXES = ('param', 'dtype', 'slots', 'master')
# The training half of examples/cifar10-vit.mr.
GRAPH = '''let data  = data/cifar-10-batches-bin
let run   = runs/default
let seed  = 12
let batch = 128
cifar10 name=data path=$data split=train split-seed=$seed
  ! shuffle seed=$seed epochs=1
  ! flip p=0.5
  ! resized-crop size=32 scale=0.9:1.0 ratio=0.9:1.1
  ! normalize preset=cifar10
  ! batch $batch drop-remainder name=batches
  ! train-step name=train seed=$seed watch-every=0
train.metrics ! jsonl path=$run/metrics.jsonl
'''

def name(cell):
    return 'param-dtype={param} dtype={dtype} slot-dtype={slots} master={master}'.format(**cell)

def cells():
    return [dict(zip(AXES, c)) for c in itertools.product(DTYPES, DTYPES, ('f32', 'bf16'), ('f32', 'none'))]

def run(words, **more):
    return subprocess.run([MILLRACE, *words], capture_output=True, text=True, **more)

def memory(cell, batch, measured, row):
    words = ['mem', 'step', '--json', '--batch', str(batch), '--dtype', cell['dtype'], '--slot-dtype', cell['slots'],
             '--param-dtype', cell['param'], '--master', cell['master']]
    p = run(words + ([] if measured else ['--no-run']))
    if p.returncode:
        return
    o = json.loads(p.stdout)
    held = o['held']
    row[f'planned_{batch}'] = o['planned_peak_bytes']
    row.pop(f'no_room_{batch}', None)
    if measured:
        row[f'touched_{batch}'] = o['measured_peak_bytes']
    elif row.get(f'touched_{batch}') != row[f'planned_{batch}']:
        row.pop(f'touched_{batch}', None)  # of another plan
    row['params'] = sum(v for k, v in held.items() if 'parameters' in k)
    row['slots_bytes'] = sum(v for k, v in held.items() if 'slot.' in k)

def described(a):
    """Appends a line with the planned bytes on a described GPU for each cell that has memory columns."""
    for key, old in last_rows(a.out).items():
        if 'planned_128' not in old:
            continue
        row, plans = dict(old), {}
        for batch in (128, 4096):
            p = run(['mem', 'step', '--json', '--no-run', '--device', 'cuda:described=' + a.described, '--batch', str(batch),
                     '--dtype', row['dtype'], '--slot-dtype', row['slots'], '--param-dtype', row['param'],
                     '--master', row['master']])
            if p.returncode:
                raise SystemExit(p.stderr)
            plans[str(batch)] = json.loads(p.stdout)['planned_peak_bytes']
        row['described'] = {'gpu': a.described, 'commit': machine()['commit'], **plans}
        with open(a.out, 'a') as f:
            f.write(json.dumps(row) + '\n')
        print(key, plans)

def train(cell, a, row):
    with tempfile.TemporaryDirectory() as work:
        graph, folder = os.path.join(work, 'graph.mr'), os.path.join(work, 'run')
        with open(graph, 'w') as f:
            f.write(GRAPH)
        scale = ['loss-scale=dynamic'] if 'f16' in (cell['dtype'], cell['param']) else []
        p = run(['train', '--graph', graph, '--data', a.data, '--run-dir', folder, '--steps', str(a.steps),
                 *(['--threads', str(a.threads)] if a.threads else []), 'train.dtype=' + cell['dtype'],
                 'param-dtype=' + cell['param'], 'slot-dtype=' + cell['slots'], 'master=' + cell['master'],
                 *scale, *a.model.split()])
        path = os.path.join(folder, 'metrics.jsonl')
        steps = []
        if os.path.exists(path):
            with open(path) as f:
                steps = [r for r in map(json.loads, f) if r['kind'] == 'step']
    row['steps'] = len(steps)
    if p.returncode:
        row['refused'] = p.stderr.strip().splitlines()[-1]
    elif steps:
        last = steps[-20:]
        row['loss'] = sum(r['loss'] for r in last) / len(last)
        row['step_s'] = statistics.median(r['step_s'] for r in steps if 'step_s' in r)
        row['skipped'] = steps[-1].get('skipped_steps', 0)

def machine():
    with open('/proc/cpuinfo') as f:
        cpu = re.search(r'model name\s*: (.*)', f.read())
    commit = subprocess.run(['git', '-C', ROOT, 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True)
    return {'cpu': cpu.group(1) if cpu else '?', 'cores': os.cpu_count(), 'load': round(os.getloadavg()[0], 1),
            'commit': commit.stdout.strip()}

def rows_of(path):
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [json.loads(line) for line in f]

def last_rows(path):
    """The last line of each cell, with what earlier ones measured of the same plans."""
    rows = {}
    for r in rows_of(path):
        old, kept = rows.get(name(r), {}), {}
        for batch in (128, 4096):
            if old.get(f'planned_{batch}') == r.get(f'planned_{batch}'):
                kept.update((k, old[k]) for k in (f'touched_{batch}', f'no_room_{batch}') if k in old)
        rows[name(r)] = {**kept, **r}
    return rows

def fill(a):
    done = {name(r) for r in rows_of(a.out) if a.plan or 'loss' in r or 'refused' in r}
    for cell in cells():
        if name(cell) in done or not re.search(a.cells, name(cell)):
            continue
        row = dict(cell, model=a.model, threads=a.threads or os.cpu_count())
        began = time.time()
        if not a.plan:
            train(cell, a, row)
        row.update(machine())
        if 'refused' not in row:
            memory(cell, 128, not a.plan, row)
            memory(cell, 4096, False, row)
        if a.plan and 'planned_128' not in row:
            continue  # refused, as training says
        row['took_s'] = round(time.time() - began, 1)
        with open(a.out, 'a') as f:
            f.write(json.dumps(row) + '\n')
        said = row.get('refused') or (f"loss {row['loss']:.4f}, {row['step_s']:.3f} s a step" if 'loss' in row else 'planned')
        print(name(cell), said, f"({row['took_s']} s)", flush=True)

def memory_total(field):
    with open('/proc/meminfo') as f:
        return 1024 * int(re.search(field + r':\s*(\d+)', f.read()).group(1))

def remember(a):
    """Appends a line with new memory columns for each cell that has one; the last line of a cell counts."""
    for key, old in last_rows(a.out).items():
        if 'planned_128' not in old or not re.search(a.cells, key):
            continue
        row = dict(old)
        for batch in (128, 4096):
            memory(row, batch, False, row)
        need = row[f'planned_{a.memory}'] + (1 << 30) + a.memory * 3072 * 4  # beside the arena: parameters, a batch
        if need > memory_total('MemAvailable'):
            row[f'no_room_{a.memory}'] = memory_total('MemTotal')
        else:
            row.pop(f'no_room_{a.memory}', None)
            memory(row, a.memory, True, row)
        with open(a.out, 'a') as f:
            f.write(json.dumps(row) + '\n')
        print(key, row[f'planned_{a.memory}'], row.get(f'touched_{a.memory}', 'not run: no room'), flush=True)

def table(path):
    mb = lambda r, k: f'{r[k] / 1e6:,.1f}' if k in r else ''
    rows = last_rows(path)
    def peaks(r, batch):
        touched = r.get(f'touched_{batch}')
        what = ('the same' if touched == r[f'planned_{batch}'] else mb(r, f'touched_{batch}') if touched else
                f"no room in {r[f'no_room_{batch}'] / 1e9:.0f} GB" if f'no_room_{batch}' in r else 'not run')
        return f"{mb(r, f'planned_{batch}')}, {what}"
    print('| parameters | computes | slots | master | params MB | slots MB | planned, touched MB at 128 '
          '| planned, touched MB at 4096 | CUDA: planned MB at 128, at 4096 | loss | s a step |')
    print('| ' + ' | '.join(['---'] * 11) + ' |')
    reasons, missing = [], 0
    for cell in cells():
        r = rows.get(name(cell))
        head = f"| {cell['param']} | {cell['dtype']} | {cell['slots']} | {cell['master']} | "
        if not r:
            missing += 1
        elif 'refused' in r:
            reason = re.sub(r'^millrace: (\S+:\d+:\d+: )?', '', r['refused'])
            if reason not in reasons:
                reasons.append(reason)
            when = 'before step 0' if not r['steps'] else f"after step {r['steps']}"
            print(head + ' | '.join([f'refused {when} ({reasons.index(reason) + 1})'] + [''] * 6) + ' |')
        else:
            busy = f" (load {r['load']:.0f})" if r['load'] > r['cores'] + 1 else ''
            loss = f"{r['loss']:.4f}" + (f" ({r['skipped']} skipped)" if r['skipped'] else '') if 'loss' in r else 'not run'
            took = f"{r['step_s']:.3f}{busy}" if 'loss' in r else ''
            missing += 'loss' not in r
            gpu = r.get('described', {})
            plans = ', '.join(mb(gpu, batch) for batch in ('128', '4096') if batch in gpu) or 'not planned'
            print(head + ' | '.join([mb(r, 'params'), mb(r, 'slots_bytes'), peaks(r, 128), peaks(r, 4096), plans,
                                     loss, took]) + ' |')
    for i, reason in enumerate(reasons):
        print(f'\n({i + 1}) {reason}')
    if missing:
        print(f'\n{missing} of {len(cells())} cells have not been run yet.')

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument('data', nargs='?')
p.add_argument('out')
p.add_argument('--table', action='store_true')
p.add_argument('--plan', action='store_true')
p.add_argument('--memory', type=int, choices=(128, 4096))
p.add_argument('--described', metavar='GPU')
p.add_argument('--cells', default='')
p.add_argument('--steps', type=int, default=100)
p.add_argument('--threads', type=int, default=0)
p.add_argument('--model', default=SMALL)
a = p.parse_args()
if a.table:
    table(a.out)
elif a.described:
    described(a)
elif a.memory:
    remember(a)
elif not a.data:
    p.error('DATA and OUT.jsonl')
else:
    fill(a)

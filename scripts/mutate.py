#!/usr/bin/env python3
# usage: scripts/mutate.py [N] [--since REVISION] [--file PATH]... [--seed S] [--seconds T] [--survivors]
# Whether the tests would notice a fault: makes N (default 100) random faults of one token in the .c files that were
# changed since REVISION (default: the commit before HEAD and what is not committed) or that --file names, one at a time,
# runs the tests of their rooms, those that speak of the file first, for at most T (default 60) seconds of tests, and prints
# what survives with its line and the fault.  A fault that leaves the object file as it is, is none and is drawn anew.
# An assertion, a crash and a time-out are counted apart: a fault should die by an assertion.  The same seed makes the
# same faults.  --survivors ends with 1 if fewer than 90 of 100 die by an assertion.
# It works in build/mutate, a worktree of its own, which keeps its objects for the next time; nothing else is written.
import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
TREE = 'build/mutate'
BUILD = TREE + '/build/release'

# ---- faults ----

TOKEN = re.compile(r'''/\*.*?\*/ | //[^\n]* | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)* | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
                     | 0[xX][0-9a-fA-F.pP+-]+[uUlLfF]* | \d[\w.]* | \w+
                     | <<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w]''', re.X | re.S | re.M)
INSTEAD = {'<': ['<='], '<=': ['<'], '>': ['>='], '>=': ['>'], '==': ['!='], '!=': ['=='], '&&': ['||'], '||': ['&&'],
           '+': ['-'], '-': ['+'], '/': ['*'], '%': ['/'], '+=': ['-=', '='], '-=': ['+='], '++': ['--'], '--': ['++'],
           '<<': ['>>'], '>>': ['<<'], '|=': ['&='], '!': [''], 'true': ['false'], 'false': ['true'], 'break': ['continue'],
           'min': ['max'], 'fmin': ['fmax'], 'fmax': ['fmin'], '^': ['|']}


def instead_of(token, before):
    """What a token may become."""
    if re.fullmatch(r'\d+', token):
        return [str(int(token) + 1)] + ([str(int(token) - 1)] if int(token) else [])
    if token == '!' and before == '!':
        return []
    return INSTEAD.get(token, [])


def faults_of(path):
    """All (offset, token, instead) of a file: not in comments, text, types, declarations of constants or assertions."""
    text = open(path).read()
    found, before, depth, quiet = [], '', 0, 0
    for m in TOKEN.finditer(text):
        t = m[0]
        if t.startswith(('/*', '//')) or t.lstrip().startswith('#'):
            continue
        if t in ('assert', '_Static_assert', 'mr_fail', 'mr_notice', 'mr_stage_fail'):
            quiet = depth + 1  # what is said is no behaviour that must be tested word by word
        depth += (t == '(') - (t == ')')
        if quiet and t == ')' and depth < quiet:
            quiet = 0
        if depth == 0 and t in ';{}':
            quiet = 0
        pointer = t in '*&' or before in ('(', ',', 'return', '=', '?', ':') and t in '+-'
        if not quiet and not pointer:
            found += [(m.start(), t, to) for to in instead_of(t, before)]
        before = t
    return text, found


# ---- tests ----

def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', **more)


def build(target):
    return run(['ninja', '-C', BUILD, target])


def prepare():
    """The worktree, as the working tree is."""
    if not os.path.isdir(TREE):
        run(['git', 'worktree', 'prune'])
        subprocess.run(['git', 'worktree', 'add', '--detach', TREE, 'HEAD'], check=True, stdout=subprocess.DEVNULL)
    run(['git', '-C', TREE, 'checkout', '--detach', '--force', run(['git', 'rev-parse', 'HEAD']).stdout.strip()], check=True)
    names = run(['git', 'ls-files', '-m', '-o', '--exclude-standard']).stdout.split('\n')
    for name in filter(os.path.isfile, names):
        os.makedirs(os.path.dirname(f'{TREE}/{name}') or TREE, exist_ok=True)
        shutil.copy2(name, f'{TREE}/{name}')
    env = dict(os.environ)
    if shutil.which('ccache'):
        env.update(CMAKE_C_COMPILER_LAUNCHER='ccache', CMAKE_CXX_COMPILER_LAUNCHER='ccache')
    made = run(['cmake', '--preset', 'release'], cwd=TREE, env=env)
    if made.returncode:
        sys.exit('mutate: ' + made.stdout[-2000:])


def changed_files(since):
    named = run(['git', 'diff', '--name-only', since]).stdout.split('\n')
    return [n for n in named if n.endswith('.c') and not n.startswith(('tests/', 'examples/', 'bench/')) and
            os.path.isfile(n)]


def defined_in(path):
    """What a file and its header name at the start of a line: what they define or declare, and the stages among it."""
    stem = os.path.splitext(path)[0]
    text = open(path).read() + (open(stem + '.h').read() if os.path.isfile(stem + '.h') else '')
    found = set(re.findall(r'^(?!static|#| |/)[^\n=]*?\b(mr_+\w+)(?=\(| = \{)', text, re.M))
    return found, set(re.findall(r'^ +\.name = "([\w-]{3,})"', text, re.M))


def used_by(path):
    """The files that include the header of path, unless they are many."""
    header = os.path.splitext(path)[0] + '.h'
    found = run(['git', 'grep', '-l', f'#include "{header}"', '--', '*.c']).stdout.split() if os.path.isfile(header) else []
    found = [f for f in found if not f.startswith('tests/') and f != path]
    return found if len(found) < 8 else []


def changed_with(path):
    """How much each file's changes go with those of path, from the newest commits that changed it."""
    weight, text = {}, run(['git', 'log', '-n', '60', '--format=@', '--name-only', '--full-diff', '--', path]).stdout
    for commit in text.split('@\n'):
        names = commit.split()
        for name in names:
            weight[name] = weight.get(name, 0) + 60 / (1 + len(names))
    return weight


def word_set(stem):
    """The words of a name, without a plural's s."""
    return {w.rstrip('s') for w in stem.split('_') if len(w) > 2}


def tests_of(path, times):
    """Test programs of the file's room, then of others that speak of it or change with it, nearest first."""
    weight = changed_with(path)
    room, folder, stem = path.split('/')[0], os.path.dirname(path), os.path.splitext(os.path.basename(path))[0]
    (words, stages), ranked = defined_in(path), []
    near_files = used_by(path)
    near_files += [f for g in near_files for f in used_by(g)]
    their_words, their_stages = map(set.union, *([defined_in(f) for f in near_files] or [(set(), set())]), (set(), set()))
    for tests in os.listdir('tests'):
        if not os.path.isdir('tests/' + tests) or tests in ('fuzz', 'weak', 'install', 'nvml'):
            continue
        for name in os.listdir('tests/' + tests):
            if not re.fullmatch(r'test_\w+\.c', name):
                continue
            text, short = open(f'tests/{tests}/{name}').read(), name[5:-2]
            near = 40 * (short == stem) + 30 * (short == os.path.basename(folder)) + 15 * (stem in short.split('_')) + \
                30 * (f'"{folder}/{stem}.h"' in text) + 10 * (f'"{folder}/' in text) + \
                4 * len(words & set(re.findall(r'\bmr_+\w+', text))) + \
                3 * len(their_words & set(re.findall(r'\bmr_+\w+', text))) + \
                8 * len((stages | their_stages) & set(re.findall(r'(?<=["! ])[\w-]{3,}(?=[ "!])', text))) + \
                12 * len(word_set(stem) & word_set(short)) + min(40, weight.get(f'tests/{tests}/{name}', 0))
            if tests == 'apps' and os.path.basename(folder) != room:
                near += min(8, len(re.findall(rf'\b{os.path.basename(folder)}\b', text)))
            if tests == room or near:
                program = f'tests/test_{tests}_{short}'
                ranked.append((-near - 5 * (tests == room), times.get(program, 5), program))
    return [program for *_, program in sorted(ranked)]


def try_program(program, seconds):
    """How a test program ends: 'passed', 'assertion', 'crash', 'time-out'."""
    begun = time.monotonic()
    child = subprocess.Popen([os.path.abspath(f'{BUILD}/{program}')], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             stdin=subprocess.DEVNULL, cwd=BUILD, start_new_session=True)
    try:
        text = child.communicate(timeout=seconds)[0].decode(errors='replace')
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return 'time-out', seconds
    took = time.monotonic() - begun
    if child.returncode in (0, 77):
        return 'passed', took
    said = child.returncode == -signal.SIGABRT or '[  FAILED  ]' in text or 'Assertion' in text
    return 'assertion' if said and child.returncode != -signal.SIGSEGV else 'crash', took


class Faults:
    """Faults in a list of files, and the programs that are run for each."""

    def __init__(self, files, seconds):
        self.objects = {}
        self.seconds, self.times_path = seconds, TREE + '.times'
        self.times = json.load(open(self.times_path)) if os.path.isfile(self.times_path) else {}
        self.bad = set()
        self.tests = {f: tests_of(f, self.times) for f in files}

    def usual(self, program):
        """Seconds that a program takes without a fault; None: it does not pass, or takes all the time there is."""
        if program in self.bad:
            return None
        if program not in self.times:
            end, took = try_program(program, self.seconds) if not build(program).returncode else ('', 0)
            if end != 'passed':
                self.bad.add(program)
                return None
            self.times[program] = took
            json.dump(self.times, open(self.times_path, 'w'))
        return self.times[program]

    def measure(self, path):
        """Measures the nearest programs of a file, as many as fit into the time of one fault."""
        total, use = 0, []
        for program in self.tests[path]:
            took = self.usual(program)
            if took is None or total + took > self.seconds:
                continue
            total += took
            use.append(program)
            if total > self.seconds * .9 or len(use) == 24:
                break
        self.tests[path] = use

    def dies(self, path, fault, text):
        """How a fault ends: 'none' if it changes no code, 'survives', or as try_program says."""
        at, token, to = fault
        target = f'{TREE}/{path}'
        objects = [o for o in run(['ninja', '-C', BUILD, '-t', 'targets', 'all']).stdout.split('\n')
                   if o.split(':')[0].endswith('/' + path + '.o')] if path not in self.objects else self.objects[path]
        self.objects[path] = objects
        if not objects:
            return 'none', ''
        name = objects[0].split(':')[0]
        digest = lambda: hashlib.sha1(run_bytes(['objcopy', '-O', 'binary', '--only-section=.text*', '--only-section=.rodata*',
                                                 '--only-section=.data*', f'{BUILD}/{name}', '/dev/stdout'])).digest()
        build(name)
        was = digest()
        try:
            open(target, 'w').write(text[:at] + to + text[at + len(token):])
            if build(name).returncode or digest() == was:
                return 'none', ''
            left = self.seconds
            for program in self.tests[path]:
                usual = self.times[program]
                if usual > left:
                    continue
                if build(program).returncode:
                    return 'none', ''
                end, took = try_program(program, min(self.seconds, 10 + 5 * usual))
                left -= took
                if end != 'passed':
                    return end, program
            return 'survives', ''
        finally:
            open(target, 'w').write(text)


def run_bytes(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def main():
    p = argparse.ArgumentParser(description='Whether the tests would notice a fault of one token.')
    p.add_argument('n', nargs='?', type=int, default=100)
    p.add_argument('--since', default='HEAD~1')
    p.add_argument('--file', action='append')
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--seconds', type=float, default=60)
    p.add_argument('--survivors', action='store_true')
    a = p.parse_args()
    files = a.file or changed_files(a.since)
    if not files:
        sys.exit(f'mutate: no .c file was changed since {a.since}')
    prepare()
    faults = Faults(files, a.seconds)
    texts = {f: faults_of(f) for f in files}
    everything = [(f, fault) for f in files for fault in texts[f][1]]
    random.Random(a.seed).shuffle(everything)
    measured, ends = set(), {}
    for path, fault in everything:
        if sum(ends.values()) == a.n:
            break
        if path not in measured:
            measured.add(path)
            faults.measure(path)
        end, program = faults.dies(path, fault, texts[path][0])
        if end == 'none':
            continue
        ends[end] = ends.get(end, 0) + 1
        at, token, to = fault
        text = texts[path][0]
        line = text.count('\n', 0, at) + 1
        begin = text.rfind('\n', 0, at) + 1
        column = at - begin
        said = text.split('\n')[line - 1]
        shown = (said[:column] + f'[{token} -> {to}]' + said[column + len(token):]).strip()
        print(f'{end:9}  {path}:{line}: {shown}' + (f'  ({program.split("/")[-1]})' if program else ''), flush=True)
    total = sum(ends.values())
    print(f'{total} faults: ' + ', '.join(f'{n} {"survive" if e == "survives" else "by " + e}'
                                          for e, n in sorted(ends.items(), key=lambda x: -x[1])))
    if a.survivors and ends.get('assertion', 0) < .9 * total:
        sys.exit(1)


main()

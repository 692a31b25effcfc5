#!/usr/bin/env python3
# usage: scripts/check-documents.py [DOCUMENT...]
# Fails if README.md, ARCHITECTURE.md, CHANGELOG.md or a page of docs/ names something that does not exist, or has another
# number of them: files, folders, headings behind a link, names of the code and members of types, environment variables and
# build options, presets, tests, commands with their flags, stages with their settings and values, ops, passes, models, and
# counts of lines and of such things.  Comments, --help and error sentences are read for files, documents and names of the
# code.  What the documents quote as output of a command, check-docs.py compares.
# The commands and settings are those of build/release/millrace, or of the program that $MILLRACE names.
import concurrent.futures
import fnmatch
import json
import os
import re
import subprocess
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
PROGRAM = os.environ.get('MILLRACE', 'build/release/millrace')

# Files that the documents and comments name and the tree lacks, and why.
OTHER_FILES = {
    'small.mr': 'README.md has the reader save it', 'flame.svg': 'a command of docs/recipes.md writes it',
    'X.c': 'any file', 'X_without.c': 'any file', 'Chart.js': 'a library', 'llm.c': 'a project',
    'stages/rotate.c': 'README.md adds it', 'tests/stages/test_rotate.c': 'README.md adds it',
    'share/millrace': 'of an installation', 'share/millrace/cuda': 'of an installation', 'share/millrace/cuda/devices': 'of an installation',
    'ffcv/types.py': "FFCV's", 'ffcv/writer.py': "FFCV's", 'writer.py': "MosaicML's, litdata's and FFCV's", 'autoaugment.py': "torchvision's",
    'megatron/core/datasets/indexed_dataset.py': "Megatron-LM's", 'llmc/dataloader.h': "llm.c's",
    'sdpa_support_surface.h': "cuDNN's frontend", 'scaled_dot_product_flash_attention.h': "cuDNN's frontend", 'out.h': 'a height',
}
# Words with underscores in the documents that belong to other projects.
OTHER_WORDS = {'aio_read', 'flat_map'}
# What stands before "=" and is no setting of a stage.
OTHER_SETTINGS = {'name': 'every stage has one', 'workers': 'every step stage has it', 'plugin': 'a line of settings.txt'}
OTHER_FLAGS = {'--mpi', '--requeue', '--stop-timeout'}  # of other programs, in sentences of ours
NUMBER_WORDS = {w: n for n, w in enumerate('zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen '
                                           'fifteen sixteen seventeen eighteen nineteen twenty'.split())}
# Numbers of other things than the tree's, and of what.
NOT_COUNTED = {
    ('README.md', 'Two commands'): 'that follow in the text',
    ('ARCHITECTURE.md', 'six passes'): 'over a record, in an experiment',
    ('docs/streams.md', 'six passes'): 'over a record, in an experiment',
    ('docs/streams.md', 'three stages'): 'of a graph in a test',
    ('docs/transforms.md', 'Two passes'): 'that the sentence names',
    ('docs/devices.md', '16,384 commands'): 'of a captured graph',
}
# Numbers that are constants of the code: document, text with the number, and what it counts.
COUNTS = [
    ('README.md', r'one of the other (\w+)\.', lambda tree: len(tree.kinds) - 2),
    ('CHANGELOG.md', r'up to (\d+) named fields', lambda tree: tree.constant('MR_FIELDS_MAX')),
    ('docs/devices.md', r'more than ([\d,]+) commands', lambda tree: tree.constant('COMMANDS_MOST')),
]
# Sentences about the code that a reader would rely on: document, text, and what makes it true.
CLAIMS = [
    ('docs/tour.md', 'Derivatives and vmap have no case for a single op',
     lambda tree: not any(re.search(r'[!=]= ?&mr_op_', tree.bare[f]) for f in tree.bare
                          if re.search(r'transforms/(grad|jvp|vmap|linearize|jacobian)\.c$', f))),
    ('ARCHITECTURE.md', 'each command the file of its name',
     lambda tree: all(any(re.fullmatch(rf'apps/(.*/)?{c}\.c', f) for f in tree.files) for c in tree.commands)),
    ('ARCHITECTURE.md', 'Each file opens with its idea',
     lambda tree: all(t.startswith('/*') for f, t in tree.text.items() if f.endswith('.c') and not f.startswith('tests/'))),
    ('ARCHITECTURE.md', 'Four rooms are divided into parts', lambda tree: len(re.findall(r'\bPARTS\b', read('CMakeLists.txt'))) == 4),
    ('ARCHITECTURE.md', '| part | holds |',
     lambda tree: all(re.search(rf'^\| (?:[\w/, ]*, )?{p}(?:,[^|]*)? \|', read('ARCHITECTURE.md'), re.M) for p in tree.parts())),
    ('ARCHITECTURE.md', '| folder | holds | may use |',
     lambda tree: all(f'\n| {room}/ |' in read('ARCHITECTURE.md') for room in re.findall(r'^mr_(?:room|program)\((\w+)', read('CMakeLists.txt'), re.M))),
    ('ARCHITECTURE.md', 'it sees no header of a backend',
     lambda tree: not any(re.search(r'#include "model/backends/', t) for f, t in tree.bare.items() if f.startswith('model/exec/'))),
]
# The words of these are no evidence.
CHECKS = ('scripts/check-documents.py', 'scripts/check-words.py', 'scripts/check-docs.py')
COMMENT = re.compile(r'/\*.*?\*/', re.S)
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')
ENDINGS = r'(?:c|h|inc|cu|def|cmake|py|sh|md|mr|js|svg|proto|jaxpr|supp)'
failures = []
used = set()


def exempt(table, key):
    """Whether one of the tables above has it; what no document says any more has to leave its table."""
    if key in table:
        used.add(key)
    return key in table


def fail(where, what):
    failures.append(f'{where}: {what}')


def read(name):
    with open(name, encoding='utf-8', errors='replace') as f:
        return f.read()


def listed(*patterns):
    names = subprocess.run(['git', 'ls-files', '--cached', '--others', '--exclude-standard', *patterns],
                           capture_output=True, text=True, check=True).stdout.split('\n')
    return [name for name in names if os.path.isfile(name)]


def blank(match):
    return '\n' * match[0].count('\n')


class Tree:
    """What there is."""

    def __init__(self):
        self.files = listed()
        self.folders = {'/'.join(f.split('/')[:n]) for f in self.files for n in range(1, f.count('/') + 1)}
        self.top = {f.split('/')[0] for f in self.folders}
        self.bases = {os.path.basename(f) for f in self.files} | {os.path.basename(f) for f in self.folders}
        code = [f for f in self.files if re.search(r'\.(c|h|inc|def|cu)$', f)]
        self.text = {f: read(f) for f in code}
        self.bare = {f: COMMENT.sub(blank, t) for f, t in self.text.items()}
        self.names = set(re.findall(r'\b[A-Za-z_]\w*', '\n'.join(self.bare.values())))
        others = [f for f in self.files if re.search(r'\.(py|sh|cmake|js|html|in|json|txt|mr|jaxpr|proto)$|^millrace$|^\.ci/', f) and f not in CHECKS]
        self.words = self.names | set(re.findall(r'\b[A-Za-z_]\w*', '\n'.join(read(f) for f in others)))
        self.words |= {m for name in self.names if name.startswith('MR_') for m in [name[3:].lower()]}
        self.variables = {w for w in self.words if w.startswith('MILLRACE_')}
        self.features = re.findall(r'^mr_feature\((\w+)', read('CMakeLists.txt'), re.M)
        self.variables |= {f'MILLRACE_WITH_{name}' for name in self.features}
        self.registered = {kind: self.entries(kind) for kind in ('STAGE', 'OP', 'MODEL', 'COMMAND', 'BACKEND')}
        self.stages = {name.replace('_', '-') for name in self.registered['STAGE']}
        self.ops, self.models, self.commands = (self.registered[k] for k in ('OP', 'MODEL', 'COMMAND'))
        table = next(t for f, t in self.bare.items() if f.endswith('/passes.c'))
        self.passes = set(re.findall(r'\.name = "([a-z-]+)"', table))
        self.presets = {p['name'] for p in json.loads(read('CMakePresets.json'))['configurePresets'] if not p.get('hidden')}
        self.lets = {name for f in self.files if f.endswith('.mr') for name in re.findall(r'^let (\w+)', read(f), re.M)}
        self.includes = set(re.findall(r'^ *# *include <(?:.*/)?([\w.]+)>', '\n'.join(self.bare.values()), re.M))
        self.members = {}
        for f, text in self.bare.items():
            if f.endswith('.h'):
                for body, name in re.findall(r'^typedef (?:struct|union)[^{};]*\{(.*?)^\} (\w+);', text, re.M | re.S):
                    self.members.setdefault(name, set()).update(re.findall(r'\w+', body))
                for tag, body in re.findall(r'^struct (\w+) \{(.*?)^\};', text, re.M | re.S):
                    self.members.setdefault(f'{tag}_t', set()).update(re.findall(r'\w+', body))

        header = next(t for f, t in self.bare.items() if f.endswith('/stage.h') and '} mr_stage_def_t' in t or 'struct mr_stage_def {' in t)
        self.kinds = set(re.findall(r'const mr_(\w+)_def_t \*\w+;', header)) - {'stage', 'model', 'metric'}

    def has_word(self, word):
        """As a word of the tree, or as the name of a metric with Prometheus's ending."""
        stem = re.sub('_(?:total|sum|count|bucket)$', '', word)
        return word in self.words or stem != word and any(
            re.search(rf'"{stem}"|^MR_METRIC\w*\({stem},', t, re.M) for f, t in self.bare.items()
            if f.startswith(('sinks/', 'metrics/')) or f.endswith('metrics.def'))

    def parts(self):
        """The parts of rooms, each a folder."""
        text = re.sub(r'\s+', ' ', read('CMakeLists.txt'))
        return {word.split(':')[0] for parts in re.findall(r'PARTS ([^)]*)\)', text) for word in parts.split()} - {'.'}

    def constant(self, name):
        for text in self.bare.values():
            match = re.search(rf'\b{name}(?: =)? (\d+)(?: << (\d+))?\b', text)
            if match:
                return int(match[1]) << int(match[2] or 0)
        return None

    def entries(self, kind):
        return {name for f, text in self.bare.items() if f.endswith('.def')
                for name in re.findall(rf'^MR_{kind}[12]?\((\w+)', text, re.M)}

    def has_file(self, name, document):
        pattern = re.sub(r'NAME|KIND|GPU-VERSION|\bGPU\b', '*', name.rstrip('/')).removeprefix('./').removeprefix('DIR/')
        patterns = [pattern, os.path.normpath(os.path.join(os.path.dirname(document), pattern))]
        everything = self.files + sorted(self.folders)
        if any(p in everything or fnmatch.filter(everything, p) for p in patterns):
            return True
        if pattern.split('/')[0] in self.top and '/' in pattern:  # a path from the root says where the file is
            return any(f.endswith('/' + pattern) for f in everything)
        if '*' in pattern:
            return bool(fnmatch.filter(everything, '*/' + pattern))
        return any(f.endswith('/' + pattern) for f in everything)


class Program:
    """What the program says of its commands and stages."""

    def __init__(self, tree):
        if not os.access(PROGRAM, os.X_OK):
            sys.exit(f'check-documents.py: {PROGRAM}: not built; run: cmake --preset release && cmake --build build/release '
                     '--target millrace; or set MILLRACE to the program')
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            helps = pool.map(lambda c: self.said(c, '--help'), sorted(tree.commands))
            self.flags = {c: set(re.findall(r'^  (--[\w-]+)', text, re.M)) for c, text in zip(sorted(tree.commands), helps)}
            bench = self.said('bench', '--help')
            self.bench = set(bench[bench.index('bench ') + 6:].split('...')[0].split('|'))
            self.general = set(re.findall(r'^  (--[\w-]+)', self.said('--help'), re.M))
            asked = [(s,) for s in sorted(tree.stages | {'process'})]
            for stage in ('train-step', 'eval-step', 'vit-step', 'vit-eval'):
                asked += [(stage, f'model={m}') for m in sorted(tree.models)]
            told = pool.map(lambda words: self.said('inspect', *words), asked)
            self.settings, self.choices = {}, {}
            for words, text in zip(asked, told):
                rows = re.findall(r'^  ([a-z][\w-]*) +(\S.*)', text.partition('\nsettings\n')[2], re.M)
                self.settings.setdefault(words[0], set()).update(name for name, _ in rows)
                for name, kind in rows:
                    choices = re.match(r'([\w.+-]+(?:\|[\w.+-]+)+)', kind)
                    self.choices.setdefault((words[0], name), set()).update(choices[1].split('|') if choices else {None})
        self.every_flag = set().union(*self.flags.values(), self.general)
        self.every_setting = set().union(*self.settings.values())

    @staticmethod
    def said(*words):
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=dict(os.environ, COLUMNS='400')).stdout


class Document:
    def __init__(self, name, tree, program):
        self.name, self.tree, self.program = name, tree, program
        self.text = read(name)
        self.spans = [(m.start(1), m[1]) for m in re.finditer(r'(?<!`)`([^`\n]+)`', re.sub(r'^(?:    .*|```.*)$', lambda m: ' ' * len(m[0]), self.text, flags=re.M))]

    def where(self, at):
        return f'{self.name}:{self.text.count(chr(10), 0, at) + 1}'

    def check(self):
        self.files()
        self.links()
        self.code_names()
        self.variables()
        for at, span in self.spans:
            self.commands(at, span)
            self.settings(at, span)
            self.words(at, span)
        self.kinds()
        self.counts()

    def files(self):
        seen = set()
        for match in re.finditer(rf'(?<![\w/.:~$@-])(?<!! )((?:[\w.*{{}},<>-]+/)*[\w*.-]*[\w*]\.{ENDINGS})(?![\w.])(?! ! )', self.text):
            self.file(match.start(), match[1], seen)
        for at, span in self.spans:
            for match in re.finditer(r'(?<![\w/.:~$@=-])((?:[\w.*-]+/)+[\w*.-]*)(?![\w/])', span):
                first = match[1].split('/')[0]
                if (first in self.tree.top or match[1].endswith('/') and first in self.tree.bases) and not span.startswith('runs/'):
                    self.file(at, match[1].rstrip('.'), seen)

    def file(self, at, name, seen):
        if name in seen or exempt(OTHER_FILES, name) or self.text[max(0, at - 8):at].endswith('://'):
            return
        seen.add(name)
        if not self.tree.has_file(name, self.name):
            fail(self.where(at), f'{name}: no such file in the tree')

    def links(self):
        for match in re.finditer(r'\]\(([^)\s]+)\)', self.text):
            target, _, anchor = match[1].partition('#')
            if re.match(r'\w+:', target):
                continue
            path = os.path.normpath(os.path.join(os.path.dirname(self.name), target)) if target else self.name
            if not os.path.exists(path):
                fail(self.where(match.start()), f'{match[1]}: no such file')
            elif anchor and anchor not in headings(path):
                fail(self.where(match.start()), f'{match[1]}: {path} has no such heading')

    def code_names(self):
        for match in re.finditer(r'\b(mr_\w+|MR_\w+|mr__\w+)(\*|\.(?!\.)\w+)?', self.text):
            name, rest = match[1], match[2] or ''
            if 'NAME' in name or 'KIND' in name:
                known = any(re.fullmatch(re.sub('NAME|KIND', r'\\w+', name), n) for n in self.tree.names)
            elif rest == '*' or name.endswith('_'):
                known = any(n.startswith(name) for n in self.tree.names)
            else:
                known = name in self.tree.words or f'_def_t {name}' in self.text  # the text itself defines it
            if not known:
                fail(self.where(match.start()), f'{name}: the code has no such name')
            elif rest.startswith('.') and rest[1:] not in ('c', 'h', 'inc', 'cu'):
                members = self.tree.members.get(name)
                if members is not None and rest[1:] not in members:
                    fail(self.where(match.start()), f'{match[0]}: {name} has no such member')

    def variables(self):
        for match in re.finditer(r'\bMILLRACE_\w+', self.text):
            if match[0] not in self.tree.variables and not match[0].endswith('_NAME'):
                fail(self.where(match.start()), f'{match[0]}: neither code nor build reads it')

    def commands(self, at, span):
        match = re.match(r'(?:\./)?millrace((?: --plugin \S+)?) +([a-z][\w-]*)?(.*)', span)
        if match and match[2]:
            if match[2] == 'device':  # the first line of a file of docs/devices.md
                return None
            if match[2] not in self.tree.commands | {'test'}:
                return fail(self.where(at), f'{span}: there is no command {match[2]}')
            self.flags_of(at, span, match[2], match[3])
            if match[2] == 'bench':
                for word in re.findall(r'[a-z][\w-]*', match[3].split(' --')[0]):
                    if word not in self.program.bench:
                        fail(self.where(at), f'{span}: bench has no program {word}')
            return None
        match = re.match(r'([a-z]+)((?: [\w/.*-]+)* --.*)', span)
        if match and match[1] in self.tree.commands:
            return self.flags_of(at, span, match[1], match[2])
        if re.match(r'--?[a-z]', span):
            name = re.match(r'--[\w-]+', span)
            if name and name[0] not in self.program.every_flag and not self.of_a_script(name[0]):
                fail(self.where(at), f'{span}: no command has the flag {name[0]}')
        return None

    def of_a_script(self, flag):
        return any(flag in read(f) for f in self.tree.files if f.startswith(('scripts/', 'bench/')) and f.endswith(('.sh', '.py')))

    def flags_of(self, at, span, command, rest):
        if '|' in rest and 'millrace' in rest:
            rest = rest[:rest.index('|')]
        for flag in re.findall(r'(?<![\w-])--[a-z][\w-]*', re.sub(r"'[^']*'", '', rest)):
            if flag not in self.program.flags[command] | self.program.general:
                fail(self.where(at), f'{span}: {command} has no flag {flag}')

    def settings(self, at, span):
        """Settings behind the name of their stage, or alone."""
        if re.match(r'(?:\./)?millrace |[A-Z]|-|.*[(/"].*=|amp-rule |.*=\S*, ', span):
            return
        stage = None
        for word in span.split():
            match = re.fullmatch(r'([a-z][a-z0-9-]*)=(\S*)', word)
            if match:
                self.setting(at, span, stage, match[1], match[2])
            elif word in self.program.settings:
                stage = word

    def setting(self, at, span, stage, name, value):
        where, settings = self.where(at), self.program.settings
        if exempt(OTHER_SETTINGS, name):
            return
        if stage and name not in settings[stage]:
            return fail(where, f'{span}: {stage} has no setting {name}')
        if not stage and name in self.tree.lets:
            return None
        owners = [stage] if stage else [s for s in settings if name in settings[s]]
        if not owners:
            return fail(where, f'{span}: no stage has a setting {name}')
        choices = set().union(*(self.program.choices[s, name] for s in owners))
        if None in choices:
            return None
        for one in value.strip('\\').replace('\\', '').split('|'):
            if one and re.fullmatch(r'[a-z][\w-]*', one) and one not in choices:
                fail(where, f'{span}: {name} takes {"|".join(sorted(choices))}')
        return None

    def words(self, at, span):
        """Names with underscores, and tests."""
        if re.fullmatch(r'[a-z]\w*_\w+', span) and not span.startswith(('mr_', 'millrace_')):
            if not self.tree.has_word(span) and not exempt(OTHER_WORDS, span):
                fail(self.where(at), f'{span}: the tree has no such name')
        for match in re.finditer(r'\b(apps|base|loaders|links|metrics|model|pipeline|sinks|stages)\.([a-z]\w*_?\w*)\b(?![(.])', span):
            if '/' not in span and not any(re.search(rf'^tests/{match[1]}/(?:.*/)?test_(?:.*_)?{match[2]}', f) for f in self.tree.files) \
                    and match[2] not in ('c', 'h'):
                fail(self.where(at), f'{match[0]}: no test of that name')

    KINDS = {'stage': 'stages', 'source': 'stages', 'sink': 'stages', 'pass': 'passes', 'op': 'ops', 'command': 'commands',
             'model': 'models', 'preset': 'presets', 'setting': 'settings'}

    def kinds(self):
        """A kind with names in backticks: stage `tee`; the passes `cse` and `remat`."""
        names = {**{k: getattr(self.tree, v) for k, v in self.KINDS.items() if v != 'settings'}, 'setting': self.program.every_setting}
        pattern = r'\b([Ss]tage|[Ss]ource|[Ss]ink|[Pp]ass|[Oo]p|[Cc]ommand|[Mm]odel|[Pp]reset|[Ss]etting)(?:s|es)?:? ((?:`[^`\n]+`(?:,? (?:and|or) |,\s))*`[^`\n]+`)'
        for match in re.finditer(pattern, self.text):
            for name in re.findall(r'`([^`\n]+)`', match[2]):
                word = re.split(r'[ =]', name)[0]
                if re.fullmatch(r'[a-z][a-z0-9_-]*', word) and word not in names[match[1].lower()]:
                    fail(self.where(match.start()), f'{match[1].lower()} {word}: there is no such {match[1].lower()}')

    def counts(self):
        numbers = rf'(?<![\w.,^-])(\d[\d,]*|{"|".join(NUMBER_WORDS)})'
        nouns = {'stages': self.tree.stages, 'commands': self.tree.commands, 'ops': self.tree.ops, 'passes': self.tree.passes,
                 'models': self.tree.models, 'presets': self.tree.presets, 'backends': self.tree.registered['BACKEND'],
                 'optional libraries': self.tree.features, 'features': self.tree.features,
                 'documents': listed('docs/*.md'), 'headers': [f for f in self.tree.files if f.endswith('.h')]}
        for match in re.finditer(rf'{numbers} ({"|".join(nouns)})\b', self.text, re.I):
            said, there = number(match[1]), len(nouns[match[2].lower()])
            if said != there and not exempt(NOT_COUNTED, (self.name, match[0])):
                fail(self.where(match.start()), f'"{match[0]}": there are {there}')
        for document, pattern, count in COUNTS:
            if document == self.name:
                match = re.search(pattern, self.text)
                if not match:
                    fail('scripts/check-documents.py', f'{document} no longer says "{pattern}"')
                elif number(match[1]) != count(self.tree):
                    fail(self.where(match.start()), f'"{match[0]}": the code has {count(self.tree)}')
        for document, text, holds in CLAIMS:
            if document == self.name:
                said = re.search(r'\s+'.join(map(re.escape, text.split())), self.text)
                if not said:
                    fail('scripts/check-documents.py', f'{document} no longer says "{text}"')
                elif not holds(self.tree):
                    fail(self.where(said.start()), f'"{text}": this is no longer so')
        for match in re.finditer(r'(\d[\d,]*) lines|`(\w+)` (?:(?:\w+ )?in `\w+\.c`, )?(\d+)(?=[,;])|`(\w+\.\w+)`,? (\d+)(?: lines)?(?=[,;|])', self.text):
            self.lines(match)

    def lines(self, match):
        """A number of lines belongs to the file, op or stage that is named just before it."""
        said = next(int(g.replace(',', '')) for g in match.groups() if g and re.fullmatch(r'[\d,]+', g))
        before = self.text[max(0, match.start() - 260):match.end()].split('\n\n')[-1].split('|')[-1]
        named = re.findall(r'`?([\w/.-]+\.(?:c|h|py|sh|js|inc|md))`?|`([a-z][a-z0-9_]*)`', before)
        spans = []
        for path, word in named:
            if path:
                files = [f for f in self.tree.files if f == path or f.endswith('/' + path)]
                spans += [('file', path, len(read(f).splitlines())) for f in files if not f.startswith('tests/') or path == f]
            elif word in self.tree.ops:
                spans.append(('op', word, self.op_lines(word)))
            elif word in self.tree.stages:
                spans.append(('stage', word, self.stage_lines(word)))
        if not spans:
            if match[1] and self.name not in ('bench/README.md',):
                fail(self.where(match.start()), f'"{match[0].strip()}": of which file? Name it just before the number')
            return
        # "`exp` in `unary.c` ..., 16 lines" counts the op, as does "`identity` 21 lines in `tee.c`"
        kinds = [s for s in spans if s[0] != 'file'] if spans[-1][0] == 'file' and len(spans) > 1 and spans[-2][0] != 'file' else spans
        kind, name, there = kinds[-1]
        if said != there:
            fail(self.where(match.start()), f'"{match[0].strip()}": {kind} {name} has {there}')

    def span_lines(self, head, tail):
        for f, text in self.tree.text.items():
            if f.startswith('tests/') or not f.endswith('.c'):
                continue
            end = re.search(tail, text, re.M)
            begin = re.search(head, text, re.M)
            if end and begin:
                close = text.index('\n};', end.start()) if '\n};' in text[end.start():] else len(text)
                return text.count('\n', begin.start(), close + 1) + 1
        return 0

    def op_lines(self, name):
        return self.span_lines(rf'^mr_var_t \*mr_lax_{name}\(', rf'^const mr_op_def_t mr_op_{name} = ')

    def stage_lines(self, name):
        name = name.replace('-', '_')
        return self.span_lines(rf'^static .*\b{name}_\w+\(', rf'^const mr_stage_def_t mr_stage_{name} = ')


def number(text):
    return NUMBER_WORDS[text.lower()] if text.lower() in NUMBER_WORDS else int(text.replace(',', '') or 0)


def headings(path):
    found = set()
    for title in re.findall(r'^#+ (.*)', read(path), re.M):
        found.add(re.sub(r'[^\w\s-]', '', title.lower()).strip().replace(' ', '-'))
    return found


def check_sources(tree, program):
    """Files, documents and names of the code in comments; documents, commands and flags in literals, such as help and errors."""
    ours = re.compile(r'\b(mr__?[a-z]\w*|MR_[A-Z]\w*)(\*?)')
    path = re.compile(r'(?<![\w/.:~$@%*-])((?:[\w-]+/)*[\w-]+\.(?:c|h|inc|def|md|sh|py|cmake))(?![\w.(])')
    n = 0
    for f, text in tree.text.items():
        if f.startswith('tests/golden/'):
            continue
        pieces = [(m.start(), m[0], True) for m in COMMENT.finditer(text)]
        pieces += [(m.start(), m[0], False) for m in LITERAL.finditer(tree.bare[f])]
        for begin, piece, is_comment in pieces:
            n += 1
            source = text if is_comment else tree.bare[f]
            for match in path.finditer(piece):
                name = match[1]
                if not is_comment and not name.startswith('docs/'):
                    continue
                if not tree.has_file(name, f) and os.path.basename(name) not in tree.includes and not exempt(OTHER_FILES, name):
                    fail(f'{f}:{source.count(chr(10), 0, begin + match.start()) + 1}', f'{name}: no such file in the tree')
            for match in re.finditer(r'(?<![\w-])(?:millrace ([a-z][\w-]*)|(--[a-z][\w-]*))', piece) if not is_comment and f.startswith('apps/') else ():
                command, flag = match[1], match[2]
                if command and command not in tree.commands and "`" + match[0] in piece or flag and flag not in program.every_flag and flag not in OTHER_FLAGS:
                    fail(f'{f}:{source.count(chr(10), 0, begin + match.start()) + 1}', f'{match[0]}: no command has it')
            for match in ours.finditer(piece) if is_comment else ():
                name = match[1]
                begins = match[2] or name.endswith('_')
                if not (re.search('NAME|_X$', name) or name in tree.words or begins and any(k.startswith(name) for k in tree.names)):
                    fail(f'{f}:{source.count(chr(10), 0, begin + match.start()) + 1}', f'{name}: the code has no such name')
    return n


def check_packages(tree):
    """Packages that the launcher or the checks install have a reason in docs/dependencies.md."""
    page = read('docs/dependencies.md')
    packages = [line.split()[0] for line in read('scripts/packages.txt').splitlines() if line.strip() and not line.startswith('#')]
    tools = re.search(r'for p in ([^;]*); do have', read('.ci/run'))
    for package in packages + (tools[1].split() if tools else []):
        if f'`{package}`' not in page and package not in ('cmake', 'ninja-build', 'pkg-config', 'gcc', 'make', 'g++', 'ca-certificates', 'libc6-dev'):
            fail('docs/dependencies.md', f'has no reason for the package {package}')


def main():
    tree = Tree()
    program = Program(tree)
    documents = sys.argv[1:] or listed('*.md', 'docs/*.md', 'share/**/*.md', 'bench/README.md')
    documents = sorted({d for d in documents if sys.argv[1:] or not d.startswith(('bench/results', 'tests/'))})
    for name in documents:
        Document(name, tree, program).check()
    pieces = 0
    if not sys.argv[1:]:
        pieces = check_sources(tree, program)
        check_packages(tree)
        for table in (OTHER_FILES, OTHER_WORDS, OTHER_SETTINGS, NOT_COUNTED):
            for key in set(table) - used:
                fail('scripts/check-documents.py', f'{key}: nothing says it any more; remove it from its table')
    for line in failures:
        print(line)
    print(f'documents: {len(documents)} documents, {pieces} comments and sentences: {len(failures)} to mend')
    return bool(failures)


sys.exit(main())

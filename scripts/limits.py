#!/usr/bin/env python3
# usage: scripts/limits.py [--check]
# Writes the table of docs/limits.md from the constants in the sources; --check fails if the document has another one.  A row is
# a constant, the file that defines it, by how much what a user may have differs from it, and a piece of the sentence that one
# more is refused with, which has to stand in the file after it.  tests/apps/test_limits.c reads the table and tries each row.
import os
import re
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
DOCUMENT = 'docs/limits.md'
BEGIN, END = '<!-- limits: made by scripts/limits.py -->', '<!-- limits: end -->'
# name, what is limited, constant, its file, difference, piece of the sentence, its file
ROWS = [
    ('words', 'words of a command, such as the runs that `runs` compares', 'MR_WORDS_MAX', 'apps/cli/cli.h', 0,
     'one too many', 'apps/cli/args.c'),
    ('graph-bytes', 'bytes of a graph file', 'MR_GRAPH_BYTES_MAX', 'pipeline/text/graph_text.h', 0, 'expected at most', 'base/xio.c'),
    ('jaxpr-bytes', 'bytes of a jaxpr file', 'MR_JAXPR_BYTES_MAX', 'apps/cli/cli.h', 0, 'expected at most', 'base/xio.c'),
    ('word-characters', 'characters of one word of a graph', 'MR_WORD_MAX', 'pipeline/text/text_private.h', -1,
     'a word has more than', 'pipeline/text/text_word.c'),
    ('inputs', 'inputs of `mix`, `zip`, `concatenate`, `gather`; of `interleave` and of walks as many as their state has numbers for', 'MR_INPUTS_MAX', 'pipeline/stage.h', 0,
     'and each is connected already', 'pipeline/graph/graph.c'),
    ('branches', 'stages of records before a `batch`, once for each path', 'BRANCHES_MAX', 'pipeline/records/chain.c', 0,
     'stages of records lead to it', 'pipeline/records/chain.c'),
    ('depth', 'stages of records that follow one another', 'DEPTH_MAX', 'pipeline/records/chain.c', 0,
     'stages of records follow one another before it', 'pipeline/records/chain.c'),
    ('state', 'numbers in the state of a stream: an `interleave` has two, one a slot of at least eight, and those of its inputs',
     'MR_STREAM_WORDS_MAX', 'pipeline/spec.h', 0, 'numbers, want at most', 'pipeline/records/records.c'),
    ('processes', 'processes of a graph, each copy counted', 'MR_PROCESSES_MAX', 'pipeline/graph/graph.h', 0,
     'each of copies= counted; want at most', 'pipeline/graph/process.c'),
    ('fields', 'fields of a record', 'MR_FIELDS_MAX', 'pipeline/spec.h', 0, 'the inputs have more than %d fields together',
     'loaders/orders/zip.c'),
    ('classes', '`classes=` of sources with a file of numbers', 'MR_CLASSES_MAX', 'loaders/local/class_names.h', 0,
     'a whole number', 'pipeline/opt.c'),
    ('column-words', 'different words of a column of a table that are classes; fewer where a file has many columns or nearly all differ',
     'MR_TABLE_WORDS_MAX', 'loaders/formats/table_scan.h', 0, '10,000 different words', 'loaders/formats/table.c'),
    ('link-classes', 'names of classes of a stream that leaves the process, of 4 MiB together', 'CLASSES_MAX', 'links/wire_spec.c', 0,
     'names of classes (here', 'links/wire_spec.c'),
    ('labels', 'labels that `filter` keeps', 'VALUES_MAX', 'loaders/orders/filter.c', 0, 'want up to %d whole numbers',
     'loaders/orders/filter.c'),
    ('files', 'shards of one source', 'MR_SHARDS_MAX', 'loaders/shards/shard_names.h', 0, 'more than %d files',
     'loaders/shards/shard_names.c'),
    ('input-name', "characters of an input's name, as in `valid.NAME`", 'MR_IN_NAME_MAX', 'pipeline/stage.h', 0,
     'the name of this input has', 'pipeline/graph/graph.c'),
    ('subscribers', 'subscribers of a `publish`', 'MR_SUBSCRIBERS_MAX', 'sinks/subscribers.h', 0, 'subscribers are connected, the most',
     'sinks/publish.c'),
]


def read(name):
    with open(name, encoding='utf-8') as f:
        return f.read()


def constant(name, file):
    found = re.findall(rf'(?:\b{name} = |define {name} )([^,}}/]+)', read(file))
    if len(found) != 1:
        sys.exit(f'{file}: {len(found)} definitions of {name}, want one')
    text = found[0].strip()
    if not re.fullmatch(r'[\d <]+', text):
        sys.exit(f'{file}: {name} = {text}: want a number')
    return eval(text)  # digits and shifts alone


def sentence(piece, file):
    literals = ''.join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', read(file)))
    if piece not in literals:
        sys.exit(f'{file}: no sentence has "{piece}"')
    return piece.replace('%d', 'N')


def table():
    lines = [BEGIN, '', '| name | of what | at most | one more is refused with | constant |', '| --- | --- | --- | --- | --- |']
    for name, what, symbol, file, more, piece, where in ROWS:
        lines.append(f'| {name} | {what} | {constant(symbol, file) + more} | {sentence(piece, where)} | `{symbol}` in {file} |')
    return '\n'.join(lines + ['', END])


text = read(DOCUMENT)
made = text[:text.index(BEGIN)] + table() + text[text.index(END) + len(END):]
if '--check' in sys.argv[1:]:
    if made != text:
        sys.exit(f'{DOCUMENT} is not what the sources say: run scripts/limits.py')
    print(f'limits: {len(ROWS)} rows as in the sources')
else:
    with open(DOCUMENT, 'w', encoding='utf-8') as f:
        f.write(made)

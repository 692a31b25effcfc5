#!/usr/bin/env python3
# usage: scripts/check-words.py
# Fails if two headers define different types of one name or declare one function twice; if a document, --help, an error
# sentence or a comment uses a phrase for which docs/glossary.md or the field has a word; if a contract explains MR_AGAIN
# as anything but "nothing yet"; if a sentence is relayed or missing memory reported in another way than base/err.h has
# for it; if a library prints to standard output or error, or ends the process; if two files name a static function
# alike; and if a .c file does not open with its idea, in two lines or more.
import os
import re
import subprocess
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))

# Phrase, and what to write instead.
PHRASES = [
    (r'\bgo(?:es|ing)? on\b', 'continue, resume'),
    (r'\bwent on\b', 'continued, resumed'),
    (r'\b(?:no|some)body\b', 'name the thread, caller or peer'),
    (r'\bso many\b', 'this many'),
    (r'\bmade[- ]up\b', 'synthetic'),
    (r'\bthere is none\b', 'unknown, missing'),
    (r'\bstands? (?:in|twice|alone|apart|behind|beside)\b', 'is in, occurs twice, is alone'),
    (r'\b(?:is|are|was|were) told\b', 'is reported'),
    (r'\bmade again\b', 'repeated, produced again'),
    (r'\bwhoever\b', 'name the peer'),
    (r'\bif need be\b', 'if it is missing'),
    (r'\btold\b', 'reported, known'),
    (r'\bturnstiles?\b', 'rate limit'),
    (r'\bguests?\b', 'subscriber, peer'),
    (r'(?<!and )\bforth\b', 'forward'),
]
# Words of docs/glossary.md in the code: a pattern that gives one another meaning, and what to write instead.
MISUSED = [
    (r'\bmr_plan_(?:t|\w+)\b', 'mr_memory_plan_t for memory, mr_picks_t for found records: plan is a function of a stage'),
    (r'\b(?:KEY=VALUE|key_value)\b', 'NAME=VALUE: key is the id of a record'),
    (r'\bcJSON_GetObjectItem\w*\(\w+, key\)', 'name: a member of a JSON object has a name, a record has a key'),
    (r'\bmr_key_(?:make|read_\w+)\b', 'mr_curve_key_: key alone is the id of a record'),
    (r'\b(?:tracer|mr_graph_trace)\b', 'lineage: to trace is to build a graph of ops'),
    (r'\bmr_(?:stand|standing)\w*', 'mr_origin: what wrote an equation'),
    (r'\bmr_turnstile\w*', 'mr_rate_limit'),
    (r'\bMR_MAX_LANES\b', 'MR_MAX_READERS: a lane is an elementwise function, or a part of a vector register'),
]
LIBRARIES = ('base/', 'pipeline/', 'metrics/', 'loaders/', 'stages/', 'links/', 'sinks/', 'model/', 'ranks/', 'plugins/')
ENDS_OR_PRINTS = re.compile(r'(?<!\w)(?:(?:mr_|v)?printf|puts|putchar|perror|psignal|warnx?|errx?|abort|_?_?exit|_Exit|quick_exit|raise)\('
                            r'|(?<!\w)std(?:out|err)\b|(?<!\w)STD(?:OUT|ERR)_FILENO\b')
# Files that print by contract.
MAY_PRINT = {
    'base/err.c',          # notices without a receiver
    'base/number.c',       # mr_printf, for programs
    'model/backends/opencl/probe.c',  # the end of its own child process, whose words it reads
    'base/text.h',
    'sinks/progress.c',    # the stage whose output is standard output
}
# A static function says what it does to what: not `released` or `weigh`, but `release_input`, `weigh_taps`.  A name that
# ends in a participle begins with a verb, or says that it is a question; or it is a rule of a constant (`.resized = jpeg_resized`).
PARTICIPLE = re.compile(r'_(?:[a-z]{2,}ed|bound|chosen|dealt|done|drawn|driven|fallen|found|given|gone|grown|heard|held|hidden|kept|known|laid|left|lost|'
                        r'made|meant|met|paid|said|seen|sent|shown|sold|spent|sunk|taken|thrown|told|torn|turned|won|worn|written)$')
NO_PARTICIPLES = re.compile(r'(?:seed|feed|need|speed|shed|embed|red|bed|exceed|proceed)$')
VERBS = set('''add append apply ask assert attach await begin bind break bring build call cancel change check choose clear close collect come
compare compute convert copy count create cut decide declare decode define delete describe destroy dispatch drop echo emit enter fail feed fetch fill
find finish flush fold forget form free get give go hear hold inspect join jump keep leave let list load locate look lower make mark match measure merge
move name need note notify number open order pack pad parse pass pick plan play pop post prefer prepare print pull push put read rebuild recall recompute record
reduce refuse release remove rename reopen replace report require reserve reset resize resolve resume return rewrite run save say scan seek select send serve set settle
share show skip sort spawn split start step stop store sum swap sync take tell test time trace try turn unbind unmap unpack update use uses verify visit wait
walk write'''.split())
QUESTIONS = {'is', 'are', 'was', 'were', 'has', 'have', 'had', 'can', 'could', 'may', 'must', 'should', 'does', 'do', 'did', 'if', 'any', 'all', 'of', 'with', 'on', 'to', 'same'}
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')
COMMENT = re.compile(r'/\*.*?\*/', re.S)


def listed(*patterns):
    names = subprocess.run(['git', 'ls-files', '--cached', '--others', '--exclude-standard', *patterns],
                           capture_output=True, text=True, check=True).stdout.split()
    return [name for name in names if os.path.isfile(name)]


def read(name):
    with open(name, encoding='utf-8') as f:
        return f.read()


def blank(match):
    """Its line ends alone, so that later lines keep their numbers."""
    return '\n' * match[0].count('\n')


def repeated_names(headers):
    """Types that two headers define, functions that two headers declare."""
    found, wrong = {}, []
    for header in headers:
        text = COMMENT.sub(blank, read(header))
        names = set(re.findall(r'^\} (mr_\w+);', text, re.M))
        names |= set(re.findall(r'^(?!static|typedef|#)[a-z][\w ]*[ *](mr_\w+)\(', text, re.M))
        for name in names:
            if name in found:
                wrong.append(f'{name}: in {found[name]} and in {header}')
            found[name] = header
    tags = {}
    for header in headers:
        for tag, name in re.findall(r'^typedef (?:enum|struct|union) (\w+)(?: \{)?(?:\n.*?^\})? ?(mr_\w+);', read(header), re.M | re.S):
            if tags.setdefault(name, (tag, header))[0] != tag:
                wrong.append(f'{name}: of {tags[name][0]} in {tags[name][1]}, of {tag} in {header}')
    return wrong


def phrases(name, text, line_of):
    for pattern, instead in PHRASES:
        for match in re.finditer(pattern, text, re.I):
            yield f'{name}:{line_of(match.start())}: "{match[0]}": write {instead}'


def in_document(name):
    text = re.sub(r'^    .*$|`[^`\n]*`', '', read(name), flags=re.M)
    yield from phrases(name, text, lambda at: text.count('\n', 0, at) + 1)


def in_literals(name):
    text = COMMENT.sub(blank, read(name))
    for literal in LITERAL.finditer(text):
        yield from phrases(name, literal[0], lambda at, begin=literal.start(): text.count('\n', 0, begin) + 1)


def in_comments(name):
    text = read(name)
    for comment in COMMENT.finditer(text):
        yield from phrases(name, comment[0], lambda at, begin=comment.start(): text.count('\n', 0, begin + at) + 1)


def misused(name):
    text = read(name)
    for pattern, instead in MISUSED:
        for match in re.finditer(pattern, text):
            yield f'{name}:{text.count(chr(10), 0, match.start()) + 1}: "{match[0][:60]}": write {instead}'


def other_meanings(name):
    """Explanations of MR_AGAIN that say neither "yet" nor "now"."""
    text = read(name)
    for comment in COMMENT.finditer(text):
        for match in re.finditer(r'MR_AGAIN(?::| if|, )([^.;]*)', comment[0]):
            if not re.search(r'\b(?:yet|now)\b', match[1]):
                line = text.count('\n', 0, comment.start() + match.start()) + 1
                yield f'{name}:{line}: MR_AGAIN means "nothing yet, or no room yet": name what has yet to come, or use MR_OK and an out-parameter'


def other_ways(name):
    """Sentences of another diag, and of missing memory, that mr_fail writes."""
    text = COMMENT.sub(blank, read(name))
    for pattern, instead in ((r'fail\([^;"]*"(?:[^"]*: )?%s",[^;]*(?:diag|why|own|told|failure)(?:\.|->)text\)', 'mr_diag_relay, mr_diag_prefix or mr_stage_relay'),
                             (r'fail\([^;"]*"[^"]*\b(?:no memory|out of memory(?!:))', 'mr_no_memory or mr_stage_no_memory')):
        for match in re.finditer(pattern, text):
            yield f'{name}:{text.count(chr(10), 0, match.start()) + 1}: use {instead} (base/err.h)'


def prints_or_exits(name):
    """Calls that print to standard output or error, or that end the process, in a library's file."""
    text = LITERAL.sub('""', COMMENT.sub(blank, read(name)))
    for match in ENDS_OR_PRINTS.finditer(text):
        yield f'{name}:{text.count(chr(10), 0, match.start()) + 1}: "{match[0].strip()}": libraries use mr_fail, mr_notice or mr_announce (base/err.h)'


def statics_named_alike(sources):
    """Static functions that two .c files define: a reader who greps for one finds both."""
    found, wrong = {}, []
    for name in sources:
        text = COMMENT.sub(blank, read(name))
        for match in re.finditer(r'^(?:\w+\s+)*static (?!const\b[^(]*=)[^;={}()]*?\b(\w+)\((?=[^;{]*\{)',
                                 re.sub(r'__attribute__\(\(.*?\)\)\)? ?', '', text), re.M):
            first = found.setdefault(match[1], name)
            if first != name:
                wrong.append(f'{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[1]}: is a static function of {first} too')
    return wrong


STATIC = re.compile(r'^(?:\w+\s+)*static (?!const\b[^(]*=)[^;={}()]*?\b(\w+)\((?=[^;{]*\{)', re.M)


def code_of(name):
    return LITERAL.sub('""', COMMENT.sub(blank, re.sub(r'__attribute__\(\(.*?\)\)\)? ?', '', read(name))))


def names(name):
    """Identifiers that hold a phrase for which there is a word."""
    seen = set()
    for match in re.finditer(r'\b[A-Za-z_]\w*', code_of(name)):
        if match[0] in seen:
            continue
        seen.add(match[0])
        for pattern, instead in PHRASES:
            if re.search(pattern, match[0].replace('_', ' '), re.I):
                yield f'{name}: {match[0]}: write {instead}'


def statics_say_what(name):
    code = code_of(name)
    for match in STATIC.finditer(code):
        function, line = match[1], code.count('\n', 0, match.start()) + 1
        words = function.split('_')
        if '_' not in function:
            yield f'{name}:{line}: {function}: name a static function by what it does to what, in two words or more'
        elif PARTICIPLE.search(function) and not NO_PARTICIPLES.search(function) and words[0] not in VERBS and not QUESTIONS & set(words) \
                and not set(words[1:-1]) & VERBS and not re.search(rf'\.{words[-1]} = {function}\b', code):
            yield f'{name}:{line}: {function}: a bare participle: begin with what it does, as in release_input'


def test_names(name):
    """Tests whose name is no sentence."""
    for test in re.findall(r'^static void (\w+)\(void \*\*\w+\)', read(name), re.M):
        if test.count('_') < 2 or re.match(r'(?:what|who|whom|whose)_|.*_(?:any|every|some)(?:body|one)_', test):
            yield f'{name}: {test}: a test is named by a sentence that a stranger understands'


def opening(name):
    """A .c file whose first comment has fewer than two lines, or that has none."""
    match = re.match(r'/\*.*?\*/', read(name), re.S)
    if not match or match[0].count('\n') < 1:
        yield f'{name}:1: open with what the file does and why it is so, in two to five lines'


def main():
    rooms = [name for name in listed('*.h') if not name.startswith(('tests/', 'examples/'))]
    sources = [name for name in listed('*.c', '*.h', '*.inc') if not name.startswith(('tests/', 'examples/'))]
    documents = [name for name in listed('*.md') if not name.startswith(('bench/results', 'tests/'))]
    wrong = repeated_names(rooms)
    for name in documents:
        wrong += in_document(name)
    for name in sources:
        wrong += in_literals(name)
        wrong += in_comments(name)
        wrong += misused(name)
        wrong += other_meanings(name)
        wrong += other_ways(name)
        if name.startswith(LIBRARIES) and name not in MAY_PRINT:
            wrong += prints_or_exits(name)
    compiled = [name for name in sources if name.endswith('.c') and not name.startswith('bench/')]
    wrong += statics_named_alike(compiled)
    for name in compiled:
        wrong += opening(name)
        wrong += statics_say_what(name)
    for name in sources + listed('tests/*.c', 'tests/*.h'):
        wrong += names(name)
    for name in listed('tests/*.c', 'tests/*.h'):
        wrong += in_comments(name)
        wrong += test_names(name)
    for line in wrong:
        print(line)
    print(f'words: {len(rooms)} headers, {len(documents)} documents, {len(sources)} sources: {len(wrong)} to mend')
    return bool(wrong)


sys.exit(main())

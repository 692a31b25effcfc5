#!/usr/bin/env python3
# usage: scripts/reference-comments.py FROM TO
# Copies the headers below FROM to TO with their comments as Doxygen reads them: marked, with the text taken literally, and
# repeated where several declarations stand below one comment.
import pathlib
import re
import sys

# A declaration, and those that stand right below a comment.
DECLARATION = re.compile(r'#define [^\n]*[^\\\n]\n|enum \{[^{}/]*\};\n|[^;{}#/\n][^;{}#/]*?;\n')
BELOW = re.compile(f'(?:{DECLARATION.pattern})+')
COMMENT = re.compile(r'/\*(.*?)\*/', re.S)


def literal(text):
    """Text without commands, tags, links to files or Markdown."""
    text = re.sub(r'[&<>@\\#%"]', lambda m: {'&': '&amp;', '<': '&lt;', '>': '&gt;', '%': '%%', '"': '&quot;'}.get(m[0], '\\' + m[0]), text)
    return re.sub(r'`([^`\n]*)`', r'<code>\1</code>', text)


def body(comment, column):
    """The comment's text: paragraphs, lists, and lines that stand further in or are tables as they are."""
    lines = [line[column:].rstrip() if line[:column].isspace() else line.strip() for line in comment.split('\n')]
    lines[0] = lines[0].strip()
    out, kept, item = [], [], False
    for line in lines + ['']:
        if line.startswith('- '):
            item = True
        elif not line.startswith(' '):
            item = False
        if not item and line.startswith(('  ', '|')):
            kept.append(line)
            continue
        if kept:
            out += ['@verbatim', *kept, '@endverbatim']
            kept = []
        out.append(literal(line))
    return '\n'.join(out).rstrip()


def depth_at(text, at):
    bare = COMMENT.sub('', text[:at]).replace('extern "C" {', '')
    return bare.count('{') - bare.count('}')


def marked(text, name):
    out, end = [], 0
    for match in COMMENT.finditer(text):
        line = text[text.rfind('\n', 0, match.start()) + 1:match.start()]
        rest = text[match.end():text.find('\n', match.end())]
        column = len(line) + 3
        out.append(text[end:match.start()])
        end = match.end()
        title = re.fullmatch(r'\s*-{4}(.*?)-{4}\s*', match[1], re.S)
        words = ' ' + title[1].strip() if title else match[1]
        if not match.start():
            out.append(f'/** @file {name}\n{body(match[1], 3)}\n*/')
        elif '#endif' in line or title and '\n' not in words or rest.strip() == '\\' or line.strip() and rest.strip() and '(' not in line:
            out.append(match[0])
        elif line.strip() and not line.rstrip().endswith('{'):
            out.append(f'/**< {body(words, column)} */')
        else:
            out.append(f'/** {body(words, column)} */')
            if not line and not depth_at(text, match.start()):
                below = BELOW.match(text, end + 1)
                shared = DECLARATION.findall(below[0]) if below else []
                if len(shared) > 1:  # those that share the comment
                    out.append('\n' + f'/** {body(words, column)} */\n'.join(shared))
                    end = below.end()
    return ''.join(out) + text[end:]


def main():
    source, to = map(pathlib.Path, sys.argv[1:])
    for header in sorted(path for path in source.rglob('*') if path.is_file()):
        name = header.relative_to(source)
        copy = to / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(marked(header.read_text(), name) if name.suffix == '.h' else header.read_text())


main()

#!/usr/bin/env python3
"""usage: scripts/make-pages.py PROGRAM FOLDER

Writes man pages and completions for bash, zsh and fish from what the program's tables say: `--help` of each command and
`inspect` of each stage.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

DATE = "2026-11"


def say(*words: str) -> str:
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=True,
                          env={**os.environ, "COLUMNS": "100000"}).stdout


class Flag:
    def __init__(self, left: str, text: str) -> None:
        self.name, _, self.value = left.partition(" ")
        self.text = text

    def choices(self) -> list[str]:
        """Its values, where it names them: "a|b|c", without what each may have behind it."""
        words = [re.sub(r"\[.*?\]", "", w) for w in self.value.split("|")]
        return words if len(words) > 1 and all(re.fullmatch(r"[a-z0-9-]+", w) for w in words) else []

    def is_file(self) -> bool:
        return bool(re.search(r"FILE|DIR|PATH|RUN", self.value))


class Command:
    def __init__(self, name: str) -> None:
        self.name = name
        text = say(name, "--help")
        head, _, rest = text.partition("\n")
        self.usage = head.removeprefix("usage: ")
        lines = rest.strip("\n").split("\n")
        at = next(i for i, line in enumerate(lines) if line.startswith("  -"))
        self.help, *self.more = [line for line in lines[:at] if line.strip()]
        self.flags = []
        for line in lines[at:]:
            left, text = re.fullmatch(r"  (-\S+(?: \S+)*?)  +(.*)", line).groups()
            self.flags.append(Flag(left, text))


def names_below(text: str, section: str) -> list[str]:
    """The first words of a section's lines that are indented by two."""
    lines = text.split("\n")
    return [m.group(1) for m in (re.match(r"  (\S+) ", line + " ") for line in lines[lines.index(section) + 1:]) if m]


# ---- man pages ----

def roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def page(title: str, section: int, name: str, help_: str, body: str) -> str:
    head = f'.TH "{roff(title.upper())}" {section} "{DATE}" "millrace {VERSION}"\n'
    return head + f".SH NAME\n{roff(name)} \\- {roff(help_.rstrip('.'))}\n" + body


def flag_rows(flags: list[Flag]) -> str:
    out = ""
    for f in flags:
        value = f" \\fI{roff(f.value)}\\fR" if f.value else ""
        out += f".TP\n\\fB{roff(f.name)}\\fR{value}\n{roff(f.text)}\n"
    return out


def page_of(c: Command) -> str:
    name = f"millrace-{c.name}"
    words = c.usage.removeprefix(f"millrace {c.name}").strip()
    body = f".SH SYNOPSIS\n\\fBmillrace {roff(c.name)}\\fR {roff(words)}\n"
    body += f".SH DESCRIPTION\n{roff(c.help)}\n"
    body += "".join(f".PP\n{roff(line)}\n" for line in c.more)
    body += ".SH OPTIONS\n" + flag_rows(c.flags)
    return page(name, 1, name, c.help, body + ".SH SEE ALSO\n\\fBmillrace\\fR(1), \\fBmillrace\\-stages\\fR(7)\n")


def page_of_program(commands: list[Command]) -> str:
    body = ".SH SYNOPSIS\n\\fBmillrace\\fR [\\fB\\-\\-plugin\\fR \\fIFILE.so\\fR]... \\fICOMMAND\\fR ...\n"
    body += ".SH DESCRIPTION\nDataflow training pipelines.\nA graph of stages reads, transforms and batches records, and a\n"
    body += "training step, a program of one's own or a remote trainer takes them.\n.SH COMMANDS\n"
    for c in commands:
        body += f".TP\n\\fBmillrace\\-{roff(c.name)}\\fR(1)\n{roff(c.help)}\n"
    body += ".SH OPTIONS\n.TP\n\\fB\\-\\-help\\fR\nShows the commands; after a command, its flags.\n"
    body += ".TP\n\\fB\\-\\-version\\fR\nShows the version, and which optional libraries are built in.\n"
    body += ".TP\n\\fB\\-\\-plugin\\fR \\fIFILE.so\\fR\nLoads a plug\\-in, before or after the command; repeatable.\n"
    body += ".SH EXIT STATUS\n0: success.  2: a word of the command line or of a graph is wrong.  Other numbers: "
    body += "a failure, with a sentence on standard error.\n.SH SEE ALSO\n\\fBmillrace\\-stages\\fR(7)\n"
    return page("millrace", 1, "millrace", "dataflow training pipelines", body)


def page_of_stages(stages: dict[str, str]) -> str:
    body = ".SH DESCRIPTION\nA graph is a text of stages joined by \"!\", such as \\(lqrange 10 ! shuffle seed=1 ! batch 4\\(rq.\n"
    body += "Each stage takes the settings below.\n"
    for name, text in stages.items():
        head, _, rest = text.partition("\n")
        body += f".SS {roff(name)}\n{roff(head.partition(': ')[2])}\n.PP\n.nf\n{roff(rest.strip(chr(10)))}\n.fi\n"
    return page("millrace-stages", 7, "millrace-stages", "the stages of a graph and their settings", body)


# ---- completions ----

def single(text: str) -> str:
    """In single quotes for a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def bash(commands: list[Command], stages: list[str]) -> str:
    out = "# Completion of millrace for bash, made from the program's tables.\n_millrace() {\n"
    out += '  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= i\n'
    out += '  for ((i = 1; i < COMP_CWORD; i++)); do\n    case ${COMP_WORDS[i]} in\n'
    out += "      --plugin) ((i++)) ;;\n      -*) ;;\n      *) command=${COMP_WORDS[i]}; break ;;\n    esac\n  done\n"
    out += "  case $command:$prev in\n"
    for c in commands:
        for f in c.flags:
            if f.choices():
                out += f'    {c.name}:{f.name}) COMPREPLY=($(compgen -W {single(" ".join(f.choices()))} -- "$cur")); return ;;\n'
            elif f.is_file():
                out += f'    {c.name}:{f.name}) COMPREPLY=($(compgen -f -- "$cur")); return ;;\n'
            elif f.value:
                out += f"    {c.name}:{f.name}) return ;;\n"
    out += '    :--plugin) COMPREPLY=($(compgen -f -- "$cur")); return ;;\n  esac\n  case $command in\n'
    out += f'    "") COMPREPLY=($(compgen -W {single(" ".join([c.name for c in commands] + ["--help", "--version", "--plugin"]))} -- "$cur")) ;;\n'
    for c in commands:
        flags = " ".join(f.name for f in c.flags)
        words = " " + " ".join(stages) if c.name == "inspect" else ""
        out += f"    {c.name}) if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W {single(flags)} -- \"$cur\")); "
        out += f'else COMPREPLY=($(compgen -W {single(words.strip())} -f -- "$cur")); fi ;;\n'
    return out + "  esac\n}\ncomplete -o filenames -F _millrace millrace\n"


def zsh(commands: list[Command], stages: list[str]) -> str:
    def text_of(text: str) -> str:
        return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")

    out = "#compdef millrace\n# Completion of millrace for zsh, made from the program's tables.\n\n_millrace() {\n"
    out += "  local curcontext=$curcontext state line\n  local -a commands stages\n  commands=(\n"
    out += "".join(f"    {single(c.name + ':' + c.help.replace(':', chr(92) + ':'))}\n" for c in commands) + "  )\n"
    out += "  stages=(" + " ".join(stages) + ")\n"
    out += "  _arguments -C '*--plugin[Loads a plug-in]:file:_files' '(- *)--help[Shows the commands]' "
    out += "'(- *)--version[Shows the version]' '1: :->command' '*:: :->words' && return\n"
    out += "  case $state in\n    command) _describe command commands ;;\n    words)\n      case $line[1] in\n"
    for c in commands:
        out += f"        {c.name})\n          _arguments"
        for f in c.flags:
            value = ""
            if f.value:
                action = f"({' '.join(f.choices())})" if f.choices() else "_files" if f.is_file() else " "
                value = f":{text_of(f.value)}:{action}"
            many = "*" if f.name == "--plugin" else ""
            out += " \\\n            " + single(f"{many}{f.name}[{text_of(f.text)}]{value}")
        words = "*: :_alternative 'stages:stage:($stages)' 'files:file:_files'" if c.name == "inspect" else "*:file:_files"
        out += " \\\n            " + (f'"{words}"' if "'" in words else single(words)) + " ;;\n"
    return out + "      esac ;;\n  esac\n}\n\n_millrace \"$@\"\n"


def fish(commands: list[Command], stages: list[str]) -> str:
    def text_of(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    out = "# Completion of millrace for fish, made from the program's tables.\n"
    names = " ".join(c.name for c in commands)
    none = f'-n "not __fish_seen_subcommand_from {names}"'
    for c in commands:
        out += f"complete -c millrace -f {none} -a {c.name} -d {text_of(c.help)}\n"
    out += f"complete -c millrace {none} -l version -d 'Shows the version'\n"
    out += f"complete -c millrace {none} -l help -d 'Shows the commands'\n"
    for c in commands:
        seen = f'-n "__fish_seen_subcommand_from {c.name}"'
        for f in c.flags:
            how = ""
            if f.value:
                how = f" -x -a {text_of(' '.join(f.choices()))}" if f.choices() else " -r" if f.is_file() else " -x"
            out += f"complete -c millrace {seen} -l {f.name[2:]}{how} -d {text_of(f.text)}\n"
        if c.name == "inspect":
            out += f"complete -c millrace {seen} -a {text_of(' '.join(stages))}\n"
    return out


def main() -> None:
    folder = Path(sys.argv[2])
    names = [n for n in names_below(say("--help"), "Dataflow training pipelines.") if not n.startswith("-")]
    commands = [Command(n) for n in names]
    listed = say("inspect").split("\nblocks")[0]
    stages = {n: say("inspect", n) for n in re.findall(r"^  ([a-z0-9-]+)(?: |$)", listed, re.M)}
    pages = {f"man/man1/millrace-{c.name}.1": page_of(c) for c in commands}
    pages["man/man1/millrace.1"] = page_of_program(commands)
    pages["man/man7/millrace-stages.7"] = page_of_stages(stages)
    pages["bash-completion/completions/millrace"] = bash(commands, list(stages))
    pages["zsh/vendor-completions/_millrace"] = zsh(commands, list(stages))
    pages["fish/vendor_completions.d/millrace.fish"] = fish(commands, list(stages))
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


PROGRAM = sys.argv[1]
VERSION = say("--version").split()[1]
if __name__ == "__main__":
    main()

"""Free ports for checks whose peers must know them before anyone waits there.  Until this process ends no other check or
test takes one of them (tests/port.h): each pair of ports has a name, an abstract address of the machine.
For shell scripts:  exec 9< <(python3 scripts/ports.py N) && read -r A B <&9  holds N ports for as long as 9 is open."""

import os
import select
import socket
import sys

held = []  # what holds the names


def free_ports(n, tried=[0]):
    """The first of n ports in a row, below those that passing connections are given."""
    pairs = (n + 1) // 2
    for _ in range(6000):
        first = 20000 + 2 * ((os.getpid() + tried[0]) % 6000)
        tried[0] += pairs
        names, ends = [], []
        try:
            for k in range(pairs):
                names.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
                names[-1].bind(f"\0millrace-port-{first + 2 * k}")
            for k in range(n):
                ends.append(socket.socket())
                ends[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                ends[-1].bind(("127.0.0.1", first + k))
        except OSError:
            for name in names:
                name.close()
            continue
        finally:
            for end in ends:
                end.close()
        held.extend(names)
        return first
    sys.exit(f"{os.path.basename(sys.argv[0])}: no {n} free ports in [20000, 32000)")


def free_port():
    return free_ports(1)


if __name__ == "__main__":
    print(*(free_port() for _ in range(int(sys.argv[1]))), flush=True)
    reader = select.poll()
    reader.register(sys.stdout, 0)  # its end is told unasked
    reader.poll()
